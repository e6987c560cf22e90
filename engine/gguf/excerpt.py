"""Parts of a model's file that was not fetched whole: enough to plan with, not to compute with.

Layout: the parts one after another, then a table of them (start and length in the whole file), the
whole file's size, the number of parts, and a mark. The first part begins at 0 and holds the header.
Whatever is not in a part cannot be read: there are no zeros in its place.
"""

import struct
from collections.abc import Sequence
from typing import NamedTuple

MARK = b"\0cutaway-excerpt"
MOST_PARTS = 64
_PART = struct.Struct("<QQ")
_END = struct.Struct(f"<QQ{len(MARK)}s")


class Excerpt(NamedTuple):
    """The whole file's size, and (start, length, position here) of each part."""

    size: int
    parts: tuple[tuple[int, int, int], ...]

    def find(self, start: int, length: int) -> int | None:
        """Where these bytes of the whole file lie in the excerpt; None for bytes it lacks."""
        for first, size, at in self.parts:
            if first <= start and start + length <= first + size:
                return at + start - first
        return None


def pack(size: int, parts: Sequence[tuple[int, bytes]]) -> bytes:
    """The content of an excerpt of a file of `size` bytes; `parts` are starts and bytes."""
    table = b"".join(_PART.pack(start, len(content)) for start, content in parts)
    content = b"".join(content for _, content in parts)
    return content + table + _END.pack(size, len(parts), MARK)


def excerpt_of(data: memoryview) -> Excerpt | None:
    """The table of an excerpt; None for any other file."""
    if len(data) < _END.size:
        return None
    size, count, mark = _END.unpack(data[-_END.size :])
    table = len(data) - _END.size - count * _PART.size
    if mark != MARK or not 1 <= count <= MOST_PARTS or table < 0:
        return None
    parts, at = [], 0
    for start, length in _PART.iter_unpack(data[table : -_END.size]):
        if start + length > size:
            return None
        parts.append((start, length, at))
        at += length
    return Excerpt(size, tuple(parts)) if at == table and parts[0][0] == 0 else None
