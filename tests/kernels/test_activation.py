"""silu and gelu, alone and gated, against NumPy."""

from collections.abc import Callable

import numpy as np
import pytest

from engine.backends.opencl.backend import OpenCLBackend
from engine.gguf.formats import F32
from engine.graph import ops
from engine.graph.tensor import Tensor
from tests.kernels.harness import nmse, run
from tests.kernels.values import Floats, Operands


def silu(x: Floats) -> Floats:
    return x / (1 + np.exp(-x))


def gelu(x: Floats) -> Floats:
    return 0.5 * x * (1 + np.tanh(np.sqrt(2 / np.pi) * (x + 0.044715 * x**3)))


ACTIVATIONS: dict[Callable[..., Tensor], Callable[[Floats], Floats]] = {
    ops.silu: silu,
    ops.gelu: gelu,
}


@pytest.mark.parametrize("shape", [(1,), (77, 3), (4099, 2)])
@pytest.mark.parametrize("op", ACTIVATIONS, ids=lambda op: op.__name__)
def test_alone_and_gated(
    either: OpenCLBackend, op: Callable[..., Tensor], shape: tuple[int, ...]
) -> None:
    made = Operands()
    gate, up = made.make(F32, *shape, spread=3.0), made.make(F32, *shape)
    want = ACTIVATIONS[op](made.exact(gate))
    assert nmse(run(either, op(gate), made.values), want) < 1e-12
    assert nmse(run(either, op(gate, up), made.values), want * made.exact(up)) < 1e-12


@pytest.mark.parametrize("op", ACTIVATIONS, ids=lambda op: op.__name__)
def test_halves_of_one_tensor(either: OpenCLBackend, op: Callable[..., Tensor]) -> None:
    """Gate and up as one matmul makes them: rows of both, one after the other."""
    made = Operands()
    both = made.make(F32, 2 * 50, 9)
    gate = both.view(0, (50, 9), (both.strides[1],))
    up = both.view(50 * 4, (50, 9), (both.strides[1],))
    want = ACTIVATIONS[op](made.exact(gate)) * made.exact(up)
    assert nmse(run(either, op(gate, up), made.values), want) < 1e-12


@pytest.mark.parametrize("op", ACTIVATIONS, ids=lambda op: op.__name__)
def test_stride_in_dimension_0(either: OpenCLBackend, op: Callable[..., Tensor]) -> None:
    made = Operands()
    x = made.make(F32, 5, 70).permute(1, 0)
    want = ACTIVATIONS[op](made.exact(x))
    assert nmse(run(either, op(x), made.values), want) < 1e-12


@pytest.mark.parametrize("op", ACTIVATIONS, ids=lambda op: op.__name__)
def test_far_from_zero(either: OpenCLBackend, op: Callable[..., Tensor]) -> None:
    """x where it is large, 0 where it is far below, and no NaN on the way."""
    made = Operands()
    numbers = np.array([-1e30, -1e5, -200.0, -50.0, 0.0, 50.0, 200.0, 1e5, 1e30] * 4)
    got = run(either, op(made.put(F32, numbers)), made.values).reshape(-1)
    np.testing.assert_allclose(got, np.maximum(numbers, 0.0), rtol=1e-6, atol=1e-18)
