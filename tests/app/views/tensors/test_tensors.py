"""The Tensors view before a real file: the same numbers in every page, and nothing waits."""

import threading
from pathlib import Path

import numpy as np
import pytest
from PySide6.QtCore import Qt
from PySide6.QtGui import QGuiApplication
from PySide6.QtTest import QTest
from PySide6.QtWidgets import QLabel
from pytestqt.qtbot import QtBot

from app.state.tensors.results import TensorItem
from app.views.tensors.tensors import PAGES, TensorsView
from app.weights import LocalWeights
from app.widgets.plots.scale import shade_of
from app.window.main_window import MainWindow
from engine.errors import BadFile
from engine.gguf import open_gguf
from engine.gguf.dump import dump
from engine.protocol import QualityMeasured, TensorLoss
from tests.app.helpers.scripted import ScriptedEngine
from tests.goldens.tiny import write_tiny


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return write_tiny(tmp_path / "tiny.gguf", "llama")


@pytest.fixture
def view(window: MainWindow, path: Path, qtbot: QtBot) -> TensorsView:
    """The file's tensors are listed."""
    engine = window.bench.engine
    assert isinstance(engine, ScriptedEngine)
    window.bench.open_model(path)
    engine.load_done()
    window.inspector.show_tab("tensors")
    qtbot.waitUntil(lambda: window.bench.tensors.ready)
    return window.inspector.view(TensorsView)


def item(window: MainWindow, name: str) -> TensorItem:
    groups = window.bench.tensors.groups
    return next(one for group in groups for one in group.items if one.name == name)


def choose(window: MainWindow, name: str) -> np.ndarray:
    window.bench.tensors.choose(item(window, name))
    with open_gguf(str(window.bench.file.path)) as file:
        return file.array(name).reshape(-1, file.tensors[name].shape[0])


def shown(view: TensorsView, row: int, column: int) -> str:
    rows = view.grid.numbers
    return str(rows.index(row, column).data())


def test_every_page_shows_the_same_numbers(
    window: MainWindow, view: TensorsView, qtbot: QtBot
) -> None:
    values = choose(window, "blk.1.ffn_up.weight")
    assert window.bench.selection.now.tensor == "blk.1.ffn_up.weight"
    assert window.bench.selection.now.layer == 1
    qtbot.waitUntil(lambda: shown(view, 5, 7) != "…")
    assert float(shown(view, 5, 7)) == pytest.approx(values[5, 7], abs=1e-6)
    assert (view.grid.numbers.rowCount(), view.grid.numbers.columnCount()) == values.shape
    view.show_page("Heat map")
    qtbot.waitUntil(lambda: view.heat.piece is not None)
    assert view.heat.cells.shape == values.shape
    view.show_page("Stats")
    qtbot.waitUntil(lambda: window.bench.tensors.statistics is not None)
    words = dict(view.statistics.words.rows.shown)
    heads = {
        said.text()
        for table in (view.statistics.words, view.statistics.farthest)
        for said in table.findChildren(QLabel)
        if said.isVisible()
    }
    assert heads == {"Statistics", "Largest magnitude"}, "no bare count of rows heads a table"
    assert float(words["largest"]) == pytest.approx(values.max(), rel=1e-3)
    farthest = view.statistics.farthest.rows.shown[0]
    assert abs(values[farthest.row, farthest.column]) == np.abs(values).max()
    assert view.histogram.counts.sum() == values.size
    np.testing.assert_allclose(
        view.norms.lines.lines[0].y, np.linalg.norm(values.astype(float), axis=1), rtol=1e-5
    )
    view.statistics.farthest.activated.emit(farthest)
    assert view.page == "Numbers"
    index = view.grid.currentIndex()
    assert (index.row(), index.column()) == (farthest.row, farthest.column)


def test_copied_as_the_dump_prints_it(window: MainWindow, view: TensorsView, qtbot: QtBot) -> None:
    values = choose(window, "blk.0.attn_k.weight")
    QGuiApplication.clipboard().clear()
    view.copy.click()
    qtbot.waitUntil(lambda: QGuiApplication.clipboard().text() != "")
    assert QGuiApplication.clipboard().text() == dump(values)
    view.grid.setFocus()
    view.grid.setCurrentIndex(view.grid.numbers.index(2, 3))
    QTest.keyClick(view.grid, Qt.Key.Key_C, Qt.KeyboardModifier.ControlModifier)
    assert float(QGuiApplication.clipboard().text()) == values[2, 3]


@pytest.mark.parametrize("name", ["x.npy", "x.csv"])
def test_saved(
    window: MainWindow, view: TensorsView, qtbot: QtBot, tmp_path: Path, name: str
) -> None:
    values = choose(window, "blk.0.attn_k.weight")
    numbers = window.bench.tensors.numbers
    assert numbers is not None
    out = tmp_path / name
    view.save(numbers, out)
    qtbot.waitUntil(out.exists)
    read = np.load(out) if name.endswith("npy") else np.loadtxt(out, delimiter=",")
    np.testing.assert_array_equal(np.asarray(read, np.float32), values)
    assert [p.name for p in tmp_path.iterdir() if p.name.startswith(".x")] == []


def test_a_selection_elsewhere_moves_the_tree(
    window: MainWindow, view: TensorsView, qtbot: QtBot
) -> None:
    choose(window, "blk.0.attn_k.weight")
    window.bench.selection.select_layer(2)
    assert window.bench.tensors.item == item(window, "blk.2.attn_k.weight")
    window.bench.selection.select_tensor("output_norm.weight", 3)
    assert window.bench.tensors.item == item(window, "output_norm.weight")
    assert view.tree.view.currentIndex().data() == "output_norm"
    window.bench.selection.back()
    now = window.bench.tensors.item
    assert now is not None
    assert now.layer == 2
    view.tree.query.setText("layer 1 ffn")
    rows = view.tree.filtered
    assert rows.rowCount() == 1
    group = rows.index(0, 0)
    found = {rows.index(i, 0, group).data() for i in range(rows.rowCount(group))}
    assert found == {"ffn_norm", "ffn_gate", "ffn_up", "ffn_down"}


def test_tensors_are_shaded_by_what_they_lose(
    window: MainWindow, view: TensorsView, qtbot: QtBot
) -> None:
    bench, tree = window.bench, view.tree
    assert tree.colour.isHidden()
    losses = [
        TensorLoss("blk.1.attn_k.weight", "Q4_0", 1 << 20, 1e-4, 2e-3),
        TensorLoss("blk.1.ffn_up.weight", "Q4_0", 1 << 20, 1e-4, 2e-5),
    ]
    measured = QualityMeasured(1, "tiny", "F16", "intel:0", 8, 512, False, None, [], losses)
    assert bench.file.path is not None
    bench.store.runs.add(bench.file.path.stem, "tiny / F16", measured)
    bench.runs.refresh()
    qtbot.waitUntil(tree.colour.isVisible)
    choose(window, "blk.1.attn_k.weight")
    place = tree.view.currentIndex().siblingAtColumn(1)
    group, kind = place.parent().siblingAtColumn(1), place.data()
    count = group.data()
    QTest.keyClick(tree.colour, Qt.Key.Key_Down)
    assert (place.data(), group.data()) == ("2.0e-3", "2.0e-3")  # a group has its largest
    assert place.data(Qt.ItemDataRole.BackgroundRole).name().upper() == shade_of(1.0, False)
    name = tree.view.currentIndex()
    assert name.data(Qt.ItemDataRole.AccessibleTextRole) == "attn_k, Loss 2.0e-3"
    assert "Loss 2.0e-3" in name.data(Qt.ItemDataRole.ToolTipRole)
    choose(window, "blk.1.ffn_up.weight")
    least = tree.view.currentIndex().siblingAtColumn(1)
    assert least.data(Qt.ItemDataRole.BackgroundRole).name().upper() == shade_of(0.0, False)
    choose(window, "blk.1.attn_q.weight")
    none = tree.view.currentIndex().siblingAtColumn(1)
    assert (none.data(), none.data(Qt.ItemDataRole.BackgroundRole)) == ("", None)
    assert tree.scale.accessibleDescription() == "Loss: tiny against F16, from 2.0e-5 to 2.0e-3"
    bench.runs.delete(bench.runs.kept[0].id)
    qtbot.waitUntil(tree.colour.isHidden)
    assert tree.scale.isHidden()
    assert (place.data(), group.data()) == (kind, count)


def test_a_hidden_view_reads_nothing(window: MainWindow, path: Path) -> None:
    engine = window.bench.engine
    assert isinstance(engine, ScriptedEngine)
    window.bench.open_model(path)
    engine.load_done()
    window.bench.selection.select_tensor("output_norm.weight", 3)
    assert window.bench.tensors.groups == []
    assert not window.bench.tensors.ready


def test_a_disk_that_never_answers_blocks_nothing(
    window: MainWindow, view: TensorsView, qtbot: QtBot, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Numbers that do not come leave the window usable, and other tensors too."""
    release = threading.Event()
    real = LocalWeights.read_numbers

    def slow(self: LocalWeights, part: int, start: int, size: int) -> np.ndarray:
        release.wait(30)
        return real(self, part, start, size)

    monkeypatch.setattr(LocalWeights, "read_numbers", slow)
    values = choose(window, "blk.0.attn_k.weight")
    for page in PAGES:
        view.show_page(page)
    assert shown(view, 0, 0) == "…"
    release.set()
    view.show_page("Numbers")
    qtbot.waitUntil(lambda: shown(view, 0, 0) != "…")
    assert float(shown(view, 0, 0)) == pytest.approx(values[0, 0], abs=1e-6)


def test_a_file_that_cannot_be_read_is_said(
    window: MainWindow, view: TensorsView, qtbot: QtBot, monkeypatch: pytest.MonkeyPatch
) -> None:
    def broken(self: LocalWeights, part: int, start: int, size: int) -> np.ndarray:
        raise BadFile("/models/x.gguf", "ends before byte 7; it was changed")

    monkeypatch.setattr(LocalWeights, "read_numbers", broken)
    choose(window, "blk.0.attn_k.weight")
    view.show_page("Stats")
    qtbot.waitUntil(lambda: "ends before byte 7" in view.caption)


def test_it_follows_theme_and_text(window: MainWindow, view: TensorsView, qtbot: QtBot) -> None:
    choose(window, "blk.0.attn_k.weight")
    for theme in ("dark", "light"):
        window.bench.preferences.update(theme=theme)
    window.bench.preferences.update(font_scale=1.5)
    assert view.tree.view.currentIndex().data() == "attn_k"
