"""Files of prepared weights are bounded together, and what was left of one goes."""

import fcntl
import os
import shutil
from collections.abc import Mapping
from pathlib import Path

import pytest

from engine import kept
from engine.device.backend import Buffer
from engine.errors import BadFile, BadSetting
from engine.kept import PART, delete_prepared, prepared_files, prepared_folder
from engine.settings import EngineOptions
from engine.weights.prepared import store
from engine.weights.prepared.file import START, PreparedFile
from engine.weights.prepared.store import GB, SPARE, keep_within, limit
from engine.weights.prepared.writing import write
from tests.engine.weights.prepared.written import buffers, cache, holds, names, path, written

pytestmark = pytest.mark.only_linux("weights are prepared there alone")

__all__ = ["buffers", "cache", "path"]


def test_what_a_killed_process_left_goes_and_what_a_living_one_writes_stays(
    path: Path, buffers: Mapping[str, Buffer]
) -> None:
    prepared_folder().mkdir(parents=True)
    part = path.with_suffix(PART)
    part.write_bytes(b"half")
    other = part.with_name("other-auto-1.part")
    other.write_bytes(b"half")
    with other.open() as held:
        fcntl.flock(held, fcntl.LOCK_EX)
        written(path, buffers)
        assert names() == [path.name, other.name]
        with pytest.raises(FileExistsError):
            written(other.with_suffix(".weights"), buffers)
        assert names() == [path.name, other.name]
    written(path, buffers)
    assert names() == [path.name]


def test_two_that_write_at_once_leave_each_other_alone(
    path: Path, buffers: Mapping[str, Buffer]
) -> None:
    first, other = write(path, buffers, GB, lambda: True), path.with_name("other-auto-1.weights")
    for _ in range(3):
        next(first)
    written(other, buffers)
    assert list(first)
    holds(path, buffers)
    holds(other, buffers)


def small(name: str, used: int, size: int = 3 * START) -> Path:
    prepared_folder().mkdir(parents=True, exist_ok=True)
    path = prepared_folder() / name
    path.write_bytes(b"x" * size)
    os.utime(path, ns=(used, used))
    return path


def test_the_least_recently_used_go_first(path: Path, buffers: Mapping[str, Buffer]) -> None:
    old, new = small("old-auto-1.weights", 1), small("new-auto-1.weights", 2)
    before, vectors = small("model-auto-0.weights", 3), small("model-avx2-0.weights", 4)
    written(path, buffers, 4 * START + 9 * START)
    assert names() == sorted([path.name, new.name, vectors.name])
    assert not before.exists()  # the same model's, of another version of the packers
    with pytest.raises(BadFile, match=r"0\.0 GB would pass the limit"):
        written(path, buffers, 2 * START)
    assert names() == sorted([path.name, new.name, vectors.name])
    PreparedFile(path)
    keep_within(4 * START)
    assert names() == [path.name]
    assert not old.exists()
    delete_prepared()
    assert names() == []


def test_the_disk_keeps_something_free(
    path: Path, buffers: Mapping[str, Buffer], monkeypatch: pytest.MonkeyPatch
) -> None:
    usage = shutil.disk_usage(path.parents[2])._replace(free=SPARE + 3 * START)
    monkeypatch.setattr(kept.shutil, "disk_usage", lambda _: usage)
    with pytest.raises(BadFile, match=r"the disk has 1\.0 GB left"):
        written(path, buffers)
    assert names() == []


def test_limits(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    usage = shutil.disk_usage(tmp_path)._replace(free=100 * GB)
    monkeypatch.setattr(kept.shutil, "disk_usage", lambda _: usage)
    monkeypatch.delenv("CUTAWAY_PREPARED", raising=False)
    small("m-auto-1.weights", 1)
    size = sum(one.size for one in prepared_files())
    assert limit(EngineOptions()) == (100 * GB + size) // 4
    monkeypatch.setattr(store, "MOST", GB)
    assert limit(EngineOptions()) == GB
    monkeypatch.setenv("CUTAWAY_PREPARED", "7")
    assert [limit(EngineOptions(prepared=n)) for n in (None, 3, 0)] == [7 * GB, 3 * GB, 0]
    monkeypatch.setenv("CUTAWAY_PREPARED", "-1")
    with pytest.raises(BadSetting, match="a whole number of GB"):
        limit(EngineOptions())
