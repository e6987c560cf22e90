"""A tensor's bytes as NumPy sees them: the reversed shape, through the tensor's own strides."""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from engine.gguf.dequantize import dequantize, quantize
from engine.gguf.formats import BF16, Format
from engine.graph.tensor import Tensor

Bytes = NDArray[np.uint8]


def as_array(data: Bytes, tensor: Tensor) -> NDArray[Any]:
    """The elements of `tensor`, whose first one starts `data`, in the reversed shape.

    A view (writable where `data` is) for types that NumPy has; a float32 copy of bf16 and blocks.
    """
    raw = raw_array(data, tensor)
    return raw if tensor.fmt.dtype is not None else decode(raw, tensor.fmt)


def raw_array(data: Bytes, tensor: Tensor) -> NDArray[Any]:
    """The elements as stored: bf16 as its 16 bits, block formats as bytes [..., row bytes]."""
    shape, strides = tensor.shape[::-1], tensor.strides[::-1]
    fmt = tensor.fmt
    if fmt.quantized:
        shape, strides = (*shape[:3], fmt.row_bytes(shape[3])), (*strides[:3], 1)
        return np.ndarray(shape, np.uint8, data, strides=strides)
    return np.ndarray(shape, fmt.dtype or "<u2", data, strides=strides)


def decode(raw: NDArray[Any], fmt: Format) -> NDArray[Any]:
    """Stored elements as float32, integers as they are; a view where nothing changes."""
    if fmt == BF16:
        return (raw.astype(np.uint32) << np.uint32(16)).view(np.float32)
    if fmt.dtype is None:
        return dequantize(raw, fmt)
    return raw if raw.dtype.kind == "i" else raw.astype(np.float32, copy=False)


def encode(values: NDArray[Any], fmt: Format) -> NDArray[Any]:
    """`values` as they are stored (see `raw_array`), a view where nothing changes.

    Rounded to the nearest, ties to even; integers are truncated; blocks are quantised as ggml does,
    or `NotSupported` for those that can only be read.
    """
    if fmt == BF16:
        return _bf16(values)
    if fmt.quantized:
        return quantize(values, fmt)
    return values.astype(str(fmt.dtype), copy=False)


def _bf16(values: NDArray[Any]) -> NDArray[np.uint16]:
    bits = np.ascontiguousarray(values, np.float32).view(np.uint32)
    # Half of the last kept bit, less one where that bit is 0, makes ties go to the even side.
    rounded = (bits + np.uint32(0x7FFF) + ((bits >> np.uint32(16)) & np.uint32(1))) >> np.uint32(16)
    quiet_nan = (bits >> np.uint32(16)) | np.uint32(0x40)
    is_nan = (bits & np.uint32(0x7FFFFFFF)) > np.uint32(0x7F800000)
    return np.where(is_nan, quiet_nan, rounded).astype(np.uint16)
