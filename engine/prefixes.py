"""Files of kept prefixes: parts of a KV cache on the disk, found again by the tokens before them.

    MAGIC · length of the header, 4 bytes · SHA-256 of it · the header as JSON
    from the next multiple of ALIGNMENT on, each from one: the rows of a part

A block, `NAME.kv`, has the cells of BLOCK items. Its name is a hash of all items up to its end and
of the model, so that equal names are equal cells. A tail, `NAME.REST.CHAT.tail`, has what follows
the block NAME up to a point of a chat. It is written after its blocks, and is of use only with
them. Items are a chat's text: folder and files are for this user alone.
"""

import os
import stat
from collections import Counter, defaultdict
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from hashlib import sha256
from pathlib import Path
from typing import NamedTuple
from zlib import crc32

import msgspec
import numpy as np

from engine.kept import DIGEST, KeptFile, files_in, free_on_disk, new_file, remove, remove_parts
from engine.settings import AUTOMATIC, cache_folder
from engine.system import open_to_read, read_at, user, write_at
from engine.units import GB

BLOCK = 256
"""Items of a block."""
MAGIC = b"CutawayPrefix1\n"
ALIGNMENT = 4096
PIECE = 2 << 20
"""Bytes that are written at once."""
MOST_AUTOMATIC = 20 * GB
SPARE = GB
"""What stays free on the disk."""
BLOCKS, TAILS = ".kv", ".tail"
LONGEST_HEAD = 64 << 20
OTHER_BYTES = "it holds other bytes than were written"
_START = len(MAGIC) + 4 + DIGEST
_NOTHING_WAITS: Callable[[], None] = lambda: None  # noqa: E731


class Part(msgspec.Struct, frozen=True):
    """Rows of one tensor: `size` bytes from `start` of the body on, and their CRC-32."""

    key: str
    start: int
    size: int
    sum: int = 0


class Head(msgspec.Struct, frozen=True):
    """A file's header. `items` are tokens, or names of rows of pictures: a block's, or a tail's
    behind its `blocks`. In a tail, `firsts` are the positions at which the cells of each cache
    begin, `rows` are the positions of cells of pictures that layers look at, and `pictures` those
    of all pictures.
    """

    items: list[int | str]
    parts: list[Part]
    blocks: list[str] = []
    firsts: list[int] = []
    rows: list[int] = []
    pictures: list[int] = []


class Saved(NamedTuple):
    """A file's content."""

    head: Head
    body: memoryview

    def part(self, key: str, size: int) -> memoryview | None:
        """The bytes of a part; None where it has no such part of that size."""
        for one in self.head.parts:
            if one.key == key and one.size == size:
                return self.body[one.start : one.start + one.size]
        return None


def aligned(size: int) -> int:
    """`size` up to a multiple of ALIGNMENT."""
    return -(-size // ALIGNMENT) * ALIGNMENT


def folder() -> Path:
    """The folder of all kept prefixes."""
    return cache_folder() / "prefixes"


def file_of(name: str) -> Path:
    """The file of a block or a tail."""
    return folder() / (name if name.endswith(TAILS) else f"{name}{BLOCKS}")


def tail_name(block: str, items: Sequence[int | str], chat: str) -> str:
    """The name of a tail behind a block, for these items of a chat."""
    rest = sha256(msgspec.json.encode(list(items))).hexdigest()[:16]
    return f"{block}.{rest}.{chat_name(chat)}{TAILS}"


def chat_name(chat: str) -> str:
    """The part of a tail's name that says which chat it is of."""
    return sha256(chat.encode(errors="replace")).hexdigest()[:16]


def limit(wanted: int | None) -> int:
    """The most bytes of the folder: `wanted` is in GB, AUTOMATIC for a tenth of what is free."""
    if wanted != AUTOMATIC:
        return (wanted or 0) * GB
    kept = sum(one.size for one in kept_prefixes())
    return min(MOST_AUTOMATIC, (free_on_disk(folder()) + kept) // 10)


def kept_prefixes() -> list[KeptFile]:
    """All files of the folder, the longest unused first."""
    return files_in(folder())


def delete_prefixes() -> None:
    """Delete all of them. Raises `OSError`."""
    for one in kept_prefixes():
        one.path.unlink(missing_ok=True)


def forget_chat(chat: str) -> None:
    """Delete what was kept of a chat, but for blocks that another chat begins with, too."""
    gone = tails_of(chat)
    blocks = [block for path in gone for block in blocks_of(path)]
    for path in gone:
        remove(path)
    named = {block for path in folder().glob(f"*{TAILS}") for block in blocks_of(path)}
    for block in blocks:
        if block not in named:
            remove(folder() / f"{block}{BLOCKS}")


def tails_of(chat: str) -> list[Path]:
    """The tails of a chat."""
    return list(folder().glob(f"*.{chat_name(chat)}{TAILS}"))


def keep_within(most: int, needed: Collection[str] = ()) -> int:
    """Delete blocks that no tail names, then tails that were unused longest with what only they
    name, until the rest is no more than that; no blocks that are `needed`, as their tail is still
    to be written. Returns the bytes of the rest.
    """
    kept = kept_prefixes()
    sizes = {one.path.name: one.size for one in kept}
    size = sum(sizes.values())
    tails = {one.path: blocks_of(one.path) for one in kept if one.path.suffix == TAILS}
    named = Counter(block for blocks in (*tails.values(), needed) for block in blocks)

    def drop(name: str) -> None:
        nonlocal size
        remove(folder() / name)
        size -= sizes.pop(name, 0)

    for one in kept:
        if size > most and one.path.suffix == BLOCKS and not named[one.path.stem]:
            drop(one.path.name)
    for path, blocks in tails.items():
        if size <= most:
            break
        drop(path.name)
        named.subtract(blocks)
        for block in reversed(blocks):
            if size > most and not named[block]:
                drop(f"{block}{BLOCKS}")
    return size


def blocks_of(tail: Path) -> list[str]:
    """The names of a tail's blocks, none where it cannot be read."""
    head = read_head(tail)
    return [] if head is None else head.blocks


def tails_by_block() -> dict[str, list[Path]]:
    """All tails by the block that they follow."""
    found: defaultdict[str, list[Path]] = defaultdict(list)
    with suppress(OSError):
        for name in os.listdir(folder()):
            if name.endswith(TAILS):
                found[name.partition(".")[0]].append(folder() / name)
    return found


def write(
    path: Path,
    saved: Saved,
    most: int,
    pause: Callable[[], None] = _NOTHING_WAITS,
    needed: Collection[str] = (),
) -> bool:
    """Write a file at once or not at all, in a folder of at most so many bytes, from which others
    go first but for `needed` blocks; `pause` is called before each piece, and what it raises leaves
    no file. False where the needed ones leave no room. Raises `OSError`.
    """
    parts = [
        msgspec.structs.replace(one, sum=crc32(saved.body[one.start : one.start + one.size]))
        for one in saved.head.parts
    ]
    text = msgspec.json.encode(msgspec.structs.replace(saved.head, parts=parts))
    head = MAGIC + len(text).to_bytes(4, "little") + sha256(text).digest() + text
    head += bytes(aligned(len(head)) - len(head))
    size = len(head) + len(saved.body)
    path.parent.mkdir(parents=True, exist_ok=True)
    path.parent.chmod(0o700)
    remove_parts(path.parent)
    if size > most or free_on_disk(path.parent) < size + SPARE:
        raise OSError(None, f"{size / GB:.1f} GB do not fit", str(path))
    if keep_within(most - size, needed) > most - size:
        return False
    with new_file(path) as handle:
        _write(handle, memoryview(head), 0, pause)
        _write(handle, saved.body, len(head), pause)
    return True


def _write(handle: int, data: memoryview, to: int, pause: Callable[[], None]) -> None:
    while data:
        pause()
        done = write_at(handle, data[:PIECE], to)
        data, to = data[done:], to + done


def read_head(path: Path) -> Head | None:
    """A file's header; None where it is not as it was written, or somebody else's."""
    with suppress(OSError, ValueError), _opened(path) as (handle, size):
        head, _ = _head(handle, size)
        return head
    return None


def read(path: Path) -> Saved | None:
    """A file's content, and mark it as used; None where there is none. A damaged one is deleted."""
    try:
        with _opened(path) as (handle, size):
            head, start = _head(handle, size)
            body = np.empty(size - start, np.uint8).data
            _read(handle, body, start)
            for one in head.parts:
                if crc32(body[one.start : one.start + one.size]) != one.sum:
                    raise ValueError(OTHER_BYTES)
            with suppress(OSError):
                os.utime(handle)
    except ValueError:
        remove(path)
        return None
    except OSError:
        return None
    return Saved(head, body)


def problem_of(path: Path, report: Callable[[int, int], object] | None = None) -> str:
    """The damage of a file's header or size, "" for none; with `report`, which is called with the
    bytes done and all of them, its rows are read, too. Raises `OSError`.
    """
    try:
        with _opened(path) as (handle, size):
            head, start = _head(handle, size)
            if report is not None:
                for one in head.parts:
                    _check(handle, one, start, lambda done: report(done, size))
    except ValueError as error:
        return str(error)
    return ""


def _check(handle: int, part: Part, start: int, report: Callable[[int], object]) -> None:
    """Read a part of the body, which begins at `start`. Raises `ValueError` where its bytes are not
    those that were written.
    """
    found = 0
    for at in range(0, part.size, PIECE):
        piece = memoryview(bytearray(min(PIECE, part.size - at)))
        _read(handle, piece, start + part.start + at)
        found = crc32(piece, found)
        report(start + part.start + at)
    if found != part.sum:
        raise ValueError(OTHER_BYTES)


@contextmanager
def _opened(path: Path) -> Iterator[tuple[int, int]]:
    """Open a file of this user's alone: its handle and size. Raises `OSError`."""
    handle = open_to_read(path, follow=False)
    try:
        status = os.fstat(handle)
        if not stat.S_ISREG(status.st_mode) or status.st_uid != user():
            raise OSError(None, "not a file of this user", str(path))
        yield handle, status.st_size
    finally:
        os.close(handle)


def _head(handle: int, size: int) -> tuple[Head, int]:
    """The header of a file of `size` bytes, and where its body begins. Raises `ValueError`."""
    begin = memoryview(bytearray(_START))
    _read(handle, begin, 0)
    length = int.from_bytes(begin[len(MAGIC) : len(MAGIC) + 4], "little")
    if begin[: len(MAGIC)] != MAGIC or length > min(size, LONGEST_HEAD):
        raise ValueError("not a file of kept prefixes")
    text = memoryview(bytearray(length))
    _read(handle, text, _START)
    if sha256(text).digest() != begin[-DIGEST:]:
        raise ValueError("the checksum of its header is wrong")
    try:
        head = msgspec.json.decode(text, type=Head)
    except (msgspec.MsgspecError, RecursionError):
        raise ValueError("its header cannot be read") from None
    start = aligned(_START + length)
    end = max((one.start + one.size for one in head.parts), default=0)
    if size != start + aligned(end) or any(min(one.start, one.size) < 0 for one in head.parts):
        raise ValueError("it has another size than was written")
    return head, start


def _read(handle: int, into: memoryview, start: int) -> None:
    """Fill from byte `start` on. Raises `ValueError` where the file ends before."""
    while into:
        done = read_at(handle, into, start)
        if not done:
            raise ValueError("it was cut")
        into, start = into[done:], start + done


def parts_of(sizes: Iterable[tuple[str, int]]) -> tuple[list[Part], int]:
    """Parts one after the other, and the bytes of a body that has them."""
    parts, start = [], 0
    for key, size in sizes:
        parts.append(Part(key, start, size))
        start = aligned(start + size)
    return parts, start
