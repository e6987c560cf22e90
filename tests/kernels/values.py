"""Random operands for kernel tests: leaves with their values, and bf16 in NumPy."""

import numpy as np
from numpy.typing import NDArray

from engine.gguf.formats import BF16, F16, F32, I8, I16, I32, I64, Format
from engine.graph.tensor import Role, Tensor, leaf
from tests.kernels.harness import Array

INTEGERS = (I8, I16, I32, I64)
Floats = NDArray[np.float64]


class Operands:
    """Leaves made one after the other, with the values that `harness.run` takes."""

    def __init__(self, seed: int = 0) -> None:
        self.rng = np.random.default_rng(seed)
        self.values: dict[Tensor, Array] = {}

    def make(self, fmt: Format, *shape: int, spread: float = 1.0) -> Tensor:
        """Normal numbers (whole ones for integers) in ggml's order of dimensions."""
        numbers = self.rng.standard_normal(shape[::-1]) * spread
        if fmt in INTEGERS:
            return self.put(fmt, np.rint(numbers * (1 if fmt == I8 else 100)))
        return self.put(fmt, numbers)

    def put(self, fmt: Format, numbers: Array) -> Tensor:
        """A leaf with these values; `numbers` has the reversed shape."""
        tensor = leaf(f"x{len(self.values)}", fmt, numbers.shape[::-1], Role.INPUT)
        stored = to_bf16(numbers) if fmt == BF16 else numbers.astype(str(fmt.dtype))
        self.values[tensor] = stored
        return tensor

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
    if fmt == BF16:
        return (stored.astype(np.uint32) << 16).view(np.float32).astype(np.float64)
    assert fmt in (F32, F16, *INTEGERS)
    return stored.astype(np.float64)


def to_bf16(numbers: Array) -> NDArray[np.uint16]:
    """The upper halves of float32, rounded to nearest even."""
    bits = np.ascontiguousarray(numbers, np.float32).view(np.uint32)
    rounded = (bits + 0x7FFF + ((bits >> 16) & 1)) >> 16
    return np.where(np.isnan(numbers), (bits >> 16) | 0x40, rounded).astype(np.uint16)
