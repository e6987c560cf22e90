"""concat, repeat, set, pad, slices and arange against NumPy: every bit."""

import numpy as np
import pytest
from numpy.typing import NDArray

from engine.backends.opencl.backend import OpenCLBackend
from engine.gguf.formats import BF16, F16, F32, I8, I32, I64, Q4_1, Q6_K, Q8_0, Format
from engine.graph import ops
from engine.graph.tensor import Role, Tensor, leaf
from tests.kernels.blocks import exact, random_blocks
from tests.kernels.harness import run
from tests.kernels.values import Floats, Operands, numbers_of

PLAIN = [F32, F16, BF16, I8, I32, I64]
BLOCKS = [Q8_0, Q4_1, Q6_K]
plain = pytest.mark.parametrize("fmt", PLAIN, ids=str)


def check(backend: OpenCLBackend, made: Operands, node: Tensor, want: Floats) -> None:
    got = run(backend, node, made.values)
    np.testing.assert_array_equal(numbers_of(got, node.fmt), want)


def views(made: Operands, fmt: Format) -> list[Tensor]:
    """Packed; a part of wider rows; across: all [33, 4, 3, 2]."""
    part = made.make(fmt, 40, 6, 3, 2)
    return [
        made.make(fmt, 33, 4, 3, 2),
        part.view(2 * fmt.bytes, (33, 4, 3, 2), part.strides[1:]),
        made.make(fmt, 3, 33, 2, 4).permute(2, 0, 3, 1),
    ]


@pytest.mark.sampled(3)
@pytest.mark.parametrize("dim", range(4))
@plain
def test_concat(either: OpenCLBackend, fmt: Format, dim: int) -> None:
    made = Operands()
    shape = [33, 4, 3, 2]
    shape[dim] = 5
    b = made.make(fmt, *shape)
    for a in views(made, fmt):
        want = np.concatenate([made.exact(a), made.exact(b)], 3 - dim)
        check(either, made, ops.concat(a, b, dim), want)


def test_stack_of_rows(either: OpenCLBackend) -> None:
    made = Operands()
    parts = [made.make(F32, 1000, n) for n in (1, 31, 2)]
    want = np.concatenate([made.exact(part) for part in parts], 2)
    check(either, made, ops.stack(1, *parts), want)


@pytest.mark.sampled(3)
@pytest.mark.parametrize("dim", range(4))
@plain
def test_repeat(either: OpenCLBackend, fmt: Format, dim: int) -> None:
    made = Operands()
    for x in views(made, fmt):
        want = np.concatenate([made.exact(x)] * 3, 3 - dim)
        check(either, made, ops.repeat(x, dim, 3), want)
    one = made.make(fmt, 1, 5)
    want = np.concatenate([made.exact(one)] * 31, 3 - dim)
    check(either, made, ops.repeat(one, dim, 31), want)


@pytest.mark.sampled(3)
@pytest.mark.parametrize("pads", [(7,), (0, 2), (31, 1, 2, 3), (-32, 1), (2, -1, 0, -1), (0, 0, 5)])
@plain
def test_pad(either: OpenCLBackend, fmt: Format, pads: tuple[int, ...]) -> None:
    made = Operands()
    counts = [*pads, 0, 0, 0][3::-1]
    for x in views(made, fmt):
        kept = tuple(slice(0, n + min(p, 0)) for n, p in zip(x.shape[::-1], counts, strict=True))
        want = np.pad(made.exact(x)[kept], [(0, max(p, 0)) for p in counts])
        check(either, made, ops.pad(x, *pads), want)


def test_a_crop_alone_is_a_view(either: OpenCLBackend) -> None:
    made = Operands()
    x = made.make(F32, 33, 4)
    cropped = ops.pad(x, -1, -1)
    check(either, made, ops.scale(cropped, 1.0), made.exact(x)[..., :3, :32])


@plain
def test_set(either: OpenCLBackend, fmt: Format) -> None:
    """A row's end; rows of a window; planes of one: the rest is x's."""
    made = Operands()
    x = made.make(fmt, 40, 7, 5)
    rows = (40 * fmt.bytes, 280 * fmt.bytes)
    across = made.make(fmt, 3, 33).permute(1, 0)
    for values, (plane, row, column), strides in (
        (made.make(fmt, 31), (0, 2, 9), ()),
        (across, (1, 2, 5), rows[:1]),
        (made.make(fmt, 7, 4, 3), (1, 3, 33), rows),
    ):
        want = made.exact(x).copy()
        n0, n1, n2 = values.shape[:3]
        window = np.s_[0, plane : plane + n2, row : row + n1, column : column + n0]
        want[window] = made.exact(values)
        offset = ((plane * 7 + row) * 40 + column) * fmt.bytes
        check(either, made, ops.set_(x, values, offset, strides), want)


@pytest.mark.parametrize("step", [1, 2, 3, 40])
def test_slices(either: OpenCLBackend, step: int) -> None:
    """Every so many elements of a row are packed, of other dimensions a view."""
    made = Operands()
    x = made.make(F32, 33, 10, 3).permute(0, 2, 1)
    values = made.exact(x)
    check(either, made, ops.slice_(x, 0, 2, 31, step), values[..., 2:31:step])
    rows = ops.contiguous(ops.slice_(x, 1, 0, 3, step))
    check(either, made, rows, values[:, :, :3:step])
    planes = ops.scale(ops.slice_(x, 2, 1, 10, step), 1.0)
    check(either, made, planes, values[:, 1:10:step])


def of_blocks(made: Operands, fmt: Format, *shape: int) -> tuple[Tensor, NDArray[np.uint8]]:
    """A leaf of whole blocks, and what it holds: bytes of reversed shape."""
    x = leaf(f"x{len(made.values)}", fmt, shape, Role.INPUT)
    rows = x.nelements // shape[0]
    made.values[x] = random_blocks(made.rng, fmt, rows, shape[0])
    return x, made.values[x].reshape(*x.shape[:0:-1], -1)


@pytest.mark.parametrize("fmt", BLOCKS, ids=str)
def test_blocks(either: OpenCLBackend, fmt: Format) -> None:
    """They are joined, repeated, set and padded whole."""
    made = Operands()
    x, bytes_x = of_blocks(made, fmt, 2 * fmt.block, 3, 2)
    y, bytes_y = of_blocks(made, fmt, 2 * fmt.block, 3, 2)
    for dim in range(4):
        got = run(either, ops.concat(x, y, dim), made.values)
        want = np.concatenate([bytes_x, bytes_y], 3 - dim)
        np.testing.assert_array_equal(got, want.reshape(-1))
        got = run(either, ops.repeat(x, dim, 3), made.values)
        np.testing.assert_array_equal(got, np.concatenate([bytes_x] * 3, 3 - dim).reshape(-1))
    row, bytes_row = of_blocks(made, fmt, fmt.block)
    want = bytes_x.copy()
    want[0, 1, 2, fmt.bytes :] = bytes_row
    got = run(either, ops.set_(x, row, x.nbytes - fmt.bytes), made.values)
    np.testing.assert_array_equal(got, want.reshape(-1))
    got = run(either, ops.pad(x, fmt.block, 1), made.values)
    numbers = exact(got.reshape(8, -1), fmt).reshape(2, 4, -1)
    assert not numbers[:, 3].any()
    assert not numbers[..., 2 * fmt.block :].any()
    kept = got.reshape(2, 4, -1)[:, :3, : 2 * fmt.bytes]
    np.testing.assert_array_equal(kept, bytes_x[0])


@pytest.mark.parametrize(
    ("start", "stop", "step"),
    [(0, 1, 1), (0, 31, 1), (3, -2, -0.5), (0.25, 700, 0.7), (-1, 1e5, 1)],
)
def test_arange(either: OpenCLBackend, start: float, stop: float, step: float) -> None:
    got = run(either, ops.arange(start, stop, step), {})
    want = np.float32(start) + np.arange(got.size) * np.float64(np.float32(step))
    assert got.size == np.ceil((stop - start) / step)
    np.testing.assert_allclose(got.reshape(-1), want, rtol=1e-6, atol=1e-6)


def test_arange_beside_others(either: OpenCLBackend) -> None:
    """A node without sources among those that have some."""
    made = Operands()
    x = made.make(F32, 33, 3)
    node = ops.mul(ops.rms_norm(x, None, 1e-5), ops.arange(0, 33))
    exact_x = made.exact(x)
    normed = exact_x / np.sqrt(np.square(exact_x).mean(-1, keepdims=True) + 1e-5)
    got = run(either, node, made.values)
    np.testing.assert_allclose(got, normed * np.arange(33), rtol=1e-5, atol=1e-5)
