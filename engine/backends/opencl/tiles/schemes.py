"""Records of row tiles, for every format that has tiles (drawn in layouts.py)."""

from collections.abc import Mapping, Sequence
from dataclasses import KW_ONLY, dataclass, replace
from functools import partial
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

from engine.backends.opencl.tiles import codebooks, words
from engine.device.backend import Bytes
from engine.gguf import formats
from engine.gguf.formats import Format

TILE = 32
"""Rows a tile."""

BLOCK = 32
"""Elements of K that make a block of a record."""

MOST_OF_8_BITS, MOST_OF_DIGIT, MOST_OF_16_BITS = 127, 32, 32767
_ROWS_OF_REGISTERS, _ROWS_OF_HIGH = 4, 2
"""Most rows of x that are multiplied while weights are unpacked: of formats without further bits of
codes (`high`), and with.
"""

Defines = dict[str, int | str]


@dataclass(frozen=True)
class Scheme:
    """A format in integers: `split` takes GGUF blocks apart (words.py, codebooks.py) into records
    of `blocks` x 32 elements (picture: layouts.py).

        halves  at the head of a record, 2 bytes per row each: d, or d and m, or a d for each sum
        words   of a block and row, 4 bytes each: 2 of codes of two bits, 4 of four, 8 of eight
        high    further words of a block and row: 1 of one bit more a code, 2 of two bits more
        scales  bytes of a block and row that scale d, and m
        sums    of a block: 1, or 2 of 16 elements, each with a scale of its own

    An element is d q + m, q being the code less `bias`, or what `table` has for it:

        halves  scales          d                       m
        1       0               the half                0
        2       0               the first half          the second; with two sums: none, a half each
        1       one a sum       the half x int8         0
        2       2               the first x uint8       -second x uint8
        2       2, two sums     the first x low nibble  -second x high nibble

    d is multiplied by `factor`; halves are of bf16 where they are powers of two. `repacked` formats
    take more bits here than in the file.
    """

    split: words.Splitter
    _: KW_ONLY
    blocks: int = 1
    halves: int = 1
    words: int = 4
    high: int = 0
    scales: int = 0
    sums: int = 1
    bias: int = 0
    table: tuple[int, ...] = ()
    factor: str = "1.0f"
    bf16: int = 0
    repacked: bool = False

    exact: ClassVar[bool] = False
    """Whether activations are multiplied as they are."""

    @property
    def elements(self) -> int:
        """Elements of a row in a record."""
        return BLOCK * self.blocks

    def stages(self, rows: int) -> bool:
        """True if it pays to unpack weights first (tiled_stage.cl) for so many rows of x: for more
        than registers hold sums of, for fewer where unpacking takes long. Only formats with one
        sum of 32 products allow it.
        """
        most = _ROWS_OF_HIGH if self.high else _ROWS_OF_REGISTERS
        return (self.sums == 1 or self.scales > 0) and rows > most

    def fours(self, most: int = MOST_OF_8_BITS) -> int:
        """Products of four codes and four activations of at most `most` that are added in 16 bits,
        two at a time (tiled_vectors.cl): as many as surely fit, a power of two; 0 where none do.
        """
        fit = MOST_OF_16_BITS // (2 * most * self.most_code)
        return min(8 // self.sums, 1 << fit.bit_length() - 1) if fit else 0

    @property
    def takes_bytes(self) -> bool:
        """True if activations may have 8 bits: two sums need scales that are whole numbers."""
        return self.sums == 1 or self.scales > 0

    @property
    def most_code(self) -> int:
        """The largest number that a code stands for, before the bias, when none is negative."""
        return max(self._numbers) + self._offset

    @property
    def byte_defines(self) -> Defines:
        """Build options that differ where activations have 8 bits."""
        return {**self.positive_defines, "GROUP": self.fours()}

    @property
    def digit_defines(self) -> Defines:
        """Build options that differ where vectors multiply digits of activations."""
        return {**self.positive_defines, "GROUP": self.fours(MOST_OF_DIGIT)}

    @property
    def positive_defines(self) -> Defines:
        """Build options that differ where instructions for bytes need positive codes."""
        return {"OFFSET": self._offset, "BIAS": self.bias + self._offset}

    @property
    def _offset(self) -> int:
        return -min(*self._numbers, 0)

    @property
    def _numbers(self) -> Sequence[int]:
        if self.table:
            return self.table
        return (-128, 127) if self.words == 8 else (0, (1 << self.words + self.high) - 1)

    @property
    def head_bytes(self) -> int:
        return 2 * TILE * self.halves

    @property
    def block_bytes(self) -> int:
        return TILE * (4 * (self.words + self.high) + self.scales)

    @property
    def record_bytes(self) -> int:
        """Bytes of a record, of every row of a tile."""
        return self.head_bytes + self.blocks * self.block_bytes

    @property
    def defines(self) -> Defines:
        """Build options of the kernels."""
        table: Defines = {}
        if self.table:
            table["TABLE"] = ",".join(map(str, (*self.table, *[0] * (16 - len(self.table)))))
        return table | {
            "BLOCKS": self.blocks,
            "HALVES": self.halves,
            "WORDS": self.words,
            "HIGH": self.high,
            "SCALES": self.scales,
            "SUMS": self.sums,
            "BIAS": self.bias,
            "FACTOR": self.factor,
            "BF16": self.bf16,
        }

    @property
    def packing(self) -> Defines:
        """Build options of the packing kernel, besides the name of the format."""
        names = ("BLOCKS", "HALVES", "WORDS", "HIGH", "SCALES")
        return {name: self.defines[name] for name in names}

    def tiles(self, rows: Bytes) -> Bytes:
        """Tiles of rows [n, blocks, block bytes]; what the last tile lacks is zeros."""
        halves, packed, scales = map(_whole_tiles, self.split(rows))
        tiles, records = len(halves) // TILE, halves.shape[1]
        out = np.empty((tiles, records, self.record_bytes), np.uint8)
        head, body = out[..., : self.head_bytes], out[..., self.head_bytes :]
        body = body.reshape(tiles, records, self.blocks, self.block_bytes)
        scale_bytes = self.scales * TILE
        _interleave(head, _as(np.uint16, halves))
        _interleave(body[..., :scale_bytes], scales)
        _interleave(body[..., scale_bytes:], _as(np.uint32, packed))
        return out.reshape(-1)


@dataclass(frozen=True)
class FloatScheme:
    """Floats as they are: a record is 32 elements of K, each of all rows, `name` their type."""

    name: str
    bytes: int

    exact: ClassVar[bool] = True
    takes_bytes: ClassVar[bool] = False
    table: ClassVar[tuple[int, ...]] = ()
    repacked: ClassVar[bool] = False
    elements: ClassVar[int] = BLOCK

    def stages(self, rows: int) -> bool:
        """Never: there is nothing to unpack."""
        return False

    @property
    def record_bytes(self) -> int:
        """Bytes of a record, of every row of a tile."""
        return TILE * BLOCK * self.bytes

    @property
    def defines(self) -> Defines:
        """Build options of the kernels."""
        return {"FLOATS": self.name}

    @property
    def packing(self) -> Defines:
        """Build options of the packing kernel."""
        return {"FLOATS": self.bytes}

    def tiles(self, rows: Bytes) -> Bytes:
        """Tiles of rows [n, K, bytes]; what the last tile lacks is zeros."""
        rows = _whole_tiles(rows)
        numbers = rows.reshape(len(rows), -1, BLOCK, self.bytes).view(f"u{self.bytes}")[..., 0]
        shape = (len(rows) // TILE, numbers.shape[1], self.record_bytes)
        out = np.empty(shape, np.uint8)
        _interleave(out, numbers)
        return out.reshape(-1)


def _whole_tiles(rows: Bytes) -> Bytes:
    """The rows, and zeros for those that the last tile lacks."""
    missing = -len(rows) % TILE
    return (
        np.concatenate([rows, np.zeros((missing, *rows.shape[1:]), np.uint8)]) if missing else rows
    )


def _as(kind: type[np.unsignedinteger], numbers: Bytes) -> NDArray[np.unsignedinteger]:
    """Bytes as wider numbers, where they lie: a copy of short runs takes longer than the tiles."""
    return (numbers if numbers.strides[-1] == 1 else np.ascontiguousarray(numbers)).view(kind)


def _interleave(to: Bytes, source: NDArray[np.unsignedinteger]) -> None:
    """Write source [tiles * TILE, records, (blocks,) n] as [tiles, records, (blocks,) n, TILE]."""
    tiled = source.reshape(len(to), TILE, *source.shape[1:])
    to.view(source.dtype).reshape(*to.shape[:-1], source.shape[-1], TILE)[...] = np.moveaxis(
        tiled, 1, -1
    )


# What codes stand for: ggml's tables. The last of FP4's bits, of IQ3's and of IQ2's is the sign;
# IQ1's numbers are moved by an eighth up, or down where the last bit is set.
_IQ4 = (-127, -104, -83, -65, -49, -35, -22, -10, 1, 13, 25, 38, 53, 69, 89, 113)
_FP4 = (0, 1, 2, 3, 4, 6, 8, 12, 0, -1, -2, -3, -4, -6, -8, -12)
_IQ3_XXS = (4, 12, 20, 28, 36, 44, 52, 62, -4, -12, -20, -28, -36, -44, -52, -62)
_IQ3_S = (1, 3, 5, 7, 9, 11, 13, 15, -1, -3, -5, -7, -9, -11, -13, -15)
_IQ2 = (8, 25, 43, 0, -8, -25, -43, 0)
_IQ1 = (-7, 1, 9, 0, -9, -1, 7, 0)

# Formats whose blocks of 256 are 8 of a record's blocks of 32.
_OF_256 = partial(Scheme, blocks=8)
_IQ2_XXS = _OF_256(
    codebooks.iq2_xxs, words=2, high=1, scales=1, table=_IQ2, factor="0.125f", repacked=True
)
_IQ2_XS = replace(_IQ2_XXS, split=codebooks.iq2_xs, scales=2, sums=2)
_TQ2_0 = _OF_256(words.tq2_0, words=2, bias=1)

SCHEMES: Mapping[Format, Scheme | FloatScheme] = {
    formats.F32: FloatScheme("f32", 4),
    formats.F16: FloatScheme("f16", 2),
    formats.BF16: FloatScheme("bf16", 2),
    formats.Q4_0: Scheme(words.flat(halves=1, high=0), bias=8),
    formats.Q4_1: Scheme(words.flat(halves=2, high=0), halves=2),
    formats.Q5_0: Scheme(words.flat(halves=1, high=1), high=1, bias=16),
    formats.Q5_1: Scheme(words.flat(halves=2, high=1), halves=2, high=1),
    formats.Q8_0: Scheme(words.flat(halves=1, high=0), words=8),
    formats.Q2_K: _OF_256(words.q2_k, halves=2, words=2, scales=2, sums=2),
    formats.Q3_K: _OF_256(words.q3_k, words=2, high=1, scales=2, sums=2, bias=4),
    formats.Q4_K: _OF_256(words.q4_k, halves=2, scales=2),
    formats.Q5_K: _OF_256(words.q5_k, halves=2, high=1, scales=2),
    formats.Q6_K: _OF_256(words.q6_k, high=2, scales=2, sums=2, bias=32),
    formats.IQ4_NL: Scheme(words.flat(halves=1, high=0), table=_IQ4),
    formats.IQ4_XS: _OF_256(words.iq4_xs, scales=1, table=_IQ4),
    formats.MXFP4: Scheme(words.mxfp4, table=_FP4, bf16=1),
    formats.NVFP4: Scheme(words.nvfp4, halves=2, sums=2, table=_FP4, repacked=True),
    formats.TQ1_0: replace(_TQ2_0, split=codebooks.tq1_0, repacked=True),
    formats.TQ2_0: _TQ2_0,
    formats.IQ2_XXS: _IQ2_XXS,
    formats.IQ2_XS: _IQ2_XS,
    formats.IQ2_S: replace(_IQ2_XS, split=codebooks.iq2_s),
    formats.IQ3_XXS: _OF_256(
        codebooks.iq3_xxs, scales=1, table=_IQ3_XXS, factor="0.25f", repacked=True
    ),
    formats.IQ3_S: _OF_256(codebooks.iq3_s, scales=1, table=_IQ3_S, repacked=True),
    formats.IQ1_S: replace(_IQ2_XXS, split=codebooks.iq1_s, table=_IQ1),
    formats.IQ1_M: replace(_IQ2_XS, split=codebooks.iq1_m, table=_IQ1),
}
