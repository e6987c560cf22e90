"""Which word is looked at, what is asked about it, and what becomes of the answer."""

from collections.abc import Callable

import numpy as np
import pytest
from pytestqt.qtbot import QtBot

from app.state.problem import Problem
from app.state.token.token import SETTLE_MS
from app.state.workbench import Workbench
from engine.errors import WorkerDied
from engine.protocol import (
    Cancel,
    Examine,
    Failed,
    Generate,
    Piece,
    Unloaded,
)
from tests.app.helpers import inside
from tests.app.helpers.scripted import ScriptedEngine, token
from tests.app.state.token.asking import WORDS, asked


@pytest.fixture
def look(talk: Workbench, engine: ScriptedEngine, qtbot: QtBot) -> Callable[[int], Examine]:
    """Select a token of the answer and wait until the engine is asked about it."""

    def look(index: int) -> Examine:
        before = len(asked(engine))
        talk.selection.select_token(talk.chat.path[1].id, index)
        qtbot.waitUntil(lambda: len(asked(engine)) > before)
        return asked(engine)[-1]

    return look


def test_a_selected_word_is_asked_for_as_it_was_written(
    talk: Workbench, engine: ScriptedEngine, look: Callable[[int], Examine]
) -> None:
    request, tokens = look(3), talk.chat.tokens(1)
    assert request.prefix == "The capital is"
    assert request.prefix_tokens == tokens.ids[:3]
    assert request.wanted == tokens[3].token
    assert [message.text for message in request.messages] == ["What is the capital of France?"]
    assert (request.at, request.lens, request.record) == (None, True, True)
    assert request.sampling == talk.chat.details.sampling
    assert talk.token.word is not None
    assert talk.token.word.text == " Paris"
    assert talk.token.questions.status == "asked"
    inside.answer(engine)
    known = talk.token.inside
    assert known is not None
    assert known.lens is not None
    assert known.lens.wanted == request.wanted
    assert known.attention is not None
    assert known.step is not None
    assert talk.token.questions.status == "idle"


def test_what_is_lit_are_the_words_that_were_looked_at(
    talk: Workbench, engine: ScriptedEngine, look: Callable[[int], Examine]
) -> None:
    request = look(3)
    inside.answer(engine)
    places = len(inside.items(request).ids) // 4
    mean = inside.rows(places).mean((0, 1))
    brightest = mean[[*range(3, 9), 14, 15, 16]].max()
    question, answer = talk.chat.path
    words = [*enumerate(("What", " is", " the", " capital", " of", " France?"), 3)]
    written = [*enumerate(WORDS[:3], 14)]  # behind <|im_end|>, a line's end, and as many words
    for message, items in ((question, words), (answer, written)):
        lit = {
            message.text[first:last]: share for first, last, share in talk.token.lights(message.id)
        }
        assert list(lit) == [word for _, word in items]
        for item, word in items:
            assert lit[word] == pytest.approx(np.sqrt(mean[item] / brightest), rel=1e-4)
    talk.token.shown(False)
    assert talk.token.lights(talk.chat.path[0].id) == ()


def test_a_head_that_is_selected_lights_its_own_sources(
    talk: Workbench, engine: ScriptedEngine, look: Callable[[int], Examine], qtbot: QtBot
) -> None:
    request = look(3)
    inside.answer(engine)  # the file's header is not known: no rows were asked for
    assert request.attention_layers == []
    talk.selection.select_head(4, 2)
    qtbot.waitUntil(lambda: len(asked(engine)) == 2)
    assert talk.token.sources is None
    more = asked(engine)[-1]
    assert (more.lens, more.attention_layers, more.record) == (False, [4], False)
    inside.answer(engine)
    full = inside.rows(len(inside.items(request).ids) // 4)
    assert talk.token.sources is not None
    assert talk.token.sources.weights == pytest.approx(full[4, 2])
    assert talk.token.inside is not None
    assert talk.token.inside.lens is not None
    talk.selection.select_layer(4)
    assert talk.token.sources.weights == pytest.approx(full[4].mean(0), abs=1e-6)
    talk.selection.select_layer(None)
    assert talk.token.sources.weights == pytest.approx(full.mean((0, 1)), abs=1e-6)
    assert len(asked(engine)) == 2


def test_only_the_newest_word_matters(
    talk: Workbench, engine: ScriptedEngine, look: Callable[[int], Examine]
) -> None:
    first, second = look(1), look(2)
    assert Cancel(first.id) in engine.asked
    engine.say(inside.examined(first))
    assert talk.token.inside is not None
    assert talk.token.inside.lens is None
    engine.say(inside.examined(second))
    assert talk.token.inside.lens is not None
    assert talk.token.inside.word.index == 2


def test_stepping_quickly_asks_once(talk: Workbench, engine: ScriptedEngine, qtbot: QtBot) -> None:
    talk.selection.select_token(talk.chat.path[1].id, 0)
    for _ in range(3):
        talk.token.step(1)
    qtbot.waitUntil(lambda: bool(asked(engine)))
    qtbot.wait(250)
    assert [request.prefix for request in asked(engine)] == ["The capital is"]
    talk.token.step(5)
    assert talk.selection.now.token == (talk.chat.path[1].id, 4)


def test_a_word_seen_before_is_not_asked_for_again(
    talk: Workbench, engine: ScriptedEngine, look: Callable[[int], Examine], qtbot: QtBot
) -> None:
    look(1)
    inside.answer(engine)
    look(2)
    inside.answer(engine)
    talk.selection.back()
    qtbot.wait(250)
    assert len(asked(engine)) == 2
    assert talk.token.inside is not None
    assert talk.token.inside.word.index == 1
    assert talk.token.inside.lens is not None


def test_what_was_kept_of_another_model_or_system_prompt_is_forgotten(
    talk: Workbench, engine: ScriptedEngine, look: Callable[[int], Examine], qtbot: QtBot
) -> None:
    look(1)
    inside.answer(engine)
    talk.chat.details.set_system("Be brief.")
    qtbot.waitUntil(lambda: len(asked(engine)) == 2)
    assert talk.token.inside is not None
    assert talk.token.inside.lens is None
    assert asked(engine)[-1].messages[0].text == "Be brief."


def test_a_lens_from_a_file_is_used_for_all_words(
    talk: Workbench, engine: ScriptedEngine, look: Callable[[int], Examine], qtbot: QtBot
) -> None:
    assert look(1).lens_file == ""
    inside.answer(engine)
    talk.token.use_lens("/lenses/tuned.safetensors")
    qtbot.waitUntil(lambda: len(asked(engine)) == 2)
    assert asked(engine)[-1].lens_file == "/lenses/tuned.safetensors"
    assert talk.token.inside is not None
    assert talk.token.inside.lens is None
    inside.answer(engine)
    assert look(2).lens_file == "/lenses/tuned.safetensors"
    talk.token.use_lens("")
    qtbot.waitUntil(lambda: len(asked(engine)) == 4)
    assert asked(engine)[-1].lens_file == ""


def test_nothing_is_asked_while_the_view_is_hidden(
    talk: Workbench, engine: ScriptedEngine, qtbot: QtBot
) -> None:
    talk.token.shown(False)
    talk.selection.select_token(talk.chat.path[1].id, 1)
    qtbot.wait(250)
    assert asked(engine) == []
    talk.token.shown(True)
    qtbot.waitUntil(lambda: len(asked(engine)) == 1)
    talk.token.shown(False)
    assert Cancel(asked(engine)[0].id) in engine.asked


def test_a_death_is_told_with_a_next_step(
    talk: Workbench, engine: ScriptedEngine, look: Callable[[int], Examine]
) -> None:
    look(1)
    engine.die(WorkerDied(-9, ""))
    assert talk.token.questions.status == "idle"
    talk.token.send()
    problem = talk.token.questions.problem
    assert problem is not None
    assert problem.action == "restart"


def test_a_failure_is_told(
    talk: Workbench, engine: ScriptedEngine, look: Callable[[int], Examine]
) -> None:
    request = look(1)
    engine.say(Failed(request.id, "ContextFull", "3000 tokens do not fit into 2048"))
    assert talk.token.questions.problem == Problem(
        "ContextFull", "3000 tokens do not fit into 2048"
    )
    assert talk.token.inside is not None
    assert talk.token.inside.lens is None


def test_it_can_be_cancelled(
    talk: Workbench, engine: ScriptedEngine, look: Callable[[int], Examine], qtbot: QtBot
) -> None:
    request = look(1)
    qtbot.waitUntil(lambda: talk.token.questions.status == "slow")
    talk.token.questions.cancel()
    assert Cancel(request.id) in engine.asked
    engine.say(Failed(request.id, "Cancelled", "cancelled"))
    problem = talk.token.questions.problem
    assert problem is not None
    assert problem.action == "retry"
    talk.token.send()
    assert asked(engine)[-1].prefix == request.prefix
    assert talk.token.questions.problem is None


def test_an_answer_of_another_model_is_not_asked_for(
    talk: Workbench, engine: ScriptedEngine, qtbot: QtBot
) -> None:
    talk.session.unload()
    talk.open_model("/models/gemma-3-270m-Q4_K_M.gguf")
    engine.load_done("Gemma")
    talk.selection.select_token(talk.chat.path[1].id, 1)
    qtbot.waitUntil(lambda: talk.token.questions.problem is not None)
    problem = talk.token.questions.problem
    assert problem is not None
    assert problem.kind == "OtherModel"
    assert "SmolLM2" in problem.text
    assert "emma" in problem.text
    assert asked(engine) == []


def test_without_a_model_it_says_what_to_do(talk: Workbench, engine: ScriptedEngine) -> None:
    talk.session.unload()
    engine.say(Unloaded(0))
    talk.selection.select_token(talk.chat.path[1].id, 1)
    talk.token.send()
    problem = talk.token.questions.problem
    assert problem is not None
    assert (problem.kind, problem.action) == ("NoModel", "open")


def test_a_word_of_the_question_is_found_by_its_place(
    talk: Workbench, engine: ScriptedEngine, qtbot: QtBot
) -> None:
    question = talk.chat.path[0]
    talk.token.look_at(question.id, question.text.index("capital") + 2)
    whole = asked(engine)[-1]
    assert not whole.lens
    assert [message.text for message in whole.messages] == [question.text]
    inside.answer(engine)
    assert talk.selection.now.token == (question.id, 3)
    assert talk.token.word is not None
    assert talk.token.word.text == " capital"
    assert talk.token.part(question.id, 3) == (11, 19)
    qtbot.waitUntil(lambda: len(asked(engine)) == 2)
    request = asked(engine)[-1]
    assert (request.at, request.lens, request.wanted) == (6, True, None)
    inside.answer(engine)
    assert talk.token.inside is not None
    assert talk.token.inside.lens is not None
    assert talk.token.inside.n_context == 6
    talk.token.look_at(question.id, 0)
    assert talk.selection.now.token == (question.id, 0)


@pytest.mark.parametrize("writes", [False, True])
def test_a_click_goes_before_the_newest_word(
    talk: Workbench, engine: ScriptedEngine, qtbot: QtBot, writes: bool
) -> None:
    talk.preferences.update(token_live=not writes)
    question = talk.chat.path[0]
    assert talk.chat.send("And of Italy?")
    generate = engine.last_of(Generate)
    engine.write("Rome", " it")
    if not writes:
        engine.end(n=2)  # the newest word is asked about in a moment
    talk.token.look_at(question.id, question.text.index("capital") + 2)
    click = asked(engine)[-1]
    if writes:
        engine.say(Piece(generate.id, " is", [token(" is", 0.8)]))
    qtbot.wait(2 * SETTLE_MS)
    assert asked(engine)[-1] is click
    inside.answer(engine)
    assert talk.selection.now.token == (question.id, 3)


def test_after_a_click_between_words_the_newest_word_is_asked_about(
    talk: Workbench, engine: ScriptedEngine, qtbot: QtBot
) -> None:
    talk.preferences.update(token_live=True)
    question, answer = talk.chat.path
    talk.token.look_at(question.id, len(question.text) + 5)
    assert not asked(engine)[-1].lens
    inside.answer(engine)
    qtbot.waitUntil(lambda: asked(engine)[-1].lens)
    assert talk.token.word is not None
    assert talk.token.word.key[0] == answer.id


def test_a_text_that_the_template_leaves_out_is_refused(
    talk: Workbench, engine: ScriptedEngine
) -> None:
    question = talk.chat.path[0]
    talk.token.look_at(question.id, 3)
    request = asked(engine)[-1]
    told = inside.examined(Examine(request.id, messages=[]))
    engine.say(told)
    problem = talk.token.questions.problem
    assert problem is not None
    assert problem.kind == "NotRead"


def test_the_newest_word_is_followed_and_looked_into_when_the_answer_ends(
    talk: Workbench, engine: ScriptedEngine, qtbot: QtBot
) -> None:
    talk.preferences.update(token_live=True)
    talk.selection.select_token(talk.chat.path[1].id, 1)
    assert talk.chat.send("And of Italy?")
    generate = engine.last_of(Generate)
    engine.write("Rome", " it")
    assert talk.token.word is not None
    assert talk.token.word.key == (talk.chat.path[3].id, 1)
    engine.write(" is")
    assert talk.token.word.text == " is"
    talk.selection.select_token(talk.chat.path[3].id, 0)
    assert not talk.token.following
    engine.write(",")
    assert talk.token.word.text == "Rome"
    talk.token.follow()
    assert talk.token.word.text == ","
    before = len(asked(engine))
    assert engine.waits_for(generate.id)
    engine.end(n=4)
    qtbot.waitUntil(lambda: len(asked(engine)) > before)
    assert asked(engine)[-1].prefix == "Rome it is"


def test_without_the_live_view_nothing_is_asked_by_itself(
    talk: Workbench, engine: ScriptedEngine, qtbot: QtBot
) -> None:
    qtbot.wait(250)
    assert asked(engine) == []
    assert talk.token.word is not None
    assert talk.token.word.text == "."
    assert talk.token.recorded is not None
    assert talk.token.recorded.top[0].text == "."


def test_only_so_many_words_are_kept(
    talk: Workbench, engine: ScriptedEngine, look: Callable[[int], Examine]
) -> None:
    assert talk.chat.send("More")
    engine.write(*(f" word{n}" for n in range(20)))
    engine.end(n=20)
    for n in range(18):
        talk.selection.select_token(talk.chat.path[3].id, n)
        talk.token.send()
        inside.answer(engine, layers=2, heads=1)
    assert len(talk.token.kept) == 16
