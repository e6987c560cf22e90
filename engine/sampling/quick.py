"""The final candidates of `narrowed` without sorting the vocabulary, and a draw from them."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from engine.protocol import Sampling
from engine.sampling.cuts import GREEDY, PART, AnyFloats, Floats, is_few, largest, mass, narrowed

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
