"""The self test's operands with what they hold in float64."""

import numpy as np
from numpy.typing import NDArray

from engine.gguf.formats import BF16, F16, F32, Format
from engine.graph.arrays import decode, encode
from engine.graph.tensor import Tensor
from engine.selftest import operands
from engine.selftest.guarded import Array
from engine.selftest.operands import INTEGERS

Floats = NDArray[np.float64]


class Operands(operands.Operands):
    """Leaves made one after the other, with the values that `harness.run` takes."""

    def exact(self, tensor: Tensor) -> Floats:
        """What `tensor`, a leaf or a view of one, holds: float64, in four dimensions."""
        raw = self.values[tensor.storage]
        view = np.lib.stride_tricks.as_strided(
            np.ascontiguousarray(raw).reshape(-1)[tensor.offset // raw.itemsize :],
            tensor.shape[::-1],
            tensor.strides[::-1],
        )
        return numbers_of(view, tensor.fmt)


def numbers_of(stored: Array, fmt: Format) -> Floats:
    """float64 of values as they are stored."""
    assert fmt in (F32, F16, BF16, *INTEGERS)
    return decode(stored, fmt).astype(np.float64)


def to_bf16(numbers: Array) -> NDArray[np.uint16]:
    """The upper halves of float32, rounded to nearest even."""
    return encode(numbers, BF16)
