"""How matmul weights lie in a device's memory."""

import numpy as np

from engine.backends.base import PLAIN, Bytes
from engine.backends.opencl.launch import DeviceTraits
from engine.gguf.formats import Format
from engine.graph.tensor import Shape


def layout_for(fmt: Format, shape: Shape, traits: DeviceTraits) -> str:
    """The layout for a weight that only mulmat reads."""
    return PLAIN


def nbytes(layout: str, fmt: Format, shape: Shape) -> int:
    """Bytes of a tensor in that layout."""
    return fmt.row_bytes(shape[0]) * shape[1] * shape[2] * shape[3]


def pack(layout: str, fmt: Format, shape: Shape, blocks: Bytes) -> Bytes:
    """GGUF blocks [rows, row_bytes] as the layout has them."""
    return np.ascontiguousarray(blocks)
