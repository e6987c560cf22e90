"""Blocks of quantised formats for tests: random ones with sane scales, and given ones."""

import numpy as np
from numpy.typing import NDArray

from engine.gguf.dequantize import dequantize
from engine.gguf.formats import Q4_0, Q4_1, Q4_K, Q5_0, Q5_1, Q5_K, Q6_K, Q8_0, Format

Blocks = NDArray[np.uint8]

QUANTIZED = (Q4_0, Q4_1, Q5_0, Q5_1, Q8_0, Q4_K, Q5_K, Q6_K)

# Where a block's halves lie: its scale, and the scale of its minima.
SCALE_AT = {fmt: 208 if fmt is Q6_K else 0 for fmt in QUANTIZED}
MINIMUM_AT = {Q4_1: 2, Q5_1: 2, Q4_K: 2, Q5_K: 2}


def random_blocks(rng: np.random.Generator, fmt: Format, rows: int, k: int) -> Blocks:
    """Rows of any bits, with scales that are numbers: [rows, row bytes]."""
    blocks = rng.integers(0, 256, (rows, k // fmt.block, fmt.bytes), dtype=np.uint8)
    return with_scales(rng, fmt, blocks)


def filled_blocks(fmt: Format, rows: int, k: int, byte: int) -> Blocks:
    """Rows of which every byte that is not a scale is `byte`."""
    blocks = np.full((rows, k // fmt.block, fmt.bytes), byte, np.uint8)
    return with_scales(np.random.default_rng(0), fmt, blocks)


def with_scales(rng: np.random.Generator, fmt: Format, blocks: Blocks) -> Blocks:
    # 32-block minima are added and of the size that centres q; those of K-quants are subtracted.
    centre = {Q4_1: -7.5, Q5_1: -15.5}.get(fmt, 1.0)
    for at, factor in ((SCALE_AT[fmt], 1.0), (MINIMUM_AT.get(fmt), centre)):
        if at is not None:
            halves = rng.uniform(0.005, 0.015, (*blocks.shape[:-1], 1)) * factor
            blocks[..., at : at + 2] = halves.astype(np.float16).view(np.uint8)
    return blocks.reshape(len(blocks), -1)


def exact(blocks: Blocks, fmt: Format) -> NDArray[np.float64]:
    """What rows of blocks hold."""
    return dequantize(blocks, fmt).astype(np.float64)
