"""contiguous and cast against NumPy."""

from itertools import permutations

import numpy as np
import pytest

from engine.backends.opencl.backend import OpenCLBackend
from engine.gguf.formats import BF16, F16, F32, I32, Format
from engine.graph import ops
from tests.kernels.harness import run
from tests.kernels.values import Operands, numbers_of, to_bf16

FORMATS = [F32, F16, BF16, I32]


@pytest.mark.parametrize("target", FORMATS, ids=str)
@pytest.mark.parametrize("source", FORMATS, ids=str)
def test_cast(either: OpenCLBackend, source: Format, target: Format) -> None:
    made = Operands()
    x = made.make(source, 67, 3, 2, spread=20.0)
    got = run(either, ops.cast(x, target), made.values)
    exact = made.exact(x)
    if target == I32:
        np.testing.assert_array_equal(got, np.trunc(exact))
    elif target == BF16:
        np.testing.assert_array_equal(got, to_bf16(exact))
    else:
        np.testing.assert_array_equal(got, exact.astype(str(target.dtype)))


@pytest.mark.parametrize("fmt", [F32, F16], ids=str)
def test_every_permutation(either: OpenCLBackend, fmt: Format) -> None:
    made = Operands()
    whole = made.make(fmt, 37, 5, 3, 2)
    for axes in list(permutations(range(4)))[1:]:
        x = whole.permute(*axes)
        got = run(either, ops.contiguous(x), made.values)
        np.testing.assert_array_equal(got, made.exact(x), err_msg=str(axes))


@pytest.mark.parametrize("fmt", FORMATS, ids=str)
def test_same_type_keeps_every_bit(either: OpenCLBackend, fmt: Format) -> None:
    """NaN payloads, denormals and negative zero included, along rows and across them."""
    made = Operands()
    kind = np.uint16 if fmt.bytes == 2 else np.uint32
    bits = made.rng.integers(0, np.iinfo(kind).max, (40, 35), kind, endpoint=True)
    bits[:2, :8] = [0, 1, 0x7C01, 0x7F81, 0xFFFF, 0x8000, 0x7FFF, np.iinfo(kind).max]
    x = made.make(fmt, 35, 40)
    made.values[x] = bits.view(np.uint8)
    for view, want in (
        (x.view(8, (20, 40), (x.strides[1],)), bits[:, 8 // fmt.bytes :][:, :20]),
        (x.permute(1, 0), bits.T),
    ):
        got = run(either, ops.contiguous(view), made.values)[0, 0]
        np.testing.assert_array_equal(got.view(kind), want)


def test_cast_of_a_strided_view(either: OpenCLBackend) -> None:
    made = Operands()
    whole = made.make(F16, 64, 6, 5)
    x = whole.view(10, (31, 4, 5), whole.strides[1:3]).permute(2, 0, 1)
    got = run(either, ops.cast(x, F32), made.values)
    np.testing.assert_array_equal(got, made.exact(x))


def test_bf16_keeps_not_a_number(either: OpenCLBackend) -> None:
    made = Operands()
    x = made.put(F32, np.array([np.nan, np.inf, -np.inf, 1.0] * 5))
    made.values[x] = np.array([0x7F800001, 0x7F800000, 0xFF800000, 0x3F800000] * 5, np.uint32).view(
        np.uint8
    )
    got = run(either, ops.cast(x, BF16), made.values)
    numbers = numbers_of(got, BF16).reshape(-1)
    np.testing.assert_array_equal(numbers, np.array([np.nan, np.inf, -np.inf, 1.0] * 5))
