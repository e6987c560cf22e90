"""Row tiles, taken apart by the picture in layouts.py and held against gguf's decoders."""

from typing import NamedTuple

import numpy as np
import pytest
from numpy.typing import NDArray

from engine.backends.opencl import layouts
from engine.backends.opencl.launch import DeviceTraits
from engine.backends.opencl.layouts import SCHEMES, TILE, TILED
from engine.gguf.formats import F16, Q4_0, Q4_K, Q5_0, Q5_K, Q6_K, Q8_0, Format
from tests.kernels.blocks import QUANTIZED, Blocks, exact, random_blocks

CPU = DeviceTraits(True, 2, 4096, 32768, False, False)
Ints = NDArray[np.int64]


class Record(NamedTuple):
    """A record of one tile: halves [n, TILE], and for every 32 elements words and scales."""

    halves: NDArray[np.float64]
    words: Ints
    scales: NDArray[np.uint8]


def pair(p: int) -> tuple[int, int]:
    """The elements of pair p."""
    first = 4 * (p // 2) + p % 2
    return first, first + 2


def elements(fmt: Format, words: Ints) -> Ints:
    """q [32, TILE] of words [n, TILE]."""
    q = np.zeros((32, TILE), np.int64)
    for p in range(16):
        for side, element in enumerate(pair(p)):
            if fmt is Q8_0:
                bits = words[p // 2] >> (8 * (p % 2) + 16 * side) & 255
                q[element] = bits - 256 * (bits > 127)
                continue
            shift = 8 * (p % 2) + 4 * (p // 8)
            q[element] = words[SCHEMES[fmt].high + p % 8 // 2] >> (shift + 16 * side) & 15
            if SCHEMES[fmt].high == 1:
                q[element] += (words[0] >> (p + 16 * side) & 1) * 16
            if SCHEMES[fmt].high == 2:
                q[element] += (words[p // 8] >> (2 * (p % 8) + 16 * side) & 3) * 16
    return q - {Q4_0: 8, Q5_0: 16, Q6_K: 32}.get(fmt, 0)


def decode(fmt: Format, record: Record) -> NDArray[np.float64]:
    """The elements [TILE, block] of a record."""
    out = []
    for words, scales in zip(record.words, record.scales, strict=True):
        q, d = elements(fmt, words), record.halves[0]
        if fmt is Q6_K:
            out.append(q * d * np.repeat(scales.view(np.int8), 16, axis=0))
        elif fmt in (Q4_K, Q5_K):
            out.append(q * d * scales[0] - record.halves[1] * scales[1])
        else:
            out.append(q * d + (record.halves[1] if len(record.halves) == 2 else 0))
    return np.concatenate(out).T


def take_apart(fmt: Format, raw: Blocks) -> Record:
    """A record's bytes in its parts."""
    scheme = SCHEMES[fmt]
    head = scheme.halves * TILE * 2
    body = raw[head:].reshape(scheme.blocks, -1)
    start = scheme.scales * TILE
    return Record(
        raw[:head].view(np.float16).astype(np.float64).reshape(-1, TILE),
        body[:, start:].copy().view(np.uint32).astype(np.int64).reshape(scheme.blocks, -1, TILE),
        body[:, :start].reshape(scheme.blocks, -1, TILE),
    )


@pytest.mark.parametrize("fmt", QUANTIZED, ids=str)
@pytest.mark.parametrize("m", [1, 32, 33])
def test_tiles_hold_what_the_blocks_hold(fmt: Format, m: int) -> None:
    shape = (fmt.block * 3, m, 1, 1)
    assert layouts.layout_for(fmt, shape, CPU) == TILED
    blocks = random_blocks(np.random.default_rng(0), fmt, m, shape[0])
    packed = layouts.pack(TILED, fmt, shape, blocks)
    assert packed.dtype == np.uint8
    assert packed.shape == (layouts.nbytes(TILED, fmt, shape),)
    tiles = packed.reshape(-(-m // TILE), 3, -1)
    got = np.concatenate(
        [np.concatenate([decode(fmt, take_apart(fmt, r)) for r in tile], 1) for tile in tiles]
    )
    np.testing.assert_allclose(got[:m], exact(blocks, fmt), rtol=1e-6, atol=1e-9)
    assert not got[m:].any()


@pytest.mark.parametrize("fmt", QUANTIZED, ids=str)
def test_pieces_join_to_the_whole(fmt: Format, monkeypatch: pytest.MonkeyPatch) -> None:
    shape = (fmt.block * 2, 200, 1, 1)
    blocks = random_blocks(np.random.default_rng(0), fmt, 200, shape[0])
    whole = layouts.pack(TILED, fmt, shape, blocks)
    monkeypatch.setattr(layouts, "_PIECE", 3 * TILE * blocks[0].nbytes)
    ends = 0
    pieces = list(layouts.pieces(TILED, fmt, shape, blocks))
    assert len(pieces) == 3
    for start, piece in pieces:
        assert start == ends
        assert (whole[start : start + piece.size] == piece).all()
        ends = start + piece.size
    assert ends == whole.size


@pytest.mark.parametrize("fmt", QUANTIZED, ids=str)
def test_sizes_are_the_files_but_for_the_scales_of_two(fmt: Format) -> None:
    shape = (2048, 640, 1, 1)
    ratio = layouts.nbytes(TILED, fmt, shape) / (fmt.row_bytes(2048) * 640)
    assert ratio == pytest.approx({Q4_K: 148 / 144, Q5_K: 180 / 176}.get(fmt, 1.0))


def test_other_weights_stay_plain() -> None:
    assert layouts.layout_for(F16, (64, 64, 1, 1), CPU) == "plain"
    assert layouts.layout_for(Q8_0, (64, 64, 4, 1), CPU) == "plain"
    blocks = np.arange(128, dtype=np.uint8).reshape(2, 64)
    assert (layouts.pack("plain", F16, (32, 2, 1, 1), blocks) == blocks).all()
    assert layouts.nbytes("plain", F16, (32, 2, 1, 1)) == 128
