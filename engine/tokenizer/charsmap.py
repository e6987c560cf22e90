"""`tokenizer.ggml.precompiled_charsmap`: how SentencePiece replaces characters before cutting.

    u32 size | size bytes: a double array of u32 | strings, each ended by a zero byte

The double array is a trie over UTF-8 bytes (Yata et al. 2007, as in Darts-clone). In a unit bits
10 to 30 are the offset of its children (in 256s where bit 9 is set), bits 0 to 7 the byte that
leads to it, bit 8 says that a key ends there: the unit at its offset has where its text begins.
"""

import numpy as np

from engine.errors import BadFile

_LEAF = 1 << 8
_LABEL = (1 << 31) | 0xFF
_VALUE = (1 << 31) - 1


class CharsMap:
    """Replacements of the longest known beginnings."""

    def __init__(self, path: str, blob: bytes) -> None:
        size = int.from_bytes(blob[:4], "little")
        if len(blob) < 4 or size % 4 or not 4 <= size < len(blob) - 4:
            problem = f"'tokenizer.ggml.precompiled_charsmap' of {len(blob)} bytes is cut off"
            raise BadFile(path, problem)
        self._path = path
        self._units = np.frombuffer(blob, "<u4", size // 4, 4).tolist()
        self._texts = blob[4 + size :]

    def normalised(self, text: str) -> str:
        """`text` with every replacement made; what has none stays. BadFile where the map is wrong
        there.
        """
        data = text.encode()
        parts: list[bytes] = []
        at = 0
        while at < len(data):
            new, end = self._longest(data, at)
            if new is None:
                end = at + _width(data[at])
                new = data[at:end]
            parts.append(new)
            at = end
        return b"".join(parts).decode("utf-8", "replace")

    def _longest(self, data: bytes, start: int) -> tuple[bytes | None, int]:
        """Return the replacement of the longest key in `data` at `start`, and the key's end."""
        found: tuple[int | None, int] = (None, start)
        node = _offset(self._unit(0))
        for end in range(start, len(data)):
            node ^= data[end]
            unit = self._unit(node)
            if not data[end] or unit & _LABEL != data[end]:
                break
            node ^= _offset(unit)
            if unit & _LEAF:
                found = (self._unit(node) & _VALUE, end + 1)
        return (None if found[0] is None else self._text(found[0])), found[1]

    def _unit(self, index: int) -> int:
        if index >= len(self._units):
            raise self._broken(f"unit {index} of {len(self._units)}")
        unit: int = self._units[index]
        return unit

    def _text(self, start: int) -> bytes:
        end = self._texts.find(b"\0", start)
        if end < 0:
            raise self._broken(f"no text ends after {start}")
        return self._texts[start:end]

    def _broken(self, what: str) -> BadFile:
        return BadFile(self._path, f"'tokenizer.ggml.precompiled_charsmap' is broken: {what}")


def _offset(unit: int) -> int:
    return (unit >> 10) << ((unit & (1 << 9)) >> 6)


def _width(byte: int) -> int:
    """Bytes of the UTF-8 character that begins so."""
    return 1 if byte < 0xC0 else 2 if byte < 0xE0 else 3 if byte < 0xF0 else 4
