"""Elementwise arithmetic, index by index in float64."""

from collections.abc import Callable
from itertools import product
from math import tanh

import numpy as np
import pytest

from engine.backends.host.backend import HostBackend
from engine.gguf.formats import BF16, F16, F32, I32
from engine.graph import ops
from engine.graph.tensor import Role, Tensor, leaf
from tests.engine.backends.host.operands import ARRANGED, FLOATS, assert_near, packed
from tests.kernels.harness import nmse, run
from tests.kernels.values import Operands

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


@pytest.mark.parametrize("op", BINARY, ids=lambda op: op.__name__)
@pytest.mark.parametrize("types", list(product(FLOATS, FLOATS)), ids=lambda t: f"{t[0]}-{t[1]}")
@pytest.mark.parametrize("arranged", ARRANGED, ids=lambda make: make.__name__)
def test_types_and_arrangements(host: HostBackend, op, types, arranged) -> None:
    x = Operands(21)
    a, b = packed(x, types[0]), arranged(x, types[1])
    want = BINARY[op](x.exact(a), x.exact(b))
    assert_near(run(host, op(a, b), x.values), want, types[0], small=1e-5)


def test_division_by_zero_and_what_is_no_number(host: HostBackend) -> None:
    x = Operands()
    a = x.put(F32, np.float32([1, -1, 0, np.inf, np.nan, 5]))
    b = x.put(F32, np.float32([0, 0, 0, np.inf, 1, -np.inf]))
    got = run(host, ops.div(a, b), x.values).reshape(-1)
    assert got[:2].tolist() == [np.inf, -np.inf]
    assert np.isnan(got[2:5]).all()
    assert got[5] == 0
    assert np.isnan(run(host, ops.sub(b, b), x.values).reshape(-1)[3])


UNARY = {
    "clamp": (lambda a: ops.clamp(a, -0.5, 1.25), lambda v: np.clip(v, -0.5, 1.25)),
    "sqr": (ops.sqr, np.square),
    "sqrt": (ops.sqrt, np.sqrt),
    "sin": (ops.sin, np.sin),
    "cos": (ops.cos, np.cos),
    "neg": (ops.neg, np.negative),
    "scale": (lambda a: ops.scale(a, 0.3), lambda v: v * float(np.float32(0.3))),
    "softcap": (lambda a: ops.softcap(a, 2.0), lambda v: 2 * np.tanh(v / 2)),
}


@pytest.mark.parametrize("name", UNARY)
@pytest.mark.parametrize("fmt", FLOATS, ids=str)
@pytest.mark.parametrize("arranged", ARRANGED, ids=lambda make: make.__name__)
def test_unary(host: HostBackend, name: str, fmt, arranged) -> None:
    op, definition = UNARY[name]
    x = Operands(22)
    a = arranged(x, fmt, 3)
    with np.errstate(invalid="ignore"):  # roots of what is below 0 are NaN
        want = definition(x.exact(a))
    assert_near(run(host, op(a), x.values), want, fmt)


def test_unary_of_what_is_no_number(host: HostBackend) -> None:
    x = Operands()
    a = x.put(F32, np.float32([-np.inf, np.inf, np.nan, -4.0, -0.0]))

    def of(node: Tensor) -> list[str]:
        return [f"{v:g}" for v in run(host, node, x.values).reshape(-1).tolist()]

    assert of(ops.clamp(a, -1, 2)) == ["-1", "2", "nan", "-1", "-0"]
    assert of(ops.sqr(a)) == ["inf", "inf", "nan", "16", "0"]
    assert of(ops.sqrt(a)) == ["nan", "inf", "nan", "nan", "-0"]
    assert of(ops.sin(a))[:3] == ["nan"] * 3
    assert of(ops.cos(a))[4] == "1"
    assert of(ops.neg(a)) == ["inf", "-inf", "nan", "4", "0"]


def test_sines_of_large_angles(host: HostBackend) -> None:
    x = Operands()
    a = x.put(F32, np.float32([1e3, 131071.0, 1e6, -1e5]))
    want = np.sin(x.exact(a))
    np.testing.assert_allclose(run(host, ops.sin(a), x.values), want, atol=1e-6)


def test_add_id(host: HostBackend) -> None:
    """Each of U rows of a token gets the row of b that its id names; b is a window, a permuted."""
    x = Operands(23)
    a = x.make(F32, 3, 5, 4).permute(1, 0, 2)  # [5, 3, 4]: five channels, three used, four tokens
    b = x.make(F32, 8, 9).view(8, (5, 8), (32,))
    numbers = x.rng.integers(0, 8, (4, 6)).astype(np.int32)
    ids = x.put(I32, numbers).view(4, (3, 4), (24,))  # columns 1 to 3 of six
    got = run(host, ops.add_id(a, b, ids), x.values)
    of_a, of_b = x.exact(a)[0], x.exact(b)[0, 0]
    want = np.empty((1, 4, 3, 5))
    for t, u, d in np.ndindex(4, 3, 5):
        want[0, t, u, d] = of_a[t, u, d] + of_b[numbers[t, u + 1], d]
    assert_near(got, want)


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
