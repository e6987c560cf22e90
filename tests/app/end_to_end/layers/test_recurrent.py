"""A recurrent model in the window, with the real engine: its states in Memory, Layers and Cache."""

from pathlib import Path
from typing import Any

from PySide6.QtCore import Qt

from app.state.presets import AnswerLimits
from app.views.layers.layers import LayersView
from app.views.tensors.tensors import KINDS, TensorsView
from app.window.main_window import MainWindow
from engine.models.kept import CHECKPOINTS, WORKING
from engine.protocol import Sampling
from engine.settings import EngineOptions
from tests.app.end_to_end.person import Person
from tests.engine.models.text.files import write
from tests.engine.models.text.rows import ROWS


def test_states_are_seen(
    qtbot: Any, first_window: MainWindow, tmp_path: Path, expected: list[str]
) -> None:
    expected.append("the file has no chat template")
    window, bench = first_window, first_window.bench
    person = Person(qtbot, window)
    bench.open_model(write(ROWS["qwen35"], tmp_path), EngineOptions(device="host", ctx=96))
    person.wait(lambda: bench.session.status == "ready")

    window.panes.show_tab("memory")
    cells = {cell.key: cell for cell in bench.memory.cells}
    for layer in (0, 1, 2):  # the fourth attends
        state, kept = (
            cells["host", component, layer] for component in ("recurrent state", "checkpoints")
        )
        assert state.held == state.planned
        assert kept.held == kept.planned
        assert state.held * CHECKPOINTS == kept.held * WORKING
    assert ("host", "recurrent state", 3) not in cells
    matrix = window.inspector.memory.matrix.rows
    titles = [matrix.headerData(i, Qt.Orientation.Horizontal) for i in range(matrix.columnCount())]
    assert {"host recurrent state", "host checkpoints"} <= set(titles)

    window.panes.show_tab("layers")
    layers = window.inspector.view(LayersView)
    assert layers.isVisible()
    person.wait(lambda: bench.layers.answer is not None)
    assert [words[:1] for words in bench.layers.answer.labels[:4]] == [
        *(["recurrent"],) * 3,
        ["global"],
    ]

    window.panes.show_tab("tensors")
    view = window.inspector.view(TensorsView)
    view.kinds.setCurrentIndex(KINDS.index("Cache"))
    bench.chat.details.set_sampling(Sampling(temperature=0))
    bench.chat.details.set_limits(AnswerLimits(max_tokens=8))
    for text in ("Hello there", "And more"):
        assert bench.chat.send(text)
        person.wait(lambda: not bench.chat.busy)
    titles = [view.cells.which.itemText(i) for i in range(view.cells.which.count())]
    assert titles == ["whole context, 1 layer", "recurrent states, 3 layers"]
    view.cells.which.setCurrentIndex(1)
    person.wait(lambda: "of them checkpoints" in view.cells.caption.text())
    assert view.cells.caption.text().startswith("6 slots, ")
    assert not view.cells.caption.text().endswith("6 free")
