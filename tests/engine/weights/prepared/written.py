"""Buffers of the host as files of a folder of the test's."""

from collections.abc import Iterator, Mapping
from pathlib import Path

import numpy as np
import pytest

from engine import kept
from engine.backends.host.backend import HostBackend
from engine.device.backend import Buffer, BufferType, Component, Owner
from engine.kept import prepared_files, prepared_folder
from engine.weights.prepared.file import PAGE, START, PreparedFile
from engine.weights.prepared.store import GB
from engine.weights.prepared.writing import write

SIZES = {"a": 3 * PAGE + 5, "b": START + 1, "c": START}


@pytest.fixture(autouse=True)
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setattr(kept, "cache_folder", lambda: tmp_path / "cache")
    return tmp_path / "cache"


@pytest.fixture
def path() -> Path:
    return prepared_folder() / "model-auto-1.weights"


@pytest.fixture(scope="module")
def buffers() -> Iterator[Mapping[str, Buffer]]:
    host, random = HostBackend(), np.random.default_rng(1)
    kind = BufferType("host", "plain", 1, 1 << 40, is_host=True)
    made = {}
    for name, size in SIZES.items():
        made[name] = host.allocate(kind, size, Owner(Component.WEIGHTS))
        made[name].write(0, random.integers(0, 256, size, np.uint8))
    yield made
    for buffer in made.values():
        buffer.free()


def written(
    path: Path, buffers: Mapping[str, Buffer], most: int = GB, unchanged: bool = True
) -> None:
    for _ in write(path, buffers, most, lambda: unchanged):
        pass


def holds(path: Path, buffers: Mapping[str, Buffer]) -> None:
    found = PreparedFile(path)
    assert found.entries.keys() == buffers.keys()
    for name, buffer in buffers.items():
        data = found.data(found.entries[name])
        np.testing.assert_array_equal(data, buffer.view(0, buffer.size))
        assert data.ctypes.data % PAGE == 0
        assert not data.flags.writeable
        assert sum(found.read_in(found.entries[name])) == buffer.size


def names() -> list[str]:
    return sorted(one.path.name for one in prepared_files())
