"""Q4_K of float weights: 8 sub-blocks of 32 with scales and minima of 6 bits, as ggml's reference
encoder chooses them (`quantize_row_q4_K_ref` and `make_qkx2_quants` of ggml-quants.c).
"""

from typing import Any

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float32]
Reals = NDArray[np.floating[Any]]
Blocks = NDArray[np.uint8]
BLOCK, SUB, PARTS = 256, 32, 8
MOST, MOST_SCALE = 15, 63
STEPS, FROM, BY = 20, -1.0, 0.1
"""Trials of a scale: as if the largest code were 14.0, 14.1, and on to 16.0."""
ROWS = 1024  # blocks that are encoded at once


def encode_q4_k(values: Floats) -> Blocks:
    """Values [rows, K] as bytes [rows, K / 256 * 144]; K is a multiple of 256."""
    blocks = np.ascontiguousarray(values, np.float32).reshape(-1, BLOCK)
    parts = [_encoded(blocks[at : at + ROWS]) for at in range(0, len(blocks), ROWS)]
    return np.concatenate(parts).reshape(len(values), -1)


def _encoded(blocks: Floats) -> Blocks:
    """Blocks [n, 256] as bytes [n, 144]."""
    x = blocks.reshape(-1, PARTS, SUB)
    scales, minima = _fitted(x)
    d, sc = _six_bits(scales)
    dmin, m = _six_bits(minima)
    step, low = d[:, None] * sc, dmin[:, None] * m
    safe = np.where(step > 0, step, 1)[..., None]
    codes = np.clip(np.rint((x + low[..., None]) / safe), 0, MOST).astype(np.uint8)
    packed = np.zeros((len(x), 12), np.uint8)
    packed[:, :4] = sc[:, :4] | (sc[:, 4:] >> 4 << 6)
    packed[:, 4:8] = m[:, :4] | (m[:, 4:] >> 4 << 6)
    packed[:, 8:] = (sc[:, 4:] & 15) | ((m[:, 4:] & 15) << 4)
    pairs = codes.reshape(-1, PARTS // 2, 2, SUB)
    halves = pairs[:, :, 0] | (pairs[:, :, 1] << 4)
    ends = [one.astype("<f2").reshape(-1, 1).view(np.uint8) for one in (d, dmin)]
    return np.concatenate([*ends, packed, halves.reshape(len(x), -1)], axis=1)


def _six_bits(values: Floats) -> tuple[Floats, Blocks]:
    """A factor [n], as half precision has it, and codes [n, 8] of values that are not negative."""
    most = values.max(axis=1, keepdims=True)
    inverse = np.where(most > 0, MOST_SCALE / np.where(most > 0, most, 1), 0)
    codes = np.clip(np.rint(inverse * values), 0, MOST_SCALE).astype(np.uint8)
    return (most[:, 0] / MOST_SCALE).astype(np.float16).astype(np.float32), codes


def _fitted(x: Floats) -> tuple[Floats, Floats]:
    """Scales and minima (as positive numbers) [n, 8] of sub-blocks [n, 8, 32] with the least
    weighted square error among the trials.
    """
    weights = np.sqrt(np.square(x).mean(axis=2, keepdims=True)) + np.abs(x)
    low = np.minimum(x.min(axis=2), 0)
    span = x.max(axis=2) - low
    flat = span <= 0
    span = np.where(flat, 1, span).astype(np.float32)
    scale, least = span / np.float32(MOST), low
    best = _error(x, weights, scale, least, _codes(x, low, np.float32(MOST) / span))
    w, wx = weights.sum(axis=2), (weights * x).sum(axis=2)
    for trial in range(STEPS + 1):
        codes = _codes(x, low, np.float32(FROM + BY * trial + MOST) / span)
        wl, wll = (weights * codes).sum(axis=2), (weights * codes * codes).sum(axis=2)
        wxl = (weights * codes * x).sum(axis=2)
        determinant = w * wll - wl * wl
        fits = determinant > 0
        safe = np.where(fits, determinant, 1)
        now, below = (w * wxl - wx * wl) / safe, (wll * wx - wl * wxl) / safe
        above = below > 0
        now = np.where(above, wxl / np.where(wll > 0, wll, 1), now)
        below = np.where(above, 0, below)
        error = _error(x, weights, now, below, codes)
        better = fits & (error < best)
        scale, least, best = (
            np.where(better, new, old) for new, old in ((now, scale), (below, least), (error, best))
        )
    return np.where(flat, 0, scale).astype(np.float32), (-least).astype(np.float32)


def _codes(x: Floats, low: Floats, inverse: Reals) -> Floats:
    codes: Floats = np.clip(np.rint(inverse[..., None] * (x - low[..., None])), 0, MOST)
    return codes


def _error(x: Floats, weights: Floats, scale: Reals, low: Reals, codes: Floats) -> Floats:
    off = scale[..., None] * codes + low[..., None] - x
    error: Floats = (weights * off * off).sum(axis=2)
    return error
