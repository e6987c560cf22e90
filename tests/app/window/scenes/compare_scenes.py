"""The comparison with the host, in the graph and as a list; the cells of a cache."""

import msgspec
import numpy as np
from PySide6.QtTest import QTest

from app.state.tensors.experts import ChosenExpert, Routing
from app.state.tensors.numbers import computed
from app.views.tensors.tensors import KINDS, TensorsView
from app.window.main_window import MainWindow
from engine.protocol import CacheCells, Compare, CompareTexts, ReadCells
from tests.app.helpers.compared import compared, texts_compared
from tests.app.window.scenes.graph_scenes import client, graph

WRONG = ("ffn_swiglu-9", "l_out-9")


def _compared(window: MainWindow) -> None:
    told = compared(12, WRONG, client(window).last_of(Compare).id, 1.7)
    client(window).say(told)


def graph_errors(window: MainWindow) -> None:
    """What deviates is marked."""
    graph(window)
    window.commands.run("view.compare")
    _compared(window)
    window.bench.selection.select_operation("ffn_swiglu-9", 9, "nvidia:0")
    QTest.qWait(50)


def comparing(window: MainWindow) -> None:
    """A list of results; the first that deviates is selected."""
    graph(window)
    window.commands.run("view.compare")
    _compared(window)
    window.panes.show_tab("tensors")
    view = window.inspector.view(TensorsView)
    view.kinds.setCurrentIndex(KINDS.index("Compare"))
    view.compare.head.go.click()


def cells(window: MainWindow) -> None:
    """A cache of 2,048 cells, some of them shared."""
    graph(window)
    window.panes.show_tab("tensors")
    view = window.inspector.view(TensorsView)
    view.kinds.setCurrentIndex(KINDS.index("Cache"))
    bits, positions = np.zeros(2048, "<i4"), np.full(2048, -1, "<i4")
    bits[:700], positions[:700] = 1, np.arange(700)
    bits[:40] = 3
    whole = CacheCells(None, None, [5, 11], bits.tobytes(), positions.tobytes())
    near = msgspec.structs.replace(whole, window=512, layers=[*range(5), *range(6, 11)])
    raw = [np.array(n, "<i4").tobytes() for n in ([1] * 6, [9, 8, 300, 511, 2047, 4095], [1] * 6)]
    client(window).answer(ReadCells, [whole, near, CacheCells(None, None, [0, 1], *raw)])


def texts(window: MainWindow) -> None:
    """Two texts, and how far their results are, token by token."""
    graph(window)
    window.panes.show_tab("tensors")
    view = window.inspector.view(TensorsView)
    view.kinds.setCurrentIndex(KINDS.index("Texts"))
    view.texts.compare.click()
    client(window).say(texts_compared(client(window).last_of(CompareTexts).id, 12))
    window.bench.selection.select_operation("l_out-3", 3)
    QTest.qWait(50)


def axes(window: MainWindow) -> None:
    """A tensor of four dimensions, of which two others than usual are shown."""
    window.panes.show_tab("tensors")
    values = np.random.default_rng(5).standard_normal((2, 6, 16, 32)).astype(np.float32)
    window.bench.tensors.show_numbers(computed("ffn_gate_exps", values, "F32", "on intel:0"))
    view = window.inspector.view(TensorsView)
    view.show_page("Heat map")
    view.axes.rows.activated.emit(2)
    QTest.qWait(100)


def experts(window: MainWindow) -> None:
    """Layers of 32 experts, two of which read a word."""
    graph(window)
    window.panes.show_tab("tensors")
    window.inspector.view(TensorsView).kinds.setCurrentIndex(KINDS.index("Experts"))
    draw = np.random.default_rng(4)
    chosen = [
        (ChosenExpert(int(a), 0.7), ChosenExpert(int(b), 0.3))
        for a, b in (draw.choice(32, 2, replace=False) for _ in range(12))
    ]
    window.bench.experts.routing = Routing(tuple(range(12)), 32, tuple(chosen))
    window.bench.experts.changed.emit()
    window.bench.selection.select_operation("ffn_moe_out-4", 4)
    QTest.qWait(50)


SCENES = (comparing, texts, experts, axes, cells, graph_errors)
