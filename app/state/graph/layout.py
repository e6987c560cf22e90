"""Boxes in ranks with orthogonal lines between them: what is computed stands below what it reads.

Nothing is optimised and nothing is random: a rank is the longest path from the start, the order
within it that of the items, so that a picture stays as it is where little changes.
"""

from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import pairwise

HEIGHT = 40.0
GAP, TRACK, BETWEEN = 18.0, 7.0, 16.0
"""Between ranks, for each line that runs sideways there, and between boxes of a rank."""
PULLS, PASSES = 20, 40
NEAR = 12.0  # a line that is almost straight begins beside the middle of its box instead
STRAIGHT = 4.0  # how much more a long line wants to stay straight than a box to stand in the middle

Point = tuple[float, float]


@dataclass(frozen=True)
class LaidOut:
    """The upper left corner of each item, a line for each edge, and the size of all."""

    places: tuple[Point, ...]
    lines: tuple[tuple[Point, ...], ...]
    width: float
    height: float


def lay_out(widths: Sequence[float], edges: Sequence[tuple[int, int]]) -> LaidOut:
    """Items of those widths and HEIGHT; an edge goes from an item to a later one.

    The edges of an item come in the order of its operands, which is that of its lines from left.
    """
    if not widths:
        return LaidOut((), (), 0.0, 0.0)
    ranked = _Ranked(widths, edges)
    ranked.straighten()
    return ranked.drawn()


class _Ranked:
    """Items and, for edges that pass ranks, points in each of these; all are `spots`."""

    def __init__(self, widths: Sequence[float], edges: Sequence[tuple[int, int]]) -> None:
        self._n, self._edges = len(widths), edges
        self._widths = list(widths)
        self._ranks = _ranks(len(widths), edges)
        self._chains: list[list[int]] = []
        passing: dict[tuple[int, int], int] = {}
        for start, end in edges:
            chain = [start]
            for rank in range(self._ranks[start] + 1, self._ranks[end]):
                if (start, rank) not in passing:  # edges of one item share their way
                    passing[start, rank] = len(self._widths)
                    self._widths.append(0.0)
                    self._ranks.append(rank)
                chain.append(passing[start, rank])
            self._chains.append([*chain, end])
        self._above, self._below = defaultdict[int, set[int]](set), defaultdict[int, set[int]](set)
        for chain in self._chains:
            for upper, lower in pairwise(chain):
                self._above[lower].add(upper)
                self._below[upper].add(lower)
        self._rows = self._ordered([*range(self._n), *(start for start, _ in passing)])
        self._x = [0.0] * len(self._widths)
        for row in self._rows:
            self._settle(row, [0.0] * len(row))

    def _ordered(self, owners: Sequence[int]) -> list[list[int]]:
        """The spots of each rank from left to right: as what they come from stands above, and where
        that is the same in the order of the items.
        """
        rows: list[list[int]] = [[] for _ in range(max(self._ranks) + 1)]
        for spot in range(len(owners)):
            rows[self._ranks[spot]].append(spot)
        place: dict[int, int] = {}

        def key(spot: int) -> tuple[float, int]:
            above = self._above[spot]
            middle = sum(place[s] for s in above) / len(above) if above else 0.0
            return middle, owners[spot]

        for row in rows:
            row.sort(key=key)
            place |= {spot: at for at, spot in enumerate(row)}
        return rows

    def straighten(self) -> None:
        """Move lanes between what they come from and what they lead to, then make them straight:
        places in line and places in order are approached in turn.
        """
        lanes = self._lanes()
        for turn in range(PULLS + PASSES):
            for lane in lanes:
                x = sum(self._x[spot] for spot in lane) / len(lane)
                if turn < PULLS:
                    x = (x + self._middle(lane)) / 2
                for spot in lane:
                    self._x[spot] = x
            for row in self._rows:
                self._settle(row, [self._x[spot] for spot in row])

    def _lanes(self) -> list[list[int]]:
        """Spots below each other of which each is joined to the next alone."""
        lanes: list[list[int]] = []
        lane_of: dict[int, list[int]] = {}
        for row in self._rows:
            for spot in row:
                (upper,) = self._above[spot] if len(self._above[spot]) == 1 else (None,)
                if upper is not None and len(self._below[upper]) == 1:
                    lane_of[spot] = lane_of[upper]
                    lane_of[spot].append(spot)
                else:
                    lane_of[spot] = [spot]
                    lanes.append(lane_of[spot])
        return lanes

    def _middle(self, lane: Sequence[int]) -> float:
        """Between what its first spot is joined to above, and its last one below."""
        sides = self._above[lane[0]], self._below[lane[-1]]
        middles = [sum(self._x[s] for s in side) / len(side) for side in sides if side]
        return sum(middles) / len(middles) if middles else self._x[lane[0]]

    def drawn(self) -> LaidOut:
        """All with the leftmost at 0."""
        left = min(x - width / 2 for x, width in zip(self._x, self._widths, strict=True))
        self._x = [float(round(x - left + 0.5)) for x in self._x]  # to whole pixels
        tracks, counts = self._tracks()
        tops, y = [], 0.0
        for rank in range(len(self._rows)):
            tops.append(y)
            y += HEIGHT + GAP + TRACK * counts[rank]
        incoming: dict[int, list[int]] = defaultdict(list)
        for number, (_, end) in enumerate(self._edges):
            incoming[end].append(number)
        lines = []
        for number, chain in enumerate(self._chains):
            end = chain[-1]
            place = (incoming[end].index(number) + 1) / (len(incoming[end]) + 1) - 0.5
            points: list[Point] = []
            for upper, lower in pairwise(chain):
                rank = self._ranks[upper]
                x = self._x[lower] + (self._widths[end] * place if lower == end else 0.0)
                turn = tops[rank] + HEIGHT + GAP / 2 + TRACK * tracks[upper, lower]
                near = upper < self._n and abs(x - self._x[upper]) <= NEAR
                begin = x if near else self._x[upper]
                points += [(begin, tops[rank] + HEIGHT * (upper < self._n))]
                points += [(begin, turn), (x, turn)]
            points.append((x, tops[self._ranks[end]]))
            lines.append(tuple(_without_repeats(points)))
        places = tuple(
            (self._x[i] - self._widths[i] / 2, tops[self._ranks[i]]) for i in range(self._n)
        )
        width = max(x + self._widths[i] / 2 for i, x in enumerate(self._x))
        return LaidOut(places, tuple(lines), width, tops[-1] + HEIGHT)

    def _settle(self, row: Sequence[int], wanted: Sequence[float]) -> None:
        """Place a row's items as near to the wanted offsets as order and widths allow (least
        squares).
        """
        offsets, at = [], 0.0
        for before, spot in zip([None, *row], row, strict=False):
            if before is not None:
                at += (self._widths[before] + self._widths[spot]) / 2 + BETWEEN
            offsets.append(at)
        weights = [1.0 if spot < self._n else STRAIGHT for spot in row]
        free = [x - offset for x, offset in zip(wanted, offsets, strict=True)]
        for spot, x, offset in zip(row, _rising(free, weights), offsets, strict=True):
            self._x[spot] = x + offset

    def _tracks(self) -> tuple[dict[tuple[int, int], int], list[int]]:
        """Between two ranks, lines of different items do not run over each other."""
        found: dict[tuple[int, int], int] = {}
        counts = []
        for row in self._rows:
            taken: list[tuple[int, float, float, int]] = []
            for upper in row:
                lowers = sorted(self._below[upper])
                ends = [self._x[upper], *(self._x[lower] for lower in lowers)]
                reach = max((self._widths[lower] for lower in lowers), default=0.0) / 2
                low, high = min(ends) - reach, max(ends) + reach
                used = {t for t, a, b, _ in taken if a < high and low < b}
                track = next(t for t in range(len(taken) + 1) if t not in used)
                taken.append((track, low, high, upper))
                found |= {(upper, lower): track for lower in lowers}
            counts.append(max((track for track, *_ in taken), default=0))
        return found, counts


def _ranks(n: int, edges: Iterable[tuple[int, int]]) -> list[int]:
    """The longest path to each item."""
    ranks = [0] * n
    for start, end in sorted(edges, key=lambda edge: edge[1]):
        ranks[end] = max(ranks[end], ranks[start] + 1)
    return ranks


def _rising(values: Sequence[float], weights: Sequence[float]) -> list[float]:
    """The nearest values that never fall: neighbours out of order take their mean."""
    blocks: list[tuple[float, float, int]] = []
    for value, weight in zip(values, weights, strict=True):
        blocks.append((value, weight, 1))
        while len(blocks) > 1 and blocks[-2][0] > blocks[-1][0]:
            (a, u, m), (b, v, k) = blocks[-2:]
            blocks[-2:] = [((a * u + b * v) / (u + v), u + v, m + k)]
    return [value for value, _, count in blocks for _ in range(count)]


def _without_repeats(points: Sequence[Point]) -> Iterable[Point]:
    """Without points that lie on the way from the one before to the next."""
    kept: list[Point] = []
    for point in points:
        if len(kept) > 1 and (
            kept[-1][0] == kept[-2][0] == point[0] or kept[-1][1] == kept[-2][1] == point[1]
        ):
            kept.pop()
        if not kept or kept[-1] != point:
            kept.append(point)
    return kept
