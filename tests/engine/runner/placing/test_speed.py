"""Predicted speed: what is measured, kept, and made of it."""

from collections.abc import Callable, Iterator
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path

import pytest
from gguf import GGUFValueType

from engine.backends.opencl.backend import OpenCLBackend
from engine.errors import Cancelled
from engine.memory.placement import Placement
from engine.protocol import Speed
from engine.runner.batch import MAX_BATCH
from engine.runner.devices import OpenedDevices, open_devices
from engine.runner.loading import cache_format
from engine.runner.pictures.beside import Opened, open_model
from engine.runner.placing import speed as module
from engine.runner.placing.dry_run import dry_run
from engine.runner.placing.graphs import ModelGraphs
from engine.runner.placing.speed import Timings, measure_speed
from engine.runner.placing.tiles import Parts
from engine.runner.placing.timing import StepTiming, time_step
from engine.runner.records import pools_of
from engine.settings import EngineOptions
from tests.engine.runner.memory import two_devices
from tests.goldens.tiny import write_tiny

pytestmark = pytest.mark.device


class Case:
    """A tiny model, opened, with two devices."""

    def __init__(self, path: Path, stack: ExitStack) -> None:
        one, two = two_devices()
        self.names = one, two
        self.options = EngineOptions(device=f"{one},{two}", ctx=4096)
        fmt = cache_format(self.options)
        self.opened: Opened = open_model(path, self.options, MAX_BATCH, fmt, stack)
        self.graphs = ModelGraphs.of(self.opened.built, self.options)
        self.devices: OpenedDevices = open_devices(self.options, stack)
        self.parts = Parts(self.opened.built)

    @property
    def timings(self) -> Timings:
        """As another program finds them."""
        return Timings(self.graphs, self.devices.backends, self.options)

    def measure(self, again: bool = False, stop: Callable[[], bool] = lambda: False) -> list[int]:
        """Returns what progress says."""
        host, told = self.devices.backends[-1], list[int]()
        measure_speed(
            *(self.opened, self.graphs, self.timings, self.parts.of, host, again),
            lambda done, total: told.append(done),
            stop,
        )
        return told

    def predict(self, *layers: str, depth: int = 32, **patterns: str) -> Speed | None:
        overrides = tuple(patterns.items())
        dry = dry_run(self.graphs, self.devices.backends, Placement(layers, overrides))
        return self.timings.predict(dry, dry.one_token(), self.parts.of, depth)


@pytest.fixture
def case(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Case]:
    (tmp_path / "cache").mkdir()
    with ExitStack() as stack:
        long = {"llama.context_length": (4096, GGUFValueType.UINT32)}
        made = Case(write_tiny(tmp_path / "m.gguf", "llama", metadata=long), stack)
        monkeypatch.setenv("CUTAWAY_CACHE", str(tmp_path / "cache"))
        yield made


@pytest.fixture
def timed(case: Case, monkeypatch: pytest.MonkeyPatch) -> list[tuple[str, ...]]:
    """Steps are not run: a layer takes what its number, part and device say. What was asked for."""
    asked: list[tuple[str, ...]] = []

    def step(
        opened: object, graphs: object, backends: object, placement: Placement, part_of: object,
        depth: int, cancelled: Callable[[], bool],
    ) -> StepTiming:  # fmt: skip
        if cancelled():
            raise Cancelled("measuring")
        asked.append(placement.layers)
        device = [1, 10][placement.layers[0] == case.names[1]]
        parts = {part: device * ns(part, depth) for part in set(case.parts.of.values())}
        total = 100 + sum(parts.values())
        if len(set(placement.layers)) == 2:
            mine = {n: [1, 10][n == case.names[1]] for n in case.names}
            total = 100 + sum(mine[placement.layers[p[0]]] * ns(p, depth) for p in parts) + 3 * 70
        return StepTiming(total, 100, parts)

    monkeypatch.setattr(module, "time_step", step)
    return asked


def ns(part: tuple[int, str], depth: int) -> int:
    """Of a layer's part on the first device: attention grows with depth."""
    layer, name = part
    return 1000 * (layer + 1) + (depth if name == "attention" else 500)


def test_a_step_is_timed_part_by_part(case: Case) -> None:
    """Everything is somebody's time, and no memory is left taken."""
    one, two = case.names
    backends = case.devices.backends
    placement = Placement((one, two, one, one))
    timing = time_step(case.opened, case.graphs, backends, placement, case.parts.of, 300)
    assert set(timing.parts) == set(case.parts.of.values())
    assert all(ns > 0 for ns in timing.parts.values())
    assert timing.host > 0
    assert timing.total == pytest.approx(timing.host + sum(timing.parts.values()), rel=0.01)
    assert not any(pool.taken for pool in pools_of(backends))
    assert case.opened.built.caches.caches[0].n_kv == 0


def test_a_prediction_adds_up(case: Case, timed: list[tuple[str, ...]]) -> None:
    one, two = case.names
    assert case.predict(one, one, one, one) is None
    case.measure()
    parts = set(case.parts.of.values())
    for depth in (32, 1000, 2048):
        whole = case.predict(two, two, two, two, depth=depth)
        assert whole is not None
        assert whole.devices == {two: 10 * sum(ns(p, depth) for p in parts)}
        assert (whole.host, whole.copies, whole.depth) == (100, 0, depth)
        assert whole.tokens_per_s == pytest.approx(1e9 / (100 + whole.devices[two]))
    mixed = case.predict(one, two, one, one)
    assert mixed is not None
    assert mixed.devices[two] == 10 * sum(ns(p, 32) for p in parts if p[0] == 1)
    assert mixed.devices[one] == sum(ns(p, 32) for p in parts if p[0] != 1)
    assert mixed.copies == 2 * 70
    assert all(word in mixed.source for word in case.names)
    assert case.predict(one, "host", one, one) is None


def test_a_part_that_is_elsewhere_takes_its_bytes_share(
    case: Case, timed: list[tuple[str, ...]]
) -> None:
    one, two = case.names
    case.measure()
    moved = case.predict(one, one, one, one, **{r"blk\.1\.ffn_(up|down)": two})
    assert moved is not None
    mine = [t for t, part in case.parts.of.items() if part == (1, "feed_forward")]
    share = sum(t.nbytes for t in mine if "up" in t.name or "down" in t.name)
    share /= sum(t.nbytes for t in mine)
    assert moved.devices[two] == pytest.approx(10 * ns((1, "feed_forward"), 32) * share, abs=1)


def test_what_was_measured_is_kept(
    case: Case, timed: list[tuple[str, ...]], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert case.measure() == [0, 1, 2, 3]
    assert len(timed) == 2 * 2 + 1  # each device at two depths, and both in turn
    assert case.measure() == [0, 1, 2, 3]
    assert len(timed) == 5
    case.measure(again=True)
    assert len(timed) == 10
    case.options = replace(case.options, kv="f32")
    assert case.predict(*[case.names[0]] * 4) is None, "another model"
    case.options = replace(case.options, kv="f16")
    for fused in ("all", "none"):  # other kernels take other times
        with monkeypatch.context() as patch:
            patch.setenv("CUTAWAY_FUSE", fused)
            assert (case.predict(*[case.names[0]] * 4) is None) == (fused == "none")
    device = case.devices.backends[0]
    assert isinstance(device, OpenCLBackend)
    with monkeypatch.context() as patch:
        patch.setattr(device, "info", replace(device.info, driver_version="9.9"))
        assert case.predict(*[case.names[0]] * 4) is None, "another driver"
        assert case.predict(*[case.names[1]] * 4) is not None
    for path in (tmp_path / "cache" / "speed").iterdir():
        path.write_bytes(path.read_bytes()[:-3])
    assert case.predict(*[case.names[0]] * 4) is None, "broken files"
    case.measure()
    assert case.predict(*[case.names[0]] * 4) is not None


def test_a_cancel_keeps_what_was_done(case: Case, timed: list[tuple[str, ...]]) -> None:
    with pytest.raises(Cancelled):
        case.measure(stop=lambda: len(timed) == 2)
    assert case.predict(*[case.names[0]] * 4) is not None
    assert case.predict(*[case.names[1]] * 4) is None


def test_nothing_needs_to_be_kept(
    case: Case, timed: list[tuple[str, ...]], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "cache" / "speed").write_text("in the way of the folder")
    assert case.measure() == [0, 1, 2, 3]
