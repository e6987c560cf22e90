"""rows and set_rows against NumPy indexing."""

import numpy as np
import pytest

from engine.backends.opencl.backend import OpenCLBackend
from engine.gguf.formats import BF16, F16, F32, I32, I64, Format
from engine.graph import ops
from tests.kernels.harness import run
from tests.kernels.values import Operands, to_bf16


@pytest.mark.sampled(2)
@pytest.mark.parametrize("fmt", [F32, F16, BF16, I32], ids=str)
@pytest.mark.parametrize("width", [1, 15, 64, 577])
def test_gather(either: OpenCLBackend, fmt: Format, width: int) -> None:
    made = Operands()
    table = made.make(fmt, width, 40)
    ids = np.array([3, -1, 39, 0, 3, 17, -1])
    got = run(either, ops.rows(table, made.put(I32, ids)), made.values)[0, 0]
    want = np.where(ids[:, None] < 0, 0, made.exact(table)[0, 0][ids])
    assert got.dtype == (np.int32 if fmt == I32 else np.float32)
    np.testing.assert_array_equal(got, want)


def test_gather_keeps_every_bit_of_whole_numbers(either: OpenCLBackend) -> None:
    """Among them patterns that are denormals, infinities and NaN as floats."""
    made = Operands()
    numbers = np.array([[1, -1, 0x7F800000, 0x7F800001, -0x80000000, 0x00400000, 0, 12]] * 4)
    table, ids = made.put(I32, np.tile(numbers, 3)), made.put(I32, np.array([2, 0]))
    np.testing.assert_array_equal(
        run(either, ops.rows(table, ids), made.values)[0, 0], np.tile(numbers, 3)[:2]
    )


def stored_as(numbers: np.ndarray, fmt: Format) -> np.ndarray:
    return to_bf16(numbers) if fmt == BF16 else numbers.astype(str(fmt.dtype))


@pytest.mark.sampled(2)
@pytest.mark.parametrize("fmt", [F32, F16, BF16], ids=str)
@pytest.mark.parametrize("width", [1, 15, 192, 577])
def test_scatter(either: OpenCLBackend, fmt: Format, width: int) -> None:
    """Rows land where ids say, rounded to nearest even; -1 and ids outside write nothing."""
    made = Operands()
    target, values = made.make(fmt, width, 21), made.make(F32, width, 6)
    ids = np.array([20, -1, 3, 0, 21, 1 << 20])
    got = run(either, ops.set_rows(target, values, made.put(I32, ids)), made.values)[0, 0]
    want = made.values[target].copy()
    for row, i in enumerate(ids):
        if 0 <= i < 21:
            want[i] = stored_as(made.values[values][row], fmt)
    np.testing.assert_array_equal(got, want)


@pytest.mark.parametrize("fmt", [F16, BF16], ids=str)
def test_scatter_rounds_ties_to_even(either: OpenCLBackend, fmt: Format) -> None:
    """Halfway cases, the largest finite numbers, denormals, infinities."""
    made = Operands()
    step = 2.0**-10 if fmt == F16 else 2.0**-7
    numbers = [1 + step / 2, 1 + 3 * step / 2, -1 - step / 2, 65504.0, 65519.9, 65520.0, 1e38]
    numbers += [6e-8, 3e-8, 2.0**-25, 1e-40, np.inf, -np.inf, 0.0, -0.0, 3.4e38, 1 / 3]
    values = made.put(F32, np.array([numbers, numbers[::-1]]))
    target = made.make(fmt, len(numbers), 2)
    ids = made.put(I32, np.array([0, 1]))
    got = run(either, ops.set_rows(target, values, ids), made.values)[0, 0]
    with np.errstate(over="ignore"):
        want = stored_as(made.values[values], fmt)
    bits = np.uint16
    np.testing.assert_array_equal(got.view(bits), want.view(bits))


def test_scatter_of_strided_values(either: OpenCLBackend) -> None:
    made = Operands()
    whole, target = made.make(F32, 100, 5), made.make(F16, 40, 9)
    values = whole.view(80, (40, 5), (whole.strides[1],))
    ids = made.put(I32, np.array([8, 7, -1, 0, 1]))
    got = run(either, ops.set_rows(target, values, ids), made.values)[0, 0]
    want = made.values[target].copy()
    want[[8, 7, 0, 1]] = made.values[whole][[0, 1, 3, 4], 20:60].astype(np.float16)
    np.testing.assert_array_equal(got, want)


def test_a_read_through_the_result_sees_the_write(either: OpenCLBackend) -> None:
    made = Operands()
    target, values = made.make(F32, 33, 9), made.make(F32, 33, 2)
    ids, wanted = made.put(I32, np.array([4, 0])), made.put(I32, np.array([0, 4, 8]))
    node = ops.rows(ops.set_rows(target, values, ids), wanted)
    got = run(either, node, made.values)[0, 0]
    np.testing.assert_array_equal(got[:2], made.values[values][::-1])
    np.testing.assert_array_equal(got[2], made.values[target][8])


@pytest.mark.parametrize("fmt", [F32, F16, I32], ids=str)
def test_gather_of_every_plane(either: OpenCLBackend, fmt: Format) -> None:
    """Each of dimensions 2 and 3 has its own ids; table and ids are views."""
    made = Operands()
    whole, picks = made.make(fmt, 40, 7, 2, 3), made.rng.integers(-1, 7, (3, 2, 10))
    table = whole.view(4 * fmt.bytes, (33, 7, 2, 3), whole.strides[1:])
    ids = made.put(I32, picks).view(4, (9, 2, 3), (40, 80))
    got = run(either, ops.rows(table, ids), made.values)
    assert got.shape == (3, 2, 9, 33)
    exact = made.exact(table)
    for i3, i2, i in np.ndindex(3, 2, 9):
        row = picks[i3, i2, i + 1]
        want = exact[i3, i2, row] if row >= 0 else np.zeros(33)
        np.testing.assert_array_equal(got[i3, i2, i], want)


@pytest.mark.parametrize(("ids_fmt", "tiles"), [(I32, (1, 1)), (I64, (2, 1)), (I64, (1, 3))])
def test_scatter_into_every_plane(
    either: OpenCLBackend, ids_fmt: Format, tiles: tuple[int, int]
) -> None:
    """Ids repeat over dimensions 2 and 3; the target is a view of a wider one."""
    made = Operands()
    whole, values = made.make(F16, 50, 9, 4, 3), made.make(F32, 33, 5, 4, 3)
    target = whole.view(2, (33, 9, 4, 3), whole.strides[1:])
    picks = np.stack([made.rng.permutation(9)[:5] for _ in range(12)]).reshape(3, 4, 5)
    picks = picks[: 3 // tiles[1], : 4 // tiles[0]]
    picks[:, :, 2] = -1
    node = ops.set_rows(target, values, made.put(ids_fmt, picks))
    got = run(either, node, made.values)
    want = made.values[whole].copy()
    for i3, i2, i in np.ndindex(3, 4, 5):
        row = picks[i3 % picks.shape[0], i2 % picks.shape[1], i]
        if row >= 0:
            want[i3, i2, row, 1:34] = made.values[values][i3, i2, i].astype(np.float16)
    np.testing.assert_array_equal(got, want[..., 1:34])
