"""Cells of a cache, counted; told during an answer, and when it ends."""

from pathlib import Path

import numpy as np
import pytest

from app.state.tensors.cells import cache_use
from app.state.workbench import Workbench
from engine.protocol import CacheCells, CellsRead, Generate, Live, Look, ReadCells
from tests.app.helpers.scripted import ScriptedEngine


def cells(bits: list[int], positions: list[int], window: int | None = None) -> CacheCells:
    raw = [np.array(numbers, "<i4").tobytes() for numbers in (bits, positions)]
    return CacheCells(window, None, [0, 1], *raw)


@pytest.mark.smoke
def test_cells_are_counted_by_how_many_sequences_are_in_them() -> None:
    use = cache_use(cells([1, 3, 0, 1 << 30 | 1, -(1 << 31), 0], [4, 5, -1, 6, 9, -1], 512))
    assert use.sequences.tolist() == [1, 2, 0, 2, 1, 0]
    assert (use.size, use.used, use.shared, use.free) == (6, 4, 2, 2)
    assert use.reach == (4, 9)
    assert use.title == "window 512, 2 layers"
    assert cache_use(cells([0, 0], [-1, -1])).reach is None


def test_they_are_read_again_when_an_answer_ends(
    qapp: object, tmp_path: Path, tiny_path: Path
) -> None:
    engine = ScriptedEngine()
    bench = Workbench(engine, tmp_path / "config", tmp_path / "data")
    engine.deliver = bench.client.drain

    def n_asked() -> int:
        return sum(isinstance(request, ReadCells) for request in engine.asked)

    bench.open_model(tiny_path)
    engine.load_done()
    assert n_asked() == 0  # nobody looks
    bench.cells.shown(True)
    assert n_asked() == 1
    engine.answer(ReadCells, [cells([0, 0], [-1, -1])])
    assert bench.cells.caches[0].free == 2
    assert bench.chat.send("Hello")
    assert n_asked() == 1
    asked = engine.last_of(Generate)
    assert isinstance(asked, Generate)
    assert asked.live.cells
    engine.write("Hi")
    engine.say(CellsRead(asked.id, [cells([1, 0], [0, -1])]))
    assert bench.cells.caches[0].used == 1, "while it is written"
    bench.cells.shown(False)
    assert engine.last == Look(asked.id, Live())
    bench.cells.shown(True)
    engine.end()
    assert n_asked() == 2
    engine.answer(ReadCells, [cells([1, 1], [0, 1])])
    assert bench.cells.caches[0].used == 2
    bench.session.unload()
    assert bench.cells.caches == []
    engine.say(CellsRead(0, [cells([1, 0], [0, -1])]))
    assert bench.cells.caches == [], "too late"
    bench.close()
