"""Activations, element by element in float64."""

from math import erfc, exp, pi, sqrt, tanh

import numpy as np
import pytest

from engine.backends.host.backend import HostBackend
from engine.gguf.formats import F16, F32
from engine.graph import ops
from tests.engine.backends.host.operands import ARRANGED, FLOATS, assert_near, packed
from tests.kernels.harness import run
from tests.kernels.values import Operands

GATED = {
    ops.silu: lambda x: x / (1 + exp(-x)),
    ops.gelu: lambda x: 0.5 * x * (1 + tanh(sqrt(2 / pi) * (x + 0.044715 * x**3))),
    ops.gelu_erf: lambda x: x / 2 * erfc(-x / sqrt(2)),
    ops.quick_gelu: lambda x: x / (1 + exp(-1.702 * x)),
    ops.relu: lambda x: max(x, 0.0),
}
DEFINITIONS = GATED | {ops.tanh: tanh, ops.sigmoid: lambda x: 1 / (1 + exp(-x))}


@pytest.mark.parametrize("op", DEFINITIONS, ids=lambda op: op.__name__)
@pytest.mark.parametrize("fmt", FLOATS, ids=str)
@pytest.mark.parametrize("arranged", ARRANGED, ids=lambda make: make.__name__)
def test_definition(host: HostBackend, op, fmt, arranged) -> None:
    x = Operands(1)
    gate = arranged(x, fmt, 4)
    want = np.vectorize(DEFINITIONS[op], otypes=[float])(x.exact(gate))
    assert_near(run(host, op(gate), x.values), want, fmt)


@pytest.mark.parametrize("op", GATED, ids=lambda op: op.__name__)
@pytest.mark.parametrize("fmt", FLOATS, ids=str)
@pytest.mark.parametrize("arranged", ARRANGED, ids=lambda make: make.__name__)
def test_gated(host: HostBackend, op, fmt, arranged) -> None:
    """The gate and up may lie differently; the result has the gate's type."""
    x = Operands(2)
    gate, up = packed(x, fmt, 4), arranged(x, F16)
    want = np.vectorize(GATED[op], otypes=[float])(x.exact(gate)) * x.exact(up)
    assert_near(run(host, op(gate, up), x.values), want, fmt)


@pytest.mark.parametrize("op", GATED, ids=lambda op: op.__name__)
def test_far_out_values_stay_numbers(host: HostBackend, op) -> None:
    x = Operands()
    gate = x.put(F32, np.float32([-1000, -100, 100, 1000]))
    assert run(host, op(gate), x.values).reshape(-1).tolist() == [0, 0, 100, 1000]


@pytest.mark.parametrize(("op", "low"), [(ops.tanh, -1), (ops.sigmoid, 0)])
def test_ends_are_reached_and_nan_stays(host: HostBackend, op, low: int) -> None:
    x = Operands()
    gate = x.put(F32, np.float32([-np.inf, -1000, 1000, np.inf, np.nan]))
    got = run(host, op(gate), x.values).reshape(-1)
    assert got[:4].tolist() == [low, low, 1, 1]
    assert np.isnan(got[4])


def test_relu_keeps_nan_and_infinity(host: HostBackend) -> None:
    x = Operands()
    gate = x.put(F32, np.float32([-np.inf, -0.0, np.inf, np.nan]))
    got = run(host, ops.relu(gate), x.values).reshape(-1)
    assert got[:3].tolist() == [0, 0, np.inf]
    assert np.isnan(got[3])


@pytest.mark.parametrize("fmt", FLOATS, ids=str)
@pytest.mark.parametrize("arranged", ARRANGED, ids=lambda make: make.__name__)
def test_swiglu_limit(host: HostBackend, fmt, arranged) -> None:
    """The gate is cut off above only, up on both sides."""
    x = Operands(3)
    gate, up = arranged(x, fmt, 6), packed(x, F32, 6)
    g, u = np.minimum(x.exact(gate), 7), np.clip(x.exact(up), -7, 7)
    want = g / (1 + np.exp(-1.702 * g)) * (u + 1)
    got = run(host, ops.swiglu_limit(gate, up, 1.702, 7.0), x.values)
    assert_near(got, want, fmt)
    assert (x.exact(gate) > 7).any()
    assert (x.exact(up) < -7).any()


@pytest.mark.parametrize("fmt", FLOATS, ids=str)
@pytest.mark.parametrize("arranged", ARRANGED, ids=lambda make: make.__name__)
def test_xielu(host: HostBackend, fmt, arranged) -> None:
    x = Operands(3)
    gate = arranged(x, fmt, 2)
    v = x.exact(gate)
    want = np.where(v > 0, 0.8 * v * v, 0.7 * (np.expm1(np.minimum(v, 0)) - v)) + 0.5 * v
    assert_near(run(host, ops.xielu(gate, 0.8, 0.7, 0.5), x.values), want, fmt)
    assert (v > 0).any()
    assert (v < -1).any()


def test_xielu_far_from_zero(host: HostBackend) -> None:
    """Nothing is exponentiated above zero, and far below a line is left."""
    x = Operands()
    gate = x.put(F32, np.float32([-200.0, 200.0, np.inf, np.nan]))
    got = run(host, ops.xielu(gate, 1.0, 0.5, 0.25), x.values).reshape(-1)
    assert got[:3].tolist() == [49.5, 40050.0, np.inf]
    assert np.isnan(got[3])
