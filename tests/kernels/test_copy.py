"""contiguous, cast and copy_into against NumPy."""

from itertools import permutations

import numpy as np
import pytest
from numpy.typing import NDArray

from engine.backends.opencl.backend import OpenCLBackend
from engine.gguf.formats import BF16, F16, F32, I8, I16, I32, I64, Q4_1, Q6_K, Q8_0, Format
from engine.graph import ops
from engine.graph.op import Op
from engine.graph.tensor import Role, Tensor, leaf
from tests.kernels.blocks import random_blocks
from tests.kernels.harness import Array, run
from tests.kernels.values import INTEGERS, Floats, Operands, numbers_of, to_bf16

FORMATS = [F32, F16, BF16, I8, I16, I32, I64]


def stored(exact: Floats, fmt: Format) -> Array:
    """Numbers as a type has them: integers without their fractions and what has no room."""
    if fmt == BF16:
        return to_bf16(exact)
    whole = np.trunc(exact).astype(np.int64) if fmt in INTEGERS else exact
    return whole.astype(str(fmt.dtype))


@pytest.mark.each_value
@pytest.mark.parametrize("target", FORMATS, ids=str)
@pytest.mark.parametrize("source", FORMATS, ids=str)
def test_cast(either: OpenCLBackend, source: Format, target: Format) -> None:
    made = Operands()
    x = made.make(source, 67, 3, 2, spread=20.0)
    across = made.make(source, 5, 33, spread=20.0).permute(1, 0)
    for view in (x, across):
        got = run(either, ops.cast(view, target), made.values)
        np.testing.assert_array_equal(got, stored(made.exact(view), target))


@pytest.mark.parametrize(("source", "target"), [(I64, I32), (I32, I64), (I64, I8), (I16, I64)])
def test_integers_keep_every_digit(either: OpenCLBackend, source: Format, target: Format) -> None:
    """Those that no float holds; too large ones lose what lies above."""
    made = Operands()
    bits = np.iinfo(str(source.dtype))
    numbers = made.rng.integers(bits.min, bits.max, (3, 67), np.int64, endpoint=True)
    x = made.put(source, numbers)
    got = run(either, ops.cast(x, target), made.values)[0, 0]
    np.testing.assert_array_equal(got, numbers.astype(str(target.dtype)))


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
    kind = np.dtype(f"u{fmt.bytes}")
    bits = made.rng.integers(0, np.iinfo(kind).max, (40, 35), kind, endpoint=True)
    for at, hard in enumerate([0, 1, 0x7C01, 0x7F81, 0xFFFF, 0x8000, 0x7FFF, 0x7F800001]):
        bits[:2, at] = hard & np.iinfo(kind).max
    x = made.make(fmt, 35, 40)
    made.values[x] = bits.view(np.uint8)
    for view, want in (
        (x.view(8, (20, 40), (x.strides[1],)), bits[:, 8 // fmt.bytes :][:, :20]),
        (x.permute(1, 0), bits.T),
    ):
        got = run(either, ops.contiguous(view), made.values)[0, 0]
        np.testing.assert_array_equal(got.view(kind), want)


@pytest.mark.parametrize("fmt", [Q8_0, Q4_1, Q6_K], ids=str)
def test_blocks_move_whole(either: OpenCLBackend, fmt: Format) -> None:
    made = Operands()
    x = leaf("x", fmt, (2 * fmt.block, 5, 3), Role.INPUT)
    blocks = random_blocks(made.rng, fmt, 15, 2 * fmt.block)
    got = run(either, ops.contiguous(x.permute(0, 2, 1)), {x: blocks})
    want = blocks.reshape(3, 5, -1).transpose(1, 0, 2)
    np.testing.assert_array_equal(got, want.reshape(-1))


def whole(node: Tensor) -> Tensor:
    """All of the storage that a node writes a part of."""
    target = node.storage
    return Tensor(Op.VIEW, target.fmt, target.shape, target.strides, (node,), root=target)


def placed(made: Operands, target: Tensor, x: Tensor) -> Array:
    """What the storage of `target` holds once x is in there, in linear order."""
    want: NDArray[np.generic] = made.values[target.storage].copy()
    window = np.lib.stride_tricks.as_strided(
        want.reshape(-1)[target.offset // want.itemsize :],
        target.shape[::-1],
        target.strides[::-1],
    )
    window[...] = stored(made.exact(x), target.fmt).reshape(window.shape)
    return want


PLACES = {
    "packed": (lambda t: t.view(0, (30, 4, 3)), lambda x: x),
    "rows of a wider one": (lambda t: t.view(16, (30, 4, 3), t.strides[1:3]), lambda x: x),
    "other dimensions": (
        lambda t: t.view(16, (30, 4, 3), t.strides[1:3]),
        lambda x: x.reshape(8, 45),
    ),
    "packed, from across": (
        lambda t: t.view(120 * t.fmt.bytes, (30, 12)),
        lambda x: x.reshape(12, 30).permute(1, 0),
    ),
    "packed, other dimensions": (
        lambda t: t.view(120 * t.fmt.bytes, (8, 45)),
        lambda x: x.reshape(12, 30).permute(1, 0),
    ),
    "neither packed, other dimensions": (
        lambda t: t.view(16, (30, 4, 3), t.strides[1:3]),
        lambda x: x.reshape(9, 40).permute(1, 0),
    ),
    "into a column": (
        lambda t: t.permute(1, 0, 2).view(8, (5, 36), (t.strides[0],)),
        lambda x: x.reshape(36, 10).permute(1, 0).view(0, (5, 36), (x.strides[0],)),
    ),
}


@pytest.mark.sampled(3)
@pytest.mark.parametrize("types", [(F32, F32), (F32, F16), (F16, F32), (F32, BF16), (I64, I32)])
@pytest.mark.parametrize("place", PLACES)
def test_copy_into(either: OpenCLBackend, place: str, types: tuple[Format, Format]) -> None:
    made = Operands()
    into, of = PLACES[place]
    target = into(made.make(types[1], 40, 6, 4))
    x = of(made.make(types[0], 30, 4, 3))
    got = run(either, whole(ops.copy_into(x, target)), made.values)
    np.testing.assert_array_equal(got[0], placed(made, target, x))


def test_a_read_through_the_result_sees_the_write(either: OpenCLBackend) -> None:
    made = Operands()
    target, x = made.make(F16, 33, 9), made.make(F32, 33, 9)
    node = ops.scale(ops.copy_into(x, target), 2.0)
    got = run(either, node, made.values)
    np.testing.assert_array_equal(got[0, 0], 2 * made.values[x].astype(np.float16))


@pytest.mark.parametrize("fmt", [Q8_0, Q6_K], ids=str)
def test_copy_into_rows_of_blocks(either: OpenCLBackend, fmt: Format) -> None:
    """Heads of a cache, from blocks and, for one that can be written, from f32."""
    made = Operands()
    n = fmt.block
    cache = leaf("cache", fmt, (2 * n, 4, 7), Role.CACHE)
    target = cache.view(cache.strides[2] + cache.fmt.bytes, (n, 3, 5), cache.strides[1:3])
    before = random_blocks(made.rng, fmt, 28, 2 * n)
    x = leaf("x", fmt, (n, 15), Role.INPUT)
    values = {cache: before, x: random_blocks(made.rng, fmt, 15, n)}
    want = before.reshape(7, 4, 2, -1).copy()
    want[1:6, :3, 1] = values[x].reshape(5, 3, -1)
    got = run(either, whole(ops.copy_into(x, target)), values)
    np.testing.assert_array_equal(got, want.reshape(-1))
    if fmt == Q8_0:
        numbers = made.make(F32, n, 15)
        values[numbers] = made.values[numbers]
        blocks = run(either, ops.cast(numbers, fmt), made.values)
        want[1:6, :3, 1] = blocks.reshape(5, 3, -1)
        got = run(either, whole(ops.copy_into(numbers, target)), values)
        np.testing.assert_array_equal(got, want.reshape(-1))


@pytest.mark.parametrize("fmt", [Q8_0, Q6_K], ids=str)
def test_blocks_into_rows_of_halves(either: OpenCLBackend, fmt: Format) -> None:
    made = Operands()
    n = fmt.block
    x = leaf("x", fmt, (n, 3, 5), Role.INPUT)
    values = {x: random_blocks(made.rng, fmt, 15, n)}
    target = made.make(F16, n + 8, 3, 6)
    values[target] = made.values[target]
    part = target.view(16, (n, 3, 5), target.strides[1:3])
    want = made.values[target].copy()
    want[:5, :, 8:] = run(either, ops.cast(x, F16), values)[0]
    got = run(either, whole(ops.copy_into(x, part)), values)
    np.testing.assert_array_equal(got[0], want)


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
