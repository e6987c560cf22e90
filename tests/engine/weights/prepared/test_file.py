"""Files of prepared weights: whole or not there, bounded together, and no wrong one is used."""

import errno
import fcntl
import os
import shutil
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path

import numpy as np
import pytest

from engine import kept
from engine.backends.base import Buffer, BufferType, Component, Owner
from engine.backends.host.backend import HostBackend
from engine.errors import BadFile, BadSetting, CutawayError, NotSupported
from engine.kept import delete_prepared, prepared_files, prepared_folder
from engine.settings import EngineOptions
from engine.weights.prepared import file as format_
from engine.weights.prepared import store
from engine.weights.prepared.file import MAGIC, PAGE, START, Entry, PreparedFile, head_of
from engine.weights.prepared.store import GB, PART, SPARE, keep_within, limit
from engine.weights.prepared.writing import write
from tests.engine.runner.failing import fail, n_steps

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


def test_what_was_written_is_there(path: Path, buffers: Mapping[str, Buffer]) -> None:
    written(path, buffers)
    holds(path, buffers)
    assert names() == [path.name]
    assert (path.stat().st_mode & 0o777, path.parent.stat().st_mode & 0o777) == (0o600, 0o700)


@pytest.mark.parametrize("trials", [12, pytest.param(400, marks=pytest.mark.full)])
def test_whatever_fails_leaves_the_whole_file_or_none(
    path: Path, buffers: Mapping[str, Buffer], trials: int
) -> None:
    steps = n_steps(lambda: written(path, buffers))
    for trial in range(trials):
        error: BaseException = (OSError(errno.ENOSPC, "No space"), MemoryError())[trial % 2]
        fail(lambda: written(path, buffers), 1 + steps * trial // trials, error)
        if path.exists():
            holds(path, buffers)
        assert names() in ([], [path.name]), trial
    written(path, buffers)
    holds(path, buffers)


def test_a_full_disk_a_changed_model_and_an_early_end_leave_nothing(
    path: Path, buffers: Mapping[str, Buffer], monkeypatch: pytest.MonkeyPatch
) -> None:
    with pytest.raises(BadFile, match="was changed"):
        written(path, buffers, unchanged=False)
    assert names() == []
    pieces = write(path, buffers, GB, lambda: True)
    next(pieces)
    assert names() == []
    next(pieces)
    next(pieces)
    assert names() == [path.with_suffix(PART).name]
    pieces.close()
    assert names() == []
    freed = {**buffers, "b": Freed()}
    with pytest.raises(NotSupported):
        written(path, freed)
    assert names() == []

    def full(handle: int, data: memoryview, to: int) -> int:
        if to:
            raise OSError(errno.ENOSPC, "No space left on device")
        return len(data)

    monkeypatch.setattr(os, "pwrite", full)
    with pytest.raises(OSError, match="No space left"):
        written(path, buffers)
    assert names() == []


class Freed:
    """Stands for a buffer that was freed while others were written."""

    size = START

    def view(self, offset: int, size: int) -> None:
        raise NotSupported("touching the memory of intel:0")


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
    monkeypatch.setattr(store.shutil, "disk_usage", lambda _: usage)
    with pytest.raises(BadFile, match=r"the disk has 1\.0 GB left"):
        written(path, buffers)
    assert names() == []


def test_limits(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    usage = shutil.disk_usage(tmp_path)._replace(free=100 * GB)
    monkeypatch.setattr(store.shutil, "disk_usage", lambda _: usage)
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


Change = Callable[[bytearray], object]


def with_list(*entries: Entry) -> Change:
    def change(data: bytearray) -> None:
        head = head_of(entries)
        data[: len(head)] = head

    return change


def put(at: int, value: bytes) -> Change:
    def change(data: bytearray) -> None:
        data[at : at + len(value)] = value

    return change


def cut(size: int) -> Change:
    def change(data: bytearray) -> None:
        del data[size:]

    return change


HOSTILE: dict[str, Change] = {
    "empty": cut(0),
    "cut in the head": cut(len(MAGIC) + 10),
    "cut in the list": cut(len(MAGIC) + 50),
    "cut in the buffers": cut(3 * START),
    "another format": put(0, b"GGUF"),
    "a length without end": put(len(MAGIC), b"\xff\xff\xff\xff"),
    "a list that was changed": lambda data: data.__setitem__(data.index(b'"key":"c"') + 7, 0x64),
    "a list that is none": put(len(MAGIC) + 40, b"["),
    "a start before the first": with_list(Entry("a", 0, 10, 0)),
    "a start below zero": with_list(Entry("a", -START, 10, 0)),
    "a start between pages": with_list(Entry("a", START + 1, 10, 0)),
    "a size of nothing": with_list(Entry("a", START, 0, 0)),
    "a size behind the end": with_list(Entry("a", START, 1 << 62, 0)),
    "numbers that are too large": with_list(Entry("a", 1 << 63, START, 0)),
    "a first page that was changed": put(START + 9, b"\0\0\0\0"),
    "a last page that was changed": put(3 * START - 9, b"\0\0\0\0"),
}


@pytest.mark.parametrize("change", HOSTILE.values(), ids=HOSTILE)
def test_a_wrong_file_is_refused_and_replaced(
    path: Path, buffers: Mapping[str, Buffer], change: Change
) -> None:
    written(path, {"c": buffers["c"], "b": buffers["b"]})
    data = bytearray(path.read_bytes())
    change(data)
    path.unlink()
    path.write_bytes(data)
    with pytest.raises(BadFile) as refused:
        PreparedFile(path)
    assert isinstance(refused.value, CutawayError)
    written(path, buffers)
    holds(path, buffers)


def test_links_and_folders_are_not_followed(path: Path, buffers: Mapping[str, Buffer]) -> None:
    written(path, buffers)
    moved = path.rename(path.with_name("elsewhere"))
    path.symlink_to(moved)
    with pytest.raises(OSError, match="symbolic links"):
        PreparedFile(path)
    path.unlink()
    path.mkdir()
    with pytest.raises((OSError, BadFile)):
        PreparedFile(path)


def test_lists_that_do_not_fit_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(format_, "START", 100)
    with pytest.raises(ValueError, match="1 buffers"):
        head_of([Entry("k" * 64, START, 1, 1)])
