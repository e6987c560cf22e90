"""Where a model goes: what a person fixed, and for the rest the layout that fits."""

import re
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, replace

import psutil

from engine.device.backend import Backend, Component
from engine.errors import NoMem
from engine.graph.tensor import Tensor
from engine.memory.fit import FitProblem, Fitted, Response, System, explain, fit, spans
from engine.memory.layout import FitDevice, LayerLayout, Wish
from engine.memory.placement import Placement
from engine.memory.pools import MeasuredPool, system_pool
from engine.memory.records import now
from engine.models.build import BuiltModel
from engine.models.decoder import Decoder
from engine.models.vision import TOWER
from engine.runner.devices import HOST, OpenedDevices
from engine.runner.placing.dry_run import DryRun, dry_run
from engine.runner.placing.graphs import ModelGraphs
from engine.settings import FULL_OFFLOAD, OVERHEAD, SPREAD, EngineOptions
from engine.units import MIB

_NAMED = re.compile(r"^blk\.\d+\.ffn_\w+_exps\.")


@dataclass(frozen=True)
class ExpertWeights:
    """Expert tensors by layer, for layers without a fixed placement, in order."""

    layers: Mapping[int, Sequence[Tensor]]
    n_layer: int

    @classmethod
    def of(
        cls, built: BuiltModel, fixed: Collection[int], pinned: Callable[[str], bool]
    ) -> "ExpertWeights":
        """Without layers in `fixed`, and without those of which a tensor is `pinned` by name."""
        found: dict[int, list[Tensor]] = {}
        for tensor, owner in built.owners.items():
            if owner.layer is not None and _NAMED.search(tensor.name):
                found.setdefault(owner.layer, []).append(tensor)
        free = {
            i: tensors
            for i, tensors in sorted(found.items())
            if i not in fixed and not any(pinned(t.name) for t in tensors)
        }
        return cls(free, built.n_layer)

    def pattern(self, count: int) -> str:
        """A regular expression for those of the first `count` layers."""
        layers = "|".join(map(str, list(self.layers)[:count]))
        return rf"^blk\.({layers})\.ffn_\w+_exps\."

    def moved(self, count: int, device: str, built: BuiltModel, all_fit: bool) -> str:
        """Why the experts of the first `count` layers are not with their layers."""
        layers = list(self.layers)[:count]
        size = sum(t.nbytes for i in layers for t in self.layers[i])
        what = f"{device} takes the experts of {spans(layers, self.n_layer)}, {size / MIB:.1f} MiB"
        why = "all else fits on faster devices" if all_fit else "fewer layers have to leave"
        return f"{what}, so that {why}: {_read(built, layers[0])}"


def fewest(count: int, enough: Callable[[int], bool]) -> int | None:
    """The least number from 1 to `count` that is enough, where more is never less; None: none."""
    if not enough(count):
        return None
    low, high = 0, count
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (low, middle) if enough(middle) else (middle, high)
    return high


def _read(built: BuiltModel, layer: int) -> str:
    model = built.model
    route = model.spec(layer).route if isinstance(model, Decoder) else None
    if route is None:
        return "a token reads few of them"
    return f"a token reads {route.used} of {route.experts} of them"


Allocate = Callable[[DryRun], NoMem | None]


@dataclass(frozen=True)
class DecidedPlacement:
    """The placement that was decided, with its memory; `failure` names what did not fit."""

    dry: DryRun
    failure: NoMem | None


def place(
    graphs: ModelGraphs,
    devices: OpenedDevices,
    options: EngineOptions,
    allocate: Allocate | None = None,
) -> DecidedPlacement:
    """Decide, by dry runs and then by really allocating where `allocate` is given.

    It is called with one dry run after another until it says None. Raises `BadSetting`.
    """
    return _Placing(graphs, devices, options, allocate).decide()


class _Placing:
    def __init__(
        self,
        graphs: ModelGraphs,
        devices: OpenedDevices,
        options: EngineOptions,
        allocate: Allocate | None,
    ) -> None:
        self.graphs, self.built = graphs, graphs.built
        self.devices, self.options = devices, options
        self.allocate = allocate
        shared = [b.name for b in devices.backends if b.name != HOST] or [HOST]
        self.fixed = devices.pins.of_layers(self.built.n_layer, shared)
        self._dry: dict[tuple[str, str | None, int], DryRun] = {}
        self._tower: str | None = None
        """Where the tower is, if not with the output block."""
        self._away = 0
        """Layers whose experts are where the rest is."""
        named = Placement((), devices.pins.patterns).override
        self.experts = ExpertWeights.of(
            self.built, self.fixed, lambda name: named(name) is not None
        )

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
        beside = self._fit_with(None, problem)
        self._tower, best = self._best_home(problem, beside)
        best = self._without_experts(problem, best)
        fitted = best if self.allocate is None else self._fit_really(problem, best)
        dry = self._dry_run(fitted.layout)
        sentences = explain(problem, fitted.response, fitted.layout, self.built.n_layer)
        if self._tower is not None:
            sentences.append(self._moved(dry, beside, fitted))
        if self._away:
            all_fit = fitted.layout.total == len(movable)
            rest = self.devices.rest
            sentences.append(self.experts.moved(self._away, rest, self.built, all_fit))
        return self._placed(dry, fitted.failure, sentences)

    def _placed(self, dry: DryRun, failure: NoMem | None, sentences: list[str]) -> DecidedPlacement:
        if failure is not None and failure.memory is None:
            failure.memory = now(dry.memory(), (), failure)
        placement = replace(dry.placement, reasons=(*sentences, *self._user_choices(dry)))
        return DecidedPlacement(replace(dry, placement=placement), failure)

    def _fit_with(self, tower: str | None, problem: FitProblem) -> Fitted:
        """By dry runs."""
        self._tower = tower
        return fit(problem, [self._try_dry])

    def _fit_really(self, problem: FitProblem, foreseen: Fitted) -> Fitted:
        """By real allocation too. Where a device has less than was foreseen, and layers would have
        to leave it, the tower leaves before them.
        """
        operations = [self._try_dry, self._try_really]
        fitted = fit(problem, operations)
        if _rank(fitted) >= _rank(foreseen) or self._tower is not None or not self._movable_tower:
            return fitted
        self._tower = self.devices.rest
        moved = fit(problem, operations)
        if _rank(moved) > _rank(fitted):
            return moved
        self._tower = None
        return fit(problem, operations)  # what is allocated is this again

    @property
    def _movable_tower(self) -> bool:
        """True if there is a tower of which nothing is pinned."""
        tower, pins = self.built.tower, Placement((), self.devices.pins.patterns)
        return tower is not None and not any(pins.override(t.name) for t in tower.sources)

    def _best_home(self, problem: FitProblem, beside: Fitted) -> tuple[str | None, Fitted]:
        """The tower moves before layers do: the first place with which most layers are on devices,
        and on the fewest. `beside` is what fits with the tower at the output block.
        """
        best: tuple[str | None, Fitted] = None, beside
        if not self._movable_tower:
            return best
        ranked = sorted(problem.devices, key=lambda d: (d.integrated, -d.free))
        for home in dict.fromkeys([*(d.id for d in ranked), self.devices.rest]):
            if _rank(best[1]) >= (True, len(problem.movable), -1):
                break
            found = self._fit_with(home, problem)
            if _rank(found) > _rank(best[1]):
                best = home, found
        return best

    def _without_experts(self, problem: FitProblem, best: Fitted) -> Fitted:
        """Experts move before layers do: those of as few layers as it takes until all layers are on
        devices; where that is not to be had, all experts, if more layers are.
        """
        wish, whole = problem.wish, len(problem.movable)
        if _is_full(best, whole) or not self.experts.layers or wish.requested >= 0:
            return best
        if wish.require_full:
            return best
        tried: dict[int, Fitted] = {}

        def enough(count: int) -> bool:
            self._away = count
            tried[count] = fit(problem, [self._try_dry])
            return _is_full(tried[count], whole)

        most = len(self.experts.layers)
        self._away = fewest(most, enough) or most
        found = tried[self._away]
        if _rank(found) <= _rank(best):
            self._away = 0
            return best
        return found

    def _moved(self, dry: DryRun, beside: Fitted, fitted: Fitted) -> str:
        """Why the tower is not with the output block."""
        size = sum(w.size for w in dry.weights if w.owner.component is Component.VISION)
        size += sum(t.nbytes for t, o in dry.mapped if o.component is Component.VISION)
        moving = range(self.built.n_layer + 1)
        saved = [i for i in moving if fitted.layout.device_of(i) and not beside.layout.device_of(i)]
        if _rank(fitted) <= _rank(beside):
            why = "layers need not leave a device that has less memory than it reports"
        elif beside.failure is not None:
            why = f"all fits (with the output block: {beside.failure})"
        elif saved:
            why = f"{spans(saved, self.built.n_layer)} need not leave"
        else:
            why = f"layers are on {_spread(fitted)} device instead of {_spread(beside)}"
        return f"{self._tower} takes the vision tower, {size / MIB:.1f} MiB, so that {why}"

    def _dry_run(self, layout: LayerLayout) -> DryRun:
        key = layout.digest, self._tower, self._away
        if key not in self._dry:
            layers = tuple(
                self.fixed.get(i) or layout.device_of(i) or self.devices.rest
                for i in range(self.built.n_layer + 1)
            )
            moved = ((TOWER, self._tower),) if self._tower is not None else ()
            if self._away:
                moved = (*moved, (self.experts.pattern(self._away), self.devices.rest))
            patterns = (*self.devices.pins.patterns, *moved)
            placement = Placement(layers, patterns, requested=frozenset(self.fixed))
            self._dry[key] = dry_run(self.graphs, self.devices.backends, placement)
        return self._dry[key]

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

    def _user_choices(self, dry: DryRun) -> list[str]:
        """One sentence for each choice the person made."""
        sentences = []
        for device in dict.fromkeys(self.fixed.values()):
            mine = [i for i, name in sorted(self.fixed.items()) if name == device]
            sentences.append(
                f"{device} takes {spans(mine, self.built.n_layer)}, as set by the user"
            )
        for pattern, device in self.devices.pins.patterns:
            size = sum(
                t.nbytes
                for t, owner in self.built.owners.items()
                if dry.placement.device_of(t.name, owner.layer) == device
                and dry.placement.override(t.name) == device
            )
            sentences.append(
                f"weights named {pattern} are on {device}, as set by the user: {size / MIB:.1f} MiB"
            )
        return sentences


def _rank(fitted: Fitted) -> tuple[bool, int, int]:
    """Return a sort key; better placements are greater."""
    return fitted.failure is None, fitted.layout.total, -_spread(fitted)


def _is_full(fitted: Fitted, whole: int) -> bool:
    """True if all layers that may move are on devices."""
    return fitted.failure is None and fitted.layout.total == whole


def _spread(fitted: Fitted) -> int:
    """How many devices have layers."""
    return sum(bool(device.layers) for device in fitted.layout.devices)
