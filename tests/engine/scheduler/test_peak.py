"""Arenas of real models: as small as they can be, and nothing in them is lost."""

from collections.abc import Iterator

import pytest

from engine.backends.host.backend import HostBackend
from engine.backends.opencl.backend import OpenCLBackend
from engine.backends.opencl.drivers.device import list_devices, open_device
from engine.device.backend import Backend, BufferType
from engine.gguf import open_gguf
from engine.graph.graph import Graph
from engine.graph.tensor import Role, Tensor
from engine.models.build import BuiltModel, StepShape, build_model
from engine.scheduler.outline import outline
from engine.weights.load import matmul_only
from tests.engine.scheduler import shadow

pytestmark = pytest.mark.full_cases(r"-(96|4)-\d-.*(unfused|no flash)")  # other cases' lives


@pytest.fixture(scope="module", params=["smollm2_path", "gemma3_path"])
def built(request: pytest.FixtureRequest) -> Iterator[BuiltModel]:
    with open_gguf(request.getfixturevalue(request.param)) as file:
        yield build_model(file, 4096, 512)


@pytest.fixture(scope="module")
def backends(request: pytest.FixtureRequest) -> Iterator[tuple[Backend, ...]]:
    """The best device and the host, or the host alone."""
    host = HostBackend()
    if request.param == "host":
        yield (host,)
        return
    if not any(info.default for info in list_devices()):
        pytest.skip("no OpenCL device")
    device = OpenCLBackend(open_device(None))
    yield (device, host)
    device.close()


def types_of(
    built: BuiltModel, graph: Graph, backends: tuple[Backend, ...]
) -> dict[Tensor, BufferType]:
    """The embedding on the host, all else on the device."""
    tiled, embedding = matmul_only(graph), built.model.weights.embedding.weight
    return {
        t: backends[-1 if t is embedding else 0].buffer_type(t.fmt, t.shape, t in tiled)
        for t in graph.leaves
        if t.role is not Role.INPUT
    }


# The host fuses nothing: with it alone both are one.
@pytest.mark.each_value
@pytest.mark.parametrize(
    ("backends", "fused"),
    [("device", True), ("device", False), ("host", False)],
    indirect=["backends"],
    ids=["device-fused", "device-unfused", "host"],
    scope="module",
)
@pytest.mark.parametrize("flash", [True, False], ids=["flash", "no flash"])
@pytest.mark.parametrize(("tokens", "outputs"), [(512, 1), (96, 1), (4, 4), (1, 1)])
def test_the_peak_is_near_its_bound(
    built: BuiltModel,
    backends: tuple[Backend, ...],
    tokens: int,
    outputs: int,
    flash: bool,
    fused: bool,
) -> None:
    """Within 5 %, what the inputs take left aside; and every byte that is read is still there."""
    for cells in (256, 4096):
        used = tuple(min(cells, cache.n_cells) for cache in built.caches.caches)
        _, graph = built.build(StepShape(tokens, outputs, used), flash)
        types = types_of(built, graph, backends)
        made = outline(graph, backends, types, fused)
        assert shadow.check(made, backends) > 0  # something was made in place
        for backend in backends:
            layout = made.layouts[backend.name]
            assert layout.peak - layout.reserved <= 1.05 * (layout.bound - layout.reserved)
            peak = made.peak(backend)
            assert sum(size for _, size in peak.alive) == peak.bound
