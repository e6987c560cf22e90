"""Many strings in little memory: UTF-8 in one piece, and a table by hash to find them in."""

from array import array
from collections.abc import Iterable, Sequence
from functools import lru_cache
from itertools import pairwise
from typing import Self, overload

import numpy as np
from numpy.typing import NDArray

from engine.gguf.values import Array

# Merging requests the same few thousand pairs over and over.
_KEPT = 1 << 12


class Strings(Sequence[str]):
    """The strings of a vocabulary, some 20 bytes each where Python's take 200, decoded on use.

    `find` gives the last of equal strings, or with `first` the first one.
    """

    def __init__(self, data: bytes, bounds: NDArray[np.int64], first: bool = False) -> None:
        """String i is data[bounds[i] : bounds[i + 1]]; bytes that are not UTF-8 become U+FFFD."""
        if not _is_utf8(data, bounds):
            texts = [data[a:b].decode("utf-8", "replace") for a, b in pairwise(bounds.tolist())]
            data, bounds = _joined(texts)
        self.data = data
        self.bounds = _compact(bounds)
        self._first = first
        self._buckets: array[int] | None = None
        self.find = lru_cache(_KEPT)(self._find)

    @classmethod
    def read(cls, array: Array, first: bool = False) -> Self:
        """The strings of a file. BadFile for an array of another type."""
        return cls(*array.joined(), first)

    @classmethod
    def of(cls, texts: Iterable[str], first: bool = False) -> Self:
        """These strings."""
        return cls(*_joined(texts), first)

    def __len__(self) -> int:
        return len(self.bounds) - 1

    @overload
    def __getitem__(self, index: int) -> str: ...
    @overload
    def __getitem__(self, index: slice) -> list[str]: ...
    def __getitem__(self, index: int | slice) -> str | list[str]:
        chosen = range(len(self))[index]
        return self._text(chosen) if isinstance(chosen, int) else [self._text(i) for i in chosen]

    def __contains__(self, text: object) -> bool:
        return isinstance(text, str) and self.find(text) is not None

    def holding(self, part: str) -> list[str]:
        """The strings that have `part` elsewhere than at their start."""
        key, data = part.encode(), np.frombuffer(self.data, np.uint8)
        n = max(0, data.size - len(key) + 1)
        there = np.ones(n, np.bool_)
        for i, byte in enumerate(key):
            there &= data[i : i + n] == byte
        bounds = np.asarray(self.bounds)
        there[bounds[bounds < n]] = False
        at = np.flatnonzero(there)
        owners = np.searchsorted(bounds, at, "right") - 1
        whole = at + len(key) <= bounds[owners + 1]
        return [self._text(i) for i in np.unique(owners[whole]).tolist()]

    def _find(self, text: str) -> int | None:
        if self._buckets is None:
            self._sort()
            assert self._buckets is not None
        key = text.encode("utf-8", "surrogatepass")
        bucket = hash(key) & self._mask
        at, end = self._buckets[bucket], self._buckets[bucket + 1]
        while at < end:
            i = self._sorted[at]
            if self.data[self.bounds[i] : self.bounds[i + 1]] == key:
                return i
            at += 1
        return None

    def _text(self, i: int) -> str:
        return self.data[self.bounds[i] : self.bounds[i + 1]].decode()

    def _sort(self) -> None:
        """Indices sorted by bucket; equal strings share one, and stay in the order requested."""
        n, data = len(self), self.data
        self._mask = (1 << n.bit_length()) - 1
        hashes = (hash(data[a:b]) for a, b in pairwise(self.bounds))
        buckets = np.fromiter(hashes, np.int64, n) & self._mask
        order = np.argsort(buckets if self._first else buckets[::-1], kind="stable")
        order = order if self._first else n - 1 - order
        ends = np.cumsum(np.bincount(buckets, minlength=self._mask + 1))
        self._sorted = _compact(order)
        self._buckets = _compact(np.append(0, ends))


def _compact(numbers: NDArray[np.int64]) -> "array[int]":
    """In 32 bits where they fit: what Python reads fastest, one at a time."""
    if len(numbers) and numbers.max() >= 1 << 32:
        return array("q", numbers.tobytes())
    return array("I", numbers.astype(np.uint32).tobytes())


def _joined(texts: Iterable[str]) -> tuple[bytes, NDArray[np.int64]]:
    pieces = [text.encode() for text in texts]
    return b"".join(pieces), np.cumsum([0, *map(len, pieces)], dtype=np.int64)


def _is_utf8(data: bytes, bounds: NDArray[np.int64]) -> bool:
    """True if all is, and no string begins within a character."""
    begins = bounds[:-1][bounds[:-1] < bounds[1:]]
    if (np.frombuffer(data, np.uint8)[begins] & 0xC0 == 0x80).any():
        return False
    try:
        data.decode()
    except UnicodeDecodeError:
        return False
    return True
