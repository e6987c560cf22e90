"""Hadamard rotation: spreads outliers over a block of channels before they are quantised.

Keys and queries that are rotated alike have the same products, and values are rotated back once
they are mixed, so only the rounding changes (QuaRot, Ashkboos et al. 2024).
"""

from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

from engine.gguf.formats import Q4_0, Format
from engine.graph import ops
from engine.graph.tensor import Tensor

LARGEST = 64
"""As llama.cpp has it."""

LARGEST_OF_LARGE_HEADS = 32
"""Of heads above 128 channels. Perplexity of q4_0 over f16's at 2048 tokens, with blocks of 64, 32
and 16: SmolLM2 (heads of 64) 1.052, 1.061 and 1.053, gemma-3-270m (heads of 256) 1.089, 1.053 and
1.076. Nearly all of it is of the keys: values alone cost 1.006 and 1.008. llama.cpp's own q4_0, on
another text of that length: SmolLM2 1.057 (ours there 1.061), gemma-3-270m 1.116 (1.066).
"""


def block_size(dim: int) -> int:
    """The largest power of two that divides `dim`, at most 64, or 32 where heads are large."""
    return min(dim & -dim, LARGEST if dim <= 128 else LARGEST_OF_LARGE_HEADS)


@lru_cache
def matrix(size: int) -> NDArray[np.float32]:
    """Sylvester's matrix for a power of two, f32 [size, size]; it is its own inverse."""
    h: NDArray[np.float64] = np.ones((1, 1))
    while len(h) < size:
        h = np.block([[h, h], [h, -h]])
    scaled: NDArray[np.float64] = h / np.sqrt(size)
    return scaled.astype(np.float32)


def helps(fmt: Format) -> bool:
    """True if what is kept in `fmt` is rotated. SmolLM2's perplexity at 2048 tokens, f16 being 1:
    q4_0 1.173 plain and 1.052 rotated, q8_0 1.0003 and 1.0006.
    """
    return fmt is Q4_0


def rotate(x: Tensor, h: Tensor) -> Tensor:
    """Multiply each block of `h.shape[0]` channels by h: x [D, H, T] -> [D, H, T]."""
    return ops.matmul(h, ops.contiguous(x, h.shape[0], -1)).reshape(*x.shape)
