"""One picture in full, and what the model sees of it."""

from collections.abc import Callable
from pathlib import Path

import pytest
from PIL import Image
from PySide6.QtCore import Qt
from PySide6.QtGui import QGuiApplication
from PySide6.QtTest import QTest
from PySide6.QtWidgets import QFileDialog

from app.window.main_window import MainWindow
from engine.protocol import PicturePart, Render
from tests.app.helpers.scripted import ScriptedEngine
from tests.app.helpers.seeing import attach, landscape, opened, show, three, tiled, until, whole


@pytest.fixture
def engine(window: MainWindow) -> ScriptedEngine:
    """A model is open, and sees."""
    return opened(window)


def test_the_whole_picture(
    window: MainWindow,
    engine: ScriptedEngine,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    paths = [landscape(tmp_path / "wide.png", 3000, 2000), *three(tmp_path)[:1]]
    attach(window, engine, *paths)
    assert window.bench.chat.send("Look.")
    until(lambda: window.talk.chat.column.widget(0) is not None)
    view = window.talk.chat.column.widget(0)
    card = view.pictures.cards[0]  # type: ignore[union-attr]
    card.setFocus()
    QTest.keyClick(card, Qt.Key.Key_Return)
    viewer, canvas = window.sheets.viewer, window.sheets.viewer.canvas
    until(lambda: canvas.accessibleName() == "wide.png, 3\u2009000 × 2\u2009000")
    assert viewer.isVisible()
    assert canvas.area.width() <= canvas.width()
    assert canvas.pixels.width() < 3000  # no more than are needed
    QTest.keyClick(canvas, Qt.Key.Key_Return)
    until(lambda: canvas.area.width() == 3000)
    until(lambda: canvas.pixels.width() == 3000)
    before = canvas.area.left()
    QTest.keyClick(canvas, Qt.Key.Key_Right)
    assert canvas.area.left() < before
    monkeypatch.setattr(
        QFileDialog, "getSaveFileName", lambda *_: (str(tmp_path / "saved.png"), "")
    )
    viewer.save.click()
    saved, whole = tmp_path / "saved.png", paths[0].read_bytes()
    until(lambda: saved.exists() and saved.read_bytes() == whole)
    viewer.copy.click()
    clipboard = QGuiApplication.clipboard()
    until(lambda: clipboard.image().width() == 3000)
    QTest.keyClick(canvas, Qt.Key.Key_PageDown)
    until(lambda: canvas.accessibleName().startswith("a.png"))
    QTest.keyClick(canvas, Qt.Key.Key_Escape)
    assert not viewer.isVisible()


@pytest.mark.parametrize("plan", [tiled, whole])
def test_what_the_model_sees(
    window: MainWindow, engine: ScriptedEngine, tmp_path: Path, plan: Callable[..., object]
) -> None:
    attach(window, engine, three(tmp_path)[0])
    window.commands.run("chat.seen")
    told = show(engine, plan)  # type: ignore[arg-type]
    seen = window.sheets.viewer.seen
    views, strip = seen.views, seen.strip
    assert len(views.pictures) == len(told.views)
    rows = [token for token in strip.tokens if not token.text]
    assert len(rows) == told.plan.n_rows
    last = len(views.pictures) - 1
    cell = (last, views.pictures[last].columns + 2)
    QTest.mouseMove(views, views.cell_area(cell).center().toPoint())
    assert views.cell == cell
    assert strip.place is not None
    assert strip.tokens[strip.place].cell == cell
    assert "cell 3 of" in seen.here.text()
    assert "2 of" in seen.here.text().rpartition(",")[2]
    place = next(n for n, token in enumerate(strip.tokens) if token.cell == (0, 2))
    QTest.mouseMove(strip, strip.area_of(place).center().toPoint())
    assert views.cell == (0, 2)
    number = 3 + told.plan.views[0].extras  # the first of which stand for no cell
    assert f"Embedding {number} of" in seen.here.text()
    strip.setFocus()
    QTest.keyClick(strip, Qt.Key.Key_Right)
    assert views.cell == (0, 3)
    QTest.keyClick(strip, Qt.Key.Key_Home)
    assert (views.cell, seen.here.text().split(" ")[0]) == (None, "Text")
    views.setFocus()
    QTest.keyClick(views, Qt.Key.Key_Home)
    QTest.keyClick(views, Qt.Key.Key_Down)
    assert views.cell == (0, views.pictures[0].columns)
    QTest.keyClick(views, Qt.Key.Key_PageDown)
    assert views.cell == (1 % len(views.pictures), 0)


def test_views_are_the_pictures_pixels(
    window: MainWindow, engine: ScriptedEngine, tmp_path: Path
) -> None:
    """Each is drawn from its own pixels, at its place among the tiles."""
    quarters = Image.new("RGB", (320, 320))
    colours = ((200, 0, 0), (0, 200, 0), (0, 0, 200), (200, 200, 0))
    for n, colour in enumerate(colours):
        quarters.paste(colour, (n % 2 * 160, n // 2 * 160, n % 2 * 160 + 160, n // 2 * 160 + 160))
    quarters.save(tmp_path / "quarters.png")
    attach(window, engine, tmp_path / "quarters.png")
    window.commands.run("chat.seen")
    show(engine, tiled)
    views = window.sheets.viewer.seen.views
    QTest.qWait(20)
    drawn, areas = views.grab().toImage(), views.areas()
    for area, colour in zip(areas, colours, strict=False):
        at = area.center() + (area.bottomRight() - area.center()) * 0.25
        assert drawn.pixelColor(at.toPoint()).getRgb()[:3] == colour
    assert areas[0].left() < areas[1].left() == areas[3].left()
    assert areas[0].top() == areas[1].top() < areas[2].top()
    assert areas[4].left() > areas[1].right()  # the overview stands beside the tiles


def test_the_prompt_has_its_pictures(
    window: MainWindow, engine: ScriptedEngine, tmp_path: Path
) -> None:
    (digest,) = attach(window, engine, three(tmp_path)[0])
    window.commands.run("chat.prompt")
    asked = engine.last_of(Render)
    assert isinstance(asked, Render)
    assert [message.pictures for message in asked.messages] == [[PicturePart(digest)]]
