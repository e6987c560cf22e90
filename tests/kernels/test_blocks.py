"""Rows of blocks as the file has them: gathered, cast, and multiplied without rounding."""

import numpy as np
import pytest
from numpy.typing import NDArray

from engine.backends.opencl.backend import OpenCLBackend
from engine.gguf.formats import BF16, F16, F32, I32, MXFP4, NVFP4, Q4_K, Q8_0, Format, by_name
from engine.graph import ops
from engine.graph.graph import Graph
from engine.graph.tensor import Role, leaf
from engine.weights.load import matmul_only
from tests.kernels.blocks import QUANTIZED, Blocks, exact, filled_blocks, random_blocks, with_scales
from tests.kernels.harness import run
from tests.kernels.values import Floats, Operands, to_bf16

# The others differ from these in how a block is decoded, not in where it lies.
SOME = [MXFP4, Q8_0, Q4_K, by_name("IQ3_S")]

each_format = pytest.mark.parametrize("fmt", QUANTIZED, ids=str)
some_formats = pytest.mark.parametrize("fmt", SOME, ids=str)


class Table:
    """A leaf of blocks and its exact numbers, [.., rows, K]."""

    def __init__(self, made: Operands, fmt: Format, blocks: Blocks, *outer: int) -> None:
        k = blocks.shape[1] // fmt.bytes * fmt.block
        dims = outer or (len(blocks),)
        self.tensor = leaf("table", fmt, (k, *dims), Role.INPUT)
        self.numbers: Floats = exact(blocks, fmt).reshape(*dims[::-1], k)
        made.values[self.tensor] = blocks


def table(made: Operands, fmt: Format, blocks: int, *outer: int) -> Table:
    """Random rows of so many blocks."""
    raw = random_blocks(made.rng, fmt, int(np.prod(outer)), blocks * fmt.block)
    return Table(made, fmt, raw, *outer)


def odd_blocks(fmt: Format) -> Blocks:
    """Scales below, at and above zero, and every byte elsewhere: [rows, row bytes]."""
    rng = np.random.default_rng(fmt.id)
    rows = [filled_blocks(fmt, 1, 2 * fmt.block, byte) for byte in (0, 0x7F, 0x80, 0xFF, 0x0F)]
    for scale in (3.0, 0.02) if fmt in (MXFP4, NVFP4) else (3.0, 6e-8, 0.0, -0.01):
        bits = rng.integers(0, 256, (4, 2, fmt.bytes), dtype=np.uint8)
        rows.append(with_scales(rng, fmt, bits, scale))
    return np.concatenate(rows)


def assert_close(got: NDArray[np.generic], a: Floats, b: Floats) -> None:
    """Every product of rows within the rounding of f32 sums; `a` [.., M, K], `b` [.., N, K]."""
    want, most = b @ a.swapaxes(-1, -2), abs(b) @ abs(a).swapaxes(-1, -2)
    assert got.shape[-len(want.shape) :] == want.shape
    error = abs(got.astype(np.float64) - want)
    assert (error <= 5e-6 * most).all(), (error / np.maximum(most, 1e-300)).max()


@pytest.mark.sampled(2)
@each_format
@pytest.mark.parametrize("n", [1, 9])
def test_products(backend: OpenCLBackend, fmt: Format, n: int) -> None:
    for rows, blocks in ((1, 1), (31, 3), (33, 1024 // fmt.block)):
        made = Operands(fmt.id)
        a, b = table(made, fmt, blocks, rows), made.make(F32, blocks * fmt.block, n)
        assert_close(run(backend, ops.matmul(a.tensor, b), made.values), a.numbers, made.exact(b))


@each_format
def test_products_of_extremes(backend: OpenCLBackend, fmt: Format) -> None:
    made = Operands()
    a = Table(made, fmt, odd_blocks(fmt))
    flips = np.where(np.arange(2 * fmt.block) % 2, 1.0, -1.0)
    b = made.put(F32, np.stack([flips, -flips, flips * 1e4, flips * 0 + 1]))
    assert_close(run(backend, ops.matmul(a.tensor, b), made.values), a.numbers, made.exact(b))


@pytest.mark.sampled(3)
@some_formats
@pytest.mark.parametrize("n", range(1, 10))
def test_any_number_of_columns(either: OpenCLBackend, fmt: Format, n: int) -> None:
    made = Operands(n)
    a, b = table(made, fmt, 2, 5), made.make(F32, 2 * fmt.block, n)
    assert_close(run(either, ops.matmul(a.tensor, b), made.values), a.numbers, made.exact(b))


@some_formats
def test_products_of_views(either: OpenCLBackend, fmt: Format) -> None:
    """Some rows of a table, from their second block on, times every second row of b."""
    made = Operands()
    a, b = table(made, fmt, 4, 12), made.make(F32, 3 * fmt.block, 10)
    row = a.tensor.strides[1]
    part = a.tensor.view(2 * row + fmt.bytes, (3 * fmt.block, 5), (2 * row,))
    other = b.view(0, (3 * fmt.block, 5), (2 * b.strides[1],))
    got = run(either, ops.matmul(part, other), made.values)
    assert_close(got, a.numbers[2:12:2, fmt.block :], made.exact(other))


@some_formats
def test_grouped_batches(either: OpenCLBackend, fmt: Format) -> None:
    made = Operands()
    a, b = table(made, fmt, 1, 3, 2, 2), made.make(F32, fmt.block, 5, 4, 6)
    grouped = np.repeat(np.repeat(a.numbers, 3, axis=0), 2, axis=1)
    assert_close(run(either, ops.matmul(a.tensor, b), made.values), grouped, made.exact(b))


@pytest.mark.each_value
@some_formats
@pytest.mark.parametrize("kind", [F16, BF16], ids=str)
def test_other_activations(either: OpenCLBackend, fmt: Format, kind: Format) -> None:
    made = Operands()
    a, b = table(made, fmt, 2, 7), made.make(kind, 2 * fmt.block, 3)
    assert_close(run(either, ops.matmul(a.tensor, b), made.values), a.numbers, made.exact(b))


def check_experts(
    backend: OpenCLBackend, fmt: Format, ids: NDArray[np.int64], shared: bool, rows: int = 5
) -> None:
    """Six experts of `rows` rows; ids [T, U], of which those outside give zeros."""
    made = Operands()
    a = table(made, fmt, 2, rows, 6) if fmt.quantized else None
    tokens, used = ids.shape
    wide = made.put(I32, np.concatenate([ids, ids * 0 + 99], axis=1))  # as the best of many
    chosen = wide.view(0, (used, tokens), wide.strides[1:2])
    weights = a.tensor if a else made.make(fmt, 37, rows, 6)
    numbers = a.numbers if a else made.exact(weights)[0]
    b = made.make(F32, weights.shape[0], 1 if shared else used, tokens)
    got = run(backend, ops.matmul_id(weights, b, chosen), made.values)[0]
    x = np.broadcast_to(made.exact(b)[0], (tokens, used, weights.shape[0]))
    for t, u in np.ndindex(tokens, used):
        if 0 <= ids[t, u] < 6:
            assert_close(got[t, u], numbers[ids[t, u]], x[t, u])
        else:
            assert not got[t, u].any()


ONE_TOKEN = np.array([[4, 0, 5]])
MANY_TOKENS = np.array([[0, 1, 2], [2, 2, 0], [5, -1, 0], [0, 6, 1], [2, 0, 1], [-1, 3, 2]])


@pytest.mark.sampled(2)
@each_format
def test_experts(backend: OpenCLBackend, fmt: Format) -> None:
    check_experts(backend, fmt, ONE_TOKEN, shared=False)
    check_experts(backend, fmt, MANY_TOKENS, shared=True, rows=31)


@pytest.mark.sampled(2)
@pytest.mark.parametrize("fmt", [*SOME, F32, F16, BF16], ids=str)
@pytest.mark.parametrize("shared", [False, True])
def test_experts_of_one_and_of_many_tokens(
    either: OpenCLBackend, fmt: Format, shared: bool
) -> None:
    check_experts(either, fmt, ONE_TOKEN, shared, rows=33)
    check_experts(either, fmt, MANY_TOKENS, shared, rows=1)
    check_experts(either, fmt, MANY_TOKENS[:2], shared)


def check_cast(backend: OpenCLBackend, fmt: Format, target: Format) -> None:
    """The very numbers of the host's decoder, then rounded to nearest even."""
    made = Operands()
    x = Table(made, fmt, odd_blocks(fmt))
    got = run(backend, ops.cast(x.tensor, target), made.values)[0, 0]
    want = to_bf16(x.numbers) if target is BF16 else x.numbers.astype(str(target.dtype))
    np.testing.assert_array_equal(got, want)


@pytest.mark.sampled(4)
@each_format
def test_cast(backend: OpenCLBackend, fmt: Format) -> None:
    check_cast(backend, fmt, F32)


@pytest.mark.parametrize("fmt", [MXFP4, NVFP4], ids=str)
def test_every_scale_of_a_byte(either: OpenCLBackend, fmt: Format) -> None:
    """Denormal and largest ones, and the codes that mean 0 or infinity elsewhere."""
    made = Operands()
    raw = random_blocks(made.rng, fmt, 256, fmt.block)
    raw[:, : 1 if fmt is MXFP4 else 4] = np.arange(256)[:, None]
    x = Table(made, fmt, raw)
    got = run(either, ops.cast(x.tensor, F32), made.values)[0, 0]
    np.testing.assert_array_equal(got, x.numbers)


@pytest.mark.each_value
@some_formats
@pytest.mark.parametrize("target", [F16, BF16], ids=str)
def test_cast_with_rounding(either: OpenCLBackend, fmt: Format, target: Format) -> None:
    check_cast(either, fmt, target)


@some_formats
def test_cast_of_views(either: OpenCLBackend, fmt: Format) -> None:
    made = Operands()
    x = table(made, fmt, 3, 5, 4, 2)
    part = x.tensor.view(fmt.bytes, (2 * fmt.block, 3, 4, 2), x.tensor.strides[1:])
    got = run(either, ops.cast(part.permute(0, 2, 1), F32), made.values)
    want = x.numbers[:, :, :3, fmt.block :].swapaxes(1, 2)
    np.testing.assert_array_equal(got, want.astype(np.float32))


@some_formats
def test_copies_keep_every_byte(either: OpenCLBackend, fmt: Format) -> None:
    made = Operands()
    x = table(made, fmt, 3, 5, 4)
    raw = made.values[x.tensor].reshape(4, 5, 3, fmt.bytes)
    part = x.tensor.view(fmt.bytes, (2 * fmt.block, 5, 4), x.tensor.strides[1:3])
    got = run(either, ops.duplicate(part.permute(0, 2, 1)), made.values)
    np.testing.assert_array_equal(got, raw[:, :, 1:].swapaxes(0, 1).reshape(-1))


@pytest.mark.sampled(4)
@each_format
def test_gather(backend: OpenCLBackend, fmt: Format) -> None:
    made = Operands()
    x = Table(made, fmt, odd_blocks(fmt))
    ids = np.array([3, -1, len(x.numbers) - 1, 0, 3, len(x.numbers)])
    got = run(backend, ops.rows(x.tensor, made.put(I32, ids)), made.values)[0, 0]
    known = (ids >= 0) & (ids < len(x.numbers))
    want = np.where(known[:, None], x.numbers[np.where(known, ids, 0)], 0)
    np.testing.assert_array_equal(got, want.astype(np.float32))


@pytest.mark.sampled(3)
@some_formats
@pytest.mark.parametrize("rows", [1, 31, 33])
@pytest.mark.parametrize("blocks", [1, 5])
def test_gather_from_views(either: OpenCLBackend, fmt: Format, rows: int, blocks: int) -> None:
    made = Operands()
    x = table(made, fmt, blocks + 1, rows, 2)
    part = x.tensor.view(fmt.bytes, (blocks * fmt.block, rows, 2), x.tensor.strides[1:3])
    ids = made.rng.integers(-1, rows, (2, 9))
    got = run(either, ops.rows(part, made.put(I32, ids)), made.values)[0]
    taken = np.take_along_axis(x.numbers[..., fmt.block :], np.maximum(ids, 0)[..., None], 1)
    np.testing.assert_array_equal(got, np.where(ids[..., None] < 0, 0, taken).astype(np.float32))


def test_exact_products_take_plain_weights(either: OpenCLBackend) -> None:
    """Tiles are for activations in 12 bits."""
    made = Operands()
    a, b = table(made, Q4_K, 2, 40), made.make(F32, 512, 3)
    weight = leaf("w", Q4_K, (512, 40), Role.WEIGHT)
    made.values[weight] = made.values[a.tensor]
    node = ops.matmul(weight, b, full_precision=True)
    assert not matmul_only(Graph.of([node]))
    assert matmul_only(Graph.of([ops.matmul(weight, b)])) == {weight}
    tiled = {weight: either.buffer_type(Q4_K, weight.shape, matmul_only=True)}
    assert either.supports(ops.matmul(weight, b), tiled.get)
    assert not either.supports(node, tiled.get)
    assert_close(run(either, node, made.values), a.numbers, made.exact(b))
