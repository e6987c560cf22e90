"""A file of prepared weights is whole or not there, and no wrong one is used."""

import errno
import os
from collections.abc import Callable, Mapping
from pathlib import Path

import numpy as np
import pytest

from engine.device.backend import Buffer
from engine.errors import BadFile, CutawayError, NotSupported
from engine.kept import PART
from engine.weights.prepared import file as format_
from engine.weights.prepared.file import MAGIC, START, Entry, PreparedFile, add_piece, head_of
from engine.weights.prepared.store import GB
from engine.weights.prepared.writing import write
from tests.engine.runner.failing import fail, n_steps
from tests.engine.weights.prepared.written import buffers, cache, holds, names, path, written

pytestmark = pytest.mark.only_linux("weights are prepared there alone")

__all__ = ["buffers", "cache", "path"]


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


DAMAGES: dict[str, Change] = {
    "one bit": lambda data: data.__setitem__(START + 70_000, data[START + 70_000] ^ 1),
    "a page of noise": put(START + 9 * 4096, os.urandom(4096)),
    "a page of zeros": put(START + 9 * 4096, bytes(4096)),
    "64 KiB of noise": put(START + 65536, os.urandom(65536)),
}
"""In the middle of a buffer, where opening the file does not look."""


@pytest.mark.parametrize("change", DAMAGES.values(), ids=DAMAGES)
def test_damage_in_the_middle_is_found(
    path: Path, buffers: Mapping[str, Buffer], change: Change
) -> None:
    written(path, {"b": buffers["b"]})
    whole = PreparedFile(path)
    (entry,) = whole.entries.values()
    for _ in whole.check(entry):
        pass
    data = bytearray(path.read_bytes())
    change(data)
    path.unlink()
    path.write_bytes(data)
    damaged = PreparedFile(path)  # its head and the ends of its buffers are whole
    with pytest.raises(BadFile, match="are damaged"):
        for _ in damaged.check(entry):
            pass


def test_pieces_count_in_their_order() -> None:
    one, two = (np.full(64, n, np.uint8) for n in (1, 2))
    assert add_piece(add_piece(0, one), two) != add_piece(add_piece(0, two), one)
    odd = np.arange(13, dtype=np.uint8)
    assert add_piece(0, odd) != add_piece(0, odd[:12])
