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
    orders = array("q", [_NEVER]) * size  # of each piece with the one after it
    places: dict[int, list[int]] = {}  # heaps of left pieces, by the priority of the pair
    queue: list[int] = []  # a heap of these priorities

    def add(i: int, j: int) -> None:
        order = priority(pieces[i], pieces[j])
        if order is None:
            orders[i] = _NEVER
            return
        orders[i] = order
        if order in places:
            heapq.heappush(places[order], i)
        else:
            places[order] = [i]
            heapq.heappush(queue, order)

    for i in range(size - 1):
        add(i, i + 1)
        if i % PAUSE_EVERY == PAUSE_EVERY - 1:
            pause()

    count = 0
    while queue:
        order = queue[0]
        if not places[order]:
            del places[heapq.heappop(queue)]
            continue
        count += 1
        if count % PAUSE_EVERY == 0:
            pause()
        i = heapq.heappop(places[order])
        if orders[i] != order:
            continue  # one of the two was joined meanwhile
        j = right[i]
        pieces[i] += pieces[j]
        pieces[j] = ""
        orders[i] = orders[j] = _NEVER
        after = right[i] = right[j]
        if after >= 0:
            left[after] = i
            add(i, after)
        if left[i] >= 0:
            add(left[i], i)
    return [piece for piece in pieces if piece]
