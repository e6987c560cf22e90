"""Blocks of quantised formats for tests: the self test's random ones, and given ones."""

import numpy as np
from numpy.typing import NDArray

from engine.gguf.dequantize import dequantize
from engine.gguf.formats import Format
from engine.selftest.operands import QUANTIZED, Blocks, random_blocks, with_scales

__all__ = ["QUANTIZED", "Blocks", "exact", "filled_blocks", "random_blocks", "with_scales"]


def filled_blocks(fmt: Format, rows: int, k: int, byte: int) -> Blocks:
    """Rows of which every byte that is not a scale is `byte`."""
    blocks = np.full((rows, k // fmt.block, fmt.bytes), byte, np.uint8)
    return with_scales(np.random.default_rng(0), fmt, blocks)


def exact(blocks: Blocks, fmt: Format) -> NDArray[np.float64]:
    """What rows of blocks hold."""
    return dequantize(blocks, fmt).astype(np.float64)
