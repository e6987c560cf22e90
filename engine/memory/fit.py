"""The fit loop: from what a layout turned out to take to the next layout, until nothing changes.

The rules are those of Ollama's server; pure functions over memory records.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import groupby

from engine.errors import NoMem
from engine.memory.layout import FitDevice, GPULayers, LayerLayout, Wish, assign_layers
from engine.memory.records import BackendMemory
from engine.units import MIB

BACKOFF = 0.1


@dataclass(frozen=True)
class Response:
    """The result of trying a layout. `memory` is None while nothing is known.

    `fixed[device][i]` are the bytes of layer i that lie on a device whatever the layout says.
    """

    memory: BackendMemory | None = None
    failure: NoMem | None = None
    fixed: Mapping[str, Sequence[int]] = field(default_factory=dict)


@dataclass(frozen=True)
class System:
    """Bytes of RAM and of swap that are free, and the device that takes what GPUs do not."""

    free: int
    swap: int
    device: str


@dataclass(frozen=True)
class FitProblem:
    """A placement to solve: the layers that a layout may move, and the devices they may go to.

    `overhead` is left free on every device, beyond its minimum.
    """

    movable: tuple[int, ...]
    devices: tuple[FitDevice, ...]
    system: System
    wish: Wish = Wish()
    overhead: int = 0


@dataclass(frozen=True)
class Fitted:
    """The result of the fit loop; `failure` says why no layout fits."""

    layout: LayerLayout
    response: Response
    failure: NoMem | None = None


Attempt = Callable[[LayerLayout], Response]


def fit(problem: FitProblem, operations: Sequence[Attempt]) -> Fitted:
    """Find a layout with which every operation succeeds: a dry run, then real allocation.

    Each is tried until its layout is stable. Layouts only lose layers, but for steps in between;
    a failure makes every device look smaller, by a tenth of its free memory more each time.
    """
    loop = _Loop(problem)
    try:
        for operation in operations:
            loop.settle(operation)
    except NoMem as failure:
        return Fitted(loop.layout, loop.response, failure)
    return Fitted(loop.layout, loop.response)


class _Loop:
    def __init__(self, problem: FitProblem) -> None:
        self.problem = problem
        self.backoff = 0.0
        self.past: set[str] = set()
        self.response = Response()
        self.layout = self._next()

    def settle(self, attempt: Attempt) -> None:
        """Repeat an operation until its layout no longer changes. Raises `NoMem`."""
        while True:
            self.response = attempt(self.layout)
            self.past.add(self.layout.digest)
            found = self._next()
            while found.digest in self.past or found.total > self.layout.total:
                if self._between(attempt, found) or self.response.failure is None:
                    return
                self._back_off(self.response.failure)
                found = self._next()
            self.layout = found

    def _between(self, attempt: Attempt, found: LayerLayout) -> bool:
        """Where layouts jump between two counts of layers, try those between, highest first."""
        if self.problem.wish.requested >= 0 or found.total - self.layout.total <= 1:
            return False
        known = self.response
        for count in range(found.total - 1, self.layout.total - 1, -1):
            self.response = known
            tried = self._next(count)
            self.response = attempt(tried)
            if self.response.failure is None and tried.total <= self._next().total:
                self.layout = tried
                self.past.clear()
                return True
        self.response = attempt(self.layout)  # what is allocated is this layout again
        return False

    def _back_off(self, failure: NoMem) -> None:
        requested = self.problem.wish.requested
        if requested >= 0:
            detail = f"memory layout cannot be allocated with gpu_layers = {requested}"
            raise _with(failure, detail)
        if failure.device not in {d.id for d in self.layout.devices} or self.backoff > 1:
            raise _with(failure, "memory layout cannot be allocated")
        self.backoff += BACKOFF

    def _next(self, forced: int | None = None) -> LayerLayout:
        problem = self.problem
        if forced is not None:
            problem = replace(problem, wish=replace(problem.wish, requested=forced))
        made = build_layout(problem, self.response, self.backoff)
        verify(problem, self.response, made)
        return made


def build_layout(problem: FitProblem, response: Response, backoff: float = 0.0) -> LayerLayout:
    """The best layout by what is known. Libraries are solved apart; the one with most layers wins.

    With nothing known all layers count as empty, so that one device gets them all.
    """
    sizes = _sizes(problem, response)
    ranked = sorted(problem.devices, key=lambda d: (d.integrated, -d.free))
    best = LayerLayout()
    for library in dict.fromkeys(d.library for d in ranked):
        group = [d for d in ranked if d.library == library]
        used = [_has_layers(d, problem, response) for d in group]
        last_used = max((i for i, has in enumerate(used) if has), default=0)
        group = [replace(d, free=_room(d, problem, response, backoff)) for d in group]
        found = assign_layers(sizes, group, problem.wish, last_used).numbered(problem.movable)
        if found.total > best.total:
            best = found
    return best


def verify(problem: FitProblem, response: Response, layout: LayerLayout) -> None:
    """Raises `NoMem` where the rest does not fit RAM, or all layers were to be on GPUs."""
    memory, system, wish = response.memory, problem.system, problem.wish
    sizes = _sizes(problem, response)
    rest = sum(
        size for i, size in zip(problem.movable, sizes, strict=True) if layout.device_of(i) is None
    )
    if memory is not None:
        cpu = memory.device(system.device)
        rest += memory.input_weights.size + (cpu.graph.size if cpu else 0)
        rest += sum(response.fixed.get(system.device, ()))
    if wish.require_full and problem.devices:
        wanted = len(sizes) if wish.requested < 0 else min(wish.requested, len(sizes))
        names = ", ".join(d.id for d in problem.devices)
        full = "unable to load full model on GPU"
        if layout.total < wanted:
            room = sum(_room(d, problem, response, 0.0) for d in problem.devices)
            raise NoMem(names, f"{wanted} layers", sum(sizes), room, full)
        if rest > system.free:
            raise NoMem(system.device, "what is not on GPUs", rest, system.free, full)
    available = system.free + system.swap
    if rest > available:
        detail = "model requires more system memory than is available"
        raise NoMem(system.device, "what is not on GPUs", rest, available, detail)


def explain(
    problem: FitProblem, response: Response, layout: LayerLayout, n_layer: int
) -> list[str]:
    """A sentence for every decision."""
    sizes = dict(zip(problem.movable, _sizes(problem, response), strict=True))
    sentences = []
    for d in problem.devices:
        mine = next((g for g in layout.devices if g.id == d.id), GPULayers(d.id))
        graph, kept = _graph(d, response), d.minimum + problem.overhead
        room = f"{d.free / MIB:.0f} MiB free, of which {kept / MIB:.0f} MiB stay free"
        if mine.layers:
            size = sum(sizes[i] for i in mine.layers) + graph
            sentences.append(
                f"{d.id} takes {spans(mine.layers, n_layer)}: {size / MIB:.1f} MiB with its"
                f" compute graph; it has {room}"
            )
        else:
            sentences.append(f"{d.id} takes no layers; it has {room}")
    rest = [i for i in problem.movable if layout.device_of(i) is None]
    if rest:
        size = sum(sizes[i] for i in rest)
        why = "as set by the user" if problem.wish.requested >= 0 else "they fit nowhere else"
        sentences.append(
            f"{problem.system.device} takes {spans(rest, n_layer)}, {size / MIB:.1f} MiB: {why}"
        )
    return sentences


def spans(layers: Sequence[int], n_layer: int) -> str:
    """Layers in words: `layers 0-11, 14 and the output block`."""
    inner = [i for i in layers if i < n_layer]
    runs = []
    for _, group in groupby(enumerate(inner), key=lambda at: at[1] - at[0]):
        run = [i for _, i in group]
        runs.append(str(run[0]) if len(run) == 1 else f"{run[0]}-{run[-1]}")
    parts = [f"layer{'s' if len(inner) > 1 else ''} {', '.join(runs)}"] if inner else []
    if n_layer in layers:
        parts.append("the output block")
    return " and ".join(parts)


def _sizes(problem: FitProblem, response: Response) -> list[int]:
    """Bytes of each movable layer that go where the layout says."""
    if response.memory is None:
        return [0] * len(problem.movable)
    return [
        sum(d.layer(i) for d in response.memory.devices)
        - sum(fixed[i] for fixed in response.fixed.values())
        for i in problem.movable
    ]


def _graph(device: FitDevice, response: Response) -> int:
    record = response.memory.device(device.id) if response.memory is not None else None
    return record.graph.size if record is not None else 0


def _has_layers(device: FitDevice, problem: FitProblem, response: Response) -> bool:
    """True if layers are there that a layout may move; what is fixed there needs no more."""
    record = response.memory.device(device.id) if response.memory is not None else None
    if record is None:
        return False
    fixed = response.fixed.get(device.id)
    return any(record.layer(i) > (fixed[i] if fixed else 0) for i in problem.movable)


def _room(device: FitDevice, problem: FitProblem, response: Response, backoff: float) -> int:
    """Bytes that a device has for layers; 0 for a device that is not in the records."""
    if response.memory is None or response.memory.device(device.id) is None:
        return 0
    reserved = int(device.free * backoff) + device.minimum + problem.overhead
    reserved += _graph(device, response) + sum(response.fixed.get(device.id, ()))
    return max(0, device.free - reserved)


def _with(failure: NoMem, detail: str) -> NoMem:
    """The same refusal, with what it means for the whole."""
    failure.args = (f"{failure}; {detail}",)
    return failure
