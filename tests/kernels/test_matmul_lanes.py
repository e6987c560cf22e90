"""Products of many columns where items are lanes: a group brings each record of a weight once."""

from collections.abc import Iterator
from dataclasses import replace
from math import prod

import numpy as np
import pytest
from msgspec import structs

from engine.backends.opencl.backend import OpenCLBackend
from engine.backends.opencl.drivers.device import Device, open_device
from engine.backends.opencl.launch import DeviceTraits, Launch
from engine.backends.opencl.launches.matmul_tiled import SHARED_ROWS, matmul_gated, matmul_tiled
from engine.backends.opencl.launches.quantize import panel_bits, panel_rows
from engine.backends.opencl.lowering.helpers import panels_of
from engine.backends.opencl.lowering.lower import lower
from engine.backends.opencl.tiles.layouts import TILED, nbytes
from engine.backends.opencl.tiles.schemes import SCHEMES
from engine.backends.opencl.tuned import default
from engine.device.backend import BufferType
from engine.gguf.formats import BF16, F16, F32, I8, Q4_0, Q4_K, Q6_K, Format
from engine.graph import ops
from engine.graph.lowered import MatmulGated, Panels
from engine.graph.node import node
from engine.graph.op import Op
from engine.graph.tensor import Role, Tensor, leaf
from tests.kernels.blocks import exact, random_blocks
from tests.kernels.harness import nmse, product_error, run, run_all
from tests.kernels.test_fuse import weight
from tests.kernels.values import Operands

KIND = BufferType("gpu:0", TILED, 128, 1 << 40)
GPU = DeviceTraits(False, 40, 1024, 1 << 15)


@pytest.fixture(params=[(4, 8), (8, 16), (8, 2)])
def lanes(backend: OpenCLBackend, request: pytest.FixtureRequest) -> Iterator[OpenCLBackend]:
    """`backend` as a GPU with these numbers of columns a panel and items a team."""
    panel, team = request.param
    tuned = structs.replace(default(), lane_panel=panel, lane_team=team)
    traits = replace(backend.info.traits, is_cpu=False, tuned=tuned)
    opened = OpenCLBackend(
        Device(replace(backend.info, traits=traits), open_device(backend.name).handle)
    )
    yield opened
    opened.close()


@pytest.mark.sampled(2)
@pytest.mark.parametrize("fmt", [Q4_0, Q4_K, Q6_K], ids=str)
@pytest.mark.parametrize("n", [33, 70, 130])
def test_products(lanes: OpenCLBackend, fmt: Format, n: int) -> None:
    """Against float64; the last panel and the last tile are not full."""
    made = Operands(n)
    blocks = random_blocks(made.rng, fmt, 75, 768)
    w, x = leaf("w", fmt, (768, 75), Role.WEIGHT), made.make(F32, 768, n)
    made.values[w] = blocks
    got = run(lanes, ops.matmul(w, x), made.values, matmul_only=True)
    assert product_error(got, made.exact(x), exact(blocks, fmt)) < 1e-6


@pytest.mark.parametrize("fmt", [Q4_0, F16], ids=str)
@pytest.mark.parametrize("n", [33, 70])
def test_gated_products(lanes: OpenCLBackend, fmt: Format, n: int) -> None:
    """Gate and up in one launch, to the bit what launches of their own make."""
    made = Operands(n)
    x, down = made.make(F32, 64, n), made.make(F16, 96, 5, role=Role.WEIGHT)
    gate, up = (ops.matmul(weight(made, 64, 96, fmt), x) for _ in range(2))
    product = ops.matmul(down, ops.silu(gate, up))
    fused = run_all(lanes, [product], made.values, matmul_only=True, fused=True)
    single = run_all(lanes, [product], made.values, matmul_only=True)
    np.testing.assert_array_equal(fused, single)


def test_products_of_floats(lanes: OpenCLBackend) -> None:
    made = Operands()
    w, x = made.make(F16, 96, 40, role=Role.WEIGHT), made.make(F32, 96, 70)
    got = run(lanes, ops.matmul(w, x), made.values, matmul_only=True)
    want = made.exact(x) @ made.values[w].reshape(40, 96).astype(np.float64).T
    assert nmse(got, want) < 1e-11


def gated_launch(fmt: Format, n: int, traits: DeviceTraits) -> Launch:
    """Of gate and up, as a GPU starts it."""
    rows = panel_rows(n, traits)
    panels = Panels(rows, panel_bits(fmt, n, rows, traits))
    x = panels_of(leaf("x", F32, (1024, n), Role.INPUT), panels)
    gate, up = (leaf(name, fmt, (1024, 2048), Role.WEIGHT) for name in ("gate", "up"))
    fused = MatmulGated(gate, x, up, act="silu", panels=panels)
    made = node(Op.MATMUL_GATED, I8, (2048 * n,), fused)
    (launch,) = matmul_gated(made, lambda tensor: KIND, traits)
    return launch


def launches(
    fmt: Format, n: int, traits: DeviceTraits, shape: tuple[int, int] = (1024, 2048)
) -> list[Launch]:
    """Of a product, as a GPU starts it."""
    w, x = leaf("w", fmt, shape, Role.WEIGHT), leaf("x", F32, (shape[0], n), Role.INPUT)

    def type_of(tensor: Tensor) -> BufferType | None:
        return KIND if tensor is w else None

    nodes = lower([ops.matmul(w, x)], type_of, traits)
    (product,) = (one for one in nodes if one.op is Op.MATMUL_TILED)
    return list(matmul_tiled(product, type_of, traits))


@pytest.mark.sampled(3)
@pytest.mark.parametrize("fmt", [Q4_0, Q4_K, Q6_K, BF16], ids=str)
@pytest.mark.parametrize("n", [33, 64, 65, 512])
@pytest.mark.parametrize("group", [64, 256, 1024])
@pytest.mark.parametrize("panel", [4, 8])
def test_each_byte_is_fetched_once_for_64_columns(
    fmt: Format, n: int, group: int, panel: int
) -> None:
    """A group reads the records of its tile (gate's and up's), each once: whatever else reads them
    would have to take __global pointers, which add_record does not there.
    """
    tuned = structs.replace(default(), lane_panel=panel, lane_team=16)
    traits = replace(GPU, max_work_group=group, tuned=tuned)
    (product,), gated = launches(fmt, n, traits), gated_launch(fmt, n, traits)
    for launch in (product, gated):
        size, local = launch.global_size, launch.local_size
        assert local is not None
        groups = np.prod([a // b for a, b in zip(size, local, strict=True)])
        fetched = int(groups) * (1024 // SCHEMES[fmt].elements) * SCHEMES[fmt].record_bytes
        assert launch.defines["SHARED"] == 1
        assert fetched <= -(-n // SHARED_ROWS) * nbytes(TILED, fmt, (1024, 2048, 1, 1))


def test_few_columns_and_small_memories_take_the_other_kernel() -> None:
    """Teams that share a row's records: more items for few columns, less local memory."""
    assert "SHARED" not in launches(Q4_K, 32, GPU)[0].defines
    assert "SHARED" not in launches(Q4_K, 512, replace(GPU, local_memory=1024))[0].defines
    assert "SHARED" in launches(Q4_K, 512, GPU)[0].defines
    between = replace(
        GPU, local_memory=SCHEMES[Q4_K].record_bytes + 1024
    )  # a tile's columns: 8 KiB
    assert "SHARED" in launches(Q4_K, 512, between)[0].defines
    assert "SHARED" not in gated_launch(Q4_K, 512, between).defines


@pytest.mark.parametrize(
    ("group", "local", "wide"),
    [(1024, 32 << 10, True), (128, 32 << 10, True), (64, 32 << 10, False), (1024, 16 << 10, False)],
)
def test_small_devices_bring_records_one_by_one(group: int, local: int, wide: bool) -> None:
    """Groups of 128 and 17 KiB of local memory are what matmul_wide takes, with digits."""
    traits = replace(GPU, max_work_group=group, local_memory=local, dot4="PLAIN")
    (launch,) = launches(Q4_K, 70, traits)
    assert launch.family == ("matmul_wide" if wide else "matmul_tiled")
    assert launch.local_size is not None
    assert prod(launch.local_size) <= group
