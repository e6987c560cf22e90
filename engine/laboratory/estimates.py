"""Estimators of what a quantisation loses, by llama.cpp's llama-perplexity --kl-divergence."""

from collections.abc import Sequence
from math import exp, sqrt
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from engine.protocol import Estimate, QualityEstimates

Floats = NDArray[np.float64]
Logits = NDArray[np.float32]
LEAST = -16.0
"""Log-probabilities of the base from which on a token counts."""
_STEPS = 65535
_ROWS = 1 << 18  # numbers that are computed at once
SCRATCH = 8 * 8 * _ROWS
"""Bytes that an estimate computes with, at most: eight arrays in float64."""
KLD_PERCENTILES = (99.9, 99, 95, 90, 50, 10, 5, 1, 0.1)
FEWEST = 10
"""Values that have no error bar, or fewer."""


class CodedRows(NamedTuple):
    """Log-probabilities in 16 bits: `low` + `step` x `codes` [n, V], each row over at most 16 nats
    below its largest. `exact` [n] is that of the text's token, empty where it is coded, too.
    """

    low: Logits
    step: Logits
    codes: NDArray[np.uint16]
    exact: Floats

    @property
    def nbytes(self) -> int:
        """Bytes of the arrays."""
        return sum(one.nbytes for one in self)

    def rows_of(self, part: slice) -> Floats:
        """Decode some rows, f64 [n, V]."""
        low, step = (one[part].astype(np.float64)[:, None] for one in (self.low, self.step))
        return low + step * self.codes[part]


def log_probabilities(logits: Logits) -> Floats:
    """Log-softmax of rows [n, V] in float64."""
    rows = logits.astype(np.float64)
    rows -= rows.max(axis=1, keepdims=True)
    rows -= np.log(np.exp(rows).sum(axis=1, keepdims=True))
    return rows


def coded(logits: Logits, following: Sequence[int] = ()) -> CodedRows:
    """Log-probabilities of logits [n, V], as llama-perplexity keeps those of the base; exact ones
    of the tokens [n] that follow.
    """
    n, step = len(logits), max(1, _ROWS // logits.shape[1])
    parts = [slice(start, start + step) for start in range(0, max(n, 1), step)]
    found = [_coded(logits[part], following[part]) for part in parts]
    return CodedRows(*(np.concatenate(column) for column in zip(*found, strict=True)))


def _coded(logits: Logits, following: Sequence[int]) -> CodedRows:
    top = logits.max(axis=1, keepdims=True)
    bottom = np.maximum(logits.min(axis=1, keepdims=True), top + np.float32(LEAST))
    step = (top - bottom) / np.float32(_STEPS)
    rows = log_probabilities(logits)
    low = rows.max(axis=1, keepdims=True) - (top - bottom)
    scaled = (logits - bottom) / np.where(step > 0, step, 1)
    codes = np.rint(np.clip(scaled, 0, _STEPS)).astype(np.uint16)
    exact = rows[np.arange(len(following)), np.asarray(following, np.int64)]
    return CodedRows(low[:, 0].astype(np.float32), step[:, 0], codes, exact)


class Estimator:
    """Collects positions of two models, then estimates how they differ."""

    def __init__(self) -> None:
        self._columns: list[Floats] = []  # [5, n]: nll, nll of the base, KLD, same top, dp

    def add(self, base: Logits | CodedRows, logits: Logits, following: Sequence[int]) -> None:
        """Add rows [n, V] of both models and the tokens [n] that follow in the text."""
        step = max(1, _ROWS // logits.shape[1])
        for start in range(0, len(logits), step):
            part = slice(start, start + step)
            if isinstance(base, CodedRows):
                p, exact = base.rows_of(part), base.exact[part]
            else:
                p, exact = log_probabilities(base[part]), np.empty(0)
            self._columns.append(_columns(p, exact, logits[part], following[part]))

    @property
    def has_any(self) -> bool:
        """True if there is a position."""
        return bool(self._columns)

    @property
    def kld(self) -> float:
        """The mean KL divergence so far."""
        return float(np.concatenate([one[2] for one in self._columns]).mean())

    @property
    def estimates(self) -> QualityEstimates:
        """Estimates over all positions; there is at least one."""
        nll, nll_base, kld, same, dp = np.concatenate(self._columns, axis=1)
        n = len(nll)
        ours, theirs = _mean(nll), _mean(nll_base)
        cov = float((nll * nll_base).mean() - nll.mean() * nll_base.mean()) / max(1, n - 1)
        spread = ours.error**2 + theirs.error**2 - 2 * cov if n > FEWEST else 0.0
        ln_ratio = Estimate(ours.value - theirs.value, sqrt(max(0.0, spread)))
        ratio, share, square = exp(ln_ratio.value), float(same.mean()), _mean(dp**2)
        rms = sqrt(square.value)
        return QualityEstimates(
            n,
            _exp(ours),
            _exp(theirs),
            ln_ratio,
            Estimate(ratio, ratio * ln_ratio.error),
            _mean(kld),
            float(kld.max()),
            _percentiles(kld),
            Estimate(share, sqrt(share * (1 - share) / max(1, n - 1))),
            _mean(dp),
            Estimate(rms, 0.5 / rms * square.error if rms else 0.0),
            _percentiles(dp),
        )


def _columns(p: Floats, exact: Floats, logits: Logits, following: Sequence[int]) -> Floats:
    q, at = log_probabilities(logits), (np.arange(len(p)), np.asarray(following))
    kld = np.where(p > LEAST, np.exp(p) * (p - q), 0.0).sum(axis=1)
    same = (p.argmax(axis=1) == logits.argmax(axis=1)).astype(np.float64)
    base = exact if exact.size else p[at]
    return np.stack([-q[at], -base, kld, same, np.exp(q[at]) - np.exp(base)])


def _mean(values: Floats) -> Estimate:
    n, mean = len(values), float(values.mean())
    if n <= FEWEST:
        return Estimate(mean, 0.0)
    return Estimate(mean, sqrt(max(0.0, float((values**2).mean()) - mean**2) / (n - 1)))


def _exp(nll: Estimate) -> Estimate:
    ppl = exp(nll.value)
    return Estimate(ppl, ppl * nll.error)


def _percentiles(values: Floats) -> dict[str, float]:
    found = np.percentile(values, KLD_PERCENTILES)
    return {f"{p:g}": float(one) for p, one in zip(KLD_PERCENTILES, found, strict=True)}
