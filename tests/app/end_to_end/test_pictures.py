"""Pictures with the real engine: dropped, pasted, chosen, put in order, answered, found again."""

from pathlib import Path

import pytest
from PIL import Image
from PySide6.QtCore import QMimeData, Qt, QUrl
from PySide6.QtGui import QGuiApplication, QImage
from PySide6.QtTest import QTest
from PySide6.QtWidgets import QApplication, QFileDialog
from pytestqt.qtbot import QtBot

from app.state.presets import AnswerLimits
from app.views.talk.message import MessageView
from app.window.main_window import MainWindow
from app.window.program import shown_window
from engine.protocol import PictureLimits, Sampling
from engine.settings import EngineOptions
from tests.app.helpers.seeing import landscape, until
from tests.app.window.test_drops import drag, drop
from tests.goldens.vision.families import write_pair

HOST = EngineOptions(device="host", ctx=512)


@pytest.fixture
def pair(tmp_path: Path) -> tuple[Path, Path]:
    """A tiny random model that sees by tiles, and its tower's file beside it."""
    return write_pair(tmp_path / "models", "idefics3")


def open_tiny(window: MainWindow, model: Path) -> None:
    window.bench.open_model(model, HOST)
    until(lambda: window.bench.session.status == "ready")


def names(window: MainWindow) -> list[str]:
    return [picture.name for picture in window.bench.chat.attached.pictures]


def test_given_sent_answered_seen_and_found_again(
    first_window: MainWindow,
    qapp: QApplication,
    qtbot: QtBot,
    pair: tuple[Path, Path],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    window, bench = first_window, first_window.bench
    open_tiny(window, pair[0])
    assert bench.session.model is not None
    assert bench.session.model.vision is not None
    dropped = QMimeData()
    dropped.setUrls([QUrl.fromLocalFile(str(landscape(tmp_path / "dropped.png", 64, 32)))])
    drag(window, dropped)
    assert drop(window, dropped).isAccepted()
    picture = QImage(20, 30, QImage.Format.Format_RGB32)
    picture.fill(0xFF3366CC)
    QGuiApplication.clipboard().setImage(picture)
    window.talk.composer.field.paste()
    chosen = str(landscape(tmp_path / "chosen.jpg", 40, 40))
    monkeypatch.setattr(QFileDialog, "getOpenFileNames", lambda *_: ([chosen], ""))
    window.commands.run("chat.pictures")
    until(lambda: len(names(window)) == 3)
    assert sorted(names(window)) == ["Pasted picture.png", "chosen.jpg", "dropped.png"]
    chat = bench.chat
    until(lambda: chat.pictures_in_engine.tokens(chat.attached.pictures) is not None)
    counted = chat.pictures_in_engine.tokens(chat.attached.pictures)
    cards = window.talk.composer.attachments.strip.cards
    place = names(window).index("dropped.png")
    while place:
        cards[place].setFocus()
        QTest.keyClick(cards[place], Qt.Key.Key_Left, Qt.KeyboardModifier.ControlModifier)
        place -= 1
    order = names(window)
    assert order[0] == "dropped.png"
    chat.details.set_sampling(Sampling(temperature=0))
    chat.details.set_limits(type(chat.details.limits)(max_tokens=8))
    window.talk.composer.field.set_text("Which is blue?")
    QTest.keyClick(window.talk.composer.field, Qt.Key.Key_Return)
    until(lambda: not chat.busy)
    question, answer = chat.path
    assert (answer.finish in ("length", "stop"), answer.problem) == (True, "")
    assert answer.stats is not None
    assert sum(told.n_tokens for told in answer.stats.pictures) == counted
    sizes = [(told.width, told.height) for told in answer.stats.pictures]
    files = [Image.open(chat.pictures_in_engine.path(p)).size for p in question.pictures]
    assert sizes == files
    assert sizes[0] == (64, 32)

    window.commands.run("chat.seen")
    seen = window.sheets.viewer.seen
    until(lambda: seen.views.pictures)
    plan = chat.pictures_in_engine.plan(question.pictures[0])
    assert plan is not None
    assert len(seen.views.pictures) == len(plan.views) > 1
    assert sum(not token.text for token in seen.strip.tokens) == plan.n_rows
    assert seen.facts.text().startswith(f"{plan.n_tokens} tokens")
    text, kept = answer.text, question.pictures
    bench.preferences.update(open_last_model=False)  # which would be on another device
    window.close()

    with shown_window(qapp) as again:
        chat = again.bench.chat
        assert [message.text for message in chat.path] == ["Which is blue?", text]
        assert chat.path[0].pictures == kept
        open_tiny(again, pair[0])
        chat.details.set_sampling(Sampling(temperature=0))
        assert chat.regenerate(1)  # the fresh engine is brought the pictures
        until(lambda: not chat.busy)
        assert chat.path[1].text == text


def test_a_model_without_its_tower_and_with_it(
    first_window: MainWindow, pair: tuple[Path, Path], tmp_path: Path
) -> None:
    """Its file lies elsewhere: the picture is refused until that is dropped on the window."""
    window = first_window
    elsewhere = pair[1].rename(tmp_path / "tower.gguf")
    open_tiny(window, pair[0])
    picture = QMimeData()
    picture.setUrls([QUrl.fromLocalFile(str(landscape(tmp_path / "a.png", 64, 32)))])
    assert not drag(window, picture).isAccepted()
    assert "does not support pictures" in window.talk.notices.texts[0]
    tower = QMimeData()
    tower.setUrls([QUrl.fromLocalFile(str(elsewhere))])
    drag(window, tower)
    assert drop(window, tower).isAccepted()
    until(lambda: window.vision.sees)
    assert drag(window, picture).isAccepted()
    assert drop(window, picture).isAccepted()
    until(lambda: names(window) == ["a.png"])


def test_a_broken_picture_is_told_by_who_reads_it(
    first_window: MainWindow, pair: tuple[Path, Path], tmp_path: Path
) -> None:
    window = first_window
    open_tiny(window, pair[0])
    cut = tmp_path / "cut.png"
    cut.write_bytes(landscape(tmp_path / "whole.png", 64, 32).read_bytes()[:150])
    window.vision.add_files([cut])
    says = window.talk.composer.attachments.caption
    until(lambda: says.text().startswith("cut.png: "))
    assert says.text().endswith("Remove it to send the message.")
    assert not window.talk.composer.send_button.isEnabled()
    assert window.bench.session.status == "ready"


def test_fewer_tokens_are_what_the_model_sees_and_one_goes_from_the_question(
    first_window: MainWindow, pair: tuple[Path, Path], tmp_path: Path
) -> None:
    """Chosen on the card, counted there, in the answer and after another."""
    window, chat = first_window, first_window.bench.chat
    open_tiny(window, pair[0])
    chat.details.set_limits(AnswerLimits(max_tokens=2))
    window.vision.add_files([landscape(tmp_path / f"{n}.png", 64, 32 + n) for n in range(2)])
    cards = window.talk.composer.attachments.strip.cards
    until(lambda: len(cards) == 2 and all(card.more_button.isVisible() for card in cards))
    before = [
        plan.n_tokens for plan in map(chat.pictures_in_engine.plan, chat.attached.pictures) if plan
    ]
    choices = chat.pictures_in_engine.choices(chat.attached.pictures[1])
    assert choices[-1].limits == PictureLimits(one_view=True)
    cards[1].chosen.emit(len(choices) - 1)
    tokens = choices[-1].plan.n_tokens
    assert tokens < before[1]
    assert f"{tokens} tokens" in cards[1].accessibleName()
    assert chat.send("What is it?")
    until(lambda: not chat.busy)
    stats = chat.path[1].stats
    assert stats is not None
    assert [told.n_tokens for told in stats.pictures] == [before[0], tokens]
    assert [len(told.views) > 1 for told in stats.pictures] == [True, False]

    window.talk.chat.edit_last()
    view = window.talk.chat.column.widget(0)
    assert isinstance(view, MessageView)
    assert view.edit is not None
    assert view.edit.attachments is not None
    view.edit.attachments.strip.removed.emit(0)
    until(lambda: view.edit is not None and view.edit.attachments.ready)  # type: ignore[union-attr]
    QTest.keyClick(view.edit.field, Qt.Key.Key_Return)
    until(lambda: not chat.busy)
    stats = chat.path[1].stats
    assert stats is not None
    assert [told.n_tokens for told in stats.pictures] == [tokens]
    assert stats.encode_s == 0  # its rows were there
