"""rms_norm, layer_norm and l2_norm against NumPy."""

import numpy as np
import pytest

from engine.backends.opencl.backend import OpenCLBackend
from engine.gguf.formats import F32
from engine.graph import ops
from engine.graph.tensor import Tensor
from tests.kernels.harness import nmse, run
from tests.kernels.values import Floats, Operands

EPS = 1e-5
SHAPES = [(1, 3), (15, 2), (31, 33), (576, 1), (640, 70), (67, 3, 2, 5), (4099, 2), (16896, 1)]


def rms_norm(x: Floats) -> Floats:
    return x / np.sqrt(np.square(x).mean(-1, keepdims=True) + EPS)


def layer_norm(x: Floats, eps: float = EPS) -> Floats:
    return (x - x.mean(-1, keepdims=True)) / np.sqrt(x.var(-1, keepdims=True) + eps)


def l2_norm(x: Floats, eps: float = EPS) -> Floats:
    return x / np.maximum(np.sqrt(np.square(x).sum(-1, keepdims=True)), eps)


@pytest.mark.parametrize("shape", SHAPES)
def test_rms_norm(either: OpenCLBackend, shape: tuple[int, ...]) -> None:
    made = Operands()
    x, weight = made.make(F32, *shape), made.make(F32, shape[0])
    want = rms_norm(made.exact(x))
    assert nmse(run(either, ops.rms_norm(x, None, EPS), made.values), want) < 1e-12
    got = run(either, ops.rms_norm(x, weight, EPS), made.values)
    assert nmse(got, want * made.exact(weight)) < 1e-12


@pytest.mark.parametrize("shape", SHAPES)
def test_layer_norm(either: OpenCLBackend, shape: tuple[int, ...]) -> None:
    made = Operands()
    x = made.make(F32, *shape)
    weight, bias = (made.make(F32, shape[0]) for _ in range(2))
    want, scaled = layer_norm(made.exact(x)), layer_norm(made.exact(x)) * made.exact(weight)
    assert nmse(run(either, ops.layer_norm(x, None, None, EPS), made.values), want) < 1e-12
    assert nmse(run(either, ops.layer_norm(x, weight, None, EPS), made.values), scaled) < 1e-12
    got = run(either, ops.layer_norm(x, weight, bias, EPS), made.values)
    assert nmse(got, scaled + made.exact(bias)) < 1e-12


@pytest.mark.parametrize("shape", SHAPES)
def test_l2_norm(either: OpenCLBackend, shape: tuple[int, ...]) -> None:
    made = Operands()
    x = made.make(F32, *shape)
    for eps in (EPS, 3.0):
        got = run(either, ops.l2_norm(x, eps), made.values)
        assert nmse(got, l2_norm(made.exact(x), eps)) < 1e-12


def heads_of(whole: Tensor) -> Tensor:
    """Heads [D, H, T] inside wider rows, as q lies in a product of q, k and v."""
    return whole.view(64, (48, 3, 11), (48 * 4, whole.strides[1]))


def test_heads_inside_wider_rows(either: OpenCLBackend) -> None:
    made = Operands()
    heads, weight = heads_of(made.make(F32, 16 + 48 * 3 + 7, 11)), made.make(F32, 48)
    want = rms_norm(made.exact(heads)) * made.exact(weight)
    assert nmse(run(either, ops.rms_norm(heads, weight, EPS), made.values), want) < 1e-12


def test_rows_across(either: OpenCLBackend) -> None:
    """Dimension 0 has gaps."""
    made = Operands()
    x = made.make(F32, 5, 3, 70, 2).permute(1, 2, 0, 3)
    weight, bias = made.make(F32, 70), made.make(F32, 70)
    exact = made.exact(x)
    want = layer_norm(exact) * made.exact(weight) + made.exact(bias)
    assert nmse(run(either, ops.layer_norm(x, weight, bias, EPS), made.values), want) < 1e-12
    got = run(either, ops.rms_norm(x, weight, EPS), made.values)
    assert nmse(got, rms_norm(exact) * made.exact(weight)) < 1e-12
    assert nmse(run(either, ops.l2_norm(x, EPS), made.values), l2_norm(exact)) < 1e-12


@pytest.mark.parametrize("n", [31, 1000, 16896])
def test_mean_far_from_zero(either: OpenCLBackend, n: int) -> None:
    """A thousand deviations off: what cancels must not take the digits along."""
    made = Operands()
    x = made.put(F32, made.rng.standard_normal((3, n)) + 1000.0)
    got = run(either, ops.layer_norm(x, None, None, EPS), made.values)
    assert nmse(got, layer_norm(made.exact(x))) < 1e-9


def test_rows_of_zeros(either: OpenCLBackend) -> None:
    made = Operands()
    x = made.put(F32, np.zeros((2, 67)))
    for node in (ops.rms_norm(x, None, EPS), ops.layer_norm(x, None, None, EPS)):
        assert not run(either, node, made.values).any()
    assert not run(either, ops.l2_norm(x, EPS), made.values).any()


@pytest.mark.parametrize("spread", [1e-12, 1e12])
def test_extreme_magnitudes(either: OpenCLBackend, spread: float) -> None:
    made = Operands()
    x = made.make(F32, 576, 2, spread=spread)
    want = rms_norm(made.exact(x))
    assert nmse(run(either, ops.rms_norm(x, None, EPS), made.values), want) < 1e-12
