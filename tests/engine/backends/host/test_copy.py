"""Packed copies and conversions."""

from itertools import permutations

import gguf
import numpy as np
import pytest

from engine.backends.host.backend import HostBackend
from engine.gguf.dequantize import QUANTIZABLE
from engine.gguf.formats import BF16, F16, F32, I32, Q4_K, Q8_0
from engine.graph import ops
from engine.graph.tensor import Role, leaf
from tests.engine.backends.host.operands import ARRANGED, FLOATS, assert_near
from tests.kernels.blocks import exact, random_blocks
from tests.kernels.harness import run, run_all
from tests.kernels.values import Operands


@pytest.mark.parametrize("axes", list(permutations(range(4))), ids=str)
def test_contiguous_puts_a_permutation_in_order(host: HostBackend, axes) -> None:
    x = leaf("x", F16, (2, 3, 4, 5), Role.INPUT)
    values = np.arange(120, dtype=np.float16).reshape(5, 4, 3, 2)
    turned = x.permute(*axes)
    copied = ops.contiguous(turned)
    assert copied.is_contiguous
    got = run(host, copied, {x: values})
    for i in np.ndindex(2, 3, 4, 5):
        moved = [0] * 4
        for source, axis in enumerate(axes):
            moved[axis] = i[source]
        assert got[tuple(moved[::-1])] == values[i[::-1]]


def test_same_type_copies_keep_every_bit(host: HostBackend) -> None:
    x = leaf("x", BF16, (4, 64), Role.INPUT)
    bits = np.random.default_rng(14).integers(0, 1 << 16, (64, 4), np.uint16)  # NaNs among them
    got = run(host, ops.contiguous(x.permute(1, 0)), {x: bits.view(np.uint8)})
    assert np.array_equal(got[0, 0], bits.T)


def test_casts(host: HostBackend) -> None:
    x = leaf("x", F32, (6,), Role.INPUT)
    values = np.float32([0, -1.75, 2.5, 1e-8, 70000, 3])
    for fmt, want in (
        (F16, [0, -1.75, 2.5, 0, np.inf, 3]),
        (I32, [0, -1, 2, 0, 70000, 3]),
    ):
        assert run(host, ops.cast(x, fmt), {x: values}).reshape(-1).tolist() == want


def test_bf16_rounds_to_nearest_and_ties_to_even(host: HostBackend) -> None:
    x = leaf("x", F32, (8,), Role.INPUT)
    cases = {
        0x3F808000: 0x3F80,  # a tie above an even pattern
        0x3F818000: 0x3F82,  # a tie above an odd one
        0x3F807FFF: 0x3F80,
        0x3F808001: 0x3F81,
        0x7F7FFFFF: 0x7F80,  # the largest float becomes infinite
        0xFF800000: 0xFF80,
        0x7F800001: 0x7FC0,  # a NaN stays one, though its only bit is cut off
        0xFFFFFFFF: 0xFFFF,
    }
    values = np.array(list(cases), np.uint32).view(np.float32)
    got = run(host, ops.cast(x, BF16), {x: values}).reshape(-1)
    assert got.tolist() == list(cases.values())


@pytest.mark.parametrize("source", FLOATS, ids=str)
@pytest.mark.parametrize("target", FLOATS, ids=str)
@pytest.mark.parametrize("arranged", ARRANGED, ids=lambda make: make.__name__)
def test_casts_of_arrangements(host: HostBackend, source, target, arranged) -> None:
    x = Operands(60)
    a = arranged(x, source)
    assert_near(run(host, ops.cast(a, target), x.values), x.exact(a), target)


@pytest.mark.parametrize("fmt", QUANTIZABLE, ids=str)
def test_casts_into_blocks_are_the_packages(host: HostBackend, fmt) -> None:
    x = Operands(61)
    a = x.make(F32, 512, 2, 3).permute(0, 2, 1)
    got = run(host, ops.cast(a, fmt), x.values)
    rows = x.exact(a).astype(np.float32).reshape(6, 512)
    assert np.array_equal(got, gguf.quantize(rows, gguf.GGMLQuantizationType[fmt.name]).reshape(-1))


def test_casts_out_of_blocks(host: HostBackend) -> None:
    blocks = random_blocks(np.random.default_rng(62), Q4_K, 6, 512)
    a = leaf("a", Q4_K, (512, 2, 3), Role.WEIGHT)
    got = run(host, ops.cast(a.permute(0, 2, 1), F32), {a: blocks})
    want = exact(blocks, Q4_K).reshape(3, 2, 512).transpose(1, 0, 2)
    assert np.array_equal(got[0], want)
    same = run(host, ops.duplicate(a.permute(0, 2, 1)), {a: blocks})
    assert np.array_equal(same.reshape(2, 3, -1), blocks.reshape(3, 2, -1).transpose(1, 0, 2))


@pytest.mark.parametrize("source", [*FLOATS, I32], ids=str)
@pytest.mark.parametrize("target", FLOATS, ids=str)
def test_copy_into_goes_in_linear_order(host: HostBackend, source, target) -> None:
    """x [2, 3, 4], permuted, into a window [6, 4] of a target: element by element."""
    x = Operands(63)
    a = x.make(source, 4, 2, 3).permute(2, 0, 1)
    whole = leaf("whole", target, (8, 6), Role.CACHE)
    part = whole.view(whole.strides[1] + 2 * target.bytes, (6, 4), (whole.strides[1],))
    before = np.zeros((6, 8), np.uint16 if target == BF16 else target.dtype)
    node = ops.duplicate(ops.copy_into(a, part))
    got = run(host, node, x.values | {whole: before})
    assert got.shape == (1, 1, 4, 6)
    assert_near(got, x.exact(a).reshape(1, 1, 4, 6), target)


def test_copy_into_writes_nothing_around(host: HostBackend) -> None:
    x = Operands()
    a = x.put(F32, np.float32([1, 2, 3, 4]))
    whole = x.put(F32, np.zeros((3, 4), np.float32))
    part = whole.view(16 + 4, (2, 2), (16,))
    written = ops.copy_into(a, part)
    assert written.shape == part.shape
    got, around = run_all(host, [written, whole.view(0, (4, 3))], x.values)
    assert got[0, 0].tolist() == [[1, 2], [3, 4]]
    assert around[0, 0].tolist() == [[0, 0, 0, 0], [0, 1, 2, 0], [0, 3, 4, 0]]


def test_copy_into_blocks(host: HostBackend) -> None:
    x = Operands(64)
    a = x.make(F16, 64, 3)
    target = leaf("target", Q8_0, (64, 3), Role.CACHE)
    got = run(host, ops.copy_into(a, target), x.values | {target: np.zeros((3, 68), np.uint8)})
    rows = x.exact(a)[0, 0].astype(np.float32)
    assert np.array_equal(got, gguf.quantize(rows, gguf.GGMLQuantizationType.Q8_0).reshape(-1))


@pytest.mark.parametrize("fmt", [*FLOATS, I32], ids=str)
def test_set_writes_into_a_copy(host: HostBackend, fmt) -> None:
    """Values [3, 2, 2], a window of a larger one, at column 1 of rows 1 and 2 of two planes."""
    x = Operands(65)
    a = x.make(fmt, 5, 4, 3)
    values = x.make(fmt, 4, 3, 2).view(fmt.bytes, (3, 2, 2), (4 * fmt.bytes, 12 * fmt.bytes))
    row, plane = a.strides[1:3]
    node = ops.set_(a, values, plane + row + fmt.bytes, (row, plane))
    want = x.exact(a)
    want[0, 1:, 1:3, 1:4] = x.exact(values)[0]
    assert_near(run(host, node, x.values), want, fmt)


@pytest.mark.parametrize("strides", [(), (20,)], ids=str)
def test_set_with_fewer_strides(host: HostBackend, strides) -> None:
    """No stride: one run of elements; one: rows of the result that lie that far apart."""
    x = Operands()
    a = x.put(F32, np.zeros((4, 5), np.float32))
    values = x.put(F32, np.float32([[1, 2], [3, 4]]) if strides else np.float32([1, 2, 3, 4]))
    got = run(host, ops.set_(a, values, 8, strides), x.values)[0, 0]
    want = np.zeros((4, 5))
    if strides:
        want[:2, 2:4] = [[1, 2], [3, 4]]
    else:
        want.reshape(-1)[2:6] = [1, 2, 3, 4]
    assert np.array_equal(got, want)
