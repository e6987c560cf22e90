"""Products by four bytes at once, activations as two digits: on GPUs, by plain bodies."""

from collections.abc import Iterator
from dataclasses import replace

import numpy as np
import pytest
from numpy.typing import NDArray

from engine.backends.opencl.backend import OpenCLBackend
from engine.backends.opencl.drivers.device import Device, list_devices, open_device
from engine.backends.opencl.launches.matmul_normed import lanes_normalise
from engine.backends.opencl.lowering.helpers import panels_of
from engine.backends.opencl.tiles.schemes import SCHEMES
from engine.gguf.formats import F32, I32, IQ4_NL, Q2_K, Q4_0, Q4_1, Q4_K, Q6_K, Format
from engine.graph import ops
from engine.graph.lowered import Panels
from engine.graph.op import Op
from engine.graph.tensor import Role, Tensor, leaf
from engine.selftest.guarded import run_all as run_lowered
from tests.kernels.blocks import exact, random_blocks
from tests.kernels.harness import nmse, product_error, run, run_all
from tests.kernels.test_fuse import check, lowered_ops, weight
from tests.kernels.test_quantize import Read
from tests.kernels.values import Operands

WHOLE = [fmt for fmt, scheme in SCHEMES.items() if not scheme.exact]


def as_gpu(backend: OpenCLBackend, dot4: str, matrix: str = "") -> OpenCLBackend:
    traits = replace(backend.info.traits, is_cpu=False, dot4=dot4, matrix=matrix)
    handle = open_device(backend.name).handle
    return OpenCLBackend(Device(replace(backend.info, traits=traits), handle))


@pytest.fixture(scope="module")
def dots(backend: OpenCLBackend) -> Iterator[OpenCLBackend]:
    """`backend` as a GPU that adds four products of bytes at once."""
    opened = as_gpu(backend, "PLAIN")
    yield opened
    opened.close()


@pytest.fixture(scope="module")
def pairs(backend: OpenCLBackend) -> Iterator[OpenCLBackend]:
    """As one that does not."""
    opened = as_gpu(backend, "")
    yield opened
    opened.close()


@pytest.fixture(scope="module")
def halves(backend: OpenCLBackend) -> Iterator[OpenCLBackend]:
    """As one whose matrix units multiply halves."""
    opened = as_gpu(backend, "PLAIN", "HALVES")
    yield opened
    opened.close()


@pytest.mark.parametrize(("k", "n", "panel"), [(32, 1, 1), (576, 3, 4), (1056, 13, 4)])
def test_digits_are_the_same_numbers(dots: OpenCLBackend, k: int, n: int, panel: int) -> None:
    made = Operands()
    x = made.make(F32, k, n)
    want = Read(run_lowered(dots, [panels_of(x, Panels(panel, 12))], made.values)[0], k, panel)
    (raw,) = run_lowered(dots, [panels_of(x, Panels(panel, 12, digits=True))], made.values)
    blocks = raw.reshape(-1, k // 32, panel, 80).astype(np.int8).swapaxes(1, 2)
    records = np.ascontiguousarray(blocks).reshape(-1, k // 32, 80)
    low, high = records[..., :32].astype(np.int16), records[..., 32:64].astype(np.int16)
    np.testing.assert_array_equal(64 * high + low, want.q)
    assert (np.abs(high) <= 32).all()
    assert ((low >= -32) & (low <= 31)).all()
    scales = np.ascontiguousarray(records[..., 64:72]).view(np.float32)
    np.testing.assert_array_equal(scales[..., 0], want.scale)
    np.testing.assert_array_equal(scales[..., 1], want.scaled_sum)
    np.testing.assert_array_equal(
        np.ascontiguousarray(records[..., 72:76]).view(np.int16), want.sums
    )


@pytest.mark.each_value
@pytest.mark.parametrize("fmt", WHOLE, ids=str)
@pytest.mark.parametrize("n", [1, 3])
def test_products(dots: OpenCLBackend, pairs: OpenCLBackend, fmt: Format, n: int) -> None:
    """Against float64; and what pairs give, to the bit where scales are no whole numbers."""
    made = Operands(n)
    blocks = random_blocks(made.rng, fmt, 75, 1536)
    w, x = leaf("w", fmt, (1536, 75), Role.WEIGHT), made.make(F32, 1536, n)
    made.values[w] = blocks
    got = run(dots, ops.matmul(w, x), made.values, matmul_only=True)
    want = run(pairs, ops.matmul(w, x), made.values, matmul_only=True)
    assert product_error(got, made.exact(x), exact(blocks, fmt)) < 1e-6
    if SCHEMES[fmt].scales == 0:
        np.testing.assert_array_equal(got, want)
    else:
        assert nmse(got, want) < 1e-11


WIDE = [Q4_K, Q6_K, Q2_K, IQ4_NL]
"""One sum and two, with minima and without, and numbers from a table; others: the self test."""


@pytest.mark.parametrize("fmt", WIDE, ids=str)
def test_a_group_of_64_rows_and_columns_makes_the_same_sums(
    dots: OpenCLBackend, pairs: OpenCLBackend, fmt: Format
) -> None:
    """To the bit, in tiles and panels that are not full; more than one group each way. Q2_K adds
    its minima in another order.
    """
    w, x, made, blocks = product_of(fmt, 75, 512, 70)
    got = run(dots, ops.matmul(w, x), made.values, matmul_only=True)
    assert product_error(got, made.exact(x), exact(blocks, fmt)) < 1e-6
    want = run(pairs, ops.matmul(w, x), made.values, matmul_only=True)
    assert nmse(got, want) <= (1e-12 if fmt is Q2_K else 0)


@pytest.fixture
def pocl_dots() -> Iterator[OpenCLBackend]:
    """PoCL as a GPU, of whose tests only some run each time."""
    name = next((one.name for one in list_devices() if one.name.startswith("pocl:")), None)
    if name is None:
        pytest.skip("PoCL is not installed")
    own = OpenCLBackend(open_device(name))
    opened = as_gpu(own, "PLAIN")
    yield opened
    opened.close()
    own.close()


@pytest.mark.device
@pytest.mark.parametrize("fmt", [Q4_1, Q6_K], ids=str)
def test_functions_get_local_memory_of_pocl(pocl_dots: OpenCLBackend, fmt: Format) -> None:
    """It replaces local variables in kernels alone: a function that has the address of one in it,
    as it is always called with the same, would read zeros.
    """
    w, x, made, blocks = product_of(fmt, 40, 256, 34)
    got = run(pocl_dots, ops.matmul(w, x), made.values, matmul_only=True)
    assert product_error(got, made.exact(x), exact(blocks, fmt)) < 1e-6


@pytest.mark.parametrize("fmt", [Q4_K, Q6_K], ids=str)
def test_halves_are_more_exact_than_digits(halves: OpenCLBackend, fmt: Format) -> None:
    w, x, made, blocks = product_of(fmt, 75, 768, 70)
    got = run(halves, ops.matmul(w, x), made.values, matmul_only=True)
    assert product_error(got, made.exact(x), exact(blocks, fmt)) < 1e-7


def test_halves_are_scaled_block_by_block(halves: OpenCLBackend) -> None:
    """What a half could not hold: elements beyond 65504, and beside them ones below 2^-24."""
    w, x, made, blocks = product_of(Q4_0, 33, 128, 33)
    scales = np.repeat(np.float32([1e6, 1e-9, 1.0, 0.0]), 32)
    made.values[x] = made.values[x] * scales
    got = run(halves, ops.matmul(w, x), made.values, matmul_only=True)
    assert product_error(got, made.exact(x), exact(blocks, Q4_0)) < 1e-7


def test_gate_and_up_of_halves(halves: OpenCLBackend) -> None:
    made = Operands(70)
    x = made.make(F32, 256, 70)
    gate, up = (ops.matmul(weight(made, 256, 96, Q4_0), x) for _ in range(2))
    product = ops.matmul(weight(made, 96, 40, Q4_0), ops.silu(gate, up))
    fused = run_all(halves, [product], made.values, matmul_only=True, fused=True)[0]
    single = run_all(halves, [product], made.values, matmul_only=True)[0]
    np.testing.assert_array_equal(fused, single)


def product_of(
    fmt: Format, m: int, k: int, n: int
) -> tuple[Tensor, Tensor, Operands, NDArray[np.uint8]]:
    """Operands of a product, and the weight's blocks."""
    made = Operands(n)
    blocks = random_blocks(made.rng, fmt, m, k)
    w, x = leaf("w", fmt, (k, m), Role.WEIGHT), made.make(F32, k, n)
    made.values[w] = blocks
    return w, x, made, blocks


@pytest.mark.each_value
@pytest.mark.parametrize("fmt", [Q4_0, Q4_K, Q6_K], ids=str)
@pytest.mark.parametrize("n", [1, 33])
def test_gated_products(dots: OpenCLBackend, pairs: OpenCLBackend, fmt: Format, n: int) -> None:
    made = Operands(n)
    x = made.make(F32, 512, n)
    gate, up = (ops.matmul(weight(made, 512, 96, fmt), x) for _ in range(2))
    product = ops.matmul(weight(made, 96, 40, Q4_0), ops.silu(gate, up))
    got = run_all(dots, [product], made.values, matmul_only=True, fused=True)[0]
    want = run_all(pairs, [product], made.values, matmul_only=True, fused=True)[0]
    assert nmse(got, want) < 1e-7  # a sum rounded otherwise turns some roundings to 12 bits


@pytest.mark.parametrize("tokens", [1, 40])
def test_experts(dots: OpenCLBackend, pairs: OpenCLBackend, tokens: int) -> None:
    made = Operands(tokens)
    blocks = random_blocks(made.rng, Q4_K, 3 * 64, 512)
    w = leaf("w", Q4_K, (512, 64, 3), Role.WEIGHT)
    made.values[w] = blocks
    x = made.make(F32, 512, 1, tokens)
    ids = leaf("ids", I32, (2, tokens), Role.INPUT)
    made.values[ids] = np.array([made.rng.permutation(3)[:2] for _ in range(tokens)], np.int32)
    node = ops.matmul_id(w, x, ids)
    got = run(dots, node, made.values, matmul_only=True)
    want = run(pairs, node, made.values, matmul_only=True)
    assert nmse(got, want) < 1e-11


@pytest.mark.parametrize("fmt", [Q4_0, Q4_K, Q6_K], ids=str)
@pytest.mark.parametrize("added", [False, True])
def test_groups_normalise_the_row_of_a_product(
    dots: OpenCLBackend, fmt: Format, added: bool
) -> None:
    """There are 14 tiles, the last one not full; with a sum before, which the next layer reads."""
    made = Operands()
    x, norms = made.make(F32, 1280, 1), [made.make(F32, 1280) for _ in range(2)]
    total = ops.add(ops.rms_norm(x, norms[0], 1e-6), made.make(F32, 1280, 1)) if added else x
    product = ops.matmul(weight(made, 1280, 427, fmt), ops.rms_norm(total, norms[1], 1e-3))
    wanted = [total, product] if added else [product]
    check(dots, made, wanted, [Op.NORM_MATMUL], "12 bits")


def normed_product_error(backend: OpenCLBackend, fmt: Format, rows: int = 40) -> float:
    """Return that of norm(norm(x) w1 + r) w2 times a matrix, against float64 from x on."""
    made = Operands()
    x, w1, r, w2 = (made.make(F32, 512, 1) for _ in range(4))
    blocks = random_blocks(made.rng, fmt, rows, 512)
    w = leaf("w", fmt, (512, rows), Role.WEIGHT)
    made.values[w] = blocks
    total = ops.add(ops.rms_norm(x, w1.reshape(512), 1e-6), r)
    product = ops.matmul(w, ops.rms_norm(total, w2.reshape(512), 1e-3))
    assert lowered_ops(backend, [product], [product]) == [Op.NORM_MATMUL]
    got = run_all(backend, [product], made.values, matmul_only=True, fused=True)[0]

    def normed(v: NDArray[np.float64], eps: float) -> NDArray[np.float64]:
        return v / np.sqrt(np.square(v).mean() + eps)

    h = normed(made.exact(x), 1e-6) * made.exact(w1) + made.exact(r)
    return product_error(got, normed(h, 1e-3) * made.exact(w2), exact(blocks, fmt))


@pytest.mark.parametrize("fmt", [Q4_1, Q6_K], ids=str)
def test_rows_that_groups_normalise_in_float64(dots: OpenCLBackend, fmt: Format) -> None:
    assert normed_product_error(dots, fmt) < 1e-6


@pytest.mark.device
def test_rows_that_groups_of_pocl_normalise(pocl_dots: OpenCLBackend) -> None:
    """Rows are in local memory, which functions get: each of many groups at once has its own."""
    assert max(normed_product_error(pocl_dots, Q4_1, rows=1000) for _ in range(10)) < 1e-6


@pytest.mark.parametrize("fmt", [Q4_0, Q4_K], ids=str)
def test_groups_normalise_the_row_of_gate_and_up(dots: OpenCLBackend, fmt: Format) -> None:
    made = Operands()
    normed = ops.rms_norm(made.make(F32, 512, 1), made.make(F32, 512), 1e-5)
    gate, up = (ops.matmul(weight(made, 512, 96, fmt), normed) for _ in range(2))
    product = ops.matmul(weight(made, 96, 40, Q4_0), ops.silu(gate, up))
    check(dots, made, [product], [Op.NORM_GATED, Op.MATMUL_TILED], "12 bits")


def test_products_of_two_formats_normalise_each(dots: OpenCLBackend) -> None:
    made = Operands()
    normed = ops.rms_norm(made.make(F32, 512, 1), made.make(F32, 512), 1e-5)
    wanted = [ops.matmul(weight(made, 512, 64, fmt), normed) for fmt in (Q4_K, Q6_K)]
    check(dots, made, wanted, [Op.NORM_MATMUL, Op.NORM_MATMUL], "12 bits")


def test_a_row_that_local_memory_does_not_hold(dots: OpenCLBackend) -> None:
    """Rows stay out of it, too, if there would be more groups than a launch is worth."""
    small = replace(dots.info.traits, local_memory=4 << 10)
    assert lanes_normalise(512, [64], dots.info.traits)
    assert not lanes_normalise(2048, [64], small)
    assert not lanes_normalise(512, [1 << 20], dots.info.traits)
