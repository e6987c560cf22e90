"""Activations, alone and gated, against NumPy."""

from collections.abc import Callable
from math import erfc

import numpy as np
import pytest

from engine.backends.opencl.backend import OpenCLBackend
from engine.gguf.formats import BF16, F16, F32, Format
from engine.graph import ops
from engine.graph.tensor import Tensor
from tests.kernels.harness import nmse, run
from tests.kernels.values import Floats, Operands, numbers_of


def sigmoid(x: Floats) -> Floats:
    return 1 / (1 + np.exp(-x))


def gelu(x: Floats) -> Floats:
    return 0.5 * x * (1 + np.tanh(np.sqrt(2 / np.pi) * (x + 0.044715 * x**3)))


def swiglu_limit(gate: Floats, up: Floats, alpha: float, limit: float) -> Floats:
    g, u = np.minimum(gate, limit), np.clip(up, -limit, limit)
    return g * sigmoid(alpha * g) * (u + 1)


def xielu(x: Floats, above: float, below: float, slope: float) -> Floats:
    bent = below * (np.expm1(np.minimum(x, 0)) - x)
    return np.where(x > 0, above * x * x, bent) + slope * x


ACTIVATIONS: dict[Callable[..., Tensor], Callable[[Floats], Floats]] = {
    ops.silu: lambda x: x * sigmoid(x),
    ops.gelu: gelu,
    ops.gelu_erf: lambda x: x / 2 * np.vectorize(erfc, otypes=[float])(-x / np.sqrt(2)),
    ops.quick_gelu: lambda x: x * sigmoid(1.702 * x),
    ops.relu: lambda x: np.maximum(x, 0),
}
ALONE: dict[Callable[..., Tensor], Callable[[Floats], Floats]] = {
    **ACTIVATIONS,
    ops.tanh: np.tanh,
    ops.sigmoid: sigmoid,
}
FLOATS = {F32: 1e-12, F16: 1e-6, BF16: 1e-5}
each_gate = pytest.mark.parametrize("op", ACTIVATIONS, ids=lambda op: op.__name__)
each = pytest.mark.parametrize("op", ALONE, ids=lambda op: op.__name__)


@pytest.mark.sampled(3)
@pytest.mark.parametrize("shape", [(1,), (77, 3), (4099, 2)])
@each
def test_alone(either: OpenCLBackend, op: Callable[..., Tensor], shape: tuple[int, ...]) -> None:
    made = Operands()
    x = made.make(F32, *shape, spread=3.0)
    assert nmse(run(either, op(x), made.values), ALONE[op](made.exact(x))) < 1e-12


@pytest.mark.sampled(3)
@pytest.mark.parametrize("shape", [(1,), (77, 3), (4099, 2)])
@each_gate
def test_gated(either: OpenCLBackend, op: Callable[..., Tensor], shape: tuple[int, ...]) -> None:
    made = Operands()
    gate, up = made.make(F32, *shape, spread=3.0), made.make(F32, *shape)
    want = ACTIVATIONS[op](made.exact(gate)) * made.exact(up)
    assert nmse(run(either, op(gate, up), made.values), want) < 1e-12


@pytest.mark.each_value
@pytest.mark.parametrize("up_fmt", FLOATS, ids=str)
@pytest.mark.parametrize("fmt", FLOATS, ids=str)
def test_types(either: OpenCLBackend, fmt: Format, up_fmt: Format) -> None:
    made = Operands()
    gate, up = made.make(fmt, 67, 5, spread=3.0), made.make(up_fmt, 67, 5)
    want = gelu(made.exact(gate))
    got = numbers_of(run(either, ops.gelu(gate), made.values), fmt)
    assert nmse(got, want) < FLOATS[fmt]
    got = numbers_of(run(either, ops.gelu(gate, up), made.values), fmt)
    assert nmse(got, want * made.exact(up)) < FLOATS[fmt]


@pytest.mark.parametrize("shape", [(1,), (31, 3), (2880, 4)])
def test_limited_swiglu(either: OpenCLBackend, shape: tuple[int, ...]) -> None:
    """With numbers far beyond the limit on both sides."""
    made = Operands()
    gate, up = made.make(F32, *shape, spread=9.0), made.make(F32, *shape, spread=9.0)
    for alpha, limit in ((1.702, 7.0), (0.5, 2.5)):
        got = run(either, ops.swiglu_limit(gate, up, alpha, limit), made.values)
        want = swiglu_limit(made.exact(gate), made.exact(up), alpha, limit)
        assert nmse(got, want) < 1e-12


@pytest.mark.parametrize("shape", [(1,), (31, 3), (4099, 2)])
def test_xielu(either: OpenCLBackend, shape: tuple[int, ...]) -> None:
    """With other numbers than its neighbours on either side of zero."""
    made = Operands()
    x = made.make(F32, *shape, spread=3.0)
    for above, below, slope in ((0.8, 0.7, 0.5), (1.9, 0.2, -0.4)):
        got = run(either, ops.xielu(x, above, below, slope), made.values)
        assert nmse(got, xielu(made.exact(x), above, below, slope)) < 1e-12


@each_gate
def test_halves_of_one_tensor(either: OpenCLBackend, op: Callable[..., Tensor]) -> None:
    """Gate and up as one matmul makes them: rows of both, one after the other."""
    made = Operands()
    both = made.make(F32, 2 * 50, 9)
    gate = both.view(0, (50, 9), (both.strides[1],))
    up = both.view(50 * 4, (50, 9), (both.strides[1],))
    want = ACTIVATIONS[op](made.exact(gate)) * made.exact(up)
    assert nmse(run(either, op(gate, up), made.values), want) < 1e-12


@each
def test_stride_in_dimension_0(either: OpenCLBackend, op: Callable[..., Tensor]) -> None:
    made = Operands()
    x = made.make(F32, 5, 70, 2, 3).permute(1, 0, 3, 2)
    assert nmse(run(either, op(x), made.values), ALONE[op](made.exact(x))) < 1e-12


@pytest.mark.parametrize("op", list(ACTIVATIONS))
def test_far_from_zero(either: OpenCLBackend, op: Callable[..., Tensor]) -> None:
    """x where it is large, 0 where it is far below, and no NaN on the way."""
    made = Operands()
    numbers = np.array([-1e30, -1e5, -200.0, -50.0, 0.0, 50.0, 200.0, 1e5, 1e30] * 4)
    got = run(either, op(made.put(F32, numbers)), made.values).reshape(-1)
    np.testing.assert_allclose(got, np.maximum(numbers, 0.0), rtol=1e-6, atol=1e-18)


def test_ends_of_what_saturates(either: OpenCLBackend) -> None:
    made = Operands()
    x = made.put(F32, np.array([-np.inf, -1e30, -200.0, 0.0, 200.0, 1e30, np.inf] * 5))
    for op, ends in ((ops.tanh, (-1.0, 0.0, 1.0)), (ops.sigmoid, (0.0, 0.5, 1.0))):
        got = run(either, op(x), made.values).reshape(5, 7)
        low, middle, high = ends
        want = [low, low, low, middle, high, high, high]
        np.testing.assert_allclose(got, np.tile(want, (5, 1)), rtol=1e-6, atol=1e-30)
