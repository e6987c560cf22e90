"""Below an answer stands why it ended, what was dropped, and the way on."""

from collections.abc import Callable

import msgspec
import pytest
from PySide6.QtWidgets import QApplication

from app.state.presets import AnswerLimits
from app.state.talk.answering import AnswerSaver
from app.state.talk.disk.store import ChatStore, StoreError
from app.views.talk.ending import NOT_SAVED, EndNotes
from app.widgets.basics import Button
from engine.errors import WorkerDied
from engine.protocol import Failed, Finished, Generate, Stats
from tests.app.helpers.gui import Talk
from tests.app.helpers.scripted import ScriptedEngine
from tests.app.views.talk.driving import click, view

Ask = Callable[..., None]

DIED = WorkerDied(-9, "killed by signal 9")


def end(talk: Talk, row: int = 1) -> EndNotes:
    QApplication.processEvents()
    shown = view(talk, row).end
    assert shown is not None
    return shown


def steps(notes: EndNotes) -> list[str]:
    return [button.text() for button in notes.stops if isinstance(button, Button)]


def finish(engine: ScriptedEngine, reason: str, **fields: int) -> None:
    stats = Stats(1200, 30, 2, 0.001, 0.4, 0.213, 0.1, 7, 2048)
    engine.say(Finished(engine.last.id, reason, msgspec.structs.replace(stats, **fields)))
    QApplication.processEvents()


@pytest.mark.parametrize(
    ("reason", "says", "ways"),
    [
        ("stop", "", []),
        ("cancelled", "", []),
        ("length", "Stopped at 2 tokens, the limit.", ["Continue"]),
        (
            "loop",
            "Stopped: the answer kept repeating itself.",
            ["Try a repeat penalty of 1.1", "Continue"],
        ),
    ],
)
def test_an_answer_says_why_it_ended(
    talk: Talk, ask: Ask, engine: ScriptedEngine, reason: str, says: str, ways: list[str]
) -> None:
    ask("Q", "Half", " an", end=False)
    assert end(talk).text == ""
    finish(engine, reason)
    notes = end(talk)
    assert notes.text == says
    assert notes.isVisible() == bool(says)
    assert steps(notes) == ways
    if "Continue" in ways:
        click(notes, "Continue")
        request = engine.last_of(Generate)
        assert isinstance(request, Generate)
        assert request.prefix == "Half an"
        assert end(talk).text == "", "while it is written nothing is said"


def test_an_answer_that_repeated_itself_is_tried_with_a_penalty(
    talk: Talk, ask: Ask, engine: ScriptedEngine
) -> None:
    ask("Q", "la", "la", end=False)
    finish(engine, "loop")
    click(end(talk), "Try a repeat penalty of 1.1")
    assert talk.bench.chat.details.sampling.repeat_penalty == 1.1
    request = engine.last_of(Generate)
    assert isinstance(request, Generate)
    assert (request.prefix, request.sampling.repeat_penalty) == ("", 1.1)
    finish(engine, "loop")
    assert steps(end(talk))[0] == "Try a repeat penalty of 1.2"


def test_a_full_context_says_its_size_and_goes_on_without_the_oldest(
    talk: Talk, ask: Ask, engine: ScriptedEngine
) -> None:
    talk.bench.chat.details.set_limits(AnswerLimits(when_full="stop"))
    ask("Q", "Half", end=False)
    finish(engine, "context")
    notes = end(talk)
    assert notes.text == "The context is full (2\u2009048 tokens)."
    click(notes, "Continue, dropping the oldest")
    assert talk.bench.chat.details.limits.when_full == "shift"
    request = engine.last_of(Generate)
    assert isinstance(request, Generate)
    assert (request.prefix, request.when_full) == ("Half", "shift")
    finish(engine, "context")
    assert "with a larger context" in end(talk).text
    assert steps(end(talk)) == []


def test_what_was_dropped_is_counted(talk: Talk, ask: Ask, engine: ScriptedEngine) -> None:
    ask("Q", "Half", end=False)
    finish(engine, "stop", n_shifts=2, n_forgotten=1300, n_truncated=1)
    assert end(talk).text == (
        "The chat is longer than the context: 1 token of it was left out."
        " The context was full: the oldest 1\u2009300 tokens were dropped."
    )


@pytest.mark.parametrize("written", [True, False], ids=["in the middle", "before the first word"])
@pytest.mark.parametrize("who", ["the engine", "the program"])
def test_an_interrupted_answer_says_so_with_the_way_on(
    talk: Talk,
    ask: Ask,
    engine: ScriptedEngine,
    caplog: pytest.LogCaptureFixture,
    written: bool,
    who: str,
) -> None:
    ask("Q", *(["Half"] if written else []), end=False)
    if who == "the engine":
        engine.die(DIED)
        caplog.clear()
        cause = "the engine stopped"
    else:
        finish(engine, "")  # as the store has it where the program was killed
        cause = "Cutaway was closed"
    notes = end(talk)
    if written:
        assert notes.text == f"Interrupted: {cause}."
        assert steps(notes) == ["Continue", "Regenerate"]
    else:
        assert notes.text == f"Interrupted before the first token: {cause}."
        assert steps(notes) == ["Try again"]
    assert view(talk, 1).row.speaker == "SmolLM2", "it is no bare Answer"
    click(notes, steps(notes)[0])
    assert talk.bench.chat.busy


def test_stopped_before_its_first_word(talk: Talk, ask: Ask, engine: ScriptedEngine) -> None:
    ask("Q", end=False)
    finish(engine, "cancelled", n_generated=0)
    assert end(talk).text == "Stopped before the first token."
    assert steps(end(talk)) == ["Try again"]


def test_a_stop_is_no_error(talk: Talk, ask: Ask, engine: ScriptedEngine) -> None:
    """Where the engine had not begun it, or did not respond; `quiet` sees that none is logged."""
    ask("Q", end=False)
    engine.say(Failed(engine.last.id, "Cancelled", "the request was cancelled"))
    assert talk.bench.chat.path[1].finish == "cancelled"
    assert end(talk).text == "Stopped before the first token."


def test_only_the_last_answer_offers_a_way_on(talk: Talk, ask: Ask, engine: ScriptedEngine) -> None:
    ask("Q", "Half", end=False)
    finish(engine, "length")
    ask("And?", "More")
    assert end(talk, 1).text == "Stopped at 1 token, the limit."
    assert steps(end(talk, 1)) == []


def test_a_base_model_says_that_it_continues_text(
    talk: Talk, ask: Ask, engine: ScriptedEngine
) -> None:
    session = talk.bench.session
    assert session.model is not None
    ask("Once upon a time", " there was")
    assert end(talk).text == ""
    session.model = msgspec.structs.replace(session.model, chat="none")
    session.changed.emit()
    ask("And then", " it ended")
    assert end(talk, 3).text == (
        "This is a base model without a chat template: it continues the text."
    )
    assert end(talk, 1).text == "", "once is enough"


def test_an_answer_that_is_not_saved_yet_says_so(
    talk: Talk, ask: Ask, engine: ScriptedEngine, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(*_: object) -> None:
        raise StoreError("chats.sqlite", "the disk is full; make room on it")

    ask("Q", "Half", " an", end=False)
    with monkeypatch.context() as patch:
        patch.setattr(ChatStore, "finish", refuse)
        finish(engine, "stop")
        assert end(talk).text == NOT_SAVED
    saver = talk.bench.chat.findChild(AnswerSaver)
    saver.save()
    assert end(talk).text == ""
