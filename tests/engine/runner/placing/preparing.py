"""Models of a test that keep their weights prepared in a folder of the test's."""

from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from threading import Event

import numpy as np
import pytest
from gguf import GGMLQuantizationType as Kind
from numpy.typing import NDArray

from engine import kept
from engine.backends.opencl import buffers
from engine.backends.opencl.drivers.loader import cl
from engine.memory.pools import system_pool
from engine.runner.loading import LoadedModel, load_model
from engine.settings import EngineOptions
from engine.worker.keeping import Keeping
from tests.engine.runner.memory import foreseen, held, two_devices
from tests.goldens.tiny import write_tiny

KINDS = {"ffn_": Kind.Q8_0, "attn": Kind.Q4_0}
TOKENS = [5, 9, 200, 31, 77, 12]


@pytest.fixture(autouse=True)
def own_files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """In a folder of the test's, small buffers too; and nothing is left in the pools."""
    monkeypatch.setattr(kept, "cache_folder", lambda: tmp_path / "cache")
    monkeypatch.setattr(buffers, "LARGE", 1)
    before = dict(system_pool().taken)
    yield
    assert system_pool().taken == before


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return write_tiny(tmp_path / "m.gguf", "llama", KINDS)


def options(device: str) -> EngineOptions:
    return EngineOptions(device=device, ctx=64, prepared=1)


def logits(model: LoadedModel) -> NDArray[np.float32]:
    return np.array(model.stepper.step(TOKENS, 0, [len(TOKENS) - 1]))


def keep(model: LoadedModel) -> str:
    """Write what it holds; why not."""
    keeping = Keeping(model, Event())
    assert keeping.has_ended(60)
    return keeping.problem


def opened(path: Path, wanted: EngineOptions) -> tuple[int, int, NDArray[np.float32], list[str]]:
    """Its bytes that were prepared, all of its weights', its logits, and what is said of it."""
    with closing(load_model(path, wanted)) as model:
        assert held(model.dry) == foreseen(model.dry)
        size = sum(one.size for one in model.dry.weights)
        return model.room.prepared.size, size, logits(model), model.room.prepared.report()


def refusal(code: int, call: str) -> cl.Error:
    """What a driver's call raises when it returns this code."""
    kind = cl.MemoryError if code in buffers.OUT_OF_MEMORY else cl.RuntimeError
    error: cl.Error = kind(cl._cl._ErrorRecord(msg="", code=code, routine=call))
    return error


@pytest.fixture
def device() -> str:
    return two_devices()[0]
