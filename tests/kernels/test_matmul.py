"""Matrix products against float64 on the dequantised weights."""

from collections.abc import Iterator
from dataclasses import replace
from functools import reduce

import numpy as np
import pytest
from msgspec import structs
from numpy.typing import NDArray

from engine.backends.opencl.backend import OpenCLBackend
from engine.backends.opencl.drivers.device import Device, open_device
from engine.backends.opencl.tuned import default
from engine.gguf.formats import (
    BF16,
    F16,
    F32,
    IQ1_S,
    IQ4_NL,
    IQ4_XS,
    MXFP4,
    NVFP4,
    Q2_K,
    Q3_K,
    Q4_0,
    Q4_1,
    Q4_K,
    Q5_0,
    Q5_1,
    Q5_K,
    Q6_K,
    Q8_0,
    Format,
)
from engine.graph import ops
from engine.graph.op import Op
from engine.graph.tensor import Role, Tensor, leaf
from tests.kernels.blocks import QUANTIZED, Blocks, exact, filled_blocks, random_blocks
from tests.kernels.harness import nmse, product_error, run
from tests.kernels.values import Operands, numbers_of

# 12 bits give about 1e-7; 8 bits would give 3e-5.
QUANTIZED_LIMIT = 1e-6
# Sums over K of floats, one after the other.
FLOAT_LIMIT = 1e-11
FLOATS = (F32, F16, BF16)
COLUMNS = (1, 2, 3, 4, 5, 6, 7, 8, 9, 31, 33, 70)
ROWS = (1, 31, 33, 192, 1000)


@pytest.fixture(scope="session", params=[(4, 2), (8, 2), (16, 2), (16, 1000)])
def shaped(backend: OpenCLBackend, request: pytest.FixtureRequest) -> Iterator[OpenCLBackend]:
    """`backend` as a CPU with other vectors or cores, on which panels and items depend."""
    vector_ints, cores = request.param
    own = backend.info.traits
    has_bytes = own.vector_bytes and vector_ints == own.vector_ints
    traits = replace(own, is_cpu=True, vector_ints=vector_ints, vector_bytes=has_bytes)
    traits = replace(traits, compute_units=cores)
    handle = open_device(backend.name).handle
    opened = OpenCLBackend(Device(replace(backend.info, traits=traits), handle))
    yield opened
    opened.close()


def weight(made: Operands, fmt: Format, blocks: Blocks) -> Tensor:
    k = blocks.shape[1] // fmt.bytes * fmt.block
    tensor = leaf("w", fmt, (k, len(blocks)), Role.WEIGHT)
    made.values[tensor] = blocks
    return tensor


def check(
    backend: OpenCLBackend, made: Operands, fmt: Format, blocks: Blocks, x: Tensor
) -> NDArray[np.float32]:
    """Run the product in the device's layout, and hold it against the exact one."""
    w = weight(made, fmt, blocks)
    assert backend.buffer_type(fmt, w.shape, matmul_only=True).layout != "plain"
    got = run(backend, ops.matmul(w, x), made.values, matmul_only=True)
    assert product_error(got, made.exact(x), exact(blocks, fmt)) < QUANTIZED_LIMIT
    return got


def check_some(backend: OpenCLBackend, fmt: Format, n: int, turn: int) -> None:
    """Rows and lengths in turn, so that few programs meet all of them."""
    made = Operands(turn)
    m = ROWS[turn % len(ROWS)]
    k = (256, 768, 2048)[turn % 3] if fmt.block == 256 else (32, 576, 2048)[turn % 3]
    blocks = random_blocks(made.rng, fmt, m, k)
    check(backend, made, fmt, blocks, made.make(F32, k, n))


@pytest.mark.sampled(2)
@pytest.mark.parametrize("fmt", QUANTIZED, ids=str)
@pytest.mark.parametrize("n", [1, 33])
def test_every_format(backend: OpenCLBackend, fmt: Format, n: int) -> None:
    """All numbers of rows in turn, most of which are a program of their own."""
    check_some(backend, fmt, n, QUANTIZED.index(fmt))


@pytest.mark.full
@pytest.mark.parametrize("fmt", QUANTIZED, ids=str)
@pytest.mark.parametrize("n", [1, 33])
def test_every_format_in_other_numbers_of_rows(backend: OpenCLBackend, fmt: Format, n: int) -> None:
    check_some(backend, fmt, n, QUANTIZED.index(fmt) + 3)


@pytest.mark.full_cases(r"-(?!Q4_1|Q2_K|Q6_K)")
@pytest.mark.parametrize("fmt", QUANTIZED, ids=str)
def test_a_row_gives_the_same_bits_alone_and_among_others(
    backend: OpenCLBackend, fmt: Format
) -> None:
    """Panels of 1 to 4 and of 8 rows of x, as pairs and in digits, weights as they are and unpacked
    first.
    """
    made, k = Operands(7), max(512, 2 * fmt.block)
    blocks = random_blocks(made.rng, fmt, 64, k)
    w, x = weight(made, fmt, blocks), made.rng.standard_normal((9, k)).astype(np.float32)

    def products(rows: NDArray[np.float32]) -> NDArray[np.float32]:
        some = leaf("x", F32, (k, len(rows)), Role.INPUT)
        values = {**made.values, some: rows}
        return run(backend, ops.matmul(w, some), values, matmul_only=True).reshape(len(rows), 64)

    alone = np.concatenate([products(x[i : i + 1]) for i in (0, 1, 2, 8)])
    for n in (2, 3, 4, 6, 9):
        np.testing.assert_array_equal(products(x[:n])[:3], alone[: min(n, 3)])
    np.testing.assert_array_equal(products(x)[8], alone[3])


@pytest.mark.each_value
@pytest.mark.parametrize("fmt", [Q4_1, Q2_K, Q6_K], ids=str)
@pytest.mark.parametrize("n", COLUMNS)
def test_any_number_of_columns(backend: OpenCLBackend, fmt: Format, n: int) -> None:
    check_some(backend, fmt, n, turn=n)


@pytest.mark.sampled(6)
@pytest.mark.parametrize(
    "fmt", [Q5_0, Q8_0, Q2_K, Q3_K, Q5_K, Q6_K, IQ4_NL, IQ1_S, MXFP4, NVFP4], ids=str
)
@pytest.mark.parametrize("n", [1, 9])
def test_as_the_other_kind_of_device(either: OpenCLBackend, fmt: Format, n: int) -> None:
    check_some(either, fmt, n, turn=QUANTIZED.index(fmt) + n)


@pytest.mark.sampled(6)
@pytest.mark.parametrize("fmt", [Q8_0, Q6_K, IQ4_NL], ids=str)
@pytest.mark.parametrize("n", [1, 2, 4, 70])
def test_every_shape_of_an_item(shaped: OpenCLBackend, fmt: Format, n: int) -> None:
    """Panels of one, two, four or eight rows; items of 32, 16 or 8 rows of a tile."""
    made = Operands()
    blocks = random_blocks(made.rng, fmt, 331, 512)
    check(shaped, made, fmt, blocks, made.make(F32, 512, n))


@pytest.mark.parametrize("fmt", [Q4_K, Q6_K, IQ4_XS], ids=str)
def test_half_the_multiplications_make_the_same_bits(backend: OpenCLBackend, fmt: Format) -> None:
    """Sums of integers are exact, those of the largest numbers too."""
    made = Operands()
    blocks = [filled_blocks(fmt, 8, 512, byte) for byte in (0x7F, 0x80, 0xFF)]
    w = weight(made, fmt, np.concatenate([*blocks, random_blocks(made.rng, fmt, 40, 512)]))
    x = made.make(F32, 512, 17)
    signs = np.where(np.arange(512) % 2, 1, -1)
    made.values[x][..., :4, :] = np.stack([np.ones(512), -np.ones(512), signs, -signs])
    results = []
    for crossed, vector_ints in ((0, 16), (6, 16), (8, 16), (0, 8)):  # narrow ones always cross
        tuned = structs.replace(default(), crossed=crossed)
        traits = replace(backend.info.traits, is_cpu=True, vector_ints=vector_ints, tuned=tuned)
        traits = replace(traits, vector_bytes=vector_ints == backend.info.traits.vector_ints)
        device = Device(replace(backend.info, traits=traits), open_device(backend.name).handle)
        forced = OpenCLBackend(device)
        results.append(run(forced, ops.matmul(w, x), made.values, matmul_only=True))
        forced.close()
    plain, *others = results
    assert plain.any()
    assert all(np.array_equal(plain, other) for other in others)


@pytest.mark.sampled(10)
@pytest.mark.parametrize("fmt", QUANTIZED, ids=str)
@pytest.mark.parametrize("byte", [0x00, 0x7F, 0x80, 0xFF, 0x0F])
@pytest.mark.parametrize("n", [3, 4, 9])
def test_extreme_weights_and_activations(
    backend: OpenCLBackend, fmt: Format, byte: int, n: int
) -> None:
    """The largest sums of products a block can make, with one sign and with both; weights are
    unpacked with their scales for several panels.
    """
    made = Operands()
    blocks = filled_blocks(fmt, 40, 512, byte)
    flips = np.where(np.arange(512) % 2, 1.0, -1.0)
    x = np.stack([np.ones(512), -np.ones(512), flips * 1e4, -flips + made.rng.random(512)])
    check(backend, made, fmt, blocks, made.put(F32, np.resize(x, (n, 512))))


@pytest.mark.parametrize("fmt", [Q4_0, Q5_1, Q4_K, Q5_K, Q6_K], ids=str)
def test_extreme_weights_and_one_row(backend: OpenCLBackend, fmt: Format) -> None:
    """Its codes are multiplied where they stand in words, up to 256 times too large."""
    made = Operands()
    blocks = [filled_blocks(fmt, 8, 512, byte) for byte in (0x7F, 0x80, 0xFF, 0x0F)]
    every = np.concatenate([*blocks, random_blocks(made.rng, fmt, 8, 512)])
    for row in (np.ones(512), np.where(np.arange(512) % 2, 1.0, -1.0)):
        check(backend, made, fmt, every, made.put(F32, row[None]))


def test_activations_of_any_size(backend: OpenCLBackend) -> None:
    """One scale a block: blocks of very different sizes keep their precision each."""
    made = Operands()
    sizes = np.repeat(10.0 ** made.rng.integers(-12, 8, (9, 18)), 32, axis=1)
    x = made.put(F32, made.rng.standard_normal((9, 576)) * sizes)
    check(backend, made, Q4_1, random_blocks(made.rng, Q4_1, 64, 576), x)


def test_zeros_make_zeros(backend: OpenCLBackend) -> None:
    made = Operands()
    x = made.put(F32, np.zeros((3, 256)))
    got = check(backend, made, Q6_K, random_blocks(made.rng, Q6_K, 33, 256), x)
    assert not got.any()


def test_strided_and_batched_activations(either: OpenCLBackend) -> None:
    made = Operands()
    wide = made.make(F32, 700, 4, 3)
    x = wide.view(64, (576, 3, 2), (wide.strides[1], wide.strides[2]))
    check(either, made, Q4_1, random_blocks(made.rng, Q4_1, 100, 576), x)


@pytest.mark.parametrize("n", [1, 5])
def test_products_of_one_input_share_launches(either: OpenCLBackend, n: int) -> None:
    """Four of one format and one of another: three launches, and every result in its own place."""
    made = Operands()
    x = made.make(F32, 256, n)
    formats, rows = (Q4_1, Q4_1, Q6_K, Q4_1, Q4_1), (40, 33, 64, 1, 96)
    weights = [
        weight(made, fmt, random_blocks(made.rng, fmt, m, 256))
        for fmt, m in zip(formats, rows, strict=True)
    ]
    nodes = [ops.matmul(w, x) for w in weights]
    kinds = {w: either.buffer_type(w.fmt, w.shape, matmul_only=True) for w in weights}
    lowered = either.lower(nodes, kinds.get)
    assert lowered[0].op is Op.QUANTIZE
    assert {t.storage for t in lowered[1:]} == set(nodes)
    assert sum(bool(t.src) for t in lowered[1:]) == 3
    assert either.lower(nodes, lambda t: None) == tuple(nodes)
    last = [t.view((t.shape[0] - 1) * 4, (1, n), t.strides[1:2]) for t in nodes]
    joined = reduce(ops.add, last)  # so that one run reads them all
    got = run(either, joined, made.values, matmul_only=True)
    ends = [exact(made.values[w], w.fmt)[-1:] for w in weights]
    want = made.exact(x) @ np.sum(ends, axis=0).T
    assert nmse(got, want) < QUANTIZED_LIMIT


def float_weight(made: Operands, fmt: Format, k: int, m: int) -> tuple[Tensor, NDArray[np.float64]]:
    """A weight of floats, and its values [M, K]."""
    plain = made.make(fmt, k, m)
    stored = made.values.pop(plain)
    return weight(made, fmt, stored.view(np.uint8).reshape(m, -1)), numbers_of(stored, fmt)


@pytest.mark.each_value
@pytest.mark.parametrize("fmt", FLOATS, ids=str)
@pytest.mark.parametrize("n", COLUMNS)
def test_tiles_of_floats(either: OpenCLBackend, fmt: Format, n: int) -> None:
    """Activations are not rounded: numbers of very different sizes keep their precision."""
    made = Operands(n)
    k, m = (32, 576, 2048)[n % 3], ROWS[n % len(ROWS)]
    w, values = float_weight(made, fmt, k, m)
    x = made.put(F32, made.rng.standard_normal((n, k)) * 10.0 ** made.rng.integers(-6, 6, (n, k)))
    assert either.buffer_type(fmt, w.shape, matmul_only=True).layout == "tiled"
    for node in (ops.matmul(w, x), ops.matmul(w, x, full_precision=True)):
        got = run(either, node, made.values, matmul_only=True)
        assert nmse(got, made.exact(x) @ values.T) < FLOAT_LIMIT


@pytest.mark.parametrize("fmt", FLOATS, ids=str)
def test_tiles_of_floats_hold_infinities(either: OpenCLBackend, fmt: Format) -> None:
    made = Operands()
    w, values = float_weight(made, fmt, 64, 33)
    x = made.put(F32, np.where(np.arange(3 * 64).reshape(3, 64) == 70, np.inf, 1.0))
    got = run(either, ops.matmul(w, x), made.values, matmul_only=True)[0, 0]
    np.testing.assert_array_equal(got[1], np.inf * values[:, 6])
    np.testing.assert_allclose(got[[0, 2]], np.tile(values.sum(1), (2, 1)), rtol=1e-5, atol=1e-5)


def test_rounding_activations_can_be_forbidden(backend: OpenCLBackend) -> None:
    made = Operands()
    w, x = weight(made, Q8_0, random_blocks(made.rng, Q8_0, 33, 64)), made.make(F32, 64, 3)
    kinds = {w: backend.buffer_type(w.fmt, w.shape, matmul_only=True)}
    assert backend.supports(ops.matmul(w, x), kinds.get)
    assert not backend.supports(ops.matmul(w, x, full_precision=True), kinds.get)


@pytest.mark.sampled(2)
@pytest.mark.parametrize("fmt", FLOATS, ids=str)
@pytest.mark.parametrize(
    ("k", "m", "n"),
    [(1, 1, 1), (7, 3, 2), (64, 33, 1), (576, 192, 9), (1000, 31, 5), (2048, 5, 70)],
)
def test_floats(either: OpenCLBackend, fmt: Format, k: int, m: int, n: int) -> None:
    made = Operands()
    a, b = made.make(fmt, k, m), made.make(F32, k, n)
    want = made.exact(b) @ made.exact(a).swapaxes(-1, -2)
    assert nmse(run(either, ops.matmul(a, b), made.values), want) < 1e-12


@pytest.mark.parametrize("fmt", [F32, F16], ids=str)
def test_grouped_heads_of_a_cache(either: OpenCLBackend, fmt: Format) -> None:
    """Scores: keys [D, cells, heads] of a cache [D, heads, cells], three queries a key head."""
    made = Operands()
    cache = made.make(fmt, 48, 2, 37)
    keys = cache.view(0, (48, 2, 21), cache.strides[1:3]).permute(0, 2, 1)
    queries = made.make(F32, 48, 6, 5).permute(0, 2, 1)
    want = made.exact(queries) @ np.repeat(made.exact(keys), 3, axis=1).swapaxes(-1, -2)
    assert nmse(run(either, ops.matmul(keys, queries), made.values), want) < 1e-12


def test_batches_in_both_outer_dimensions(either: OpenCLBackend) -> None:
    made = Operands()
    a, b = made.make(F32, 20, 3, 2, 2), made.make(F32, 20, 5, 4, 6)
    grouped = np.repeat(np.repeat(made.exact(a), 3, axis=0), 2, axis=1)
    want = made.exact(b) @ grouped.swapaxes(-1, -2)
    assert nmse(run(either, ops.matmul(a, b), made.values), want) < 1e-12


def test_columns_in_dimension_0_are_refused(backend: OpenCLBackend) -> None:
    made = Operands()
    a, b = made.make(F32, 8, 4), made.make(F32, 8, 2).permute(1, 0)
    node = ops.matmul(made.make(F32, 2, 4), b)
    assert not backend.supports(node, lambda t: None)
    assert backend.supports(ops.matmul(a, made.make(F32, 8, 2)), lambda t: None)
