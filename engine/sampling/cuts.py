"""Candidates for sampling: top-k, top-p, min-p, temperature, in llama.cpp's order."""

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
    kept = top_k(scores, params.top_k)
    yield "top_k", kept
    kept = top_p(kept, params.top_p)
    yield "top_p", kept
    kept = min_p(kept, params.min_p)
    yield "min_p", kept
    scaled = (kept.logits - kept.logits[0]) / params.temperature
    yield "temperature", Candidates(kept.ids, scaled)


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
