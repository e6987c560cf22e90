"""Blocks of a file taken apart into the numbers and words of row tiles: Q*, IQ4_*, *FP4, TQ2_0.

A split takes blocks [rows, n, bytes] apart into halves [rows, records, 2 halves], words [rows,
records, blocks, 4 (high + words)] and scales [rows, records, blocks, scales], all uint8: what
layouts.py has a picture of. The words of most formats are the file's own. Each split says how its
format's block lies, `| at byte: what |`.
"""

from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

from engine.device.backend import Bytes

Parts = tuple[Bytes, Bytes, Bytes]
Splitter = Callable[[Bytes], Parts]

_Words = NDArray[np.uint32]

LOW, FOUR = np.uint8(15), np.uint8(4)


def flat(halves: int, high: int) -> Splitter:
    """Blocks of 32: halves, then a word of fifth bits or none, then the file's own words.

    Q4_0  | 0: half d | 2: 16 bytes, nibbles of i and 16 + i |    Q4_1 and Q5_1 have a half m at 2
    Q5_0  | 0: half d | 2: 32 fifth bits | 6: 16 bytes |
    Q8_0  | 0: half d | 2: 32 chars |                             IQ4_NL is as Q4_0
    """

    def split(blocks: Bytes) -> Parts:
        start = 2 * halves + 4 * high
        words = blocks[..., start:]
        if high:
            fifth = _pack_above(_unpack_1bit(blocks[..., 2 * halves : start]), 1)
            words = np.concatenate([fifth, words], -1)
        return blocks[..., : 2 * halves], words[..., None, :], blocks[..., None, :0]

    return split


def q2_k(blocks: Bytes) -> Parts:
    """| 0: 16 scales, nibbles sc and mn | 16: 64 bytes of 2-bit codes | 80: half d | 82: half m |

    The scales are the file's: one for every 16 elements.
    """
    words = pack_2bit(unpack_2bit(blocks[..., 16:80]))
    return blocks[..., 80:], words, blocks[..., :16].reshape(*blocks.shape[:-1], 8, 2)


def q3_k(blocks: Bytes) -> Parts:
    """| 0: 256 third bits | 32: 64 bytes of 2-bit codes | 96: 16 scales of 6 bits | 108: half d |

    Third bits become one word; scales, of which 32 is taken away, become bytes.
    """
    third = pack_1bit(_regroup_1bit(blocks[..., :32]))
    low, high = blocks[..., 96:104], blocks[..., None, 104:108] >> shifts(0, 2, 4, 6) & np.uint8(3)
    low = (low[..., None, :] >> shifts(0, 4) & LOW).reshape(*low.shape[:-1], 16)
    scales = (low | high.reshape(low.shape) << FOUR) - np.uint8(32)
    words = np.concatenate([third, pack_2bit(unpack_2bit(blocks[..., 32:96]))], -1)
    return blocks[..., 108:], words, scales.reshape(*low.shape[:-1], 8, 2)


def q4_k(blocks: Bytes) -> Parts:
    """| 0: half d | 2: half m | 4: 8 scales and 8 minima of 6 bits | 16: 128 bytes of nibbles |

    Scales and minima become bytes.
    """
    return (
        blocks[..., :4],
        pack_4bit(_unpack_4bit(blocks[..., 16:])),
        _six_bit_scales(blocks[..., 4:16]),
    )


def q5_k(blocks: Bytes) -> Parts:
    """| 0: d | 2: m | 4: scales as Q4_K | 16: 256 fifth bits | 48: 128 bytes of nibbles |

    The fifth bits become one word.
    """
    words = [
        _pack_above(blocks[..., None, 16:48] >> shifts(*range(8)) & np.uint8(1), 1),
        pack_4bit(_unpack_4bit(blocks[..., 48:])),
    ]
    return blocks[..., :4], np.concatenate(words, -1), _six_bit_scales(blocks[..., 4:16])


def q6_k(blocks: Bytes) -> Parts:
    """| 0: 128 bytes of nibbles | 128: 64 bytes of bits 5 and 6 | 192: 16 chars sc | 208: half d |

    Bits five and six become two words.
    """
    lead = blocks.shape[:-1]
    low = blocks[..., :128].reshape(*lead, 2, 1, 64) >> shifts(0, 4) & LOW
    high = unpack_2bit(blocks[..., 128:192])
    words = [_pack_above(high, 2), pack_4bit(low.reshape(*lead, 8, 32))]
    return blocks[..., 208:], np.concatenate(words, -1), blocks[..., 192:208].reshape(*lead, 8, 2)


def iq4_xs(blocks: Bytes) -> Parts:
    """| 0: half d | 2: 8 x 2 high bits of scales | 4: 8 nibbles of scales | 8: 128 bytes, nibbles |

    Scales, of which 32 is taken away, become bytes.
    """
    lead = blocks.shape[:-1]
    low = (blocks[..., 4:8, None] >> np.array([0, 4], np.uint8) & LOW).reshape(*lead, 8)
    packed = np.ascontiguousarray(blocks[..., 2:4]).view("<u2")
    high = (packed >> np.arange(0, 16, 2, dtype=np.uint16) & 3).astype(np.uint8)
    scales = (low | high << FOUR) - np.uint8(32)
    return blocks[..., :2], blocks[..., 8:].reshape(*lead, 8, 16), scales[..., None]


def mxfp4(blocks: Bytes) -> Parts:
    """| 0: exponent e | 1: 16 bytes, nibbles of i and 16 + i |

    The scale is a power of two, which bf16 holds in full: 2^(e - 128).
    """
    e = blocks[..., :1].astype(np.uint16)
    halves = np.where(e < 2, np.uint16(0x20) << e, (e - np.uint16(1)) << np.uint16(7))
    return halves.view(np.uint8), blocks[..., None, 1:], blocks[..., None, :0]


def nvfp4(blocks: Bytes) -> Parts:
    """| 0: 4 scales of 8 bits, one for 16 elements | 4: 4 x 8 bytes, nibbles of i and 8 + i |

    A block makes two records of two scales each, which halves hold in full.
    """
    rows, records = blocks.shape[0], 2 * blocks.shape[1]
    e, m = np.divmod(np.arange(256) & 127, 8)
    scales = np.where(e == 0, m * 2.0**-10, (8 + m) * 2.0 ** (e - 11.0))
    scales[127] = 0
    halves = scales.astype("<f2")[blocks[..., :4]].view(np.uint8).reshape(rows, records, 4)
    packed = blocks[..., 4:].reshape(rows, records, 1, 2, 1, 8) >> shifts(0, 4) & LOW
    words = pack_4bit(packed.reshape(rows, records, 1, 32))
    return halves, words, words[..., :0]


def tq2_0(blocks: Bytes) -> Parts:
    """| 0: 64 bytes of 2-bit codes | 64: half d |"""
    return without_scales(blocks[..., 64:], unpack_2bit(blocks[..., :64]))


def without_scales(halves: Bytes, q: Bytes) -> Parts:
    """Codes [..., 8, 32] of two bits, under one scale for all of them."""
    return halves, pack_2bit(q), q[..., :0]


def shifts(*by: int) -> Bytes:
    """Amounts along the axis before the last."""
    return np.array(by, np.uint8)[:, None]


def pack_4bit(q: Bytes) -> Bytes:
    """Words of codes of four bits: of [..., 32], whose low bits count, to [..., 16]."""
    return (q[..., :16] & LOW) | q[..., 16:] << FOUR


def unpack_2bit(qs: Bytes) -> Bytes:
    """Codes of two bits: of [..., 64], of which 32 bytes hold 128 codes, to [..., 8, 32].

    Bits 0-1 of byte i are code i, bits 2-3 code 32 + i, 4-5 code 64 + i, 6-7 code 96 + i.
    """
    chunks = qs.reshape(*qs.shape[:-1], 2, 1, 32) >> shifts(0, 2, 4, 6) & np.uint8(3)
    return chunks.reshape(*qs.shape[:-1], 8, 32)


def pack_1bit(bits: Bytes) -> Bytes:
    """A word of one bit an element: from bit i for element i to bit p for pair p, [..., 4] both."""
    word = bits.view(np.uint32)
    return (_low_pairs(word) | _low_pairs(word >> np.uint32(2)) << np.uint32(16)).view(np.uint8)


def pack_2bit(high: Bytes) -> Bytes:
    """Words of codes of two bits: of [..., 32] to [..., 8]."""
    e = high.reshape(*high.shape[:-1], 2, 2, 2, 4)  # word, byte of a half, quad, element
    first = e[..., 0, 0] | e[..., 0, 1] << 2 | e[..., 1, 0] << 4 | e[..., 1, 1] << 6
    second = e[..., 0, 2] | e[..., 0, 3] << 2 | e[..., 1, 2] << 4 | e[..., 1, 3] << 6
    return np.concatenate([first, second], -1).reshape(*high.shape[:-1], 8)


def _pack_above(high: Bytes, bits: int) -> Bytes:
    """Words of so many bits an element that stand above nibbles: of [..., 32] to [..., 4 bits]."""
    e = high.reshape(*high.shape[:-1], 2, bits, 4 // bits, 2, 2)  # 16, word, shift, of pair, pair
    by_shift = np.arange(0, 4, bits, dtype=np.uint8)[:, None, None]
    first, second = np.moveaxis(np.bitwise_or.reduce(e << by_shift, -3), -4, 0)
    even = first[..., 0] << FOUR | second[..., 1]
    odd = first[..., 1] << FOUR | second[..., 0]
    return np.stack([even, odd], -1).reshape(*high.shape[:-1], 4 * bits)


def _low_pairs(word: _Words) -> _Words:
    """The two lowest bits of every four, brought together in the low half."""
    for shift, mask in ((0, 0x33333333), (2, 0x0F0F0F0F), (4, 0x00FF00FF), (8, 0x0000FFFF)):
        word = (word | word >> np.uint32(shift)) & np.uint32(mask)
    return word


def _unpack_4bit(qs: Bytes) -> Bytes:
    """Codes of four bits: of [..., 128], of which 32 bytes hold 64 codes, to [..., 8, 32].

    The low nibble of byte i is code i, the high one code 32 + i.
    """
    chunks = qs.reshape(*qs.shape[:-1], 4, 1, 32) >> shifts(0, 4) & LOW
    return chunks.reshape(*qs.shape[:-1], 8, 32)


def _unpack_1bit(bits: Bytes) -> Bytes:
    """Bit i of byte b for element 8 b + i: of [..., 4] to [..., 32]."""
    return np.unpackbits(bits, -1, bitorder="little")


def _regroup_1bit(bits: Bytes) -> Bytes:
    """Bit c of byte l for element 32 c + l, of [..., 32]: bits in order, [..., 8, 4]."""
    return np.packbits(bits[..., None, :] >> shifts(*range(8)) & 1, -1, bitorder="little")


def _six_bit_scales(packed: Bytes) -> Bytes:
    """Scales and minima [..., 8, 2] of the twelve bytes in which Q4_K and Q5_K pack them."""
    low, mid, last = packed[..., 0:4], packed[..., 4:8], packed[..., 8:12]
    sc = np.concatenate([low & 63, (last & 15) | (low >> 6) << 4], -1)
    mn = np.concatenate([mid & 63, last >> 4 | (mid >> 6) << 4], -1)
    return np.stack([sc, mn], -1)
