"""The pictures of a question that was sent, changed where it is edited."""

from pathlib import Path

import pytest
from PySide6.QtCore import Qt
from PySide6.QtTest import QTest
from PySide6.QtWidgets import QFileDialog

from app.views.talk.message import MessageView
from app.views.talk.message_edit import MessageEdit
from app.views.talk.pictures.attachments import Attachments
from app.window.main_window import MainWindow
from engine.protocol import PictureLimits, PicturePart, TextPart
from tests.app.helpers.scripted import ScriptedEngine
from tests.app.helpers.seeing import attach, bring, landscape, opened, price, three, tiled, until
from tests.app.rest import come_to_rest
from tests.app.window.pictures.test_pictures import generate
from tests.app.window.test_drops import drag, drop, files

CONTROL = Qt.KeyboardModifier.ControlModifier


@pytest.fixture
def engine(window: MainWindow) -> ScriptedEngine:
    """A model is open, and sees."""
    return opened(window)


@pytest.fixture
def asked(window: MainWindow, engine: ScriptedEngine, tmp_path: Path) -> list[str]:
    """A question about a, b and c was answered; the digests of these."""
    digests = attach(window, engine, *three(tmp_path))
    assert window.bench.chat.send("What is it?")
    engine.write("Hills.")
    engine.end()
    return digests


def question(window: MainWindow) -> MessageView:
    until(lambda: window.talk.chat.column.widget(0) is not None)
    view = window.talk.chat.column.widget(0)
    assert isinstance(view, MessageView)
    return view


def edit(window: MainWindow) -> tuple[MessageEdit, Attachments]:
    question(window).begin_edit()
    made = question(window).edit
    assert made is not None
    assert made.attachments is not None
    return made, made.attachments


def names(window: MainWindow) -> list[str]:
    return [picture.name for picture in window.bench.chat.path[0].pictures]


def give(window: MainWindow, path: Path) -> None:
    """Drag a file over the window, and drop it."""
    data = files(path)
    assert drag(window, data).isAccepted()
    assert drop(window, data).isAccepted()


def paste(made: MessageEdit, *paths: Path) -> None:
    """Files, into the field."""
    data = files(*paths)
    made.field.insertFromMimeData(data)


def test_one_goes_one_comes_and_they_change_places(
    window: MainWindow, engine: ScriptedEngine, asked: list[str], tmp_path: Path
) -> None:
    made, attachments = edit(window)
    assert not question(window).pictures.isVisible()  # type: ignore[union-attr]
    cards = attachments.strip.cards
    QTest.keyClick(cards[1], Qt.Key.Key_Delete)
    assert [card.accessibleName().split(",")[0] for card in cards] == ["a.png", "c.png"]
    paste(made, landscape(tmp_path / "d.png", 100, 100, "#884422"))
    until(lambda: len(made.pictures.pictures) == 3)  # type: ignore[union-attr]
    (new,) = (info.digest for info in bring(engine, tiled))
    QTest.keyClick(cards[2], Qt.Key.Key_Left, CONTROL)
    price(engine)
    assert window.bench.chat.attached.pictures == ()
    made.field.set_text("And now?")
    QTest.keyClick(made.field, Qt.Key.Key_Return)
    parts = [*(PicturePart(digest) for digest in (asked[0], new, asked[2])), TextPart("And now?")]
    assert generate(engine).messages[0].content == parts
    engine.end()
    assert names(window) == ["a.png", "d.png", "c.png"]
    assert window.bench.chat.path[0].siblings == 2
    window.bench.chat.choose_sibling(0, -1)
    assert names(window) == ["a.png", "b.png", "c.png"]
    until(lambda: question(window).pictures.isVisible())  # type: ignore[union-attr]


def test_one_is_given_fewer_tokens(
    window: MainWindow, engine: ScriptedEngine, asked: list[str]
) -> None:
    made, attachments = edit(window)
    price(engine)
    one = PictureLimits(one_view=True)
    attachments.strip.chosen.emit(0, len(attachments.strip.cards[0].item.offered) - 1)
    QTest.keyClick(made.field, Qt.Key.Key_Return)
    pictures = generate(engine).messages[0].pictures
    assert [part.limits for part in pictures] == [one, PictureLimits(), PictureLimits()]


def test_leaving_leaves_all_as_it_was(
    window: MainWindow, engine: ScriptedEngine, asked: list[str], tmp_path: Path
) -> None:
    made, attachments = edit(window)
    path = landscape(tmp_path / "d.png", 100, 100, "#884422")
    paste(made, path)
    until(lambda: len(made.pictures.pictures) == 4)  # type: ignore[union-attr]
    kept = made.pictures.pictures[-1]  # type: ignore[union-attr]
    attachments.strip.removed.emit(0)
    QTest.keyClick(made.field, Qt.Key.Key_Escape)
    assert question(window).edit is None
    assert names(window) == ["a.png", "b.png", "c.png"]
    assert question(window).pictures.isVisible()  # type: ignore[union-attr]
    file = window.bench.chat.pictures_in_engine.path(kept)
    assert file.exists()
    window.close()
    assert not file.exists()
    others = [
        window.bench.chat.pictures_in_engine.path(p) for p in window.bench.chat.path[0].pictures
    ]
    assert all(other.exists() for other in others)


def test_pictures_go_where_was_written_last(
    window: MainWindow,
    engine: ScriptedEngine,
    asked: list[str],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    chat = window.bench.chat
    made, _ = edit(window)
    pictures = made.pictures
    assert pictures is not None
    made.field.setFocus()
    paths = [landscape(tmp_path / f"{n}.png", 90 + n, 100) for n in range(3)]
    give(window, paths[0])
    until(lambda: len(pictures.pictures) == 4)
    window.activateWindow()
    until(window.isActiveWindow)
    window.talk.composer.field.setFocus()
    give(window, paths[1])
    until(lambda: len(chat.attached.pictures) == 1)
    monkeypatch.setattr(QFileDialog, "getOpenFileNames", lambda *_: ([str(paths[2])], ""))
    made.add.click()
    until(lambda: len(pictures.pictures) == 5)
    made.cancelled.emit()
    assert chat.written is chat.attached
    assert [p.name for p in chat.attached.pictures] == ["1.png"]


def test_a_question_without_words_or_pictures_is_none(
    window: MainWindow, engine: ScriptedEngine, asked: list[str]
) -> None:
    made, attachments = edit(window)
    made.field.set_text("")
    assert made.send_button.isEnabled()
    for _ in range(3):
        attachments.strip.removed.emit(0)
    assert not made.send_button.isEnabled()
    before = generate(engine)
    QTest.keyClick(made.field, Qt.Key.Key_Return)
    assert generate(engine) is before
    made.field.set_text("Only words")
    QTest.keyClick(made.field, Qt.Key.Key_Return)
    assert generate(engine).messages[0].content == "Only words"


def test_an_edit_of_a_chat_that_is_left_takes_nothing_more(
    window: MainWindow, engine: ScriptedEngine, asked: list[str], tmp_path: Path
) -> None:
    made, _ = edit(window)
    made.field.setFocus()
    window.bench.chat.open(None)
    come_to_rest(window)
    assert window.bench.chat.written is window.bench.chat.attached
    give(window, landscape(tmp_path / "late.png", 50, 60))
    until(lambda: len(window.bench.chat.attached.pictures) == 1)
