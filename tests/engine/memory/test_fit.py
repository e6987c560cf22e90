"""The fit loop over records that a made-up model answers with: sizes by rule, no devices."""

from collections.abc import Callable
from dataclasses import replace

import pytest

from engine.errors import NoMem
from engine.memory.fit import (
    Attempt,
    FitProblem,
    Fitted,
    Response,
    System,
    build_layout,
    explain,
    fit,
    spans,
    verify,
)
from engine.memory.layout import FitDevice, GPULayers, LayerLayout, Wish
from engine.memory.records import BackendMemory, DeviceMemory, MemoryEntry

SYSTEM = System(free=1000, swap=0, device="cpu")
N = 6  # the last one is the output block


def problem(*devices: FitDevice, system: System = SYSTEM, **wish: object) -> FitProblem:
    return FitProblem(tuple(range(N)), devices, system, Wish(**wish))  # type: ignore[arg-type]


def device(name: str, free: int, **more: object) -> FitDevice:
    return FitDevice(name, free, **{"minimum": 0, **more})  # type: ignore[arg-type]


class Model:
    """Layers of 10 bytes and an output block of 20; graphs of `graph` bytes where layers are."""

    def __init__(self, *names: str, graph: int = 0) -> None:
        self.names, self.graph = names, graph
        self.tried: list[int] = []

    def memory(self, layout: LayerLayout) -> BackendMemory:
        def entries(name: str | None) -> tuple[MemoryEntry, ...]:
            sizes = (20 if i == N - 1 else 7 for i in range(N))
            return tuple(
                MemoryEntry(s * (layout.device_of(i) == name)) for i, s in enumerate(sizes)
            )

        def cache(name: str | None) -> tuple[MemoryEntry, ...]:
            return tuple(
                MemoryEntry(3 * (layout.device_of(i) == name and i < N - 1)) for i in range(N)
            )

        def record(name: str, key: str | None) -> DeviceMemory:
            weights = entries(key)
            used = key is None or any(e.size for e in weights)
            return DeviceMemory(name, weights, cache(key), graph=MemoryEntry(self.graph * used))

        found = [record(name, name) for name in self.names]
        return BackendMemory(MemoryEntry(5), (*found, record("cpu", None)))

    def attempt(self, fails: Callable[[LayerLayout], NoMem | None] = lambda _: None) -> Attempt:
        def attempt(layout: LayerLayout) -> Response:
            self.tried.append(layout.total)
            return Response(self.memory(layout), fails(layout))

        return attempt


def total(fitted: Fitted) -> int:
    assert fitted.failure is None
    return fitted.layout.total


def test_everything_is_tried_on_the_first_device_when_nothing_is_known() -> None:
    first = build_layout(problem(device("small", 9), device("large", 99)), Response())
    assert first == LayerLayout((GPULayers("large", tuple(range(N))),))
    apart = problem(device("large", 99, library="x"), device("small", 9, library="y"))
    assert build_layout(apart, Response()) == first


def test_devices_are_ranked_discrete_first_then_by_what_is_free() -> None:
    given = (device("igpu", 999, integrated=True), device("a", 40), device("b", 80))
    first = build_layout(problem(*given), Response())
    assert first.device_of(0) == "b"


def test_what_fits_is_found_in_two_rounds() -> None:
    model = Model("a", graph=4)
    assert total(fit(problem(device("a", 1000)), [model.attempt()])) == N
    assert model.tried == [N]
    model = Model("a", graph=4)
    found = fit(problem(device("a", 40)), [model.attempt()])
    # 40 less a graph of 4: three layers of 10; the output block is given up first.
    assert found.layout.devices == (GPULayers("a", (2, 3, 4)),)
    assert model.tried == [N, 3]


@pytest.mark.parametrize(
    ("free", "minimum", "overhead", "layers"), [(70, 0, 0, N), (70, 25, 0, 4), (70, 25, 10, 3)]
)
def test_reserves(free: int, minimum: int, overhead: int, layers: int) -> None:
    wanted = replace(problem(device("a", free, minimum=minimum)), overhead=overhead)
    assert total(fit(wanted, [Model("a").attempt()])) == layers


def test_backoff_takes_a_tenth_more_each_time_until_it_succeeds() -> None:
    model = Model("a")

    def fails(layout: LayerLayout) -> NoMem | None:
        return NoMem("a", "weights", 1, 0) if layout.total > 2 else None

    # 55 bytes hold all 5 layers; a tenth less is 49 (4), 44, 39 (3), 33, 28 (2).
    found = fit(problem(device("a", 55)), [model.attempt(fails)])
    assert total(found) == 2
    assert model.tried == [6, 5, 4, 3, 2]


def test_a_device_that_never_succeeds_ends_with_what_was_refused() -> None:
    def fails(layout: LayerLayout) -> NoMem | None:
        return NoMem("a", "graph", 77, 3)

    found = fit(problem(device("a", 55)), [Model("a").attempt(fails)])
    assert found.failure is not None
    assert "a: no room for graph" in str(found.failure)
    assert "memory layout cannot be allocated" in str(found.failure)


def test_a_failure_beside_the_devices_is_final() -> None:
    model = Model("a")
    found = fit(problem(device("a", 999)), [model.attempt(lambda _: NoMem("cpu", "cache", 1, 0))])
    assert found.failure is not None
    assert model.tried == [N]


def test_a_requested_count_that_cannot_be_allocated_is_an_error() -> None:
    attempt = Model("a").attempt(lambda _: NoMem("a", "weights", 9, 1, layer=3))
    found = fit(problem(device("a", 10), requested=3), [attempt])
    assert "gpu_layers = 3" in str(found.failure)
    assert "weights of layer 3" in str(found.failure)


def test_every_operation_is_settled_in_turn() -> None:
    dry, real = Model("a"), Model("a")

    def fails(layout: LayerLayout) -> NoMem | None:
        return NoMem("a", "weights", 1, 0) if layout.total > 3 else None

    found = fit(problem(device("a", 55)), [dry.attempt(), real.attempt(fails)])
    assert total(found) == 3
    assert dry.tried == [6, 5]
    assert real.tried == [5, 4, 3]


class Swings(Model):
    """A graph that is small with three layers or fewer, so that layouts jump back and forth."""

    def memory(self, layout: LayerLayout) -> BackendMemory:
        self.graph = 0 if layout.total <= 3 else 25
        return super().memory(layout)


def test_between_two_layouts_that_alternate_the_steps_are_tried() -> None:
    # With 5 layers a graph of 25 leaves room for 3; with 3 and no graph there is room for 5.
    model = Swings("a")
    found = fit(problem(device("a", 55)), [model.attempt()])
    # 4 layers bring the graph too, and leave room for 3; 3 are what holds.
    assert total(found) == 3
    assert model.tried == [6, 3, 4, 3]


class Grows(Model):
    """A graph that takes 30 only where all layers are: one layer less leaves room for itself."""

    def memory(self, layout: LayerLayout) -> BackendMemory:
        self.graph = 30 if layout.total >= 5 else 0
        return super().memory(layout)


def test_a_step_between_is_taken_where_it_holds() -> None:
    model = Grows("a")
    found = fit(problem(device("a", 55)), [model.attempt()])
    assert total(found) == 4
    assert model.tried[:3] == [6, 2, 4]


def test_devices_of_two_libraries_are_never_mixed() -> None:
    devices = (device("cuda:0", 32, library="cuda"), device("rocm:0", 45, library="rocm"))
    assert fit(problem(*devices), [Model("cuda:0", "rocm:0").attempt()]).layout.devices == (
        GPULayers("rocm:0", (1, 2, 3, 4)),
    )
    same = tuple(replace(d, library="x") for d in devices)
    found = fit(problem(*same), [Model("cuda:0", "rocm:0").attempt()])
    assert {d.id for d in found.layout.devices if d.layers} == {"cuda:0", "rocm:0"}


def test_a_device_without_a_record_gets_nothing() -> None:
    response = Response(Model("a").memory(LayerLayout()))
    found = build_layout(problem(device("a", 20), device("unseen", 999)), response)
    assert found.device_of(N - 1) != "unseen"
    assert {d.id for d in found.devices if d.layers} == {"a"}


def test_devices_in_use_are_kept() -> None:
    model = Model("a", "b", graph=1)
    both = LayerLayout((GPULayers("a", (0, 1, 2)), GPULayers("b", (3, 4, 5))))
    found = build_layout(problem(device("a", 999), device("b", 990)), Response(model.memory(both)))
    assert {d.id for d in found.devices if d.layers} == {"a", "b"}


def test_a_device_with_fixed_bytes_alone_is_not_in_use_for_layers() -> None:
    memory = Model("a", "b", graph=4).memory(LayerLayout((GPULayers("a", tuple(range(N))),)))
    a, b, cpu = memory.devices
    tower = MemoryEntry(30)
    fixed = replace(b, vision=tower, graph=MemoryEntry(4))
    response = Response(replace(memory, devices=(a, fixed, cpu)), None, {"b": [0] * (N - 1) + [30]})
    devices = (device("a", 999), device("b", 990))
    assert build_layout(problem(*devices), response).devices == (GPULayers("a", tuple(range(N))),)
    # Its bytes and its graph leave room for one layer of 10 fewer than four.
    short = (device("a", 30), device("b", 68))
    found = build_layout(problem(*short), response)
    assert sum(len(d.layers) for d in found.devices if d.id == "b") == 3


def test_bytes_that_are_fixed_are_not_moved_but_take_room() -> None:
    response = Response(Model("a").memory(LayerLayout()), None, {"a": [0, 0, 0, 7, 7, 0]})
    sizes = problem(device("a", 40))
    # Layers 3 and 4 have 3 movable bytes each, and 14 of the 40 are taken: 3 + 3 + 10 + 10.
    assert build_layout(sizes, response).devices == (GPULayers("a", (1, 2, 3, 4)),)


def test_a_full_offload_that_is_required_and_does_not_fit() -> None:
    found = fit(problem(device("a", 40), require_full=True), [Model("a").attempt()])
    assert "unable to load full model on GPU" in str(found.failure)
    asked = problem(device("a", 40), require_full=True, requested=2)
    assert total(fit(asked, [Model("a").attempt()])) == 2
    fits = problem(device("a", 99), require_full=True)
    assert total(fit(fits, [Model("a").attempt()])) == N


def test_what_stays_must_fit_ram_and_swap() -> None:
    response = Response(Model("a", graph=4).memory(LayerLayout()))
    # 5 layers of 10, the output block of 20, rows of 5 and a graph of 4.
    wanted = 5 * 10 + 20 + 5 + 4
    for free, swap, fits in ((wanted, 0, True), (wanted - 1, 1, True), (wanted - 2, 1, False)):
        stays = problem(device("a", 1), system=System(free, swap, "cpu"))
        if fits:
            verify(stays, response, LayerLayout())
        else:
            with pytest.raises(NoMem, match="requires more system memory") as refused:
                verify(stays, response, LayerLayout())
            assert (refused.value.wanted, refused.value.left) == (wanted, free + swap)


def test_swap_does_not_count_where_a_full_offload_is_required() -> None:
    response = Response(Model("a", graph=4).memory(LayerLayout()))
    wish = {"require_full": True, "requested": 0}
    with pytest.raises(NoMem, match="unable to load full model"):
        verify(
            problem(device("a", 1), system=System(70, 99, "cpu"), **wish), response, LayerLayout()
        )


def test_every_decision_has_a_sentence() -> None:
    wanted = problem(device("a", 40), device("b", 5))
    found = fit(wanted, [Model("a", "b").attempt()])
    said = explain(wanted, found.response, found.layout, N - 1)
    assert said[0].startswith("a takes layers 1-4: ")
    assert said[1].startswith("b takes no layers")
    assert said[2].startswith("cpu takes layer 0 and the output block")


def test_layers_in_words() -> None:
    assert spans([0, 1, 2, 5, 7, 8, 9], 9) == "layers 0-2, 5, 7-8 and the output block"
    assert spans([9], 9) == "the output block"
    assert spans([3], 9) == "layer 3"
