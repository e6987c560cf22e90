"""Elementwise arithmetic against NumPy."""

from collections.abc import Callable

import numpy as np
import pytest

from engine.backends.opencl.backend import OpenCLBackend
from engine.gguf.formats import BF16, F16, F32, I32, Format
from engine.graph import ops
from engine.graph.tensor import Tensor
from tests.kernels.harness import nmse, run
from tests.kernels.values import Floats, Operands, numbers_of

BINARY: dict[Callable[[Tensor, Tensor], Tensor], Callable[[Floats, Floats], Floats]] = {
    ops.add: np.add,
    ops.sub: np.subtract,
    ops.mul: np.multiply,
    ops.div: np.divide,
}
UNARY: dict[str, tuple[Callable[[Tensor], Tensor], Callable[[Floats], Floats]]] = {
    "scale": (lambda x: ops.scale(x, 0.3), lambda x: x * np.float32(0.3)),
    "softcap": (lambda x: ops.softcap(x, 30.0), lambda x: 30 * np.tanh(x / 30)),
    "clamp": (lambda x: ops.clamp(x, -2.5, 12.0), lambda x: np.clip(x, -2.5, 12.0)),
    "sqr": (ops.sqr, np.square),
    "sqrt": (lambda x: ops.sqrt(ops.sqr(x)), lambda x: np.sqrt(np.square(x))),
    "sin": (ops.sin, np.sin),
    "cos": (ops.cos, np.cos),
    "neg": (ops.neg, np.negative),
}
SHAPES = [
    ((1,), (1,)),
    ((576, 1), (576, 1)),
    ((64, 5), (64,)),
    ((67, 3, 2, 5), (67, 3, 2, 5)),
    ((67, 3, 2, 5), (67, 1, 2, 1)),
    ((66, 4, 2), (33, 2, 1)),
    ((66, 4, 2), (1, 4)),
    ((48, 6, 4, 2), (16, 3, 2, 2)),
    ((5000, 2), (5000,)),
    ((30, 333), (30, 111)),
]
FLOATS = {F32: 1e-12, F16: 1e-6, BF16: 1e-5}


def tiled(b: Floats, like: Floats) -> Floats:
    return np.tile(b, [n // m for n, m in zip(like.shape, b.shape, strict=True)])


@pytest.mark.parametrize("op", BINARY, ids=lambda op: op.__name__)
def test_each_operation(either: OpenCLBackend, op: Callable[[Tensor, Tensor], Tensor]) -> None:
    made = Operands()
    a, b = made.make(F32, 67, 3), made.make(F32, 67)
    want = BINARY[op](made.exact(a), tiled(made.exact(b), made.exact(a)))
    assert nmse(run(either, op(a, b), made.values), want) < 1e-13


@pytest.mark.parametrize(("a_shape", "b_shape"), SHAPES)
def test_second_operand_tiles(
    either: OpenCLBackend, a_shape: tuple[int, ...], b_shape: tuple[int, ...]
) -> None:
    made = Operands()
    a, b = made.make(F32, *a_shape), made.make(F32, *b_shape)
    want = made.exact(a) - tiled(made.exact(b), made.exact(a))
    assert nmse(run(either, ops.sub(a, b), made.values), want) < 1e-13


@pytest.mark.each_value
@pytest.mark.parametrize("a_fmt", FLOATS, ids=str)
@pytest.mark.parametrize("b_fmt", FLOATS, ids=str)
def test_types_of_both_operands(either: OpenCLBackend, a_fmt: Format, b_fmt: Format) -> None:
    made = Operands()
    a, b = made.make(a_fmt, 70, 3), made.make(b_fmt, 35, 3)
    got = run(either, ops.mul(a, b), made.values)
    want = made.exact(a) * tiled(made.exact(b), made.exact(a))
    assert nmse(numbers_of(got, a_fmt), want) < FLOATS[a_fmt]


def test_views_of_both_operands(either: OpenCLBackend) -> None:
    """Cut out of the middle; permuted, so that dimension 0 has gaps; both."""
    made = Operands()
    whole, other = made.make(F32, 40, 7, 6), made.make(F32, 6, 20, 7)
    cut = whole.view(whole.strides[2] + 12, (20, 7, 3), whole.strides[1:3])
    turned = other.permute(2, 0, 1)  # [20, 7, 6]
    for a, b in (
        (cut, whole.view(0, (20,))),
        (turned, turned),
        (turned, whole.view(0, (20, 7, 6), whole.strides[1:3])),
    ):
        want = made.exact(a) + tiled(made.exact(b), made.exact(a))
        assert nmse(run(either, ops.add(a, b), made.values), want) < 1e-13


@pytest.mark.sampled(3)
@pytest.mark.parametrize("fmt", FLOATS, ids=str)
@pytest.mark.parametrize("name", UNARY)
def test_one_operand(either: OpenCLBackend, name: str, fmt: Format) -> None:
    """A plain row, several with tails, and one across: dimension 0 has gaps."""
    made, (op, exactly) = Operands(), UNARY[name]
    across = made.make(fmt, 33, 5, 3, 2, spread=9.0).permute(1, 2, 0)
    for x in (made.make(fmt, 1), made.make(fmt, 67, 3, 2, spread=9.0), across):
        got = numbers_of(run(either, op(x), made.values), fmt)
        assert nmse(got, exactly(made.exact(x))) < FLOATS[fmt]


def test_softcap_stays_within(either: OpenCLBackend) -> None:
    made = Operands()
    got = run(either, ops.softcap(made.make(F32, 1000, spread=1e6), 30.0), made.values)
    assert np.abs(got).max() <= 30.0


@pytest.mark.parametrize("name", ["sin", "cos"])
def test_far_turns(either: OpenCLBackend, name: str) -> None:
    """Arguments of many turns: the reduction must know all digits of pi that it takes."""
    made, (op, exactly) = Operands(), UNARY[name]
    x = made.put(F32, made.rng.uniform(-1, 1, 1000) * np.logspace(0, 30, 1000))
    got = run(either, op(x), made.values)
    np.testing.assert_allclose(got, exactly(made.exact(x)), rtol=0, atol=1e-6)


def test_what_is_no_number(either: OpenCLBackend) -> None:
    """Bounds keep it, as infinities; a root of what is below 0 is none."""
    made = Operands()
    x = made.put(F32, np.array([np.nan, np.inf, -np.inf, -1.0, -0.0] * 7))
    got = run(either, ops.clamp(x, -3.0, 4.0), made.values).reshape(-1)
    np.testing.assert_array_equal(got, np.array([np.nan, 4.0, -3.0, -1.0, 0.0] * 7))
    got = run(either, ops.sqrt(x), made.values).reshape(-1)
    np.testing.assert_array_equal(got, np.array([np.nan, np.inf, np.nan, np.nan, 0.0] * 7))


@pytest.mark.parametrize("dim", [1, 31, 1000, 2880])
def test_rows_by_id(either: OpenCLBackend, dim: int) -> None:
    """Biases of experts, in rows and across; an id that names no expert adds nothing."""
    made = Operands()
    a, b = made.make(F32, dim, 4, 9), made.make(F32, dim, 7)
    b_across = made.make(F32, 7, dim).permute(1, 0)
    a_part = made.make(F32, dim + 5, 6, 9).view(20, (dim, 4, 9), ((dim + 5) * 4, (dim + 5) * 24))
    chosen = made.rng.integers(0, 7, (9, 6))
    chosen[3, 1], chosen[5, 3] = -1, 7
    ids = made.put(I32, chosen).view(4, (4, 9), (24,))
    for x, bias in ((a, b), (a_part, b_across)):
        added = np.zeros((9, 4, dim))
        for t, u in np.ndindex(9, 4):
            if 0 <= chosen[t, u + 1] < 7:
                added[t, u] = made.exact(bias)[0, 0, chosen[t, u + 1]]
        got = run(either, ops.add_id(x, bias, ids), made.values)
        assert nmse(got, made.exact(x) + added) < 1e-12
