"""How far a model's logits are from a stored reference, without the reference's gigabytes.

**Sketch.** A logit vector x of V numbers is kept as y = S^T x / 8, S a fixed V x 64 matrix of +1
and -1 drawn from a seed. For every x the expectation of |y|^2 over draws of S is |x|^2, and its
relative standard deviation is at most sqrt(2 / 64) = 18 %. The sketch is linear, so the sketches of
x and of a reference r estimate |x - r|^2, without bias and with the same 18 %, however small the
difference is. With the exact |r|^2 stored beside it this gives NMSE = |x - r|^2 / |r|^2, per
position and over all. Over many positions whose errors are unlike each other the sum is known much
better than to 18 %; it is never known worse.

**KL.** Of two distributions only the k most likely ids and their log-probabilities are known. They
are compared on the ids known from both, everything else being one further outcome:

    KL(P || Q) >= sum over common ids of p (ln p - ln q) + rest_p (ln rest_p - ln rest_q)

with rest = 1 - sum. Merging outcomes never raises a KL divergence, so this is a lower bound (about
80 % of the whole for the stored runs); both sides of a comparison are measured with it.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import lru_cache
from typing import Any, NamedTuple

import numpy as np

WIDTH = 64
SEED = 20240229
REST = 1e-6  # the least rest: below it a sum of float32 probabilities says nothing

Arrays = Mapping[str, Any]


class Nmse(NamedTuple):
    overall: float
    median: float
    worst: float


class Figures(NamedTuple):
    """Against llama.cpp: ours and the float32 reference's."""

    agreement: float
    kl: float
    f32_agreement: float
    f32_kl: float


@lru_cache(maxsize=1)
def signs(vocabulary: int, seed: int = SEED) -> np.ndarray:
    """The matrix S: float32 [V, 64] of +1 and -1.

    One raw draw of 64 bits a row; that stream is PCG64's definition and no NumPy release's choice.
    """
    draws = np.random.PCG64(seed).random_raw(vocabulary).astype("<u8")
    bits = np.unpackbits(draws.view(np.uint8).reshape(vocabulary, 8), axis=1)
    return bits.astype(np.float32) * 2 - 1


def projection(logits: np.ndarray, seed: int = SEED) -> np.ndarray:
    """Sketch of every position: [T, V] -> float32 [T, 64]."""
    matrix = signs(logits.shape[1], seed)
    return logits.astype(np.float32, copy=False) @ matrix / np.float32(WIDTH**0.5)


def square_errors(ours: np.ndarray, golden: Arrays) -> np.ndarray:
    """Estimated |x - r|^2 of the first positions: sketches [T, 64] -> float64 [T]."""
    difference = ours.astype(np.float64) - golden["sketch"][: len(ours)]
    return (difference**2).sum(axis=1)


def nmse_from_projection(ours: np.ndarray, golden: Arrays) -> Nmse:
    """NMSE of the first len(ours) positions, over all of them and per position (median, worst)."""
    errors = square_errors(ours, golden)
    squares = golden["square"][: len(ours)]
    each = errors / squares
    return Nmse(float(errors.sum() / squares.sum()), float(np.median(each)), float(each.max()))


def nmse(logits: np.ndarray, reference: np.ndarray) -> float:
    """sum (x - r)^2 / sum r^2 over whole arrays."""
    reference = reference.astype(np.float64)
    return float(((logits - reference) ** 2).sum() / (reference**2).sum())


def agreement(top_ids: np.ndarray, golden: Arrays) -> float:
    """Share of the first positions where the most likely id [T] is the reference's."""
    return float((top_ids == golden["top_ids"][: len(top_ids), 0]).mean())


def unexplained(
    top_ids: np.ndarray, ours: np.ndarray, golden: Arrays, vocabulary: int
) -> np.ndarray:
    """Positions where the top id differs though the reference's two best are 4 RMS errors apart."""
    count = len(top_ids)
    rms = np.sqrt(square_errors(ours, golden) / vocabulary)
    best = golden["top_logits"][:count].astype(np.float64)
    differs = top_ids != golden["top_ids"][:count, 0]
    return np.flatnonzero(differs & (best[:, 0] - best[:, 1] >= 4 * rms))


def kl(p_ids: np.ndarray, p_logp: np.ndarray, q_ids: np.ndarray, q_logp: np.ndarray) -> np.ndarray:
    """The bound above, row by row: ids and natural log-probabilities [..., k] -> float64 [...]."""
    shape = p_ids.shape[:-1]
    flat = (a.reshape(-1, a.shape[-1]) for a in (p_ids, p_logp, q_ids, q_logp))
    rows = zip(*flat, strict=True)
    return np.array([_kl(*row) for row in rows]).reshape(shape)


def mean_kl(p_ids: np.ndarray, p_logp: np.ndarray, q_ids: np.ndarray, q_logp: np.ndarray) -> float:
    """Mean of `kl` over all rows."""
    return float(kl(p_ids, p_logp, q_ids, q_logp).mean())


def perplexity_figures(ours: Arrays, golden: Arrays) -> Figures:
    """A `perplexity --top-k --out` file against llama.cpp's stored distributions.

    Raises ValueError when the two do not hold the same tokens, positions or number of ids.
    """
    if not np.array_equal(ours["tokens"], golden["tokens"]):
        raise ValueError(f"other tokens: {ours['tokens'].shape} and {golden['tokens'].shape}")
    if ours["ids"].shape != golden["ids"].shape:
        raise ValueError(f"other ids: {ours['ids'].shape} and {golden['ids'].shape}")
    top = golden["ids"][..., 0]
    return Figures(
        agreement=float((ours["ids"][..., 0] == top).mean()),
        kl=mean_kl(golden["ids"], golden["logp"], ours["ids"], ours["logp"]),
        f32_agreement=float((golden["f32_top"] == top).mean()),
        f32_kl=float(golden["f32_kl"].mean()),
    )


def _kl(p_ids: np.ndarray, p_logp: np.ndarray, q_ids: np.ndarray, q_logp: np.ndarray) -> float:
    _, at_p, at_q = np.intersect1d(p_ids, q_ids, assume_unique=True, return_indices=True)
    p, q = p_logp[at_p].astype(np.float64), q_logp[at_q].astype(np.float64)
    rest_p = max(1 - np.exp(p).sum(), REST)
    rest_q = max(1 - np.exp(q).sum(), REST)
    return float((np.exp(p) * (p - q)).sum() + rest_p * (np.log(rest_p) - np.log(rest_q)))
