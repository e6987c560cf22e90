"""Products with activations of 8 bits, against float64 on activations rounded the same way."""

from collections.abc import Iterator
from dataclasses import replace

import numpy as np
import pytest
from numpy.typing import NDArray

from engine.backends.opencl.backend import OpenCLBackend
from engine.backends.opencl.drivers.device import Device, open_device
from engine.backends.opencl.launch import DeviceTraits
from engine.backends.opencl.launches.quantize import panel_bits, panel_rows
from engine.backends.opencl.tiles.schemes import SCHEMES, Scheme
from engine.gguf.formats import (
    F32,
    IQ2_S,
    IQ4_XS,
    NVFP4,
    Q4_0,
    Q4_1,
    Q4_K,
    Q5_0,
    Q5_K,
    Q6_K,
    Q8_0,
    Format,
)
from engine.graph import ops
from tests.kernels.blocks import exact, filled_blocks, random_blocks
from tests.kernels.harness import nmse, product_error, run, run_all
from tests.kernels.test_matmul import weight
from tests.kernels.values import Operands

FORMATS_OF_CODES = [fmt for fmt, scheme in SCHEMES.items() if isinstance(scheme, Scheme)]
K = 512
# Integers are exact, and few floats are added. 12 bits are 2e-7 from the truth, 8 bits 4e-5.
LIMIT, APART = 1e-12, 3e-6
CPU = DeviceTraits(True, 2, 4096, 1 << 15, vector_ints=8, activation_bits=8)
WIDE = replace(CPU, vector_ints=16)
# Of wider vectors some formats: of each size of codes, with one sum and two, with a table.
SOME = {"avx512": (Q4_0, Q4_K), "vnni": (Q4_1, Q5_K, Q6_K, Q8_0, IQ4_XS, IQ2_S)}
TRAITS = {"avx2": CPU, "avx512": WIDE, "vnni": replace(WIDE, vnni=True)}


def quick(traits: DeviceTraits) -> list[Format]:
    """The formats whose products take 8 bits there."""
    return [fmt for fmt in SCHEMES if panel_bits(fmt, 33, panel_rows(33, traits), traits) == 8]


@pytest.fixture(scope="module", params=TRAITS)
def rounding(backend: OpenCLBackend, request: pytest.FixtureRequest) -> Iterator[OpenCLBackend]:
    """`backend` with instructions of that name, and 8 bits chosen."""
    own, like = backend.info.traits, TRAITS[request.param]
    if not own.is_cpu or own.vector_ints < like.vector_ints or own.vnni < like.vnni:
        pytest.skip(f"{backend.name} has no {request.param}")
    traits = replace(own, vector_ints=like.vector_ints, vnni=like.vnni, activation_bits=8)
    handle = open_device(backend.name).handle
    opened = OpenCLBackend(Device(replace(backend.info, traits=traits), handle))
    yield opened
    opened.close()


def rounded(x: NDArray[np.float64]) -> NDArray[np.float64]:
    """Every 32 elements as whole numbers up to 127 times a float32 scale."""
    blocks = x.astype(np.float32).reshape(*x.shape[:-1], -1, 32)
    most = np.abs(blocks).max(-1, keepdims=True)
    q = np.rint(blocks * (np.float32(127) / np.where(most == 0, 1, most)))
    return (q.astype(np.float64) * (most / np.float32(127))).reshape(x.shape)


@pytest.mark.parametrize(
    ("rounding", "fmt"),
    [(name, fmt) for name in TRAITS for fmt in (SOME[name] if name in SOME else quick(CPU))],
    indirect=["rounding"],
    ids=str,
)
def test_every_format(rounding: OpenCLBackend, fmt: Format) -> None:
    """Random codes, and all of the least and the largest ones, which meet the largest activations
    with one sign and with both; the last tile and the last panel are not full.
    """
    made = Operands()
    filled = [filled_blocks(fmt, 6, K, byte) for byte in (0x00, 0x0F, 0x7F, 0x80, 0xFF)]
    blocks = np.concatenate([*filled, random_blocks(made.rng, fmt, 41, K)])
    x, signs = made.make(F32, K, 37), np.where(np.arange(K) % 2, 1, -1)
    made.values[x][..., :4, :] = np.stack([np.ones(K), -np.ones(K), signs, -signs])
    got = run(rounding, ops.matmul(weight(made, fmt, blocks), x), made.values, matmul_only=True)
    want, values = rounded(made.exact(x)), exact(blocks, fmt)
    for rows in (slice(0, 4), slice(4, None)):
        assert product_error(got[..., rows, :], want[..., rows, :], values) < LIMIT
    assert product_error(got[..., 4:, :], made.exact(x)[..., 4:, :], values) > APART


@pytest.mark.parametrize("fmt", [Q4_1, Q4_K], ids=str)
def test_fused_launches_make_the_same_products(rounding: OpenCLBackend, fmt: Format) -> None:
    """A norm, gate and up and their activation go into panels of 8 bits, and from there on."""
    made = Operands()
    x, norm = made.make(F32, K, 37), made.make(F32, K)
    gate, up, down = (weight(made, fmt, random_blocks(made.rng, fmt, K, K)) for _ in range(3))
    row = ops.rms_norm(x, norm, 1e-5)
    both = ops.silu(ops.matmul(gate, row), ops.matmul(up, row))
    given = ops.silu(x, made.make(F32, K, 37))
    for product in (ops.matmul(down, both), ops.matmul(down, given)):
        fused = run_all(rounding, [product], made.values, matmul_only=True, fused=True)
        single = run_all(rounding, [product], made.values, matmul_only=True)
        assert nmse(fused[0], single[0]) < APART  # sums in another order turn a few roundings


@pytest.mark.parametrize("fmt", [Q4_0, Q6_K], ids=str)
def test_weights_of_few_rows(rounding: OpenCLBackend, fmt: Format) -> None:
    """Cores share a tile: their vectors are narrow even where wide ones are."""
    made = Operands()
    blocks, x = random_blocks(made.rng, fmt, 20, K), made.make(F32, K, 33)
    got = run(rounding, ops.matmul(weight(made, fmt, blocks), x), made.values, matmul_only=True)
    bits = panel_bits(fmt, 33, panel_rows(33, rounding.info.traits), rounding.info.traits)
    want = rounded(made.exact(x)) if bits == 8 else made.exact(x)
    assert product_error(got, want, exact(blocks, fmt)) < (LIMIT if bits == 8 else APART)


@pytest.mark.parametrize("n", [1, 4])
def test_few_rows_keep_12_bits(rounding: OpenCLBackend, n: int) -> None:
    """They wait for memory: no prompt is read faster for them."""
    made = Operands()
    blocks = random_blocks(made.rng, Q4_K, 64, K)
    x = made.make(F32, K, n)
    got = run(rounding, ops.matmul(weight(made, Q4_K, blocks), x), made.values, matmul_only=True)
    assert product_error(got, made.exact(x), exact(blocks, Q4_K)) < APART


def test_who_gets_8_bits() -> None:
    def bits(fmt: Format, rows: int, traits: DeviceTraits) -> int:
        return panel_bits(fmt, rows, panel_rows(rows, traits), traits)

    gpu, sse = replace(CPU, is_cpu=False), replace(CPU, vector_ints=4)
    usual = replace(CPU, activation_bits=12)
    assert {bits(fmt, 64, CPU) for fmt in (Q4_0, Q4_K, Q5_0, Q5_K, Q6_K)} == {8}
    assert {bits(fmt, 64, WIDE) for fmt in (Q4_0, Q4_1, Q4_K)} == {8}
    assert {bits(fmt, 64, WIDE) for fmt in (Q5_0, Q6_K, Q8_0)} == {12}
    assert {bits(fmt, 64, TRAITS["vnni"]) for fmt in (Q4_K, Q5_0, Q6_K, Q8_0)} == {8}
    assert bits(NVFP4, 64, TRAITS["vnni"]) == 12  # its two scales are no whole numbers
    assert {bits(Q4_K, rows, CPU) for rows in (1, 2, 3, 4)} == {12}
    assert {bits(Q4_K, 64, traits) for traits in (gpu, sse, usual)} == {12}
    assert bits(Q8_0, 64, CPU) == 12  # two products of its codes do not fit 16 bits
    assert bits(F32, 64, CPU) == 32


@pytest.mark.parametrize("most", [127, 32], ids=["8-bits", "digits"])
@pytest.mark.parametrize("fmt", FORMATS_OF_CODES, ids=str)
def test_sums_of_the_largest_products_fit_16_bits(fmt: Format, most: int) -> None:
    """Two at a time, four and four elements; half as many again would not be a power of two."""
    scheme = SCHEMES[fmt]
    assert isinstance(scheme, Scheme)
    largest, fours = 2 * most * scheme.most_code, scheme.fours(most)
    assert fours * largest <= np.iinfo(np.int16).max
    assert fours == 8 // scheme.sums or 2 * max(fours, 0.5) * largest > np.iinfo(np.int16).max
    assert fours >= 2 or most == 127


@pytest.fixture(scope="module")
def pairs_and_bytes(backend: OpenCLBackend) -> Iterator[tuple[OpenCLBackend, OpenCLBackend]]:
    """The device's vectors, without instructions for bytes and with them."""
    if not backend.info.traits.vector_bytes:
        pytest.skip(f"{backend.name} has none for bytes")
    handle, traits = open_device(backend.name).handle, backend.info.traits
    as_pairs = Device(replace(backend.info, traits=replace(traits, vector_bytes=False)), handle)
    opened = OpenCLBackend(as_pairs), OpenCLBackend(Device(backend.info, handle))
    yield opened
    for one in opened:
        one.close()


@pytest.mark.sampled(4)
@pytest.mark.parametrize(("fmt", "n"), [*((fmt, 1) for fmt in FORMATS_OF_CODES), (IQ4_XS, 4)])
def test_instructions_for_bytes_make_the_same_bits(
    pairs_and_bytes: tuple[OpenCLBackend, OpenCLBackend], fmt: Format, n: int
) -> None:
    """The least and the largest codes meet the largest activations of one sign and of both."""
    made = Operands()
    filled = [filled_blocks(fmt, 6, K, byte) for byte in (0x00, 0x0F, 0x7F, 0x80, 0xFF)]
    blocks = np.concatenate([*filled, random_blocks(made.rng, fmt, 41, K)])
    w, x = weight(made, fmt, blocks), made.make(F32, K, n)
    for largest in (None, np.ones(K), -np.ones(K), np.where(np.arange(K) % 2, 1, -1)):
        if largest is not None:
            made.values[x][...] = largest
        got = [run(one, ops.matmul(w, x), made.values, matmul_only=True) for one in pairs_and_bytes]
        np.testing.assert_array_equal(*got)
