"""Swapping blocks against a table of byte ranges, and against the package's own converter."""

import gguf.scripts.gguf_convert_endian as converter
import numpy as np
import pytest

from engine.gguf.formats import FORMATS, swap_blocks
from tests.gguf_files import WIDE_FIELDS, Blocks, swapped


@pytest.mark.parametrize("fmt", FORMATS.values(), ids=str)
def test_every_wide_field_is_reversed(fmt):
    rng = np.random.default_rng(fmt.id)
    blocks = rng.integers(0, 256, (3, 2 * fmt.bytes), dtype=np.uint8)
    plain = Blocks(fmt.id, (), blocks.tobytes(), WIDE_FIELDS[fmt.name], fmt.bytes)
    ours = swap_blocks(blocks, fmt)
    assert ours.shape == blocks.shape
    assert ours.tobytes() == swapped(plain)
    assert swap_blocks(ours, fmt).tobytes() == plain.data


@pytest.mark.parametrize("kind", converter.byteswap_tensors, ids=lambda kind: kind.name)
def test_agrees_with_the_package(kind):
    fmt = FORMATS[kind]
    blocks = np.random.default_rng(kind).integers(0, 256, (5, fmt.bytes), dtype=np.uint8)
    ours = swap_blocks(blocks, fmt)

    class Tensor:
        data = blocks.reshape(-1)

    for i in range(5):
        converter.byteswap_tensors[kind](Tensor, i * fmt.bytes)
    np.testing.assert_array_equal(ours, blocks)
