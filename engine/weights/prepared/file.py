"""A file of buffers' bytes, which is mapped and given to devices as it is.

    MAGIC · length of the list, 4 bytes · SHA-256 of it · the list as JSON
    from START on, each from a multiple of it: the bytes of a buffer

Written in pieces of START bytes at multiples of that, the file lies in large pages where the system
has such: mapping it costs next to nothing, and kernels read it as quickly as memory of their own.

It is our own file in a folder of our own, and is never changed once it has its name: whoever cut it
while it is mapped would end this process (SIGBUS), as with the model's file itself.
"""

import mmap
import os
import stat
from collections.abc import Iterator, Sequence
from contextlib import suppress
from hashlib import sha256
from pathlib import Path
from zlib import crc32

import msgspec
import numpy as np

from engine.device.backend import Bytes
from engine.errors import BadFile
from engine.system import advise, open_to_read, read_at, user

MAGIC = b"CutawayWeights2\n"
START = 2 << 20
PIECE = START
"""Bytes that are written, or checked, at once: a large page, if the system has such for files."""
PAGE = 4096
READ = 16 << 20
"""Bytes that are read in at once: a cancelled load waits for them."""
_HEAD = len(MAGIC) + 4 + 32


class Entry(msgspec.Struct, frozen=True):
    """The bytes of a buffer. `key` says what they are, `ends` is `ends_of` them, `sum` the sum of
    their pieces by `add_piece`.
    """

    key: str
    start: int
    size: int
    ends: int
    sum: int = 0


def ends_of(data: Bytes) -> int:
    """A checksum of the first and the last page: what was not written to its end has another."""
    return crc32(data[-PAGE:].data, crc32(data[:PAGE].data))


def add_piece(total: int, piece: Bytes) -> int:
    """The checksum of pieces, of `total` before this one: as quick as memory is read.

    Within a piece, words of 8 bytes are added and combined by exclusive or, so that a changed bit
    and a page of anything else show; pieces count in their order.
    """
    whole = piece[: piece.size // 8 * 8].view(np.uint64)
    rest = int.from_bytes(piece[whole.size * 8 :].tobytes(), "little")
    sums = int(np.add.reduce(whole, dtype=np.uint64)) + 3 * int(np.bitwise_xor.reduce(whole))
    return (31 * total + sums + rest) % (1 << 63)


def head_of(entries: Sequence[Entry]) -> bytes:
    """The file's header. Raises `ValueError` where it holds too many buffers."""
    text = msgspec.json.encode(entries)
    if _HEAD + len(text) > START:
        raise ValueError(f"{len(entries)} buffers are more than a file's list holds")
    return MAGIC + len(text).to_bytes(4, "little") + sha256(text).digest() + text


def after(start: int, size: int) -> int:
    """Where the next buffer begins."""
    return -(-(start + size) // START) * START


class PreparedFile:
    """A mapped file. What was found in it stays there while somebody holds it."""

    def __init__(self, path: Path, used: bool = True) -> None:
        """`used` marks it as used now. Raises `OSError`, and `BadFile` for one that is not as it
        was written.
        """
        self.path = path
        handle = open_to_read(path, follow=False)
        try:
            status = os.fstat(handle)
            if not stat.S_ISREG(status.st_mode) or status.st_uid != user():
                raise BadFile(path, "not a file of this user")
            head = bytearray(START)
            read = read_at(handle, memoryview(head), 0)
            entries = _entries(path, bytes(head[:read]), status.st_size)
            self._map = mmap.mmap(handle, status.st_size, access=mmap.ACCESS_READ)
            with suppress(OSError):
                if used:
                    os.utime(handle)  # when it was used last
        finally:
            os.close(handle)
        with suppress(OSError):
            advise(self._map, "HUGEPAGE")
        self._bytes = np.frombuffer(self._map, np.uint8)
        self.entries = {entry.key: entry for entry in entries}
        for entry in entries:
            if ends_of(self.data(entry)) != entry.ends:
                raise BadFile(path, "it holds other bytes than were written")

    def data(self, entry: Entry) -> Bytes:
        """The bytes of a buffer, read-only."""
        return self._bytes[entry.start : entry.start + entry.size]

    def check(self, entry: Entry) -> Iterator[None]:
        """Read all bytes of a buffer, a piece between two yields. Raises `BadFile` where they are
        not those that were written.
        """
        data, total = self.data(entry), 0
        for at in range(0, entry.size, PIECE):
            yield
            total = add_piece(total, data[at : at + PIECE])
        if total != entry.sum:
            raise BadFile(
                self.path, f"its bytes {entry.start} to {entry.start + entry.size} are damaged"
            )

    def read_in(self, entry: Entry) -> Iterator[int]:
        """Bring a buffer's bytes into memory. Yields how many there are since the last time."""
        for start in range(0, entry.size, READ):
            size = min(READ, entry.size - start)
            with suppress(OSError):  # where that is unknown, they come as they are touched
                advise(self._map, "POPULATE_READ", entry.start + start, size)
            yield size


def _entries(path: Path, head: bytes, size: int) -> list[Entry]:
    """The list at the head of a file of `size` bytes. Raises `BadFile`."""
    length = int.from_bytes(head[len(MAGIC) : len(MAGIC) + 4], "little")
    text = head[_HEAD : _HEAD + length]
    if not head.startswith(MAGIC) or head[_HEAD - 32 : _HEAD] != sha256(text).digest():
        raise BadFile(path, "not a file of prepared weights")
    try:
        entries = msgspec.json.decode(text, type=list[Entry])
    except msgspec.MsgspecError as error:
        raise BadFile(path, f"its list cannot be read: {error}") from None
    for entry in entries:
        begins = entry.start >= START and entry.start % START == 0
        if not (begins and 0 < entry.size <= size - entry.start):
            raise BadFile(path, f"{entry.size} bytes from {entry.start} on are outside its {size}")
    return entries
