"""Candidates for sampling: top-k, top-p, min-p, temperature, in llama.cpp's order; the final ones
also without sorting the vocabulary.
"""

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from engine.protocol import Sampling

Floats = NDArray[np.float64]
AnyFloats = NDArray[np.floating]
GREEDY = 0.0

_COLUMNS = 1024  # a vocabulary is looked at as rows of so many
PART = 1 << 14  # what stays in a core's own cache


@dataclass(frozen=True)
class Candidates:
    """Tokens that can still be drawn, most likely first, and their logits."""

    ids: NDArray[np.int64]
    logits: Floats


def narrowed(scores: AnyFloats, params: Sampling) -> Iterator[tuple[str, Candidates]]:
    """Each step that follows penalties, and what it leaves; of the last, the temperature, each is
    drawn as likely as the softmax of the logits says, whose largest is 0.
    """
    if params.temperature <= GREEDY:
        yield "temperature", Candidates(np.argmax(scores, keepdims=True), np.zeros(1))
        return
    yield from narrowed_further(top_k(scores, params.top_k), params)


def narrowed_further(kept: Candidates, params: Sampling) -> Iterator[tuple[str, Candidates]]:
    """The same from top-k on, which leaves what is `kept`."""
    yield "top_k", kept
    kept = top_p(kept, params.top_p)
    yield "top_p", kept
    kept = min_p(kept, params.min_p)
    yield "min_p", kept
    scaled = (kept.logits - kept.logits[0]) / params.temperature
    yield "temperature", Candidates(kept.ids, scaled)


def best_of(row: NDArray[np.float32]) -> Candidates:
    """The candidates in a row of `ops.best`: logits, then as many tokens."""
    logits, ids = row.reshape(2, -1)
    return Candidates(ids.astype(np.int64), logits.astype(np.float64))


def top_k(logits: AnyFloats, k: int) -> Candidates:
    """The k largest, sorted; all of them where k <= 0. What is -inf cannot be drawn."""
    ids = _near_the_top(logits, k) if is_few(k, logits.size) else largest(logits, k)
    order = np.argsort(-logits[ids], kind="stable")
    ids = ids[order[: k if k > 0 else None]]
    return Candidates(ids, logits[ids].astype(np.float64))


def is_few(k: int, size: int) -> bool:
    """True if so many of a vocabulary are found quickly."""
    return 0 < k <= min(_COLUMNS // 2, size // 4)


def largest(logits: AnyFloats, k: int) -> NDArray[np.int64]:
    """The k largest by their ids, of equal ones the first; all where k <= 0. None that is -inf."""
    least = -np.inf
    if 0 < k < logits.size:
        least = np.partition(logits, logits.size - k)[logits.size - k]
    above = np.flatnonzero(logits > least)
    if least == -np.inf:
        return above
    equal = np.flatnonzero(logits == least)
    return np.sort(np.append(above, equal[: k - above.size]))


def _near_the_top(logits: AnyFloats, k: int) -> NDArray[np.int64]:
    """Few tokens with the k largest among them: much quicker than partitioning a vocabulary.

    What k columns have at least, k tokens have.
    """
    columns = min(_COLUMNS, logits.size)
    whole = logits.size // columns * columns
    highest = logits[:whole].reshape(-1, columns).max(0)
    least = np.partition(highest, columns - k)[columns - k]
    if least == -np.inf:
        return np.flatnonzero(logits > least)
    among = np.flatnonzero(highest >= least) + np.arange(0, whole, columns)[:, None]
    ids = np.append(among.reshape(-1), np.arange(whole, logits.size))
    found: NDArray[np.int64] = np.sort(ids[logits[ids] >= least])
    return found


def top_p(c: Candidates, p: float) -> Candidates:
    """The most likely tokens whose probabilities sum to p, as few as do; at least one."""
    if p >= 1.0:
        return c
    total = np.cumsum(softmax(c.logits))
    keep = int(np.searchsorted(total, p, "left")) + 1
    return Candidates(c.ids[:keep], c.logits[:keep])


def min_p(c: Candidates, p: float) -> Candidates:
    """Tokens at least p times as likely as the most likely one."""
    if p <= 0.0:
        return c
    keep = max(1, int(np.count_nonzero(c.logits >= c.logits[0] + np.log(p))))
    return Candidates(c.ids[:keep], c.logits[:keep])


def softmax(logits: Floats) -> Floats:
    """Probabilities of logits."""
    weights = np.exp(logits - logits.max())
    total: Floats = weights / weights.sum()
    return total


def mass(logits: AnyFloats, top: float) -> float:
    """The sum of exp(logits - top)."""
    total = 0.0
    for start in range(0, logits.size, PART):
        part = logits[start : start + PART] - np.float32(top)
        total += float(np.exp(part, out=part).sum())
    return total


def log_softmax(logits: NDArray[np.float32], ids: NDArray[np.int64]) -> Floats:
    """Natural log-probabilities of some tokens by the raw logits [V]."""
    top = float(logits.max())
    total = mass(logits, top)
    result: Floats = logits[ids].astype(np.float64) - (top + np.log(total))
    return result


_BINS = 1 << 11  # of logits, among which top-p looks for its last one
_DEEP = 40.0  # what lies so far below the largest weighs nothing
_SLACK = 1e-3  # more than rounding a limit to float32 loses


@dataclass(frozen=True)
class Drawable:
    """Tokens as likely as the softmax of `logits` / `temperature` says; `ids` None: all there are.

    They lie in the order of their ids where `top_k` leaves many, else the most likely first.
    """

    ids: NDArray[np.int64] | None
    logits: AnyFloats
    temperature: float = 1.0

    def at(self, share: float) -> int:
        """The token at that share (0 to 1) of the probabilities in a row: with a random one, a draw
        by the inverse of their sums. Sums of parts come first, then those of one part's tokens.
        """
        if self.ids is not None and self.ids.size == 1:
            return int(self.ids[0])
        top = float(self.logits.max())
        starts = range(0, self.logits.size, PART)
        sums = np.cumsum([self._weights(start, top).sum() for start in starts])
        wanted = share * sums[-1]
        part = _place(sums, wanted)
        before = sums[part - 1] if part else 0.0
        weights = np.cumsum(self._weights(starts[part], top))
        found = starts[part] + _place(weights, wanted - before)
        return found if self.ids is None else int(self.ids[found])

    def _weights(self, start: int, top: float) -> Floats:
        part = self.logits[start : start + PART].astype(np.float64)
        part -= top
        part /= self.temperature
        weights: Floats = np.exp(part, out=part)
        return weights


def drawable(scores: AnyFloats, params: Sampling) -> Drawable:
    """The tokens that the last step of `narrowed` leaves of scores [V], some of them finite."""
    if params.temperature <= GREEDY or is_few(params.top_k, scores.size):
        *_, (_, kept) = narrowed(scores, params)
        return Drawable(kept.ids, kept.logits)
    ids = largest(scores, params.top_k) if 0 < params.top_k < scores.size else None
    logits = scores if ids is None else scores[ids]
    top = float(logits.max())
    whole = mass(logits, top) if params.top_p < 1.0 else 0.0
    if params.min_p > 0.0:
        left = _likely(logits, top + float(np.log(params.min_p)))
        ids, logits = left if ids is None else ids[left], logits[left]
    if params.top_p < 1.0:
        left = _front(logits, top, params.top_p * whole)
        ids, logits = left if ids is None else ids[left], logits[left]
    return Drawable(ids, logits, params.temperature)


def _likely(logits: AnyFloats, least: float) -> NDArray[np.int64]:
    """Places of those that are `least` and more, rising."""
    near = np.flatnonzero(logits >= least - _SLACK)
    found: NDArray[np.int64] = near[logits[near].astype(np.float64) >= least]
    return found


def _front(logits: AnyFloats, top: float, wanted: float) -> NDArray[np.int64]:
    """Places of the largest, as few as weigh so much together, rising. Of many, only those around
    the last one are sorted.
    """
    weights = np.exp(logits.astype(np.float64) - top)
    surely, edge, before = np.empty(0, np.int64), np.arange(logits.size), 0.0
    if logits.size > PART:
        depth = min(_DEEP, max(top - float(logits.min()), 1e-9))
        bins = np.minimum((top - logits) * (_BINS / depth), _BINS - 1).astype(np.int64)
        sums = np.cumsum(np.bincount(bins, weights, _BINS))
        last = min(int(np.searchsorted(sums, wanted)), _BINS - 1)
        before = float(sums[last - 1]) if last else 0.0
        surely, edge = np.flatnonzero(bins < last), np.flatnonzero(bins == last)
    edge = edge[np.argsort(-logits[edge], kind="stable")]
    keep = int(np.searchsorted(before + np.cumsum(weights[edge]), wanted)) + 1
    return np.sort(np.append(surely, edge[:keep]))


def _place(sums: Floats, wanted: float) -> int:
    """The first whose sum is more: never one that adds nothing."""
    return int(np.searchsorted(sums, min(wanted, np.nextafter(sums[-1], 0.0)), "right"))
