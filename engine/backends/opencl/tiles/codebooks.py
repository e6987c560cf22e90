"""Formats whose blocks name entries of codebooks, or hold five ternary numbers a byte, written out
as the codes and words of row tiles (words.py). Exact: only bits are moved.

IQ2 and IQ1 become three bits an element, IQ3 four, TQ1_0 two; the tables in schemes.py say
what a code stands for. The codebooks are those of the `gguf` package.
"""

from functools import cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

from engine.backends.opencl.tiles.words import (
    LOW,
    Parts,
    pack_1bit,
    pack_2bit,
    pack_4bit,
    shifts,
    without_scales,
)
from engine.device.backend import Bytes

_Index = NDArray[np.integer[Any]]

# By the seven signs that are stored: with the eighth, which makes their number even.
_SIGNS_OF_7 = np.array([i | (i.bit_count() & 1) << 7 for i in range(128)], np.uint8)


@cache
def _grid(name: str) -> Bytes:
    """A codebook, its numbers being places in the ascending list of all that occur: [n, 4 or 8]."""
    from gguf import quants  # slow to import

    kind = getattr(quants, name)
    kind.init_grid()
    places: Bytes = np.searchsorted(kind.grid_map, kind.grid[0, 0]).astype(np.uint8)
    return places


def iq2_xxs(blocks: Bytes) -> Parts:
    """| 0: half d | 2: 8 x (4 indices of 8 bits, then 4 x 7 signs and a scale of 4 bits) |"""
    of_32 = blocks[..., 2:].reshape(*blocks.shape[:-1], 8, 8)
    packed = _numbers(of_32[..., 4:], "<u4")
    return (
        blocks[..., :2],
        _pack_3bit("IQ2_XXS", of_32[..., :4], _unpack_signs(packed)),
        _doubled(packed >> 28),
    )


def iq2_xs(blocks: Bytes) -> Parts:
    """| 0: half d | 2: 32 x (index of 9 bits, 7 signs) | 66: 16 scales of 4 bits |"""
    lead = blocks.shape[:-1]
    packed = _numbers(blocks[..., 2:66], "<u2").reshape(*lead, 8, 4)
    words = _pack_3bit("IQ2_XS", packed & 511, _SIGNS_OF_7[packed >> 9])
    return blocks[..., :2], words, _doubled(_unpack_nibbles(blocks[..., 66:]))


def iq2_s(blocks: Bytes) -> Parts:
    """| 0: half d | 2: 32 indices | 34: 32 x 8 signs | 66: 32 x 2 high bits | 74: 16 scales |"""
    lead = blocks.shape[:-1]
    high = blocks[..., 66:74, None] >> np.array([0, 2, 4, 6], np.uint8) & 3
    index = blocks[..., 2:34].reshape(*lead, 8, 4) | high.astype(np.uint16) << 8
    words = _pack_3bit("IQ2_S", index, blocks[..., 34:66].reshape(*lead, 8, 4))
    return blocks[..., :2], words, _doubled(_unpack_nibbles(blocks[..., 74:]))


def iq3_xxs(blocks: Bytes) -> Parts:
    """| 0: half d | 2: 64 indices of 4 numbers each | 66: 8 x (4 x 7 signs, scale of 4 bits) |"""
    index = blocks[..., 2:66].reshape(*blocks.shape[:-1], 8, 8)
    packed = _numbers(blocks[..., 66:], "<u4")[..., None]
    words = _pack_signed_3bit("IQ3_XXS", index, _unpack_signs(packed))
    return blocks[..., :2], words, _doubled(packed >> 28)


def iq3_s(blocks: Bytes) -> Parts:
    """| 0: d | 2: 64 indices | 66: 64 ninth bits | 74: 32 x 8 signs | 106: 8 scales of 4 bits |"""
    lead = blocks.shape[:-1]
    high = np.unpackbits(blocks[..., 66:74], -1, bitorder="little").astype(np.uint16) << 8
    index = (blocks[..., 2:66] | high).reshape(*lead, 8, 8)
    words = _pack_signed_3bit("IQ3_S", index, blocks[..., 74:106].reshape(*lead, 8, 4))
    return blocks[..., :2], words, _doubled(_unpack_nibbles(blocks[..., 106:]).reshape(*lead, 8, 1))


def iq1_s(blocks: Bytes) -> Parts:
    """| 0: half d | 2: 32 indices | 34: 8 x (4 x 3 high bits, scale of 3 bits, 1: moved down) |"""
    packed = _numbers(blocks[..., 34:], "<u2")[..., None]
    index = blocks[..., 2:34].reshape(*packed.shape[:-1], 4)
    high = packed >> np.array([0, 3, 6, 9], np.uint16) & 7
    down = np.repeat((packed >> 15).astype(np.uint8) * 255, 4, -1)
    words = _pack_3bit("IQ1_S", index | high.astype(np.uint16) << 8, down)
    return blocks[..., :2], words, _doubled(packed >> 12 & 7)


def iq1_m(blocks: Bytes) -> Parts:
    """| 0: 32 indices | 32: 32 x (3 high bits, 1: moved down) | 48: 4 x (4 scales, 4 of d) |"""
    lead = blocks.shape[:-1]
    high = _unpack_nibbles(blocks[..., 32:48]).reshape(*lead, 8, 4)
    index = blocks[..., :32].reshape(*lead, 8, 4) | (high & 7).astype(np.uint16) << 8
    packed = _numbers(blocks[..., 48:], "<u2")
    parts = packed >> 12 << np.array([0, 4, 8, 12], np.uint16)
    d = np.bitwise_or.reduce(parts, -1, keepdims=True).view(np.uint8)
    scales = packed[..., None] >> np.array([0, 3, 6, 9], np.uint16) & 7
    words = _pack_3bit("IQ1_S", index, (high >> 3).astype(np.uint8) * np.uint8(255))
    return d, words, _doubled(scales.reshape(*lead, 8, 2))


def tq1_0(blocks: Bytes) -> Parts:
    """| 0: 48 bytes of 5 digits | 48: 4 bytes of 4 digits | 52: half d |

    A byte is a number below 1 in base 3, times 256: digits come out on top, first ones first.
    """
    lead = blocks.shape[:-1]
    powers = shifts(1, 3, 9, 27, 81)
    runs = [
        (blocks[..., None, start:end] * powers[:n]).reshape(*lead, -1)
        for start, end, n in ((0, 32, 5), (32, 48, 5), (48, 52, 4))
    ]
    digits = (np.concatenate(runs, -1).astype(np.uint16) * 3 >> 8).astype(np.uint8)
    return without_scales(blocks[..., 52:], digits.reshape(*lead, 8, 32))


def _numbers(raw: Bytes, kind: str) -> _Index:
    """Bytes [..., n] as numbers, the last axis shorter."""
    return np.ascontiguousarray(raw).view(kind)


def _unpack_signs(packed: _Index) -> Bytes:
    """Signs [..., 8, 4] of eight numbers each, from numbers [..., 8, 1]."""
    signs: Bytes = _SIGNS_OF_7[packed >> np.array([0, 7, 14, 21], np.uint32) & 127]
    return signs


def _unpack_nibbles(raw: Bytes) -> Bytes:
    """The low and the high one of bytes [..., n]: [..., n, 2]."""
    return raw[..., None] >> np.array([0, 4], np.uint8) & LOW


def _doubled(scales: _Index) -> Bytes:
    """Scales s that mean s + 1/2, doubled."""
    return scales.astype(np.uint8) * np.uint8(2) + np.uint8(1)


def _pack_3bit(name: str, index: _Index, third: Bytes) -> Bytes:
    """Words of codes: two bits from the codebook [..., 4], the third from bytes [..., 4]."""
    codes = _grid(name)[index]
    low = pack_2bit(codes.reshape(*index.shape[:-1], 32))
    return np.concatenate([pack_1bit(np.ascontiguousarray(third)), low], -1)


def _pack_signed_3bit(name: str, index: _Index, signs: Bytes) -> Bytes:
    """Words of codes: three bits from the codebook [..., 8], the fourth from signs [..., 4]."""
    codes = _grid(name)[index].reshape(*index.shape[:-1], 32)
    return pack_4bit(codes | np.unpackbits(signs, -1, bitorder="little") << np.uint8(3))
