"""What answers are to be like: chosen, checked while it is written, kept with the chat."""

import os

from PySide6.QtCore import Qt
from PySide6.QtTest import QTest
from PySide6.QtWidgets import QApplication

from app.views.talk.settings import CHECK_MS, FITS, AnswerFormChoice
from engine.protocol import (
    CheckForm,
    Failed,
    FormChecked,
    Generate,
    Grammar,
    JsonObject,
    JsonSchema,
    Regex,
)
from engine.worker.handlers import HANDLERS
from tests.app.helpers.gui import Talk
from tests.app.helpers.painted import faults, overlapping
from tests.app.helpers.scripted import ScriptedEngine
from tests.app.rest import come_to_rest


def choose(view: AnswerFormChoice, kind: str) -> None:
    view.kind.setCurrentIndex(view.kind.findData(kind))
    view.kind.activated.emit(view.kind.currentIndex())


def write(view: AnswerFormChoice, text: str) -> None:
    view.text.setPlainText(text)
    QTest.qWait(CHECK_MS + 100)


def test_a_schema_is_checked_while_it_is_written(talk: Talk, engine: ScriptedEngine) -> None:
    view = AnswerFormChoice(talk.bench)
    details = talk.bench.chat.details
    assert (view.kind.currentText(), view.text.isVisibleTo(view)) == ("Text", False)
    choose(view, "json")
    assert details.form == JsonObject()
    choose(view, "schema")
    assert view.text.isVisibleTo(view)
    assert details.form is None
    assert "Empty" in view.problem.text()
    write(view, '{"uniqueItems": true')
    asked = engine.last
    assert asked == CheckForm(asked.id, JsonSchema('{"uniqueItems": true'))
    engine.say(FormChecked(asked.id, "the schema is not JSON <b>: line 1"))
    QApplication.processEvents()
    assert view.problem.text() == "The schema is not JSON <b>: line 1"
    write(view, "{}")
    engine.say(FormChecked(engine.last.id, ""))
    QApplication.processEvents()
    assert (view.problem.text(), details.form) == (FITS, JsonSchema("{}"))
    write(view, "{} ")
    engine.say(Failed(engine.last.id, "RemoteError", "a server cannot"))
    QApplication.processEvents()
    assert view.problem.text() == ""
    choose(view, "regex")
    assert (view.text.toPlainText(), details.form) == ("", None)
    write(view, "[ab]+")
    assert details.form == Regex("[ab]+")
    choose(view, "text")
    assert details.form is None
    assert not view.problem.isVisibleTo(view)


def test_it_is_kept_with_its_chat_and_asked_for(talk: Talk, engine: ScriptedEngine) -> None:
    chat = talk.bench.chat
    view = AnswerFormChoice(talk.bench)
    choose(view, "regex")
    write(view, "yes|no")
    chat.send("Is it?")
    asked = engine.last_of(Generate)
    assert isinstance(asked, Generate)
    assert asked.form == Regex("yes|no")
    first = chat.chat_id
    chat.stop()
    chat.open(None)
    assert chat.details.form is None
    assert view.kind.currentText() == "Text"
    chat.open(first)
    assert chat.details.form == Regex("yes|no")
    assert (view.kind.currentText(), view.text.toPlainText()) == ("Regular expression", "yes|no")


def test_what_the_engine_says_of_forms() -> None:
    check = HANDLERS[CheckForm]

    def problem(form: object) -> str:
        found = check(None, CheckForm(1, form))  # type: ignore[arg-type]
        assert isinstance(found, FormChecked)
        return found.problem

    assert problem(JsonSchema('{"type": "object"}')) == problem(Regex("a+")) == ""
    assert problem(JsonObject()) == problem(Grammar('start: "a"')) == ""
    assert "uniqueItems" in problem(JsonSchema('{"uniqueItems": true}'))
    assert "not JSON" in problem(JsonSchema("{"))
    assert "look-around" in problem(Regex("(?=a)"))
    for form in (Regex("(" * 300_000), JsonSchema("{"), Regex("(?=a)")):
        assert "\n" not in problem(form)


def test_it_is_legible_in_its_place(talk: Talk, engine: ScriptedEngine) -> None:
    QTest.mouseClick(talk.composer.sampling, Qt.MouseButton.LeftButton)
    popover = talk.composer.popover
    assert popover is not None
    choose(popover.form, "schema")
    write(popover.form, '{"type": "object", "properties": {"name": {"type": "string"}}}')
    long = "These keywords of the schema are not known here: " + "unevaluatedProperties " * 6
    engine.say(FormChecked(engine.last_of(CheckForm).id, long))
    for scale in (0.75, 1.0, 2.0):
        talk.bench.preferences.update(font_scale=scale)
        popover.open_above(talk.composer)
        come_to_rest(popover)
        assert [*faults(popover), *overlapping(popover)] == []
    if shots := os.environ.get("CUTAWAY_FORM_SHOT"):
        popover.grab().save(shots)
    popover.hide()
