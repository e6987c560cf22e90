"""Where a model goes: what a person fixed, and for the rest the layout that fits."""

from collections.abc import Callable
from dataclasses import dataclass, replace

import psutil

from engine.backends.base import Backend
from engine.errors import NoMem
from engine.memory.fit import FitProblem, Response, System, explain, fit, spans
from engine.memory.layout import FitDevice, LayerLayout, Wish
from engine.memory.placement import Placement
from engine.memory.pools import MeasuredPool, system_pool
from engine.memory.records import now
from engine.models.build import BuiltModel
from engine.runner.devices import HOST, OpenedDevices
from engine.runner.dry_run import DryRun, dry_run
from engine.settings import FULL_OFFLOAD, OVERHEAD, SPREAD, EngineOptions
from engine.units import MIB

Allocate = Callable[[DryRun], NoMem | None]


@dataclass(frozen=True)
class DecidedPlacement:
    """The placement that was decided, with its memory; `failure` names what did not fit."""

    dry: DryRun
    failure: NoMem | None


def place(
    built: BuiltModel,
    devices: OpenedDevices,
    options: EngineOptions,
    allocate: Allocate | None = None,
) -> DecidedPlacement:
    """Decide, by dry runs and then by really allocating where `allocate` is given.

    It is called with one dry run after another until it says None. Raises `BadSetting`.
    """
    return _Placing(built, devices, options, allocate).decide()


class _Placing:
    def __init__(
        self,
        built: BuiltModel,
        devices: OpenedDevices,
        options: EngineOptions,
        allocate: Allocate | None,
    ) -> None:
        self.built, self.devices, self.options = built, devices, options
        self.allocate = allocate
        shared = [b.name for b in devices.backends if b.name != HOST] or [HOST]
        self.fixed = devices.pins.of_layers(built.n_layer, shared)
        self._dry: dict[str, DryRun] = {}

    def decide(self) -> DecidedPlacement:
        """Run the fit loop if layers may go to several devices."""
        movable = tuple(i for i in range(self.built.n_layer + 1) if i not in self.fixed)
        if not (self.devices.fitted and movable):
            dry = self._dry_run(LayerLayout())
            failure = dry.refused()
            if failure is None and self.allocate is not None:
                failure = self.allocate(dry)
            return self._placed(dry, failure, self._simple(movable))
        problem = FitProblem(
            movable, self._fit_devices(), self._system(), self._wish(movable), OVERHEAD.get() << 20
        )
        operations = [self._try_dry] if self.allocate is None else [self._try_dry, self._try_really]
        fitted = fit(problem, operations)
        dry = self._dry_run(fitted.layout)
        said = explain(problem, fitted.response, fitted.layout, self.built.n_layer)
        return self._placed(dry, fitted.failure, said)

    def _placed(self, dry: DryRun, failure: NoMem | None, said: list[str]) -> DecidedPlacement:
        if failure is not None and failure.memory is None:
            failure.memory = now(dry.memory(), (), failure)
        placement = replace(dry.placement, reasons=(*said, *self._asked(dry)))
        return DecidedPlacement(replace(dry, placement=placement), failure)

    def _dry_run(self, layout: LayerLayout) -> DryRun:
        if layout.digest not in self._dry:
            layers = tuple(
                self.fixed.get(i) or layout.device_of(i) or self.devices.rest
                for i in range(self.built.n_layer + 1)
            )
            placement = Placement(layers, self.devices.pins.patterns)
            fused = self.options.flash_attention is not False
            self._dry[layout.digest] = dry_run(self.built, self.devices.backends, placement, fused)
        return self._dry[layout.digest]

    def _try_dry(self, layout: LayerLayout) -> Response:
        dry = self._dry_run(layout)
        return self._response(dry, dry.refused())

    def _try_really(self, layout: LayerLayout) -> Response:
        assert self.allocate is not None
        dry = self._dry_run(layout)
        return self._response(dry, self.allocate(dry))

    def _response(self, dry: DryRun, failure: NoMem | None) -> Response:
        return Response(dry.memory(), failure, dry.fixed())

    def _fit_devices(self) -> tuple[FitDevice, ...]:
        return tuple(self._fit_device(self.devices.backend(n)) for n in self.devices.fitted)

    def _fit_device(self, backend: Backend) -> FitDevice:
        """Limited by its budget, without a reserve, or by its pool minus the reserve."""
        pool, name = backend.pool, backend.name
        if backend.budget is not None and backend.budget < pool.limit:
            return FitDevice(name, backend.budget, 0, backend.is_integrated)
        reserve = pool.reserve if isinstance(pool, MeasuredPool) else 0
        return FitDevice(name, pool.limit + reserve, reserve, backend.is_integrated)

    def _system(self) -> System:
        pool = system_pool()
        return System(pool.limit, psutil.swap_memory().free, self.devices.rest)

    def _wish(self, movable: tuple[int, ...]) -> Wish:
        requested = -1 if self.options.gpu_layers is None else self.options.gpu_layers
        return Wish(requested, FULL_OFFLOAD.get(), SPREAD.get(), self.built.n_layer in movable)

    def _simple(self, movable: tuple[int, ...]) -> list[str]:
        if not movable:
            return []
        what = spans(movable, self.built.n_layer)
        return [f"{self.devices.rest} takes {what}: no other device is in use for layers"]

    def _asked(self, dry: DryRun) -> list[str]:
        """One sentence for each choice the person made."""
        said = []
        for device in dict.fromkeys(self.fixed.values()):
            mine = [i for i, name in sorted(self.fixed.items()) if name == device]
            said.append(f"{device} takes {spans(mine, self.built.n_layer)}, as asked")
        for pattern, device in dry.placement.overrides:
            size = sum(
                t.nbytes
                for t, owner in self.built.owners.items()
                if dry.placement.device_of(t.name, owner.layer) == device
                and dry.placement.override(t.name) == device
            )
            said.append(f"weights named {pattern} are on {device}, as asked: {size / MIB:.1f} MiB")
        return said
