"""Row tiles, taken apart by the pictures in layouts.py and tile_schemes.py and held against the
decoders of the `gguf` package.
"""

from typing import NamedTuple

import numpy as np
import pytest
from numpy.typing import NDArray

from engine.backends.opencl.launch import DeviceTraits
from engine.backends.opencl.tiles import layouts
from engine.backends.opencl.tiles.layouts import TILED, TILES
from engine.backends.opencl.tiles.schemes import SCHEMES, TILE, Scheme
from engine.device.backend import REPACKED, Bytes
from engine.gguf.formats import BF16, F16, F32, I32, Q8_0, Format, by_name
from engine.graph.tensor import Shape
from tests.kernels.blocks import QUANTIZED, Blocks, exact, random_blocks

CPU = DeviceTraits(True, 2, 4096, 32768)
FLOATS = (F32, F16, BF16)
Ints = NDArray[np.int64]


class Record(NamedTuple):
    """A record of one tile: halves [n, TILE], and for every 32 elements words and scales."""

    halves: NDArray[np.float64]
    words: Ints
    scales: NDArray[np.uint8]


def packed_in(layout: str, fmt: Format, shape: Shape, blocks: Bytes) -> Bytes:
    """All pieces of the layout, each at the byte that it is said to start at."""
    packed = np.empty(layouts.nbytes(layout, fmt, shape), np.uint8)
    left = packed.nbytes
    for start, piece in layouts.pieces(fmt, shape, blocks):
        packed[start : start + piece.nbytes] = piece.view(np.uint8)
        left -= piece.nbytes
    assert left == 0
    return packed


def scheme_of(fmt: Format) -> Scheme:
    scheme = SCHEMES[fmt]
    assert isinstance(scheme, Scheme)
    return scheme


def pair(p: int) -> tuple[int, int]:
    """The elements of pair p."""
    first = 4 * (p // 2) + p % 2
    return first, first + 2


def code(scheme: Scheme, words: Ints, p: int, side: int) -> Ints:
    """The stored bits of one element of pair p: [TILE]."""
    high, low = words[: scheme.high], words[scheme.high :]
    if scheme.words == 8:
        return low[p // 2] >> (8 * (p % 2) + 16 * side) & 255
    if scheme.words == 4:
        q, bits = low[p % 8 // 2] >> (8 * (p % 2) + 4 * (p // 8) + 16 * side) & 15, 4
    else:
        q, bits = low[p // 8] >> (2 * (p % 8) + 16 * side) & 3, 2
    if scheme.high and scheme.words == 4:
        word, nibble = p % 8 // 2, p // 8 + p % 2 * 2
        bit = (4 * nibble + 4 + scheme.high * word % 4) % 16 + 16 * side
        return q | (high[scheme.high * word // 4] >> bit & 2**scheme.high - 1) << bits
    if scheme.high:
        q = q | (high[0] >> (p + 16 * side) & 1) << bits
    return q


def elements(scheme: Scheme, words: Ints) -> Ints:
    """q [32, TILE] of words [n, TILE]."""
    q = np.zeros((32, TILE), np.int64)
    for p in range(16):
        for side, element in enumerate(pair(p)):
            q[element] = code(scheme, words, p, side)
    if scheme.words == 8:
        return q - 256 * (q > 127)
    return np.array([*scheme.table])[q] if scheme.table else q - scheme.bias


def decode(scheme: Scheme, record: Record) -> NDArray[np.float64]:
    """The elements [TILE, 32 * blocks] of a record."""
    out = []
    for words, scales in zip(record.words, record.scales, strict=True):
        d, m = record.halves[0] * float(scheme.factor[:-1]), record.halves[-1]
        nothing = np.zeros_like(d)
        match len(record.halves), len(scales), scheme.sums:
            case 1, 0, 1:
                of = [(d, nothing)]
            case 2, 0, 1:
                of = [(d, m)]
            case 2, 0, 2:
                of = [(d, nothing), (m, nothing)]
            case 1, n, sums if n == sums:
                of = [(d * s, nothing) for s in scales.view(np.int8)]
            case 2, 2, 1:
                of = [(d * scales[0], -m * scales[1])]
            case 2, 2, 2:
                of = [(d * (s & 15), -m * (s >> 4)) for s in scales]
        parts = np.split(elements(scheme, words), scheme.sums)
        out += [q * d + m for q, (d, m) in zip(parts, of, strict=True)]
    return np.concatenate(out).T


def take_apart(scheme: Scheme, raw: Blocks) -> Record:
    """A record's bytes in its parts."""
    head = scheme.halves * TILE * 2
    body = raw[head:].reshape(scheme.blocks, -1)
    start = scheme.scales * TILE
    halves = raw[:head].view(np.float16).astype(np.float64)
    if scheme.bf16:
        halves = (raw[:head].view(np.uint16).astype(np.uint32) << 16).view(np.float32)
    return Record(
        halves.astype(np.float64).reshape(-1, TILE),
        body[:, start:].copy().view(np.uint32).astype(np.int64).reshape(scheme.blocks, -1, TILE),
        body[:, :start].reshape(scheme.blocks, -1, TILE),
    )


@pytest.mark.each_value
@pytest.mark.parametrize("fmt", QUANTIZED, ids=str)
@pytest.mark.parametrize("m", [1, 32, 33])
def test_tiles_hold_what_the_blocks_hold(fmt: Format, m: int) -> None:
    shape, scheme = (fmt.block * 3, m, 1, 1), scheme_of(fmt)
    layout = layouts.layout_for(fmt, shape, CPU)
    assert layout in TILES
    blocks = random_blocks(np.random.default_rng(0), fmt, m, shape[0])
    packed = packed_in(layout, fmt, shape, blocks)
    assert packed.dtype == np.uint8
    assert packed.shape == (layouts.nbytes(layout, fmt, shape),)
    tiles = packed.reshape(-(-m // TILE), shape[0] // scheme.elements, -1)
    got = np.concatenate(
        [np.concatenate([decode(scheme, take_apart(scheme, r)) for r in tile], 1) for tile in tiles]
    )
    np.testing.assert_allclose(got[:m], exact(blocks, fmt), rtol=1e-6, atol=1e-9)
    assert not got[m:].any()


@pytest.mark.parametrize("fmt", FLOATS, ids=str)
def test_floats_lie_element_by_element(fmt: Format) -> None:
    shape = (64, 33, 1, 1)
    rows = np.random.default_rng(0).integers(0, 256, (33, 64 * fmt.bytes), dtype=np.uint8)
    packed = packed_in(TILED, fmt, shape, rows)
    assert packed.shape == (layouts.nbytes(TILED, fmt, shape),)
    tiles = packed.reshape(2, 64, TILE, fmt.bytes).swapaxes(1, 2).reshape(64, -1)
    np.testing.assert_array_equal(tiles[:33], rows)
    assert not tiles[33:].any()


@pytest.mark.parametrize("fmt", [*QUANTIZED, *FLOATS], ids=str)
def test_experts_are_matrices_one_after_the_other(fmt: Format) -> None:
    k, m, experts = 256, 40, 3
    layout = layouts.layout_for(fmt, (k, m, experts, 1), CPU)
    blocks = np.random.default_rng(0).integers(
        0, 256, (experts, m, fmt.row_bytes(k)), dtype=np.uint8
    )
    each = [packed_in(layout, fmt, (k, m, 1, 1), b) for b in blocks]
    whole = packed_in(layout, fmt, (k, m, experts, 1), blocks)
    np.testing.assert_array_equal(whole, np.concatenate(each))
    assert whole.size == layouts.nbytes(layout, fmt, (k, m, experts, 1))


@pytest.mark.parametrize("fmt", [*QUANTIZED, *FLOATS], ids=str)
def test_pieces_join_to_the_whole(fmt: Format, monkeypatch: pytest.MonkeyPatch) -> None:
    shape = (512, 200, 2, 1)
    layout = layouts.layout_for(fmt, shape, CPU)
    blocks = np.random.default_rng(0).integers(0, 256, (400, fmt.row_bytes(512)), dtype=np.uint8)
    whole = packed_in(layout, fmt, shape, blocks)
    monkeypatch.setattr(layouts, "PIECE", 3 * TILE * blocks[0].nbytes)
    ends = 0
    pieces = list(layouts.pieces(fmt, shape, blocks))
    assert len(pieces) == 6
    for start, piece in pieces:
        assert start == ends
        assert (whole[start : start + piece.size] == piece).all()
        ends = start + piece.size
    assert ends == whole.size


# Bytes of a row's part of a record, and of its block in the file.
SIZES = {
    "Q3_K": 114 / 110,
    "Q4_K": 148 / 144,
    "Q5_K": 180 / 176,
    "IQ1_S": 106 / 50,
    "IQ1_M": 114 / 56,
    "IQ2_XXS": 106 / 66,
    "IQ2_XS": 114 / 74,
    "IQ2_S": 114 / 82,
    "IQ3_XXS": 138 / 98,
    "IQ3_S": 138 / 110,
    "IQ4_XS": 138 / 136,
    "TQ1_0": 66 / 54,
    "MXFP4": 18 / 17,
    "NVFP4": 40 / 36,
}


@pytest.mark.parametrize("fmt", [*QUANTIZED, *FLOATS], ids=str)
def test_sizes_are_the_files_where_nothing_else_is_said(fmt: Format) -> None:
    shape = (2048, 640, 1, 1)
    layout = layouts.layout_for(fmt, shape, CPU)
    ratio = layouts.nbytes(layout, fmt, shape) / (fmt.row_bytes(2048) * 640)
    assert ratio == pytest.approx(SIZES.get(fmt.name, 1.0))
    assert layout == (REPACKED if ratio > 1.1 else TILED)


def test_other_weights_stay_plain() -> None:
    assert layouts.layout_for(I32, (64, 64, 1, 1), CPU) == "plain"
    assert layouts.layout_for(F16, (48, 64, 1, 1), CPU) == "plain"
    assert layouts.layout_for(Q8_0, (64, 64, 1, 4), CPU) == "plain"
    assert layouts.layout_for(by_name("Q8_K"), (256, 64, 1, 1), CPU) == "plain"
    assert layouts.nbytes("plain", F16, (32, 2, 1, 1)) == 128
