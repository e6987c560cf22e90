"""What a record of a row tile holds, for every format that has tiles (picture: layouts.py)."""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

from engine.backends.base import Bytes
from engine.backends.opencl.tiles import codebooks as codebooks
from engine.backends.opencl.tiles import words as words
from engine.gguf import formats
from engine.gguf.formats import Format

TILE = 32
"""Rows a tile."""

BLOCK = 32
"""Elements of K that make a block of a record."""

Defines = dict[str, int | str]


@dataclass(frozen=True)
class Scheme:
    """A format in integers: `split` takes GGUF blocks apart (tile_words.py).

    An element is d q + m, q being the stored code less `bias`, or what `table` has for it. There
    are `sums` to a block of 32, each with a scale of its own:

        halves  scales          d                       m
        1       0               the half
        2       0               the first half          the second; with two sums: none, a half each
        1       one a sum       the half x int8
        2       2               the first x uint8       -second x uint8
        2       2, two sums     the first x low nibble  -second x high nibble

    d is multiplied by `factor`; halves are of bf16 where they are powers of two. `repacked` formats
    take more bits here than in the file.
    """

    split: words.Split
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
        """What the kernels are built with."""
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

    def tiles(self, rows: Bytes) -> Bytes:
        """Tiles of rows [TILE * n, blocks, block bytes]."""
        halves, packed, scales = self.split(rows)
        tiles, records = len(rows) // TILE, halves.shape[1]
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
    repacked: ClassVar[bool] = False
    elements: ClassVar[int] = BLOCK

    @property
    def record_bytes(self) -> int:
        """Bytes of a record, of every row of a tile."""
        return TILE * BLOCK * self.bytes

    @property
    def defines(self) -> Defines:
        """What the kernels are built with."""
        return {"FLOATS": self.name}

    def tiles(self, rows: Bytes) -> Bytes:
        """Tiles of rows [TILE * n, K, bytes]."""
        numbers = rows.reshape(len(rows), -1, BLOCK, self.bytes).view(f"u{self.bytes}")[..., 0]
        shape = (len(rows) // TILE, numbers.shape[1], self.record_bytes)
        out = np.empty(shape, np.uint8)
        _interleave(out, numbers)
        return out.reshape(-1)


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

_IQ2_OF_32 = Scheme(codebooks.iq2_xxs, 8, 1, 2, 1, 1, 1, 0, _IQ2, "0.125f", repacked=True)
_IQ2_OF_16 = replace(_IQ2_OF_32, scales=2, sums=2)
_TERNARY = Scheme(words.tq2_0, 8, 1, 2, bias=1)

SCHEMES: Mapping[Format, Scheme | FloatScheme] = {
    formats.F32: FloatScheme("f32", 4),
    formats.F16: FloatScheme("f16", 2),
    formats.BF16: FloatScheme("bf16", 2),
    formats.Q4_0: Scheme(words.flat(1, 0), bias=8),
    formats.Q4_1: Scheme(words.flat(2, 0), halves=2),
    formats.Q5_0: Scheme(words.flat(1, 1), high=1, bias=16),
    formats.Q5_1: Scheme(words.flat(2, 1), halves=2, high=1),
    formats.Q8_0: Scheme(words.flat(1, 0), words=8),
    formats.Q2_K: Scheme(words.q2_k, 8, 2, 2, scales=2, sums=2),
    formats.Q3_K: Scheme(words.q3_k, 8, 1, 2, 1, 2, 2, 4),
    formats.Q4_K: Scheme(words.q4_k, 8, 2, 4, 0, 2),
    formats.Q5_K: Scheme(words.q5_k, 8, 2, 4, 1, 2),
    formats.Q6_K: Scheme(words.q6_k, 8, 1, 4, 2, 2, 2, 32),
    formats.IQ4_NL: Scheme(words.flat(1, 0), table=_IQ4),
    formats.IQ4_XS: Scheme(words.iq4_xs, 8, scales=1, table=_IQ4),
    formats.MXFP4: Scheme(words.mxfp4, table=_FP4, bf16=1),
    formats.NVFP4: Scheme(words.nvfp4, halves=2, sums=2, table=_FP4, repacked=True),
    formats.TQ1_0: replace(_TERNARY, split=codebooks.tq1_0, repacked=True),
    formats.TQ2_0: _TERNARY,
    formats.IQ2_XXS: _IQ2_OF_32,
    formats.IQ2_XS: replace(_IQ2_OF_16, split=codebooks.iq2_xs),
    formats.IQ2_S: replace(_IQ2_OF_16, split=codebooks.iq2_s),
    formats.IQ3_XXS: Scheme(
        codebooks.iq3_xxs, 8, scales=1, table=_IQ3_XXS, factor="0.25f", repacked=True
    ),
    formats.IQ3_S: Scheme(codebooks.iq3_s, 8, scales=1, table=_IQ3_S, repacked=True),
    formats.IQ1_S: replace(_IQ2_OF_32, split=codebooks.iq1_s, table=_IQ1),
    formats.IQ1_M: replace(_IQ2_OF_16, split=codebooks.iq1_m, table=_IQ1),
}
