"""Decoders of the formats that models use most, by their layout in ggml's block structures.

They give the very numbers of the `gguf` package's reference decoders, several times faster; the
package decodes what has none here.
"""

from collections.abc import Callable

import numpy as np
import numpy.typing as npt

from engine.gguf.formats import Q4_0, Q4_1, Q4_K, Q5_0, Q5_1, Q5_K, Q6_K, Q8_0, Format

Raw = npt.NDArray[np.uint8]
Floats = npt.NDArray[np.float32]


def _half(blocks: Raw, at: int) -> Floats:
    """The half at a byte of every block: [n, 1]."""
    return blocks[:, at : at + 2].copy().view("<f2").astype(np.float32)


def _nibbles(packed: Raw) -> Raw:
    """Low nibbles, then high ones: [n, bytes] -> [n, 2 * bytes]."""
    return np.concatenate([packed & 15, packed >> 4], axis=1)


def _fifth_bits(blocks: Raw, at: int) -> Raw:
    """Bit j of a 32-bit number for element j, worth 16: [n, 32]."""
    bits = np.unpackbits(blocks[:, at : at + 4], axis=1, bitorder="little")
    return bits << np.uint8(4)


def _q4_0(b: Raw) -> Floats:
    return (_nibbles(b[:, 2:]).astype(np.int8) - np.int8(8)) * _half(b, 0)


def _q4_1(b: Raw) -> Floats:
    return _nibbles(b[:, 4:]) * _half(b, 0) + _half(b, 2)


def _q5_0(b: Raw) -> Floats:
    q = _nibbles(b[:, 6:]) | _fifth_bits(b, 2)
    return (q.view(np.int8) - np.int8(16)) * _half(b, 0)


def _q5_1(b: Raw) -> Floats:
    return (_nibbles(b[:, 8:]) | _fifth_bits(b, 4)) * _half(b, 0) + _half(b, 2)


def _q8_0(b: Raw) -> Floats:
    return b[:, 2:].view(np.int8) * _half(b, 0)


def _six_bit_scales(b: Raw) -> tuple[Floats, Floats]:
    """Scale and minimum of every 32 elements of a Q4_K or Q5_K block: [n, 8, 1] each."""
    low, middle, high = b[:, 4:8], b[:, 8:12], b[:, 12:16]
    scale = np.concatenate([low & 63, (high & 15) | (low >> 6 << 4)], axis=1)
    minimum = np.concatenate([middle & 63, (high >> 4) | (middle >> 6 << 4)], axis=1)
    return (_half(b, 0) * scale)[..., None], (_half(b, 2) * minimum)[..., None]


def _pairs_of_32(packed: Raw) -> Raw:
    """Every 32 bytes hold 32 low nibbles, then 32 high ones: [n, 128] -> [n, 8, 32]."""
    quads = packed.reshape(-1, 4, 1, 32)
    return np.concatenate([quads & 15, quads >> 4], axis=2).reshape(-1, 8, 32)


def _q4_k(b: Raw) -> Floats:
    scale, minimum = _six_bit_scales(b)
    return (scale * _pairs_of_32(b[:, 16:]) - minimum).reshape(len(b), 256)


def _q5_k(b: Raw) -> Floats:
    scale, minimum = _six_bit_scales(b)
    shifts = np.arange(8, dtype=np.uint8)[:, None]
    fifth = (b[:, None, 16:48] >> shifts & 1) << 4
    return (scale * (_pairs_of_32(b[:, 48:]) | fifth) - minimum).reshape(len(b), 256)


def _q6_k(b: Raw) -> Floats:
    low = b[:, :128].reshape(-1, 2, 1, 64)
    low = np.concatenate([low & 15, low >> 4], axis=2).reshape(-1, 2, 4, 32)
    shifts = np.arange(0, 8, 2, dtype=np.uint8)[:, None]
    high = b[:, 128:192].reshape(-1, 2, 1, 32) >> shifts & 3
    q = ((low | high << 4).view(np.int8) - np.int8(32)).reshape(-1, 16, 16)
    scale = _half(b, 208) * b[:, 192:208].view(np.int8)
    return (scale[..., None] * q).reshape(len(b), 256)


DECODERS: dict[Format, Callable[[Raw], Floats]] = {
    Q4_0: _q4_0,
    Q4_1: _q4_1,
    Q5_0: _q5_0,
    Q5_1: _q5_1,
    Q8_0: _q8_0,
    Q4_K: _q4_k,
    Q5_K: _q5_k,
    Q6_K: _q6_k,
}
"""Format to decoder: blocks [n, bytes] -> elements [n, block]."""
