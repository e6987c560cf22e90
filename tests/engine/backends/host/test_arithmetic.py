"""Elementwise arithmetic, index by index in float64."""

from collections.abc import Callable
from itertools import product
from math import tanh

import numpy as np
import pytest

from engine.backends.host.backend import HostBackend
from engine.gguf.formats import BF16, F16, F32
from engine.graph import ops
from engine.graph.tensor import Role, Tensor, leaf
from tests.kernels.harness import nmse, run

BINARY = {
    ops.add: lambda a, b: a + b,
    ops.sub: lambda a, b: a - b,
    ops.mul: lambda a, b: a * b,
    ops.div: lambda a, b: a / b,
}
SHAPES = [
    ((1,), (1,)),
    ((7, 3), (7, 3)),
    ((7, 3), (7,)),
    ((7, 3), (1, 3)),
    ((6, 4, 3), (3, 2, 1)),  # repeated, not only stretched
    ((5, 3, 2, 4), (5, 1, 2, 2)),
]


@pytest.mark.parametrize("op", BINARY, ids=lambda op: op.__name__)
@pytest.mark.parametrize(("a_shape", "b_shape"), SHAPES, ids=str)
def test_second_operand_is_indexed_modulo(
    host: HostBackend, op: Callable[[Tensor, Tensor], Tensor], a_shape: tuple, b_shape: tuple
) -> None:
    rng = np.random.default_rng(1)
    a, b = leaf("a", F32, a_shape, Role.INPUT), leaf("b", F32, b_shape, Role.INPUT)
    x = rng.standard_normal(a.shape[::-1]).astype(np.float32)
    y = rng.uniform(0.5, 2, b.shape[::-1]).astype(np.float32)
    want = np.empty(x.shape)
    for i in product(*map(range, x.shape)):
        j = tuple(k % n for k, n in zip(i, y.shape, strict=True))
        want[i] = BINARY[op](float(x[i]), float(y[j]))
    assert nmse(run(host, op(a, b), {a: x, b: y}), want) < 1e-13


def test_views_and_permutations_are_followed(host: HostBackend) -> None:
    rng = np.random.default_rng(2)
    a, b = leaf("a", F32, (6, 5, 4), Role.INPUT), leaf("b", F32, (9, 8), Role.INPUT)
    x = rng.standard_normal((1, 4, 5, 6)).astype(np.float32)
    y = rng.standard_normal((1, 1, 8, 9)).astype(np.float32)
    turned = a.permute(1, 2, 0)  # [4, 6, 5]
    window = b.view(2 * 36 + 3 * 4, (4, 6), (36,))
    want = x[0].transpose(1, 2, 0).astype(float) + y[0, 0, 2:8, 3:7]
    got = run(host, ops.add(turned, window), {a: x, b: y})
    assert nmse(got[0], want) < 1e-13


@pytest.mark.parametrize("fmt", [F16, BF16], ids=str)
def test_result_is_rounded_to_the_first_operands_type(host: HostBackend, fmt) -> None:
    a, b = leaf("a", fmt, (4,), Role.INPUT), leaf("b", F32, (4,), Role.INPUT)
    one = np.array([1, 1, 1, 1])
    tiny = np.float32([0, 2**-8, 2**-9, 2**-11])
    stored = one.astype(np.float16) if fmt == F16 else (one * 0x3F80).astype(np.uint16)
    got = run(host, ops.add(a, b), {a: stored.view(np.uint8), b: tiny}).reshape(-1)
    if fmt == F16:  # 10 bits of fraction: half of the last one is a tie, and goes to even
        assert got.tolist() == [1, 1 + 2**-8, 1 + 2**-9, 1]
    else:  # 7 bits: 2^-8 is the tie
        assert got.tolist() == [0x3F80, 0x3F80, 0x3F80, 0x3F80]


def test_scale_and_softcap(host: HostBackend) -> None:
    a = leaf("a", F32, (5, 3), Role.INPUT)
    x = np.linspace(-300, 300, 15, dtype=np.float32).reshape(1, 1, 3, 5)
    factor = float(np.float32(0.3))
    assert nmse(run(host, ops.scale(a, 0.3), {a: x}), x.astype(float) * factor) < 1e-13
    want = np.array([50 * tanh(v / 50) for v in x.reshape(-1).tolist()]).reshape(x.shape)
    assert nmse(run(host, ops.softcap(a, 50), {a: x}), want) < 1e-13
