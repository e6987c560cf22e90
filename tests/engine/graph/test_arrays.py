"""Bytes as arrays."""

import gguf
import numpy as np
import pytest

from engine.errors import NotSupported
from engine.gguf.dequantize import QUANTIZABLE
from engine.gguf.formats import BF16, F16, F32, FORMATS, I32, Q4_1
from engine.graph.arrays import as_array, decode, encode
from engine.graph.tensor import Role, leaf


@pytest.mark.parametrize("fmt", [F32, F16, I32], ids=str)
def test_numpys_types_are_views(fmt) -> None:
    values = np.arange(24, dtype=fmt.dtype)
    data = values.view(np.uint8)
    x = leaf("x", fmt, (4, 3, 2), Role.INPUT)
    got = as_array(data, x)
    assert got.shape == (1, 2, 3, 4)
    assert np.array_equal(got[0], values.reshape(2, 3, 4))
    got[0, 1, 2, 3] = 99
    assert values[-1] == 99


def test_a_view_starts_at_its_own_bytes() -> None:
    values = np.arange(30, dtype=np.float32)
    part = leaf("x", F32, (6, 5), Role.INPUT).view(28, (3, 2), (48,)).permute(1, 0)
    data = values.view(np.uint8)[part.offset : part.offset + part.nbytes]
    assert as_array(data, part)[0, 0].tolist() == [[7, 19], [8, 20], [9, 21]]


def test_bf16_and_blocks_become_float32() -> None:
    bits = np.array([0x3F80, 0xC000, 0x7F80], np.uint16)
    x = leaf("x", BF16, (3,), Role.WEIGHT)
    assert as_array(bits.view(np.uint8), x).reshape(-1).tolist() == [1, -2, np.inf]

    kind = gguf.GGMLQuantizationType.Q4_1
    blocks = gguf.quantize(np.random.default_rng(30).standard_normal((6, 64), np.float32), kind)
    w = leaf("w", Q4_1, (64, 3, 2), Role.WEIGHT)
    want = gguf.dequantize(blocks, kind).reshape(2, 3, 64)
    assert np.array_equal(as_array(blocks.reshape(-1), w)[0], want)
    swapped = as_array(blocks.reshape(-1), w.permute(0, 2, 1))
    assert np.array_equal(swapped[0], want.transpose(1, 0, 2))


def test_too_few_bytes_are_refused() -> None:
    with pytest.raises((TypeError, ValueError)):
        as_array(np.zeros(11, np.uint8), leaf("x", F32, (3,), Role.INPUT))


@pytest.mark.parametrize("fmt", QUANTIZABLE, ids=str)
def test_blocks_are_the_packages(fmt) -> None:
    values = np.random.default_rng(31).standard_normal((3, 2, 512), np.float32)
    values[1, 1] = 0
    blocks = encode(values, fmt)
    assert blocks.shape == (3, 2, fmt.row_bytes(512))
    kind = gguf.GGMLQuantizationType[fmt.name]
    assert np.array_equal(blocks, gguf.quantize(values.reshape(6, 512), kind).reshape(blocks.shape))
    assert not decode(blocks[1, 1], fmt).any()
    assert encode(values[:0], fmt).shape == (0, 2, fmt.row_bytes(512))


def test_every_other_block_format_is_refused() -> None:
    """Those that can be written are just those for which the package has an encoder."""
    for fmt in FORMATS.values():
        if not fmt.quantized or fmt in QUANTIZABLE:
            continue
        values = np.ones((1, fmt.block), np.float32)
        with pytest.raises(NotSupported, match=f"writing {fmt.name}"):
            encode(values, fmt)
        if fmt.name in gguf.GGMLQuantizationType.__members__:
            with pytest.raises(NotImplementedError):
                gguf.quantize(values, gguf.GGMLQuantizationType[fmt.name])
