"""Decoding against the reference decoders of the `gguf` package, block by block."""

import gguf
import numpy as np
import pytest

from engine.errors import UnsupportedModel
from engine.gguf.dequantize import dequantize
from engine.gguf.formats import BF16, FORMATS, UNREADABLE

READABLE = [f for f in FORMATS.values() if f.block > 1 and f not in UNREADABLE]


def random_blocks(rng, fmt, *lead):
    return rng.integers(0, 256, (*lead, fmt.bytes), dtype=np.uint8)


@pytest.mark.parametrize("fmt", READABLE, ids=str)
def test_equals_the_package(fmt):
    rng = np.random.default_rng(fmt.id)
    n = 2 * (4096 // fmt.block) + 3  # two of our rows, and some blocks over
    blocks = random_blocks(rng, fmt, n)
    with np.errstate(all="ignore"):
        expected = [gguf.dequantize(b[None], gguf.GGMLQuantizationType(fmt.id))[0] for b in blocks]
    for shape in ((n, fmt.bytes), (1, n * fmt.bytes)):
        ours = dequantize(blocks.reshape(shape), fmt)
        assert ours.shape == (*shape[:-1], shape[-1] // fmt.bytes * fmt.block)
        assert_same_bits(ours.reshape(n, -1), np.array(expected))


def assert_same_bits(ours, expected):
    """Also of zeros; of what is no number, that it is none."""
    if ours.shape == expected.shape and ours.tobytes() == expected.tobytes():
        return  # told in a tenth of the time
    np.testing.assert_array_equal(ours, expected)
    np.testing.assert_array_equal(np.signbit(ours), np.signbit(expected))


@pytest.mark.parametrize("fmt", READABLE, ids=str)
def test_every_byte_at_every_place(fmt):
    """Blocks of one byte but for one place: scales, signs and bits apart from each other."""
    places, values = np.divmod(np.arange(fmt.bytes * 256), 256)
    blocks = np.full((len(places), fmt.bytes), 0x3C, np.uint8)
    blocks[np.arange(len(places)), places] = values
    with np.errstate(all="ignore"):
        expected = gguf.dequantize(blocks, gguf.GGMLQuantizationType(fmt.id))
    assert_same_bits(dequantize(blocks, fmt), expected)


@pytest.mark.parametrize("kind", ["<f2", "<f4", "<f8", "<i1", "<i2", "<i4", "<i8"])
def test_numbers(kind):
    fmt = next(f for f in FORMATS.values() if f.dtype == kind)
    assert gguf.GGMLQuantizationType(fmt.id).name == f"{kind[1].upper()}{8 * fmt.bytes}"
    x = np.array([[1, -7, 0], [100, -128, 127]], kind)
    if kind[1] == "f":
        x = np.vstack([x, np.array([[np.inf, np.nan, -0.0], [1.5, 6e-8, -65504]], kind)])
    ours = dequantize(x.view(np.uint8), fmt)
    assert ours.dtype == np.float32
    assert_same_bits(ours, x.astype(np.float32))


def test_bf16():
    x = np.array([[1.5, -2, 3e38], [0, np.inf, np.nan]], np.float32)
    high = (x.view("<u4") >> 16).astype("<u2")
    expected = (high.astype(np.uint32) << 16).view(np.float32)
    np.testing.assert_array_equal(dequantize(high.view(np.uint8), BF16), expected)


def test_no_blocks_give_no_elements():
    assert dequantize(np.empty((0, 18), np.uint8), FORMATS[2]).shape == (0, 32)


def test_strided_blocks():
    blocks = random_blocks(np.random.default_rng(0), FORMATS[8], 6)
    np.testing.assert_array_equal(
        dequantize(blocks[::2], FORMATS[8]), dequantize(blocks[::2].copy(), FORMATS[8])
    )


@pytest.mark.parametrize("fmt", UNREADABLE, ids=str)
def test_types_without_a_decoder_are_refused(fmt):
    with pytest.raises(UnsupportedModel, match=f"tensor type '{fmt}' is not supported.*Q4_K"):
        dequantize(np.zeros((1, fmt.bytes), np.uint8), fmt)
