"""The caches' cells as they are told: in use, shared and free."""

from pathlib import Path

import numpy as np

from engine.protocol import Generate, Load, ReadCells, Sampling
from engine.settings import EngineOptions
from engine.worker import Worker
from tests.goldens.tiny import write_tiny


def test_cells_of_two_caches(tmp_path: Path) -> None:
    """Before and after an answer, of a model with local and global layers."""
    path = write_tiny(tmp_path / "tiny.gguf", "gemma3")
    with Worker() as worker:
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
