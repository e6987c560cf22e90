"""The graph allocator: addresses for storages by their lifetimes, without touching a device."""

from bisect import insort
from collections.abc import Iterable
from dataclasses import dataclass

from engine.graph.tensor import Tensor


@dataclass(frozen=True, slots=True)
class Lifetime:
    """A storage that must exist from step `first` to step `last`, both included."""

    storage: Tensor
    size: int
    first: int
    last: int


@dataclass(frozen=True)
class Layout:
    """Where each storage lies in one device's arena, and how large that must be."""

    offsets: dict[Tensor, int]
    peak: int


def allocate(lifetimes: Iterable[Lifetime], alignment: int) -> Layout:
    """Best fit over a free list in order of birth; neighbours merge when a storage dies.

    Storages that live at the same step never overlap. Sizes are rounded up to the alignment.
    """
    arena = _Arena()
    offsets: dict[Tensor, int] = {}
    dying: list[tuple[int, int, int]] = []  # (last, offset, size), soonest first
    for life in sorted(lifetimes, key=lambda life: life.first):
        while dying and dying[0][0] < life.first:
            _, offset, size = dying.pop(0)
            arena.free(offset, size)
        size = -(-life.size // alignment) * alignment
        offsets[life.storage] = arena.take(size)
        insort(dying, (life.last, offsets[life.storage], size))
    return Layout(offsets, arena.peak)


class _Arena:
    """Free blocks below `peak`, sorted by offset; beyond it everything is free."""

    def __init__(self) -> None:
        self.blocks: list[tuple[int, int]] = []
        self.peak = 0

    def take(self, size: int) -> int:
        fitting = [(n, offset) for offset, n in self.blocks if n >= size]
        if fitting:
            n, offset = min(fitting)
            self.blocks.remove((offset, n))
            if n > size:
                insort(self.blocks, (offset + size, n - size))
            return offset
        start = self.peak
        if self.blocks and sum(self.blocks[-1]) == self.peak:
            start = self.blocks.pop()[0]
        self.peak = start + size
        return start

    def free(self, offset: int, size: int) -> None:
        insort(self.blocks, (offset, size))
        merged: list[tuple[int, int]] = []
        for start, n in self.blocks:
            if merged and sum(merged[-1]) == start:
                merged[-1] = (merged[-1][0], merged[-1][1] + n)
            else:
                merged.append((start, n))
        self.blocks = merged
