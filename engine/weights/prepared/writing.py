"""Weights that lie on devices go into a file, in pieces between which others have their turn."""

from collections.abc import Callable, Generator, Mapping
from pathlib import Path

import psutil

from engine.device.backend import Buffer
from engine.errors import BadFile
from engine.kept import new_file
from engine.system import drop_cached, sync_data, write_at
from engine.weights.prepared.file import (
    PIECE,
    START,
    Entry,
    add_piece,
    after,
    ends_of,
    head_of,
)
from engine.weights.prepared.store import make_room

SYNC = 64 << 20
"""Bytes that wait for the disk at most: what others write waits behind them."""


def write(
    path: Path, buffers: Mapping[str, Buffer], most: int, unchanged: Callable[[], bool]
) -> Generator[None, None, None]:
    """Make the file of these buffers, by their keys, where `most` bytes are allowed to all files.
    Yields before it begins and before each piece. What is closed early, or fails, leaves no file;
    so does a model that is not `unchanged` in the end. A buffer may be freed meanwhile, that ends
    it too.

    Raises `OSError`, `BadFile`, `NotSupported`.
    """
    size = after(START, sum(after(0, buffer.size) for buffer in buffers.values()))
    yield
    make_room(path, size, most)
    keeps_pages = psutil.virtual_memory().available > size  # else other files' are pushed out
    with new_file(path) as handle:
        entries: list[Entry] = []
        start, waiting = START, 0
        for key, buffer in buffers.items():
            ends = ends_of(buffer.view(0, buffer.size))
            total = 0
            for at in range(0, buffer.size, PIECE):
                yield
                size, total = _copy(handle, buffer, at, start + at, total)
                waiting += size
                if waiting >= SYNC:
                    sync_data(handle)
                    waiting = 0
                    if not keeps_pages:
                        drop_cached(handle)
            entries.append(Entry(key, start, buffer.size, ends, total))
            start = after(start, buffer.size)
        _write(handle, memoryview(head_of(entries)), 0)
        if not unchanged():
            raise BadFile(path, "the model's file was changed since it was opened")


def _copy(handle: int, buffer: Buffer, at: int, to: int, total: int) -> tuple[int, int]:
    """Write a piece of a buffer, and return its size and the checksum up to its end. No view of it
    is left, so that the buffer can be freed.
    """
    piece = buffer.view(at, min(PIECE, buffer.size - at))
    _write(handle, piece.data, to)
    return piece.size, add_piece(total, piece)


def _write(handle: int, data: memoryview, to: int) -> None:
    while data:
        done = write_at(handle, data, to)
        data, to = data[done:], to + done
