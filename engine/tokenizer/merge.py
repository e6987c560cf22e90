"""Merging neighbours by priority: the part that SentencePiece and byte-pair encoding share."""

import heapq
from array import array
from collections.abc import Callable

from engine.tokenizer.words import PAUSE_EVERY, Pause, no_pause

# The priority of joining two neighbouring pieces, the smallest first; None where they do not join.
Priority = Callable[[str, str], int | None]

_NEVER = -(1 << 62)  # no priority


def merge(text: str, priority: Priority, pause: Pause = no_pause) -> list[str]:
    """`text` cut into pieces: its characters, joined pairwise while `priority` allows.

    Among equal priorities the leftmost pair goes first. O(n log n) time and some 60 bytes for each
    character. What `pause` raises ends it.
    """
    pieces = list(text)
    size = len(pieces)
    if size < 2:
        return pieces
    left, right = array("i", range(-1, size - 1)), array("i", range(1, size + 1))
    right[-1] = -1
    pairs = _Pairs(size)
    for i in range(size - 1):
        pairs.put(i, priority(pieces[i], pieces[i + 1]))
        if i % PAUSE_EVERY == PAUSE_EVERY - 1:
            pause()

    count = 0
    while (i := pairs.take()) >= 0:
        count += 1
        if count % PAUSE_EVERY == 0:
            pause()
        j = right[i]
        pieces[i] += pieces[j]
        pieces[j] = ""
        pairs.put(j, None)
        before, after = left[i], right[j]
        right[i] = after
        if after >= 0:
            left[after] = i
            pairs.put(i, priority(pieces[i], pieces[after]))
        if before >= 0:
            pairs.put(before, priority(pieces[before], pieces[i]))
    return [piece for piece in pieces if piece]


class _Pairs:
    """Pairs of neighbours that may be joined, by the place of the left one."""

    def __init__(self, size: int) -> None:
        self._orders = array("q", [_NEVER]) * size  # the priority of each pair
        self._places: dict[int, list[int]] = {}  # heaps, by priority
        self._queue: list[int] = []  # a heap of these priorities

    def put(self, i: int, order: int | None) -> None:
        """The pair at `i` has another priority now."""
        if order is None:
            self._orders[i] = _NEVER
            return
        self._orders[i] = order
        if order in self._places:
            heapq.heappush(self._places[order], i)
        else:
            self._places[order] = [i]
            heapq.heappush(self._queue, order)

    def take(self) -> int:
        """The place of the best pair, of equal ones the leftmost, which is no pair any more; -1
        where there is none.
        """
        while self._queue:
            order = self._queue[0]
            places = self._places[order]
            while places:
                i = heapq.heappop(places)
                if self._orders[i] == order:  # or one of the two was joined meanwhile
                    self._orders[i] = _NEVER
                    return i
            del self._places[heapq.heappop(self._queue)]
        return -1
