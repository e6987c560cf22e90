"""Two texts against each other in the window: chosen, computed, drawn, and read as numbers."""

from pathlib import Path

import numpy as np
import pytest
from PySide6.QtCore import QPoint, Qt
from PySide6.QtTest import QTest
from pytestqt.qtbot import QtBot

from app.views.tensors.tensors import KINDS, TensorsView
from app.views.tensors.texts import TextsPage
from app.window.main_window import MainWindow
from engine.protocol import (
    Cancel,
    CompareTexts,
    Failed,
    Progress,
    ResultInfo,
    ResultPart,
)
from tests.app.helpers.compared import texts_compared
from tests.app.helpers.scripted import ScriptedEngine


@pytest.fixture
def engine(window: MainWindow, tiny_path: Path) -> ScriptedEngine:
    made = window.bench.engine
    assert isinstance(made, ScriptedEngine)
    window.bench.open_model(tiny_path)
    made.load_done()
    window.panes.show_tab("tensors")
    return made


@pytest.fixture
def page(window: MainWindow, engine: ScriptedEngine) -> TextsPage:
    view = window.inspector.view(TensorsView)
    view.kinds.setCurrentIndex(KINDS.index("Texts"))
    return view.texts


def asked(engine: ScriptedEngine) -> CompareTexts:
    found = engine.last_of(CompareTexts)
    assert isinstance(found, CompareTexts)
    return found


def test_two_typed_texts(window: MainWindow, engine: ScriptedEngine, page: TextsPage) -> None:
    assert not page.table.isVisible()
    page.first.typed.set_text("a red hat")
    page.other.typed.set_text("")
    QTest.keyClick(page.first.typed, Qt.Key.Key_Return)
    assert "Type two texts" in page.caption.text()
    page.other.typed.set_text("a blue hat")
    QTest.keyClick(page.other.typed, Qt.Key.Key_Return)
    request = asked(engine)
    assert (request.text.prompt, request.other.prompt) == ("a red hat", "a blue hat")
    assert page.stop.isVisible()
    engine.say(Progress(request.id, "score", 1, 2))
    assert (page.bar.value(), page.bar.maximum()) == (1, 2)
    engine.say(texts_compared(request.id))
    assert page.table.rows.total == 4
    assert "First difference: embd" in page.caption.text()
    lines = [line.split("\t") for line in page.table.text().split("\n")[1:]]
    assert lines[1] == [*("l_out-0", "0.2", "0.8000", "0.4", "1 “ red” / “ blue”", "intel:0")]
    assert lines[2][1:5] == ["–"] * 4
    assert page.map.cells.shape == (4, 3)
    assert page.map.describe(1, 1) == "result l_out-0, token 1 “ red” / “ blue”: NMSE 0.4"
    assert page.map.describe(3, 0).endswith("not computed for this token")
    assert page.map.describe(2, 1).endswith("not computed for this token")
    window.bench.session.unload()
    assert not page.table.isVisible()


def test_a_row_selects_and_is_selected(
    window: MainWindow, engine: ScriptedEngine, page: TextsPage
) -> None:
    page.compare.click()
    engine.say(texts_compared(asked(engine).id))
    page.table.choose(0)
    page.table.view.clicked.emit(page.table.rows.index(1, 0))
    now = window.bench.selection.now
    assert (now.operation, now.layer, now.device) == ("l_out-0", 0, "intel:0")
    window.bench.selection.select_operation("result_output")
    assert page.table.view.currentIndex().row() == 3
    page.map.pointed.emit(0, 1)
    assert window.bench.selection.now.operation == "embd"
    assert "NMSE 0.5" in page.place.text()


def test_the_difference_as_numbers(
    window: MainWindow, engine: ScriptedEngine, page: TextsPage, qtbot: QtBot
) -> None:
    """In every page of the Tensors view, until something else is selected."""
    view = window.inspector.view(TensorsView)
    view.kinds.setCurrentIndex(0)
    qtbot.waitUntil(lambda: window.bench.tensors.ready)  # layer 0 has tensors to go to
    view.kinds.setCurrentIndex(KINDS.index("Texts"))
    page.compare.click()
    engine.say(texts_compared(asked(engine).id))
    page.table.choose(1)
    page.table.view.clicked.emit(page.table.rows.index(1, 0))
    assert window.bench.selection.now.layer == 0
    page.table.view.setFocus()
    QTest.keyClick(page.table.view, Qt.Key.Key_Return)
    request = asked(engine)
    assert request.numbers == ("l_out-0", 0)
    a, b = np.arange(12, dtype="<f4").reshape(3, 4), np.full((3, 4), 3, "<f4")
    for step, values in enumerate((a, b)):
        info = ResultInfo("l_out-0", 0, step, "add", "F32", [4, 3], "intel:0", 0)
        half = values.reshape(-1)[:6], values.reshape(-1)[6:]
        engine.say(*(ResultPart(request.id, info, 6 * n, x.tobytes()) for n, x in enumerate(half)))
    engine.say(texts_compared(request.id))
    assert KINDS[view.kinds.currentIndex()] == "Weights"
    assert view.title.text().startswith("l_out-0: the other text less the first")
    qtbot.waitUntil(lambda: view.grid.numbers.value(2, 3) is not None)
    assert view.grid.numbers.value(2, 3) == 3 - 11
    view.kinds.setCurrentIndex(KINDS.index("Texts"))
    view.kinds.setCurrentIndex(0)
    assert view.title.text().startswith("l_out-0: the other")
    window.bench.selection.select_tensor("blk.1.ffn_up.weight", 1)
    qtbot.waitUntil(lambda: view.title.text() == "blk.1.ffn_up.weight")


def test_versions_of_an_answer(window: MainWindow, engine: ScriptedEngine, page: TextsPage) -> None:
    """What the open chat has is offered; a version is the chat up to it."""
    chat = window.bench.chat
    assert chat.send("Hello")
    engine.write("Hi")
    engine.end(n=1)
    titles = [page.other.which.itemText(at) for at in range(page.other.which.count())]
    assert titles == ["A text", "The open chat"]
    assert chat.regenerate(1)
    engine.write("Hey")
    engine.end(n=1)
    titles = [page.other.which.itemText(at) for at in range(page.other.which.count())]
    assert titles[2:] == ["Version 1 of the answer", "Version 2 of the answer"]
    page.first.which.setCurrentIndex(2)
    page.other.which.setCurrentIndex(3)
    assert not page.other.typed.isVisible()
    page.compare.click()
    request = asked(engine)
    assert [m.text for m in request.text.messages] == ["Hello", "Hi"]
    assert [m.text for m in request.other.messages] == ["Hello", "Hey"]


def test_it_is_stopped_and_fails_in_words(
    window: MainWindow, engine: ScriptedEngine, page: TextsPage
) -> None:
    page.compare.click()
    page.stop.click()
    assert isinstance(engine.last, Cancel)
    engine.say(texts_compared(asked(engine).id))
    page.compare.click()
    engine.say(Failed(asked(engine).id, "BadSetting", "prompt is pictures"))
    assert page.caption.text() == "prompt is pictures"
    assert page.compare.isVisible()


def test_a_click_in_the_map_selects(
    window: MainWindow, engine: ScriptedEngine, page: TextsPage, qtbot: QtBot
) -> None:
    page.compare.click()
    engine.say(texts_compared(asked(engine).id))
    qtbot.wait(50)
    view = page.map.view.viewport()
    QTest.mouseClick(
        view, Qt.MouseButton.LeftButton, pos=QPoint(view.width() // 2, view.height() // 2)
    )
    assert window.bench.selection.now.operation is not None
