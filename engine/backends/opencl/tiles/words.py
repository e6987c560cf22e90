"""Blocks of a file taken apart into the numbers and words of row tiles: Q*, IQ4_*, *FP4, TQ2_0.

A split takes blocks [rows, n, bytes] apart into halves [rows, records, 2 halves], words [rows,
records, blocks, 4 (high + words)] and scales [rows, records, blocks, scales], all uint8: what
layouts.py has a picture of. The words of most formats are the file's own.
"""

from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

from engine.backends.base import Bytes

Parts = tuple[Bytes, Bytes, Bytes]
Split = Callable[[Bytes], Parts]

_Words = NDArray[np.uint32]

LOW, FOUR = np.uint8(15), np.uint8(4)


def flat(halves: int, high: int) -> Split:
    """Blocks of 32: halves, then a word of fifth bits or none, then the file's own words."""

    def split(blocks: Bytes) -> Parts:
        start = 2 * halves + 4 * high
        words = blocks[..., start:]
        if high:
            fifth = pairs_of_bits(np.ascontiguousarray(blocks[..., 2 * halves : start]))
            words = np.concatenate([fifth, words], -1)
        return blocks[..., : 2 * halves], words[..., None, :], blocks[..., None, :0]

    return split


def q2_k(blocks: Bytes) -> Parts:
    """The scales are the file's: nibbles of scale and minimum for every 16 elements."""
    words = pairs_of_twos(crumbs(blocks[..., 16:80]))
    return blocks[..., 80:], words, blocks[..., :16].reshape(*blocks.shape[:-1], 8, 2)


def q3_k(blocks: Bytes) -> Parts:
    """Third bits as one word; scales of six bits less 32."""
    third = pairs_of_bits(_planes(blocks[..., :32]))
    low, high = blocks[..., 96:104], blocks[..., None, 104:108] >> shifts(0, 2, 4, 6) & np.uint8(3)
    low = (low[..., None, :] >> shifts(0, 4) & LOW).reshape(*low.shape[:-1], 16)
    scales = (low | high.reshape(low.shape) << FOUR) - np.uint8(32)
    words = np.concatenate([third, pairs_of_twos(crumbs(blocks[..., 32:96]))], -1)
    return blocks[..., 108:], words, scales.reshape(*low.shape[:-1], 8, 2)


def q4_k(blocks: Bytes) -> Parts:
    """Six-bit scales and minima become bytes."""
    return blocks[..., :4], nibbles(_quarters(blocks[..., 16:])), _six_bits(blocks[..., 4:16])


def q5_k(blocks: Bytes) -> Parts:
    """As Q4_K, and the fifth bits as one word."""
    words = [pairs_of_bits(_planes(blocks[..., 16:48])), nibbles(_quarters(blocks[..., 48:]))]
    return blocks[..., :4], np.concatenate(words, -1), _six_bits(blocks[..., 4:16])


def q6_k(blocks: Bytes) -> Parts:
    """Bits five and six as two words."""
    lead = blocks.shape[:-1]
    low = blocks[..., :128].reshape(*lead, 2, 1, 64) >> shifts(0, 4) & LOW
    high = crumbs(blocks[..., 128:192])
    words = [pairs_of_twos(high), nibbles(low.reshape(*lead, 8, 32))]
    return blocks[..., 208:], np.concatenate(words, -1), blocks[..., 192:208].reshape(*lead, 8, 2)


def iq4_xs(blocks: Bytes) -> Parts:
    """Scales of six bits less 32."""
    lead = blocks.shape[:-1]
    low = (blocks[..., 4:8, None] >> np.array([0, 4], np.uint8) & LOW).reshape(*lead, 8)
    packed = np.ascontiguousarray(blocks[..., 2:4]).view("<u2")
    high = (packed >> np.arange(0, 16, 2, dtype=np.uint16) & 3).astype(np.uint8)
    scales = (low | high << FOUR) - np.uint8(32)
    return blocks[..., :2], blocks[..., 8:].reshape(*lead, 8, 16), scales[..., None]


def mxfp4(blocks: Bytes) -> Parts:
    """The scale is a power of two, which bf16 holds in full: 2^(e - 128)."""
    e = blocks[..., :1].astype(np.uint16)
    halves = np.where(e < 2, np.uint16(0x20) << e, (e - np.uint16(1)) << np.uint16(7))
    return halves.view(np.uint8), blocks[..., None, 1:], blocks[..., None, :0]


def nvfp4(blocks: Bytes) -> Parts:
    """A block makes two records of two scales each, which halves hold in full."""
    rows, records = blocks.shape[0], 2 * blocks.shape[1]
    e, m = np.divmod(np.arange(256) & 127, 8)
    scales = np.where(e == 0, m * 2.0**-10, (8 + m) * 2.0 ** (e - 11.0))
    scales[127] = 0
    halves = scales.astype("<f2")[blocks[..., :4]].view(np.uint8).reshape(rows, records, 4)
    packed = blocks[..., 4:].reshape(rows, records, 1, 2, 1, 8) >> shifts(0, 4) & LOW
    words = nibbles(packed.reshape(rows, records, 1, 32))
    return halves, words, words[..., :0]


def tq2_0(blocks: Bytes) -> Parts:
    """Numbers of two bits."""
    return ternary(blocks[..., 64:], crumbs(blocks[..., :64]))


def ternary(halves: Bytes, q: Bytes) -> Parts:
    """Numbers [..., 8, 32] of two bits, without scales of their own."""
    return halves, pairs_of_twos(q), q[..., :0]


def shifts(*by: int) -> Bytes:
    """Amounts along the axis before the last."""
    return np.array(by, np.uint8)[:, None]


def nibbles(q: Bytes) -> Bytes:
    """The nibble words of elements [..., 32], of which the low four bits count: [..., 16]."""
    return (q[..., :16] & LOW) | q[..., 16:] << FOUR


def crumbs(qs: Bytes) -> Bytes:
    """Numbers of two bits of [..., 64], 32 bytes holding 128 of them: [..., 8, 32]."""
    chunks = qs.reshape(*qs.shape[:-1], 2, 1, 32) >> shifts(0, 2, 4, 6) & np.uint8(3)
    return chunks.reshape(*qs.shape[:-1], 8, 32)


def pairs_of_bits(bits: Bytes) -> Bytes:
    """From bit i for element i to bit p for pair p: [..., 4] both."""
    word = bits.view(np.uint32)
    return (_squeeze(word) | _squeeze(word >> np.uint32(2)) << np.uint32(16)).view(np.uint8)


def pairs_of_twos(high: Bytes) -> Bytes:
    """Words of two-bit numbers of elements [..., 32]: [..., 8]."""
    e = high.reshape(*high.shape[:-1], 2, 2, 2, 4)  # word, byte of a half, quad, element
    first = e[..., 0, 0] | e[..., 0, 1] << 2 | e[..., 1, 0] << 4 | e[..., 1, 1] << 6
    second = e[..., 0, 2] | e[..., 0, 3] << 2 | e[..., 1, 2] << 4 | e[..., 1, 3] << 6
    return np.concatenate([first, second], -1).reshape(*high.shape[:-1], 8)


def _squeeze(word: _Words) -> _Words:
    """The two lowest bits of every four, brought together in the low half."""
    for shift, mask in ((0, 0x33333333), (2, 0x0F0F0F0F), (4, 0x00FF00FF), (8, 0x0000FFFF)):
        word = (word | word >> np.uint32(shift)) & np.uint32(mask)
    return word


def _quarters(qs: Bytes) -> Bytes:
    """Nibbles of [..., 128], 32 low ones and then the high ones of the same bytes: [..., 8, 32]."""
    chunks = qs.reshape(*qs.shape[:-1], 4, 1, 32) >> shifts(0, 4) & LOW
    return chunks.reshape(*qs.shape[:-1], 8, 32)


def _planes(bits: Bytes) -> Bytes:
    """Bit c of byte l for element 32 c + l, of [..., 32]: bits in order, [..., 8, 4]."""
    return np.packbits(bits[..., None, :] >> shifts(*range(8)) & 1, -1, bitorder="little")


def _six_bits(packed: Bytes) -> Bytes:
    """Scales and minima [..., 8, 2] of the twelve bytes in which Q4_K and Q5_K pack them."""
    low, mid, last = packed[..., 0:4], packed[..., 4:8], packed[..., 8:12]
    sc = np.concatenate([low & 63, (last & 15) | (low >> 6) << 4], -1)
    mn = np.concatenate([mid & 63, last >> 4 | (mid >> 6) << 4], -1)
    return np.stack([sc, mn], -1)
