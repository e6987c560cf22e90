"""What the chat template adds, shown."""

from PySide6.QtWidgets import QApplication

from app.theme.tokens import LIGHT
from app.views.talk.prompt import PromptView, parts_of
from engine.protocol import ChatMessage, Failed, PlacedRows, Render, Rendered
from tests.app.helpers.gui import Talk
from tests.app.helpers.scripted import ScriptedEngine

TEXT = "<|im_start|>user\nuser <b>x</b><|im_end|>\n<|im_start|>assistant\n"


def test_parts_of_a_prompt() -> None:
    parts = list(parts_of(TEXT, [" user <b>x</b>\n"]))
    assert parts == [
        ("<|im_start|>user\n", True),
        ("user <b>x</b>", False),
        ("<|im_end|>\n<|im_start|>assistant\n", True),
    ]
    assert list(parts_of("abc", ["not there", ""])) == [("abc", True)]


def test_the_template_of_the_draft_is_shown(talk: Talk, engine: ScriptedEngine) -> None:
    chat = talk.bench.chat
    view = PromptView(talk.bench)
    view.refresh()
    assert "Type one" in view.facts.text()
    chat.details.set_system("Be brief.")
    chat.details.set_draft("user <b>x</b>")
    view.refresh()
    request = engine.last
    assert isinstance(request, Render)
    assert request.messages == [
        ChatMessage("system", "Be brief."),
        ChatMessage("user", "user <b>x</b>"),
    ]
    text = f"<|im_start|>system\nBe brief.<|im_end|>\n{TEXT}"
    engine.say(Rendered(request.id, text, 2024, "file"))
    QApplication.processEvents()
    assert view.text.toPlainText() == text
    assert view.facts.text().startswith("2\u2009024 tokens, by the file's chat template.")
    cursor = view.text.textCursor()
    cursor.setPosition(text.index("Be brief") + 2)
    assert cursor.charFormat().foreground().color().name().upper() == LIGHT.text
    cursor.setPosition(2)
    assert cursor.charFormat().foreground().color().name().upper() == LIGHT.accent
    view.refresh()
    engine.say(Failed(engine.last.id, "TemplateError", "the template refuses"))
    QApplication.processEvents()
    assert view.facts.text() == "the template refuses"


def test_how_much_of_the_prompt_are_pictures(talk: Talk, engine: ScriptedEngine) -> None:
    view = PromptView(talk.bench)
    talk.bench.chat.details.set_draft("what?")
    one = [PlacedRows(1, "d", 0, 0, 800, 4), PlacedRows(1, "d", 1, 0, 200, 805)]
    for rows, told in (
        (one, "1\u2009200 tokens, 1\u2009000 of them embeddings of the picture, by the file's"),
        ([*one, PlacedRows(2, "e", 0, 0, 64, 1010)], "1\u2009064 of them embeddings of 2 pictures"),
    ):
        view.refresh()
        engine.say(Rendered(engine.last.id, TEXT, 1200, "file", rows))
        QApplication.processEvents()
        assert told in view.facts.text()
