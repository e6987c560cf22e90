"""How matmul weights lie in a device's memory: in row tiles, or plain as in the file.

TILE rows lie together (the last tile of a matrix is padded with zeros). A tile is a row of records;
a record holds one GGUF block (256 elements for K-quants, else 32) of all its rows, in parts where
the same number of every row stands side by side, so that one vector load brings it for many rows:

    [halves: d, then m]              2 bytes x TILE each
    for every 32 elements:
      [scales: sc, then mn]          1 byte x TILE each
      [high words]                   4 bytes x TILE each; the bits above those of the words
      [words]                        4 bytes x TILE each; 2, 4 or 8 a row: of two, four, eight bits

schemes.py says which of these a format has. A word is made for 16-bit pairs: masking and
shifting all its halves at once gives pair after pair. With P(2j) = elements (4j, 4j+2) and
P(2j+1) = (4j+1, 4j+3) of 32, as `quantize.cl` orders them:

    nibble word j    bits 0-3: P(2j)  4-7: P(2j+8)  8-11: P(2j+1)  12-15: P(2j+9); second + 16
    byte word j      byte 0 and 2: P(2j)   byte 1 and 3: P(2j+1)
    word of twos g   bits 2p and 2p+1: P(8g + p), second + 16
    one high word    bit p: P(p), second + 16

Above nibbles, high words have their bits where nibbles end, so that a shift serves several of them.
With h bits an element, those of nibble t of word j (t = 0 to 3 from bit 0 on) stand in high word
hj / 4 from bit (4t + 4 + hj % 4) % 16 on, second + 16:

    one high word    bits 0-3: nibble 3 of words 0 to 3   4-7: nibble 0   8-11: nibble 1 ...
    two high words   bits 0, 2: nibble 3 of words 2g and 2g + 1           4, 6: nibble 0 ...

Nibble and byte words are the file's own in most formats of 32 elements. Bytes read per token are
the file's, but for some scales that take whole bytes (2 to 4 % more) and FP4's (6 to 11 %);
formats with codebooks and base 3 are repacked, which takes 1.2 to 2.2 times the file's size.

Floats lie in tiles too, where rows are made of whole blocks of 32: element by element.
Experts [K, M, E] are E matrices, one after the other.
"""

from collections.abc import Iterator
from typing import NamedTuple

from engine.backends.opencl.launch import DeviceTraits
from engine.backends.opencl.tiles.schemes import SCHEMES, TILE
from engine.device.backend import PLAIN, REPACKED, Bytes
from engine.gguf.formats import Format
from engine.graph.tensor import Shape

TILED = "tiled"
TILES = (TILED, REPACKED)

PIECE = 4 << 20
"""Bytes of blocks converted at once by NumPy; temporary arrays are a few times that."""


class RowSpan(NamedTuple):
    """Rows of a matrix that are packed together: the bytes they start at in the blocks and in the
    tiles, and how many there are.
    """

    start: int
    to: int
    rows: int


def layout_for(fmt: Format, shape: Shape, traits: DeviceTraits) -> str:
    """The layout for a weight that only matmul or matmul_id reads."""
    scheme = SCHEMES.get(fmt)
    if scheme is None or shape[3] != 1 or shape[0] % scheme.elements:
        return PLAIN
    return REPACKED if scheme.repacked else TILED


def nbytes(layout: str, fmt: Format, shape: Shape) -> int:
    """Bytes of a tensor in that layout, padding included."""
    if layout == PLAIN:
        return fmt.row_bytes(shape[0]) * shape[1] * shape[2] * shape[3]
    return matrix_bytes(fmt, shape) * shape[2]


def matrix_bytes(fmt: Format, shape: Shape) -> int:
    """Bytes of the tiles of one matrix [K, M]."""
    scheme = SCHEMES[fmt]
    return -(-shape[1] // TILE) * (shape[0] // scheme.elements) * scheme.record_bytes


def spans(fmt: Format, shape: Shape, most: int) -> Iterator[RowSpan]:
    """The rows of tiles [K, M, E] in order: whole tiles of at most so many bytes, at least one."""
    row, size = fmt.row_bytes(shape[0]), matrix_bytes(fmt, shape)
    tile = size // -(-shape[1] // TILE)
    step = max(1, most // (TILE * row)) * TILE
    for matrix in range(shape[2]):
        for first in range(0, shape[1], step):
            to = matrix * size + first // TILE * tile
            yield RowSpan((matrix * shape[1] + first) * row, to, min(step, shape[1] - first))


def pieces(fmt: Format, shape: Shape, blocks: Bytes) -> Iterator[tuple[int, Bytes]]:
    """GGUF blocks [rows, row_bytes] as tiles, made by NumPy in pieces of a few MiB: what kernels
    (packing.py) are held against. For each piece the byte it starts at, and its bytes.
    """
    row = fmt.row_bytes(shape[0])
    rows = blocks.reshape(-1, row // fmt.bytes, fmt.bytes)
    for span in spans(fmt, shape, PIECE):
        first = span.start // row
        yield span.to, SCHEMES[fmt].tiles(rows[first : first + span.rows])
