"""rms_norm against NumPy."""

import numpy as np
import pytest

from engine.backends.opencl.backend import OpenCLBackend
from engine.gguf.formats import F32
from engine.graph import ops
from engine.graph.tensor import Tensor
from tests.kernels.harness import nmse, run
from tests.kernels.values import Floats, Operands

EPS = 1e-5


def rms_norm(x: Floats) -> Floats:
    return x / np.sqrt(np.square(x).mean(-1, keepdims=True) + EPS)


@pytest.mark.parametrize(
    "shape", [(1, 3), (15, 2), (576, 1), (640, 70), (67, 3, 2, 5), (4099, 2), (16896, 1)]
)
def test_rows(either: OpenCLBackend, shape: tuple[int, ...]) -> None:
    made = Operands()
    x, weight = made.make(F32, *shape), made.make(F32, shape[0])
    want = rms_norm(made.exact(x))
    assert nmse(run(either, ops.rms_norm(x, None, EPS), made.values), want) < 1e-12
    got = run(either, ops.rms_norm(x, weight, EPS), made.values)
    assert nmse(got, want * made.exact(weight)) < 1e-12


def heads_of(whole: Tensor) -> Tensor:
    """Heads [D, H, T] inside wider rows, as q lies in a product of q, k and v."""
    return whole.view(64, (48, 3, 11), (48 * 4, whole.strides[1]))


def test_heads_inside_wider_rows(either: OpenCLBackend) -> None:
    made = Operands()
    heads, weight = heads_of(made.make(F32, 16 + 48 * 3 + 7, 11)), made.make(F32, 48)
    want = rms_norm(made.exact(heads)) * made.exact(weight)
    assert nmse(run(either, ops.rms_norm(heads, weight, EPS), made.values), want) < 1e-12


@pytest.mark.parametrize("spread", [1e-12, 1e12])
def test_extreme_magnitudes(either: OpenCLBackend, spread: float) -> None:
    made = Operands()
    x = made.make(F32, 576, 2, spread=spread)
    want = rms_norm(made.exact(x))
    assert nmse(run(either, ops.rms_norm(x, None, EPS), made.values), want) < 1e-12
