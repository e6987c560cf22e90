"""How many drafted tokens a step is to compute: by how often they were right, and by what steps of
so many rows took.
"""

from collections import defaultdict
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import accumulate
from operator import mul

SIZES = (2, 3, 4, 8, 16)
"""Rows of a step that has drafts: each takes a plan of its own."""
MOST = 15
"""Drafted tokens of one sequence in a step."""
GAIN = 1.05
"""How much faster than without drafts a step must be expected to be."""
PLAIN_EVERY = 64
"""Steps, of which one is computed without drafts, so that its time is known."""
TRY_EVERY = 256
"""Steps without a model's drafts, after which they are tried once, as texts change."""
TRIED = 3
"""Tokens that a model drafts in such a try, if that pays where all of them are right."""
LOSS, SPAN, LONGEST_REST = 0.02, 256, 4096
"""The share of the time of SPAN tokens that drafts may cost before they rest for as many tokens,
each time for twice as many.
"""
FORGET = 512
"""Steps after which the time of a size that none of them had is guessed again."""
SURE = 5
"""Times what a plan takes to make, after which it is made however little was written."""
_MOST = 3  # times what is known of a step that is believed: other work beside interrupted it
_FIRST = 4  # steps of a size, of which the quickest counts
_STEEP = 0.25  # what a further row is expected to add to a step before it was measured


class Chances:
    """How likely drafts of each source are right, at their first token and behind it: moving
    averages of what was drawn in their places.
    """

    START = {
        "form": 0.9,
        "draft": 0.7,
        "mtp": 0.7,
        "ngram 0": 0.4,
        "ngram 3": 0.3,
        "ngram 5": 0.5,
        "ngram 8": 0.7,
        "ngram 16": 0.85,
    }
    _EDGES = (0, 1, 2, 4, 8)  # positions that are counted together

    def __init__(self) -> None:
        self._rates: dict[tuple[str, int], float] = {}
        self._counts: dict[tuple[str, int], int] = defaultdict(int)

    def at(self, source: str, position: int) -> float:
        """The chance of the token at a position of a draft whose tokens before it were right."""
        return self._rates.get(self._key(source, position), self.START.get(source, 0.5))

    def learn(self, source: str, position: int, right: bool) -> None:
        """The token was drawn, or another one; the first few count for more."""
        key = self._key(source, position)
        self._counts[key] += 1
        weight = max(1 / 32, 1 / (3 + self._counts[key]))
        rate = self.at(source, position)
        self._rates[key] = rate + weight * (right - rate)

    def _key(self, source: str, position: int) -> tuple[str, int]:
        return source, max(edge for edge in self._EDGES if edge <= position)


class StepCosts:
    """Seconds of steps by their rows: moving averages, and a guess for what was not measured among
    the last FORGET steps, as other work beside may have made it seem dear.
    """

    def __init__(self) -> None:
        self._seconds: dict[int, float] = {}
        self._n: dict[int, int] = defaultdict(int)
        self._last: dict[int, int] = {}  # the number of the last step of a size
        self._steps = 0

    def took(self, rows: int, seconds: float) -> None:
        """A step of so many rows took so long. One that was interrupted counts little, as one does
        that is the first of its size.
        """
        expected, is_first = self.of(rows), not self.knows(rows)
        self._steps += 1
        self._last[rows] = self._steps
        self._n[rows] = 0 if is_first else self._n[rows] + 1
        if is_first:
            self._seconds[rows] = min(seconds, 2 * expected) if self._seconds else seconds
        elif self._n[rows] < _FIRST:
            self._seconds[rows] = min(expected, seconds)
        else:
            self._seconds[rows] = expected + (self.believed(rows, seconds) - expected) / 8

    def knows(self, rows: int) -> bool:
        """True if such a step was measured lately."""
        return rows in self._last and self._steps - self._last[rows] < FORGET

    def believed(self, rows: int, seconds: float) -> float:
        """The part of a step's seconds that was the step's own, and not other work's beside it."""
        return min(seconds, _MOST * self.of(rows)) if self._seconds else seconds

    def of(self, rows: int) -> float:
        """Seconds of such a step; relative to others where none was measured lately."""
        if self.knows(rows):
            return self._seconds[rows]
        near = min(filter(self.knows, self._last), key=lambda n: abs(n - rows), default=1)
        return self._seconds.get(near, 1.0) * _steep(rows) / _steep(near)


def _steep(rows: int) -> float:
    return 1 + _STEEP * (rows - 1)


@dataclass
class Account:
    """Seconds that the drafts of one answer have cost against steps without."""

    balance: float = 0.0
    resting: int = 0
    _rest: int = SPAN

    def add(self, cost: float, per_token: float) -> None:
        """A step cost so much more than its tokens take without drafts. Early gains do not pay for
        long losses.
        """
        most = LOSS * SPAN * per_token
        self.balance = max(-most, self.balance + cost)
        if self.balance > most:
            self.balance, self.resting = 0.0, self._rest
            self._rest = min(LONGEST_REST, 2 * self._rest)

    def wrote(self, n: int) -> None:
        """So many tokens are written."""
        self.resting = max(0, self.resting - n)


class Economy:
    """Measurements of a model's steps and drafts, of all its answers."""

    def __init__(self) -> None:
        self.chances = Chances()
        self._costs: dict[int, StepCosts] = defaultdict(StepCosts)
        self._n_since = 0  # steps with drafts since one without
        self._missed = self._may_build = 0.0
        self._to_build = 0.15
        self._declined = 0  # steps in which a model's drafts were not worth making

    def plain(self, n_writing: int) -> float:
        """Seconds of a token of each of so many answers in a step without drafts."""
        return self._costs[n_writing].of(n_writing)

    def shares(
        self, chances: Sequence[Sequence[float]], n_writing: int, n_rows: int
    ) -> tuple[list[int], float]:
        """How many tokens of each answer's draft one step of all is to compute, where they are
        right with these chances: the likeliest first, as many as make it write the most tokens a
        second; and how many seconds that is expected to save. All 0 where it is not worth it.

        Without drafts the step has `n_rows`, where states go back more than answers are written.
        """
        none = [0] * len(chances)
        costs = self._costs[n_writing]
        if self._n_since >= PLAIN_EVERY or not any(chances) or not costs.knows(n_writing):
            return none, 0.0
        expected, counts = float(n_writing), none[:]
        best, shares, saved = GAIN * n_writing / costs.of(n_rows), none, 0.0
        for n, (chance, index) in enumerate(_likeliest(chances), n_rows + 1):
            expected += chance
            counts[index] += 1
            if n in SIZES and expected / costs.of(n) > best:
                best, shares = expected / costs.of(n), counts[:]
                saved = expected * costs.of(n_writing) / n_writing - costs.of(n)
        return shares, saved

    def guesses(
        self,
        n_drafting: int,
        n_writing: int,
        n_rows: int,
        cost: Callable[[int], float],
        source: str = "draft",
    ) -> tuple[int, float]:
        """How many tokens a model is to draft for each of `n_drafting` answers, at the `cost` of so
        many, for a step as in `shares`; and how many seconds that is expected to save. 0 where it
        is not worth it, but for a try now and then.
        """
        costs = self._costs[n_writing]
        if not n_drafting or self._n_since >= PLAIN_EVERY or not costs.knows(n_writing):
            return 0, 0.0

        def best(chance_at: Callable[[int], float]) -> tuple[int, float]:
            rate, found, saved = GAIN * n_writing / costs.of(n_writing), 0, 0.0
            chance, right = 1.0, 0.0
            for k in range(1, MOST + 1):
                chance *= chance_at(k - 1)
                right += chance
                rows = n_rows + n_drafting * k
                seconds = costs.of(rows) + n_drafting * cost(k)
                expected = n_writing + n_drafting * right
                if rows in SIZES and expected / seconds > rate:
                    rate, found = expected / seconds, k
                    saved = expected * costs.of(n_writing) / n_writing - seconds
            return found, saved

        found, saved = best(lambda position: self.chances.at(source, position))
        self._declined = 0 if found else self._declined + 1
        if self._declined < TRY_EVERY:
            return found, saved
        self._declined = 0
        return min(TRIED, best(lambda position: 1.0)[0]), 0.0

    def believed(self, n_writing: int, n_rows: int, seconds: float) -> float:
        """The part of a step's seconds that was its own."""
        return self._costs[n_writing].believed(n_rows, seconds)

    def took(self, n_writing: int, n_rows: int, seconds: float, saved: float = 0.0) -> None:
        """A step of so many rows was computed, in which so many answers were written; its drafts
        saved so many seconds, or less than none.
        """
        self._n_since = self._n_since + 1 if n_rows > n_writing else 0
        self._costs[n_writing].took(n_rows, seconds)
        self._may_build += LOSS * seconds + max(0.0, saved)

    def missed(self, seconds: float) -> bool:
        """A step could have saved so much, had there been a plan of its size. True once all that
        was missed would have paid for one, and making it takes at most what plans saved before, or
        a small share of the time that was written.
        """
        self._missed += max(0.0, seconds)
        pays, is_sure = (self._missed >= n * self._to_build for n in (1, SURE))
        return is_sure or (pays and self._may_build >= self._to_build)

    def built(self, seconds: float) -> None:
        """A plan was made in that time."""
        self._missed = 0.0
        self._may_build = max(0.0, self._may_build - seconds)
        self._to_build += (seconds - self._to_build) / 2


def _likeliest(chances: Sequence[Sequence[float]]) -> list[tuple[float, int]]:
    """(chance that it is reached and right, answer) of every drafted token, the likeliest first."""
    found: list[tuple[float, int]] = []
    for index, one in enumerate(chances):
        products = accumulate(one[:MOST], mul)
        found += [(product, index) for product in products]
    return sorted(found, key=lambda one: -one[0])
