"""Random blocks of quantised formats, with sane scales."""

import numpy as np
from numpy.typing import NDArray

from engine.gguf import formats
from engine.gguf.formats import FORMATS, UNREADABLE, Format

Blocks = NDArray[np.uint8]

QUANTIZED = tuple(f for f in FORMATS.values() if f.quantized and f not in UNREADABLE)

# Where a block's halves lie: its scale if not at its start, and the scale of its minima.
_SCALE_AT = {"Q2_K": 80, "Q3_K": 108, "Q6_K": 208, "TQ1_0": 52, "TQ2_0": 64}
_MINIMUM_AT = {"Q4_1": 2, "Q5_1": 2, "Q2_K": 82, "Q4_K": 2, "Q5_K": 2}
# 32-block minima are added and of the size that centres q; those of K-quants are subtracted.
_CENTRE = {"Q4_1": -7.5, "Q5_1": -15.5}


def random_blocks(rng: np.random.Generator, fmt: Format, rows: int, k: int) -> Blocks:
    """Rows of any bits, with scales that are numbers: [rows, row bytes]."""
    blocks = rng.integers(0, 256, (rows, k // fmt.block, fmt.bytes), dtype=np.uint8)
    return with_scales(rng, fmt, blocks)


def with_scales(
    rng: np.random.Generator, fmt: Format, blocks: Blocks, scale: float = 0.01
) -> Blocks:
    """Write scales around `scale` into blocks [rows, blocks, bytes]; gives [rows, row bytes]."""

    def scales(n: int, factor: float = 1.0) -> NDArray[np.float64]:
        return rng.uniform(0.5, 1.5, (*blocks.shape[:-1], n)) * (scale * factor)

    if fmt is formats.MXFP4:
        blocks[..., :1] = np.rint(np.log2(scales(1))) + 128
    elif fmt is formats.NVFP4:  # four bits of exponent (bias 7, halved), three of mantissa
        exponents = np.rint(np.log2(scales(4))) + 8
        blocks[..., :4] = exponents * 8 + rng.integers(0, 8, exponents.shape)
    elif fmt is formats.IQ1_M:  # a quarter of it in the highest bits of every 16
        parts = _halves(scales(1)).view("<u2") >> np.array([0, 4, 8, 12]) & 15
        blocks[..., 49::2] = blocks[..., 49::2] & 15 | parts << 4
    else:
        at = _SCALE_AT.get(fmt.name, 0)
        blocks[..., at : at + 2] = _halves(scales(1))
        if fmt.name in _MINIMUM_AT:
            at = _MINIMUM_AT[fmt.name]
            blocks[..., at : at + 2] = _halves(scales(1, _CENTRE.get(fmt.name, 1.0)))
    return blocks.reshape(len(blocks), -1)


def _halves(numbers: NDArray[np.float64]) -> Blocks:
    return numbers.astype("<f2").view(np.uint8)
