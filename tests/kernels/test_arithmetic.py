"""add, sub, mul, div, scale, softcap against NumPy."""

from collections.abc import Callable

import numpy as np
import pytest

from engine.backends.opencl.backend import OpenCLBackend
from engine.gguf.formats import F16, F32, Format
from engine.graph import ops
from engine.graph.tensor import Tensor
from tests.kernels.harness import nmse, run
from tests.kernels.values import Floats, Operands

BINARY: dict[Callable[[Tensor, Tensor], Tensor], Callable[[Floats, Floats], Floats]] = {
    ops.add: np.add,
    ops.sub: np.subtract,
    ops.mul: np.multiply,
    ops.div: np.divide,
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


@pytest.mark.parametrize("a_fmt", [F32, F16], ids=str)
@pytest.mark.parametrize("b_fmt", [F32, F16], ids=str)
def test_halves(either: OpenCLBackend, a_fmt: Format, b_fmt: Format) -> None:
    made = Operands()
    a, b = made.make(a_fmt, 70, 3), made.make(b_fmt, 35, 3)
    got = run(either, ops.mul(a, b), made.values)
    want = made.exact(a) * tiled(made.exact(b), made.exact(a))
    assert nmse(got, want) < (1e-13 if a_fmt == F32 else 1e-6)


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


@pytest.mark.parametrize("shape", [(1,), (576,), (67, 3, 2)])
def test_scale_and_softcap(either: OpenCLBackend, shape: tuple[int, ...]) -> None:
    made = Operands()
    x = made.make(F32, *shape, spread=40.0)
    exact = made.exact(x)
    assert nmse(run(either, ops.scale(x, 0.3), made.values), exact * np.float32(0.3)) < 1e-13
    got = run(either, ops.softcap(x, 30.0), made.values)
    assert nmse(got, 30.0 * np.tanh(exact / 30.0)) < 1e-12
    assert np.abs(got).max() <= 30.0


def test_scale_of_a_permuted_half(either: OpenCLBackend) -> None:
    made = Operands()
    x = made.make(F16, 33, 5, 3).permute(1, 2, 0)
    got = run(either, ops.scale(x, 2.0), made.values)
    assert nmse(got, 2.0 * made.exact(x)) == 0.0
