"""Scenes of the Tensors view, of the tiny model's file."""

from collections.abc import Callable
from pathlib import Path

import numpy as np
from PySide6.QtTest import QTest

from app.views.tensors.tensors import TensorsView
from app.window.main_window import MainWindow
from engine.protocol import Generate, ProbedRow, ProbedTokens
from tests.app.helpers.scripted import ScriptedEngine


def until(ready: Callable[[], object]) -> None:
    """Let the window work until something is so."""
    for _ in range(600):
        if ready():
            return
        QTest.qWait(20)
    raise AssertionError("it did not come")


def opened(window: MainWindow, name: str, page: str) -> TensorsView:
    """A tensor of the file, looked at in one way."""
    engine = window.bench.engine
    assert isinstance(engine, ScriptedEngine)
    window.bench.open_model(Path(str(window.property("tiny"))))
    engine.load_done()
    window.panes.show_tab("tensors")
    state, view = window.bench.tensors, window.inspector.view(TensorsView)
    until(lambda: state.ready)
    items = [item for group in state.groups for item in group.items]
    state.choose(next(item for item in items if item.name == name))
    view.show_page(page)
    return view


def numbers(window: MainWindow) -> None:
    view = opened(window, "blk.1.ffn_up.weight", "Numbers")
    view.grid.setCurrentIndex(view.grid.numbers.index(1, 1))
    QTest.qWait(50)


def numbers_coloured(window: MainWindow) -> None:
    view = opened(window, "token_embd.weight", "Heat map")
    until(lambda: view.heat.piece is not None)


def numbers_spread(window: MainWindow) -> None:
    opened(window, "blk.1.ffn_up.weight", "Spread")
    until(lambda: window.bench.tensors.statistics is not None)


def numbers_told(window: MainWindow) -> None:
    opened(window, "blk.1.ffn_up.weight", "Stats")
    until(lambda: window.bench.tensors.statistics is not None)


def numbers_stored(window: MainWindow) -> None:
    opened(window, "blk.1.ffn_up.weight", "Blocks")


def numbers_live(window: MainWindow) -> None:
    """Layers of an answer that is being written."""
    view = opened(window, "blk.1.ffn_up.weight", "Blocks")
    engine = window.bench.engine
    assert isinstance(engine, ScriptedEngine)
    view.kinds.setCurrentIndex(1)
    view.probes.switch.click()
    assert window.bench.chat.send("What is the capital of France?")
    engine.write("The", " capital")
    engine.say(probed(engine.last_of(Generate).id, 0, 40))
    view.probes.strip.redraw()


def probed(number: int, first: int, n_tokens: int, n_rows: int = 30) -> ProbedTokens:
    """What an answer tells: layers that grow, and one that stands out."""
    rng = np.random.default_rng(first + n_tokens)
    rows = [ProbedRow(f"l_out-{i}", 0, i) for i in range(n_rows)]
    rms = rng.uniform(0.5, 1, (n_tokens, n_rows)) * np.arange(1, n_rows + 1)
    rms[:, n_rows // 2] *= 3
    data = rms.astype("<f4")
    at = np.full((n_tokens, n_rows), 17, "<i4").tobytes()
    none = np.zeros((n_tokens, n_rows), "<i4").tobytes()
    return ProbedTokens(number, first, rows, data.tobytes(), (9 * data).tobytes(), at, none, none)


SCENES = (numbers_live, numbers, numbers_coloured, numbers_spread, numbers_told, numbers_stored)
