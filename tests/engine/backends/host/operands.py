"""Operands in every arrangement, and how near a result must come to float64."""

from collections.abc import Callable

import numpy as np

from engine.gguf.formats import BF16, F16, F32, I32, Format
from engine.graph.tensor import Tensor
from tests.kernels.harness import Array
from tests.kernels.values import Operands, numbers_of

FLOATS = (F32, F16, BF16)


def packed(x: Operands, fmt: Format, spread: float = 1.0) -> Tensor:
    """[7, 5, 3, 2]."""
    return x.make(fmt, 7, 5, 3, 2, spread=spread)


def window(x: Operands, fmt: Format, spread: float = 1.0) -> Tensor:
    """[7, 5, 3, 2] inside of [9, 8, 6], every second plane in two groups."""
    whole = x.make(fmt, 9, 8, 12, spread=spread)
    row, plane = whole.strides[1:3]
    return whole.view(2 * row + fmt.bytes, (7, 5, 3, 2), (row, 2 * plane, 6 * plane))


def permuted(x: Operands, fmt: Format, spread: float = 1.0) -> Tensor:
    """[7, 5, 3, 2] of [3, 7, 2, 5]."""
    return x.make(fmt, 3, 7, 2, 5, spread=spread).permute(2, 0, 3, 1)


ARRANGED: tuple[Callable[..., Tensor], ...] = (packed, window, permuted)

# Half the distance of neighbours, and some units in the last place of float32 arithmetic.
NEAR = {F32: 2e-6, F16: 2**-11 + 2e-6, BF16: 2**-8 + 2e-6, I32: 0}


def assert_near(got: Array, want: Array, fmt: Format = F32, small: float = 1e-6) -> None:
    """Every element of `got`, as stored in `fmt`, is `want` rounded; NaN and infinities are such.

    `small` is what is allowed where the parts of a sum cancel.
    """
    numbers = numbers_of(got, fmt)
    assert numbers.shape == want.shape, (numbers.shape, want.shape)
    np.testing.assert_allclose(numbers, want, rtol=NEAR[fmt], atol=small)
