"""The graph allocator: addresses for storages by their lifetimes, without touching a device.

All lifetimes are known beforehand, so they need not be placed in order of birth: several orders are
tried, and the smallest arena is kept.
"""

from bisect import bisect_right
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import accumulate
from typing import NamedTuple

from engine.graph.tensor import Tensor


@dataclass(frozen=True, slots=True, eq=False)
class Lifetime:
    """Bytes that are needed up to step `last`, included; `size` is padded to the alignment.

    `storages` take them over one from the other, each at its step in `births`.
    """

    storages: tuple[Tensor, ...]
    births: tuple[int, ...]
    last: int
    size: int

    @property
    def first(self) -> int:
        """The first step that needs the bytes."""
        return self.births[0]

    def at(self, step: int) -> Tensor:
        """The storage that owns the bytes at a step; at a step of `births` the new owner."""
        return self.storages[bisect_right(self.births, step) - 1]


class ArenaPlace(NamedTuple):
    """A chunk of a device's arena, and bytes from its start."""

    chunk: int
    offset: int


@dataclass(frozen=True)
class ArenaLayout:
    """Where each storage lies in one device's arena, and the sizes of its chunks. `names[i]`
    names the tensor that chunk i was made for alone; empty for a shared chunk.

    `bound` is a lower bound of every layout: the maximum, over all steps, of the padded bytes that
    are alive, plus `reserved`. `busiest` is the first step that reaches it, `alive` the lifetimes
    at that step.
    """

    places: Mapping[Tensor, ArenaPlace]
    chunks: tuple[int, ...]
    names: tuple[str, ...]
    reserved: int
    bound: int
    busiest: int
    alive: tuple[Lifetime, ...]

    @property
    def peak(self) -> int:
        """Bytes of all chunks."""
        return sum(self.chunks)


def allocate(lives: Iterable[Lifetime], most: int, reserved: int = 0) -> ArenaLayout:
    """Places of storages in chunks of at most `most` bytes; what lives together never overlaps.

    One that is larger has a chunk of its size. The first chunk starts with `reserved` bytes that
    live always.
    """
    lives = list(lives)
    alive = _alive(lives)
    bound = reserved + max(alive, default=0)
    busiest = alive.index(max(alive)) if alive else 0
    best = min(_attempts(lives, alive, most, reserved, bound), key=lambda stack: stack.size)
    places, sizes = best.places, best.sizes
    names = [""] * len(sizes)
    for life in lives:
        if life.size > most:
            places.update(dict.fromkeys(life.storages, ArenaPlace(len(sizes), 0)))
            sizes.append(life.size)
            names.append(life.storages[0].name)
    then = tuple(life for life in lives if life.first <= busiest <= life.last)
    return ArenaLayout(places, tuple(sizes), tuple(names), reserved, bound, busiest, then)


def _alive(lives: Sequence[Lifetime]) -> list[int]:
    """Bytes alive, per step."""
    changes = [0] * (2 + max((life.last for life in lives), default=-2))
    for life in lives:
        changes[life.first] += life.size
        changes[life.last + 1] -= life.size
    return list(accumulate(changes))


ROUNDS = 3


def _attempts(
    lives: Sequence[Lifetime], alive: Sequence[int], most: int, reserved: int, bound: int
) -> Iterator["_Stack"]:
    """Arenas filled in several ways, until one needs no more than the bound.

    Those of the busiest steps come first: nothing is in their way, so they lie without a gap. What
    then ends beyond the bound goes before all else the next time. Where that does not do, what is
    read later than in the next step lies at the top, out of the way.
    """
    crowded = sorted(
        (life for life in lives if life.size <= most),
        key=lambda life: (-max(alive[life.first : life.last + 1]), -life.size, life.first),
    )
    for top in (0, bound) if bound <= most else (0,):
        order = crowded
        for _ in range(ROUNDS):
            stack = _Stack(most, reserved)
            ends = {life: stack.put(life, top) for life in order}
            yield stack
            if stack.size == bound:
                return
            order = sorted(order, key=lambda life: ends[life] <= bound)


class _Stack:
    """An arena while it is filled: addresses run on from one chunk to the next.

    `taken` has, per step, the spans of bytes that are alive.
    """

    def __init__(self, most: int, reserved: int) -> None:
        self.places: dict[Tensor, ArenaPlace] = {}
        self.sizes = [reserved] if reserved else []
        self._most, self._first = most, max(most, reserved)
        self._reserved = reserved
        self._taken: defaultdict[int, list[tuple[int, int]]] = defaultdict(list)

    @property
    def size(self) -> int:
        return sum(self.sizes)

    def put(self, life: Lifetime, top: int) -> int:
        """Place the bytes in the first gap; below `top` if that is not 0 and they live long.

        Returns the end address.
        """
        start = self._gap(life, top if life.last > life.first + 1 else 0)
        end = start + life.size
        for step in range(life.first, life.last + 1):
            self._taken[step].append((start, end))
        place = self._place(start)
        self.places.update(dict.fromkeys(life.storages, place))
        self.sizes += [0] * (place.chunk + 1 - len(self.sizes))
        self.sizes[place.chunk] = max(self.sizes[place.chunk], place.offset + life.size)
        return end

    def _gap(self, life: Lifetime, top: int) -> int:
        """Between what lives at the same time, or behind it."""
        steps = range(life.first, life.last + 1)
        end = self._reserved
        for start, stop in sorted({span for step in steps for span in self._taken.get(step, ())}):
            at = self._in_one_chunk(end, life.size)
            if at + life.size <= start:
                return start - life.size if top else at
            end = max(end, stop)
        return max(self._in_one_chunk(end, life.size), top - life.size)

    def _in_one_chunk(self, at: int, size: int) -> int:
        """The next address where `size` bytes fit into one chunk."""
        limit = self._first
        if at >= limit:
            limit = at + self._most - (at - self._first) % self._most
        return at if at + size <= limit else limit

    def _place(self, at: int) -> ArenaPlace:
        if at < self._first:
            return ArenaPlace(0, at)
        chunk, offset = divmod(at - self._first, self._most)
        return ArenaPlace(chunk + 1, offset)
