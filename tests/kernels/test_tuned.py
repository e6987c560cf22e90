"""Every number that a launch may be tuned to, forced: the results are the host's."""

from collections.abc import Callable
from dataclasses import replace

import pytest
from msgspec import structs

from engine.backends.host.backend import HostBackend
from engine.backends.opencl.backend import OpenCLBackend
from engine.backends.opencl.drivers.device import Device, open_device
from engine.backends.opencl.tuned import CHOICES, default
from engine.gguf.formats import F16, F32, Q4_K
from engine.graph import ops
from engine.graph.tensor import Role, Tensor
from engine.selftest.operands import visible
from tests.kernels.harness import nmse, run_all
from tests.kernels.values import Operands

LIMIT = 1e-5  # products round activations to 12 bits
OTHERS = [(n, v) for n, choices in CHOICES.items() for v in choices if v != getattr(default(), n)]
LANES = ("lane_panel", "lane_team", "lane_cells", "row_team")


def products(o: Operands, n: int) -> list[Tensor]:
    """Gate, up and down of rows and columns that divide nothing."""
    x = o.make(F32, 256, n)
    gate, up = (o.make(Q4_K, 256, 1024, role=Role.WEIGHT) for _ in range(2))
    down = o.make(Q4_K, 1024, 77, role=Role.WEIGHT)
    return [ops.matmul(down, ops.silu(ops.matmul(gate, x), ops.matmul(up, x)))]


def attention(o: Operands) -> list[Tensor]:
    """One token over most of a cache."""
    seen = visible(o, 1, 1024, 1001)
    k, v = (o.make(F16, 64, 2, 1024) for _ in range(2))
    return [ops.attention(o.make(F32, 64, 6, 1), k, v, *seen, scale=0.125)]


def rows(o: Operands) -> list[Tensor]:
    """Elementwise work, and work that a team shares."""
    x, y = o.make(F32, 777, 33), o.make(F32, 777, 33)
    return [ops.add(x, y), ops.rms_norm(x, o.make(F32, 777), 1e-5), ops.softmax(y)]


WORK: dict[str, Callable[[Operands], list[Tensor]]] = {
    **dict.fromkeys(("ahead", "tiles"), lambda o: products(o, 1)),
    **dict.fromkeys(("panel", "chunk", "crossed", "lane_panel"), lambda o: products(o, 133)),
    "lane_team": lambda o: products(o, 1) + products(o, 9),
    **dict.fromkeys(("cells", "lane_cells"), attention),
    **dict.fromkeys(("elements", "row_team"), rows),
}


@pytest.mark.sampled(5)
@pytest.mark.parametrize(("name", "value"), OTHERS, ids=[f"{n}-{v}" for n, v in OTHERS])
def test_the_result_is_the_hosts(backend: OpenCLBackend, name: str, value: int) -> None:
    tuned = structs.replace(default(), **{name: value})
    traits = replace(backend.info.traits, tuned=tuned, is_cpu=name not in LANES)
    device = Device(replace(backend.info, traits=traits), open_device(backend.name).handle)
    operands = Operands()
    nodes = WORK[name](operands)
    forced = OpenCLBackend(device)
    got = run_all(forced, nodes, operands.values, matmul_only=True, fused=True)
    forced.close()
    wanted = run_all(HostBackend(), nodes, operands.values)
    for x, ref in zip(got, wanted, strict=True):
        assert nmse(x, ref) < LIMIT
