"""Activations, element by element in float64."""

from math import exp, pi, sqrt, tanh

import numpy as np
import pytest

from engine.backends.host.backend import HostBackend
from engine.gguf.formats import F32
from engine.graph import ops
from engine.graph.tensor import Role, leaf
from tests.kernels.harness import nmse, run

DEFINITIONS = {
    ops.silu: lambda x: x / (1 + exp(-x)),
    ops.gelu: lambda x: 0.5 * x * (1 + tanh(sqrt(2 / pi) * (x + 0.044715 * x**3))),
}


@pytest.mark.parametrize("op", DEFINITIONS, ids=lambda op: op.__name__)
@pytest.mark.parametrize("gated", [False, True])
def test_definition(host: HostBackend, op, gated: bool) -> None:
    rng = np.random.default_rng(3)
    gate, up = leaf("gate", F32, (33, 5), Role.INPUT), leaf("up", F32, (33, 5), Role.INPUT)
    x = (rng.standard_normal((1, 1, 5, 33)) * 4).astype(np.float32)
    y = rng.standard_normal(x.shape).astype(np.float32)
    want = np.vectorize(DEFINITIONS[op])(x.astype(float)) * (y if gated else 1)
    node = op(gate, up) if gated else op(gate)
    values = {gate: x, up: y} if gated else {gate: x}
    assert nmse(run(host, node, values), want) < 1e-12


@pytest.mark.parametrize("op", DEFINITIONS, ids=lambda op: op.__name__)
def test_far_out_values_stay_numbers(host: HostBackend, op) -> None:
    gate = leaf("gate", F32, (4,), Role.INPUT)
    x = np.float32([-1000, -100, 100, 1000])
    assert run(host, op(gate), {gate: x}).reshape(-1).tolist() == [0, 0, 100, 1000]
