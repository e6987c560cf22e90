"""Q4_K, Q5_K and Q6_K of float weights, as ggml's reference encoder chooses them (ggml-quants.c:
`quantize_row_q4_K_ref`, `_q5_K_ref` and `_q6_K_ref` with `make_qkx2_quants` and `make_qx_quants`).

Q4_K and Q5_K are 8 sub-blocks of 32 with scales and minima of 6 bits, Q6_K is 16 of 16 with signed
scales of 8 bits.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from engine.gguf.formats import Q4_K, Q5_K, Q6_K, Format

Floats = NDArray[np.float32]
Reals = NDArray[np.floating[Any]]
Blocks = NDArray[np.uint8]
BLOCK = 256
ROWS = 1024  # blocks that are encoded at once
PARTS, MOST_SCALE = 8, 63  # of Q4_K and Q5_K
NEAR_ZERO = 1e-15  # a sub-block whose weights are all below is zero


@dataclass(frozen=True)
class _Search:
    """The trials of a scale: as if the largest code were `most` + `first`, and so on by 0.1."""

    most: int
    first: float
    trials: int


FOUR_BITS, FIVE_BITS = _Search(15, -1.0, 21), _Search(31, -0.5, 16)


def encode_k(values: Floats, fmt: Format) -> Blocks:
    """Values [rows, K] as bytes [rows, K / 256 * block bytes]; K is a multiple of 256, `fmt` one
    of K_QUANTS.
    """
    blocks, encode = np.ascontiguousarray(values, np.float32).reshape(-1, BLOCK), K_QUANTS[fmt]
    parts = [encode(blocks[at : at + ROWS]) for at in range(0, len(blocks), ROWS)]
    return np.concatenate(parts).reshape(len(values), -1)


def _q4_k(blocks: Floats) -> Blocks:
    head, codes = _with_minima(blocks, FOUR_BITS)
    return np.concatenate([head, _halves(codes)], axis=1)


def _q5_k(blocks: Floats) -> Blocks:
    head, codes = _with_minima(blocks, FIVE_BITS)
    high = np.packbits(codes >> 4, axis=1, bitorder="little")[:, 0]
    return np.concatenate([head, high, _halves(codes & np.uint8(15))], axis=1)


def _q6_k(blocks: Floats) -> Blocks:
    x = blocks.reshape(-1, 16, 16)
    scales = _signed(x)
    largest = np.abs(scales).argmax(axis=1)[:, None]
    most = np.take_along_axis(scales, largest, axis=1)
    known = np.abs(most) >= NEAR_ZERO
    inverse = np.where(known, np.float32(-128) / np.where(known, most, 1), 0)
    sc = np.minimum(np.rint(inverse * scales), 127).astype(np.int8)
    d = np.where(known, 1 / np.where(known, inverse, 1), 0).astype("<f2")
    step = (d.astype(np.float32) * sc)[..., None]
    codes = np.clip(np.rint(x / np.where(step == 0, 1, step)), -32, 31) + 32
    codes = np.where(step == 0, 0, codes).astype(np.uint8).reshape(-1, 2, 4, 32)
    low = (codes[:, :, :2] & 15) | ((codes[:, :, 2:] & 15) << 4)
    shifts = np.array([0, 2, 4, 6], np.uint8)[:, None]
    high = np.bitwise_or.reduce(codes >> 4 << shifts, axis=2)
    parts = (low, high, sc.view(np.uint8), d.view(np.uint8))
    return np.concatenate([one.reshape(len(x), -1) for one in parts], axis=1)


K_QUANTS: dict[Format, Callable[[Floats], Blocks]] = {Q4_K: _q4_k, Q5_K: _q5_k, Q6_K: _q6_k}
"""Blocks [n, 256] as bytes [n, block bytes], by format."""


def _with_minima(blocks: Floats, search: _Search) -> tuple[Blocks, Blocks]:
    """The factors, scales and minima of blocks [n, 256] as bytes [n, 16], and codes [n, 8, 32]."""
    x = blocks.reshape(-1, PARTS, BLOCK // PARTS)
    scales, minima = _fitted(x, search)
    d, sc = _six_bits(scales)
    dmin, m = _six_bits(minima)
    step, low = d[:, None] * sc, dmin[:, None] * m
    safe = np.where(step > 0, step, 1)[..., None]
    codes = np.clip(np.rint((x + low[..., None]) / safe), 0, search.most).astype(np.uint8)
    packed = np.zeros((len(x), 12), np.uint8)
    packed[:, :4] = sc[:, :4] | (sc[:, 4:] >> 4 << 6)
    packed[:, 4:8] = m[:, :4] | (m[:, 4:] >> 4 << 6)
    packed[:, 8:] = (sc[:, 4:] & 15) | ((m[:, 4:] & 15) << 4)
    ends = [one.astype("<f2").reshape(-1, 1).view(np.uint8) for one in (d, dmin)]
    return np.concatenate([*ends, packed], axis=1), codes


def _halves(codes: Blocks) -> Blocks:
    """Codes [n, 8, 32] of 4 bits as bytes [n, 128]: a sub-block and the next share bytes."""
    pairs = codes.reshape(len(codes), PARTS // 2, 2, -1)
    packed: Blocks = pairs[:, :, 0] | (pairs[:, :, 1] << np.uint8(4))
    return packed.reshape(len(codes), -1)


def _six_bits(values: Floats) -> tuple[Floats, Blocks]:
    """A factor [n], as half precision has it, and codes [n, 8] of values that are not negative."""
    most = values.max(axis=1, keepdims=True)
    inverse = np.where(most > 0, MOST_SCALE / np.where(most > 0, most, 1), 0)
    codes = np.clip(np.rint(inverse * values), 0, MOST_SCALE).astype(np.uint8)
    return (most[:, 0] / MOST_SCALE).astype(np.float16).astype(np.float32), codes


def _fitted(x: Floats, search: _Search) -> tuple[Floats, Floats]:
    """Scales and minima (as positive numbers) [n, 8] of sub-blocks [n, 8, 32] with the least
    weighted square error among the trials. A trial begins with the best minimum so far.
    """
    weights = np.sqrt(_dot(x, x) / np.float32(x.shape[2]))[..., None] + np.abs(x)
    low, high = np.minimum(x.min(axis=2), 0), x.max(axis=2)
    flat = high <= low
    high = np.where(flat, low + 1, high)
    scale = (high - low) / np.float32(search.most)
    best = _error(x, weights, scale, low, _codes(x, low, 1 / scale, search.most))
    w, wx = _dot(weights, np.ones_like(x)), _dot(weights, x)
    for trial in range(search.trials):
        largest = np.float32(search.first + 0.1 * trial + search.most)
        span = np.where(high > low, high - low, 1)
        codes = _codes(x, low, largest / span, search.most)
        wl, wll = _dot(weights, codes), _dot(weights * codes, codes)
        wxl = _dot(weights * codes, x)
        determinant = w * wll - wl * wl
        fits = determinant > 0
        safe = np.where(fits, determinant, 1)
        now, below = (w * wxl - wx * wl) / safe, (wll * wx - wl * wxl) / safe
        above = below > 0
        now = np.where(above, wxl / np.where(wll > 0, wll, 1), now)
        below = np.where(above, 0, below)
        error = _error(x, weights, now, below, codes)
        better = fits & (error < best)
        scale, low, best = (
            np.where(better, new, old) for new, old in ((now, scale), (below, low), (error, best))
        )
    return np.where(flat, 0, scale).astype(np.float32), np.abs(low).astype(np.float32)


def _signed(x: Floats) -> Floats:
    """Scales [n, 16] of sub-blocks [n, 16, 16], whose codes go from -32 to 31, with the least
    square error weighted by x² among 19 trials around the largest weight's.
    """
    largest = np.abs(x).argmax(axis=2)[..., None]
    most = np.take_along_axis(x, largest, axis=2)[..., 0]
    zero = np.abs(most) < NEAR_ZERO
    most, weights = np.where(zero, 1, most).astype(np.float32), np.square(x)
    scale = best = np.zeros_like(most)
    for trial in (0, *range(-9, 0), *range(1, 10)):
        inverse = np.float32(-(32 + 0.1 * trial)) / most
        codes = np.clip(np.rint(inverse[..., None] * x), -32, 31)
        xl, ll = _dot(weights * x, codes), _dot(weights * codes, codes)
        better = (ll > 0) & (xl * xl > best * ll)
        now = xl / np.where(ll > 0, ll, 1)
        scale, best = np.where(better, now, scale), np.where(better, now * xl, best)
    return np.where(zero, 0, scale).astype(np.float32)


def _dot(a: Floats, b: Floats) -> Floats:
    """Sums of products over the last axis, added one after the other as ggml's encoder does: trials
    are so close that the best depends on the last bit.
    """
    total = np.zeros(a.shape[:-1], np.float32)
    for part in np.ascontiguousarray(np.moveaxis(a * b, -1, 0)):
        total += part
    return total


def _codes(x: Floats, low: Floats, inverse: Reals, most: int) -> Floats:
    codes: Floats = np.clip(np.rint(inverse[..., None] * (x - low[..., None])), 0, most)
    return codes


def _error(x: Floats, weights: Floats, scale: Reals, low: Reals, codes: Floats) -> Floats:
    off = (scale[..., None] * codes + low[..., None] - x).astype(np.float32)
    return _dot(weights, off * off)
