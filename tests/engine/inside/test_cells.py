"""The caches' cells as they are told: in use, shared and free."""

from contextlib import closing
from pathlib import Path

import numpy as np
import pytest

from engine.inside import live
from engine.inside.live import LiveWatch
from engine.protocol import CellsRead, Generate, Live, Load, ReadCells, Sampling
from engine.runner.generate import generate
from engine.runner.loading import load_model
from engine.runner.sequence import Sequenced
from engine.settings import EngineOptions
from engine.worker import Worker
from tests.goldens.tiny import write_tiny


def test_cells_of_two_caches(worker: Worker, tmp_path: Path) -> None:
    """Before and after an answer, of a model with local and global layers."""
    path = write_tiny(tmp_path / "tiny.gguf", "gemma3")
    worker.get(Load(worker.new_id(), str(path), EngineOptions(device="host", ctx=64)))
    empty = worker.get(ReadCells(worker.new_id())).caches
    assert sorted(layer for cache in empty for layer in cache.layers) == list(range(7))
    assert [cache.window for cache in empty] == [8, None]
    assert all(not any(cache.bits) for cache in empty)
    sampling = Sampling(temperature=0, frequency_penalty=-100)
    asked = Generate(worker.new_id(), prompt="abc", sampling=sampling, max_tokens=5)
    stats = worker.get(asked).stats
    for cache in worker.get(ReadCells(worker.new_id())).caches:
        bits, positions = (np.frombuffer(x, "<i4") for x in (cache.bits, cache.positions))
        used = bits != 0
        assert sorted(positions[used]) == list(range(stats.n_context))
        assert set(bits[used]) == {1}
        assert set(positions[~used]) == {-1}


def test_cells_while_an_answer_is_written(tiny_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """One more with each token, where somebody looks; else nothing is told."""
    monkeypatch.setattr(live, "CELLS_EVERY", 0.0)
    sampling = Sampling(temperature=0, frequency_penalty=-100)
    with closing(load_model(tiny_path, EngineOptions(device="host", ctx=64))) as model:
        for wanted in (Live(cells=True), Live()):
            sequence = Sequenced(model.stepper)
            asked = Generate(1, prompt="abc", sampling=sampling, max_tokens=6)
            watch = LiveWatch(1, sequence, False, lambda wanted=wanted: wanted)
            replies = list(generate(model, sequence, asked, lambda: False, watch))
            watch.close()
            sequence.reuse(())
            told = [reply.caches[0] for reply in replies if isinstance(reply, CellsRead)]
            used = [int((np.frombuffer(cache.bits, "<i4") != 0).sum()) for cache in told]
            if wanted.cells:
                assert len(used) >= 4
                steps = np.diff(used)
                assert set(steps[:-1]) == {1}, "a cell for each token"
            else:
                assert not used
