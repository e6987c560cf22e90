"""Merging neighbours by priority: the part that SentencePiece and byte-pair encoding share."""

import heapq
from collections.abc import Callable

# The priority of joining two neighbouring pieces, the smallest first; None where they do not join.
Priority = Callable[[str, str], float | None]


def merge(text: str, priority: Priority) -> list[str]:
    """`text` cut into pieces: its characters, joined pairwise while `priority` allows.

    Among equal priorities the leftmost pair goes first. O(n log n) pieces, whatever the text.
    """
    pieces = list(text)
    last = len(pieces) - 1
    if last < 1:
        return pieces
    left = list(range(-1, last))
    right = [*range(1, last + 1), -1]

    queue: list[tuple[float, int, int, int]] = []  # priority, left piece, right piece, their length
    for i in range(last):
        order = priority(pieces[i], pieces[i + 1])
        if order is not None:
            queue.append((order, i, i + 1, 2))
    heapq.heapify(queue)

    while queue:
        _, i, j, size = heapq.heappop(queue)
        a, b = pieces[i], pieces[j]
        # A piece that was joined meanwhile is empty or longer than when the pair was queued.
        if not a or not b or len(a) + len(b) != size:
            continue
        joined = pieces[i] = a + b
        pieces[j] = ""
        after = right[i] = right[j]
        before = left[i]
        if after >= 0:
            left[after] = i
            order = priority(joined, pieces[after])
            if order is not None:
                heapq.heappush(queue, (order, i, after, size + len(pieces[after])))
        if before >= 0:
            order = priority(pieces[before], joined)
            if order is not None:
                heapq.heappush(queue, (order, before, i, size + len(pieces[before])))
    return [piece for piece in pieces if piece]
