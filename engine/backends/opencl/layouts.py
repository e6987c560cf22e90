"""How matmul weights lie in a device's memory: `tiled`, or plain as in the file.

Tiled: TILE rows lie together (the last tile is padded with zeros). A tile is a row of records; a
record holds one GGUF block (256 elements for K-quants, else 32) of all its rows, in parts where
the same number of every row stands side by side, so that one vector load brings it for many rows:

    [halves: d, then m]              2 bytes x TILE each
    for every 32 elements:
      [scales: sc, then mn]          1 byte x TILE each; K-quants only
      [high words]                   4 bytes x TILE each; the fifth bits, or bits five and six
      [words]                        4 bytes x TILE each; 4 (nibbles) or 8 (bytes) a row

A word is made for 16-bit pairs: masking and shifting all its halves at once gives pair after pair.
With P(2j) = elements (4j, 4j+2) and P(2j+1) = (4j+1, 4j+3) of 32, as `quantize.cl` orders them:

    nibble word j    bits 0-3: P(2j)  4-7: P(2j+8)  8-11: P(2j+1)  12-15: P(2j+9); second + 16
    byte word j      byte 0 and 2: P(2j)   byte 1 and 3: P(2j+1)
    fifth bits       bit p: P(p), second + 16
    bits five, six   word g, bits 2p and 2p+1: P(8g + p), second + 16

The first two are the file's own words in Q4_0, Q4_1, Q5_0, Q5_1 and Q8_0. Bytes read a token are
the file's, but for Q4_K and Q5_K whose 6-bit scales take 8 (2.8 and 2.3 % more).
"""

from collections.abc import Callable, Iterator
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from engine.backends.base import PLAIN, Bytes
from engine.backends.opencl.launch import DeviceTraits
from engine.gguf.formats import Q4_0, Q4_1, Q4_K, Q5_0, Q5_1, Q5_K, Q6_K, Q8_0, Format
from engine.graph.tensor import Shape

TILED = "tiled"
TILE = 32
"""Rows a tile."""

# Bytes of blocks converted at once; temporary arrays are a few times that.
_PIECE = 4 << 20

LOW, FOUR = np.uint8(15), np.uint8(4)

Words = NDArray[np.uint32]
Split = Callable[[Bytes], tuple[Bytes, Bytes, Bytes]]


class Scheme(NamedTuple):
    """A format's record. `split` takes blocks [..., bytes] apart into halves [..., 2 halves],
    words [..., blocks, 4 (high + words)] and scales [..., blocks, scales], all uint8.
    """

    blocks: int
    halves: int
    words: int
    high: int
    scales: int
    split: Split

    @property
    def head_bytes(self) -> int:
        return 2 * TILE * self.halves

    @property
    def block_bytes(self) -> int:
        return TILE * (4 * (self.words + self.high) + self.scales)

    @property
    def record_bytes(self) -> int:
        """Bytes of a record: one GGUF block of every row of a tile."""
        return self.head_bytes + self.blocks * self.block_bytes


def layout_for(fmt: Format, shape: Shape, traits: DeviceTraits) -> str:
    """The layout for a weight that only mulmat reads."""
    return TILED if fmt in SCHEMES and shape[2] == shape[3] == 1 else PLAIN


def nbytes(layout: str, fmt: Format, shape: Shape) -> int:
    """Bytes of a tensor in that layout, padding included."""
    if layout == PLAIN:
        return fmt.row_bytes(shape[0]) * shape[1] * shape[2] * shape[3]
    return -(-shape[1] // TILE) * shape[0] // fmt.block * SCHEMES[fmt].record_bytes


def pack(layout: str, fmt: Format, shape: Shape, blocks: Bytes) -> Bytes:
    """GGUF blocks [rows, row_bytes] as the layout has them."""
    if layout == PLAIN:
        return np.ascontiguousarray(blocks)
    packed = [piece for _, piece in pieces(layout, fmt, shape, blocks)]
    return packed[0] if len(packed) == 1 else np.concatenate(packed)


def pieces(layout: str, fmt: Format, shape: Shape, blocks: Bytes) -> Iterator[tuple[int, Bytes]]:
    """`pack` in parts of a few MiB: the byte each starts at, and its bytes."""
    if layout == PLAIN:
        yield 0, np.ascontiguousarray(blocks).reshape(-1)
        return
    rows = blocks.reshape(shape[1], -1, fmt.bytes)
    step = max(1, _PIECE // (TILE * rows[0].nbytes)) * TILE
    tile_bytes = rows.shape[1] * SCHEMES[fmt].record_bytes
    for start in range(0, shape[1], step):
        yield start // TILE * tile_bytes, _pack_tiles(SCHEMES[fmt], rows[start : start + step])


def _pack_tiles(scheme: Scheme, rows: Bytes) -> Bytes:
    """Tiles of rows [rows, records, block bytes]."""
    tiles = -(-len(rows) // TILE)
    if len(rows) % TILE:
        rows = np.concatenate([rows, np.zeros((-len(rows) % TILE, *rows.shape[1:]), np.uint8)])
    halves, words, scales = scheme.split(rows)
    records = rows.shape[1]
    out = np.empty((tiles, records, scheme.record_bytes), np.uint8)
    head, body = out[..., : scheme.head_bytes], out[..., scheme.head_bytes :]
    body = body.reshape(tiles, records, scheme.blocks, scheme.block_bytes)
    scale_bytes = scheme.scales * TILE
    _interleave(head, halves.view(np.uint16))
    _interleave(body[..., :scale_bytes], scales)
    _interleave(body[..., scale_bytes:], words.view(np.uint32))
    return out.reshape(-1)


def _interleave(to: Bytes, source: NDArray[np.unsignedinteger]) -> None:
    """Write source [tiles * TILE, records, (blocks,) n] as [tiles, records, (blocks,) n, TILE]."""
    tiled = source.reshape(len(to), TILE, *source.shape[1:])
    to.view(source.dtype).reshape(*to.shape[:-1], source.shape[-1], TILE)[...] = np.moveaxis(
        tiled, 1, -1
    )


def _flat(halves: int, high: int) -> Split:
    """Blocks of 32: halves, then a word of fifth bits or none, then the file's own words."""

    def split(blocks: Bytes) -> tuple[Bytes, Bytes, Bytes]:
        start = 2 * halves + 4 * high
        words = blocks[..., start:]
        if high:
            fifth = _pairs_of_bits(np.ascontiguousarray(blocks[..., 2 * halves : start]))
            words = np.concatenate([fifth, words], -1)
        return blocks[..., : 2 * halves], words[..., None, :], blocks[..., None, :0]

    return split


def _split_q4_k(blocks: Bytes) -> tuple[Bytes, Bytes, Bytes]:
    return blocks[..., :4], _nibbles(_quarters(blocks[..., 16:])), _scales(blocks[..., 4:16])


def _split_q5_k(blocks: Bytes) -> tuple[Bytes, Bytes, Bytes]:
    low = _nibbles(_quarters(blocks[..., 48:]))
    fifth = blocks[..., None, 16:48] >> _shifts(*range(8)) & 1
    high = _pairs_of_bits(np.packbits(fifth, -1, bitorder="little"))
    return blocks[..., :4], np.concatenate([high, low], -1), _scales(blocks[..., 4:16])


def _split_q6_k(blocks: Bytes) -> tuple[Bytes, Bytes, Bytes]:
    lead = blocks.shape[:-1]
    low = blocks[..., :128].reshape(*lead, 2, 1, 64) >> _shifts(0, 4) & LOW
    high = blocks[..., 128:192].reshape(*lead, 2, 1, 32) >> _shifts(0, 2, 4, 6) & np.uint8(3)
    words = [_pairs_of_twos(high.reshape(*lead, 8, 32)), _nibbles(low.reshape(*lead, 8, 32))]
    return blocks[..., 208:], np.concatenate(words, -1), blocks[..., 192:208].reshape(*lead, 8, 2)


def _shifts(*by: int) -> Bytes:
    """Amounts along the axis before the last."""
    return np.array(by, np.uint8)[:, None]


def _quarters(qs: Bytes) -> Bytes:
    """Nibbles of [..., 128], 32 low ones and then the high ones of the same bytes: [..., 8, 32]."""
    chunks = qs.reshape(*qs.shape[:-1], 4, 1, 32) >> _shifts(0, 4) & LOW
    return chunks.reshape(*qs.shape[:-1], 8, 32)


def _nibbles(q: Bytes) -> Bytes:
    """The nibble words of elements [..., 32], of which the low four bits count: [..., 16]."""
    return (q[..., :16] & LOW) | q[..., 16:] << FOUR


def _pairs_of_bits(bits: Bytes) -> Bytes:
    """From bit i for element i to bit p for pair p: [..., 4] both."""
    word = bits.view(np.uint32)
    return (_squeeze(word) | _squeeze(word >> np.uint32(2)) << np.uint32(16)).view(np.uint8)


def _squeeze(word: Words) -> Words:
    """The two lowest bits of every four, brought together in the low half."""
    for shift, mask in ((0, 0x33333333), (2, 0x0F0F0F0F), (4, 0x00FF00FF), (8, 0x0000FFFF)):
        word = (word | word >> np.uint32(shift)) & np.uint32(mask)
    return word


def _pairs_of_twos(high: Bytes) -> Bytes:
    """Words of two-bit numbers of elements [..., 32]: [..., 8]."""
    e = high.reshape(*high.shape[:-1], 2, 2, 2, 4)  # word, byte of a half, quad, element
    first = e[..., 0, 0] | e[..., 0, 1] << 2 | e[..., 1, 0] << 4 | e[..., 1, 1] << 6
    second = e[..., 0, 2] | e[..., 0, 3] << 2 | e[..., 1, 2] << 4 | e[..., 1, 3] << 6
    return np.concatenate([first, second], -1).reshape(*high.shape[:-1], 8)


def _scales(packed: Bytes) -> Bytes:
    """Scales and minima [..., 8, 2] of the twelve bytes in which Q4_K and Q5_K pack them."""
    low, mid, last = packed[..., 0:4], packed[..., 4:8], packed[..., 8:12]
    sc = np.concatenate([low & 63, (last & 15) | (low >> 6) << 4], -1)
    mn = np.concatenate([mid & 63, last >> 4 | (mid >> 6) << 4], -1)
    return np.stack([sc, mn], -1)


SCHEMES: dict[Format, Scheme] = {
    Q4_0: Scheme(1, 1, 4, 0, 0, _flat(1, 0)),
    Q4_1: Scheme(1, 2, 4, 0, 0, _flat(2, 0)),
    Q5_0: Scheme(1, 1, 4, 1, 0, _flat(1, 1)),
    Q5_1: Scheme(1, 2, 4, 1, 0, _flat(2, 1)),
    Q8_0: Scheme(1, 1, 8, 0, 0, _flat(1, 0)),
    Q4_K: Scheme(8, 2, 4, 0, 2, _split_q4_k),
    Q5_K: Scheme(8, 2, 4, 1, 2, _split_q5_k),
    Q6_K: Scheme(8, 1, 4, 2, 2, _split_q6_k),
}
