"""Stored elements and blocks as float64, by NumPy and the `gguf` package."""

from typing import Any

import gguf
import numpy as np
from numpy.lib.stride_tricks import as_strided
from numpy.typing import NDArray

from engine.gguf.formats import BF16, Format
from engine.graph.tensor import Tensor

Array = NDArray[np.float64]


def decoded(stored: NDArray[Any], fmt: Format) -> Array:
    """Float64 of stored elements or blocks."""
    if fmt.quantized or fmt == BF16:
        kind = gguf.GGMLQuantizationType[fmt.name]
        return gguf.quants.dequantize(stored.view(np.uint8), kind).astype(np.float64)
    return stored.astype(np.float64)


def rounded(x: Array, fmt: Format) -> Array:
    """`x` as a type would hold it."""
    if fmt.quantized or fmt == BF16:
        kind = gguf.GGMLQuantizationType[fmt.name]
        return decoded(gguf.quants.quantize(x.astype(np.float32), kind), fmt)
    return x.astype(str(fmt.dtype)).astype(np.float64)


def viewed(whole: Array, tensor: Tensor) -> Array:
    """A tensor's numbers within its storage's."""
    fmt = tensor.fmt
    places = [n * fmt.block // fmt.bytes for n in (tensor.offset, *tensor.strides)]
    steps = [1 if fmt.quantized else places[1], *places[2:]]
    return as_strided(whole[places[0] :], tensor.shape[::-1], [8 * n for n in steps[::-1]])
