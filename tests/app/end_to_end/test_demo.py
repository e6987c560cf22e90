"""The model that comes along, in the window: it sees what a person gives it, and is right."""

from pathlib import Path
from random import Random

import pytest
from PIL import Image
from PySide6.QtCore import QMimeData, Qt, QUrl
from PySide6.QtGui import QGuiApplication, QImage
from PySide6.QtTest import QTest
from PySide6.QtWidgets import QApplication, QFileDialog

from app.fetch import bundled
from app.window.main_window import MainWindow
from app.window.program import shown_window
from engine.protocol import Sampling
from engine.settings import EngineOptions
from tests.app.helpers.seeing import until
from tests.app.window.test_drops import drag, drop
from tests.demo.questions import is_right
from tests.demo.scenes import Shape, draw, random_scene

HOST = EngineOptions(device="host", ctx=512)
SEED = 3


def three_shapes() -> list[tuple[Shape, Image.Image]]:
    """Pictures of one shape each; no two have the same form, colour or size in pixels."""
    random = Random(SEED)
    found: list[tuple[Shape, Image.Image]] = []
    while len(found) < 3:
        (shape,) = random_scene(random, most=1)
        picture = draw([shape], random)
        seen = {(s.form, s.colour, p.size) for s, p in found}
        if all(
            new != old
            for known in seen
            for new, old in zip((shape.form, shape.colour, picture.size), known, strict=True)
        ):
            found.append((shape, picture))
    return found


def open_demo(window: MainWindow) -> None:
    window.bench.open_model(bundled.model(), HOST)
    until(lambda: window.bench.session.status == "ready")
    window.bench.chat.details.set_sampling(Sampling(temperature=0))


def ask(window: MainWindow, question: str) -> str:
    """What is answered to a question that a person types."""
    field, chat = window.talk.composer.field, window.bench.chat
    field.set_text(question)
    QTest.keyClick(field, Qt.Key.Key_Return)
    until(lambda: not chat.busy)
    assert chat.path[-1].problem == ""
    return chat.path[-1].text


def give(
    window: MainWindow, pictures: list[Image.Image], folder: Path, patch: pytest.MonkeyPatch
) -> None:
    """One is dropped, one pasted, one chosen."""
    attached = window.bench.chat.attached
    paths = [folder / name for name in ("dropped.png", "pasted.png", "chosen.png")]
    for path, picture in zip(paths, pictures, strict=True):
        picture.save(path)
    dropped = QMimeData()
    dropped.setUrls([QUrl.fromLocalFile(str(paths[0]))])
    drag(window, dropped)
    assert drop(window, dropped).isAccepted()
    until(lambda: len(attached.pictures) == 1)
    QGuiApplication.clipboard().setImage(QImage(str(paths[1])))
    window.talk.composer.field.paste()
    until(lambda: len(attached.pictures) == 2)
    patch.setattr(QFileDialog, "getOpenFileNames", lambda *_: ([str(paths[2])], ""))
    window.commands.run("chat.pictures")
    until(lambda: len(attached.pictures) == 3)


def test_it_is_right_about_pictures_given_in_every_way_and_again_after_a_restart(
    first_window: MainWindow, qapp: QApplication, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    window, chat = first_window, first_window.bench.chat
    shapes, pictures = zip(*three_shapes(), strict=True)
    open_demo(window)
    give(window, list(pictures), tmp_path, monkeypatch)
    card = window.talk.composer.attachments.strip.cards[2]
    card.setFocus()
    QTest.keyClick(card, Qt.Key.Key_Left, Qt.KeyboardModifier.ControlModifier)

    said = [ask(window, f"What colour is the {shape.form}?") for shape in shapes]
    assert [is_right(a, s.colour) for a, s in zip(said, shapes, strict=True)] == [True] * 3, said
    given = chat.path[0].pictures
    assert [picture.name for picture in given] == [
        "dropped.png",
        "chosen.png",
        "Pasted picture.png",
    ]
    first = chat.path[1].stats
    assert first is not None
    sizes = [(told.width, told.height) for told in first.pictures]
    assert sizes == [pictures[n].size for n in (0, 2, 1)]

    window.commands.run("chat.seen")
    seen = window.sheets.viewer.seen
    until(lambda: seen.views.pictures)
    plan = chat.pictures_in_engine.plan(given[0])
    assert plan is not None
    assert seen.facts.text().startswith(f"{plan.n_tokens} tokens")
    window.bench.preferences.update(open_last_model=False)  # which would be on another device
    window.close()

    with shown_window(qapp) as again:
        chat = again.bench.chat
        assert [message.text for message in chat.path[1::2]] == said
        assert chat.path[0].pictures == given
        for kept, n in zip(given, (0, 2, 1), strict=True):
            with Image.open(chat.pictures_in_engine.path(kept)) as file:
                assert file.convert("RGB").tobytes() == pictures[n].tobytes()
        open_demo(again)
        shape = shapes[1]
        assert is_right(ask(again, f"What shape is {shape.colour}?"), f"A {shape.form}")


def test_the_sample_is_answered_rightly_at_the_default(
    first_window: MainWindow, qapp: QApplication
) -> None:
    """As somebody does who tries the demo: the question that is there, then the others offered."""
    window, chat = first_window, first_window.bench.chat
    window.bench.preferences.update_model(str(bundled.model()), device="host", ctx=512)
    window.commands.run("model.demo")
    until(lambda: bool(chat.attached.pictures))
    composer = window.talk.composer
    assert composer.field.text == bundled.QUESTIONS[0]
    until(composer.send_button.isEnabled)
    said = [ask(window, question) for question in bundled.QUESTIONS]
    assert said == ["Three.", "At the top left.", "Blue."]
