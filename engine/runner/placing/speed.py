"""How fast a placement decodes, from what its devices took for this model's layers when they were
measured: each alone with all layers, and each two of them in turn.
"""

from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from hashlib import blake2b
from itertools import combinations, pairwise
from pathlib import Path
from typing import TypeVar

import msgspec

from engine.backends.opencl.backend import OpenCLBackend
from engine.device.backend import Backend
from engine.graph.tensor import Tensor
from engine.kept import UNREADABLE, read_sealed, write_sealed
from engine.memory.placement import Placement
from engine.protocol import DeviceSpeed, Speed
from engine.runner.pictures.beside import Opened
from engine.runner.placing.dry_run import DryRun
from engine.runner.placing.graphs import ModelGraphs
from engine.runner.placing.timing import Part, StepTiming, time_step
from engine.scheduler.outline import Division
from engine.settings import FUSE, EngineOptions, cache_folder

DEPTHS = (32, 2048)
MAGIC = b"CutawaySpeed1\n"
"""Tokens in the context at which steps are timed; a straight line goes through both."""
OnMeasured = Callable[[int, int], None]
PartOf = Mapping[Tensor, Part]


class TimedAlone(msgspec.Struct, frozen=True):
    """One device with all layers. `host` are nanoseconds that no device computes, `parts` those of
    each layer and part; one for each depth.
    """

    title: str
    driver: str
    depths: list[int]
    host: list[int]
    parts: list[tuple[Part, list[int]]]

    def at(self, depth: int) -> tuple[float, dict[Part, float]]:
        """Nanoseconds of the host and of each part, after so many tokens."""
        return self._line(self.host, depth), {p: self._line(ns, depth) for p, ns in self.parts}

    def _line(self, ns: Sequence[int], depth: int) -> float:
        if len(ns) == 1:
            return ns[0]
        first, last = self.depths[0], self.depths[-1]
        return max(0.0, ns[0] + (ns[-1] - ns[0]) * (depth - first) / (last - first))


class TimedInTurn(msgspec.Struct, frozen=True):
    """Nanoseconds that it takes one device to go on where another stopped."""

    crossing: int


Timed = TypeVar("Timed", TimedAlone, TimedInTurn)


class Timings:
    """Measured times of a model on some devices; it is kept in the cache folder, by the model's
    shapes and formats, and by the devices' names and drivers.
    """

    def __init__(
        self, graphs: ModelGraphs, backends: Sequence[Backend], options: EngineOptions
    ) -> None:
        """`backends` as in `OpenedDevices`."""
        self.devices = [b for b in backends if isinstance(b, OpenCLBackend)]
        weights = [(t.name, t.fmt.name, t.shape) for t in graphs.built.sources]
        chosen = FUSE.get()
        fused = None if chosen is None else sorted(chosen)
        about = (graphs.one_token.text(), weights, options.kv, options.threads, fused, DEPTHS)
        self._model = blake2b(repr(about).encode(), digest_size=8).hexdigest()
        self._alone: dict[str, TimedAlone] = {}
        self._in_turn: dict[frozenset[str], TimedInTurn] = {}
        self.read()

    def read(self) -> None:
        """Take what is there by now."""
        for device in self.devices:
            if alone := _read(self._path(device), TimedAlone):
                self._alone[device.name] = alone
        for two in combinations(self.devices, 2):
            if in_turn := _read(self._path(*two), TimedInTurn):
                self._in_turn[frozenset(b.name for b in two)] = in_turn

    def alone(self, device: Backend) -> TimedAlone | None:
        return self._alone.get(device.name)

    def crossing(self, one: str, other: str) -> int | None:
        """Nanoseconds of going on on another device."""
        found = self._in_turn.get(frozenset((one, other)))
        return None if found is None else found.crossing

    def put_alone(
        self, device: OpenCLBackend, depths: list[int], steps: Sequence[StepTiming]
    ) -> TimedAlone:
        """Keep the steps of a device that has all layers, one for each depth."""
        parts = [(part, [s.parts.get(part, 0) for s in steps]) for part in steps[0].parts]
        info, host = device.info, [step.host for step in steps]
        timed = TimedAlone(info.title, info.driver_version, depths, host, parts)
        self._alone[device.name] = timed
        _write(self._path(device), timed)
        return timed

    def put_in_turn(self, one: OpenCLBackend, other: OpenCLBackend, crossing: int) -> None:
        self._in_turn[frozenset((one.name, other.name))] = TimedInTurn(crossing)
        _write(self._path(one, other), TimedInTurn(crossing))

    def reported(self, depth: int) -> list[DeviceSpeed]:
        """Each device with all layers."""
        found = []
        for name, timed in self._alone.items():
            host, parts = timed.at(depth)
            speed = 1e9 / (host + sum(parts.values()))
            found.append(DeviceSpeed(name, timed.title, timed.driver, speed))
        return found

    def predict(self, dry: DryRun, step: Division, part_of: PartOf, depth: int) -> Speed | None:
        """The decode step of a dry run after `depth` tokens; None where a device was not measured,
        and where the host computes layers, which it is not meant to.
        """
        homes = {t: one.backend.name for one in dry.weights for t, _ in one.tensors}
        homes |= {t: dry.backends[-1].name for t, owner in dry.mapped if owner.layer is not None}
        homes = {t: name for t, name in homes.items() if part_of[t][1] != "vision"}
        host_name = dry.backends[-1].name
        ran = [one.backend.name for one in step.splits]
        ways = [two for two in pairwise(n for n in ran if n != host_name) if two[0] != two[1]]
        crossings = [self.crossing(*way) for way in ways]
        if not set(homes.values()) <= set(self._alone) or None in crossings:
            return None
        sizes: dict[Part, int] = defaultdict(int)
        for tensor in homes:
            sizes[part_of[tensor]] += tensor.nbytes
        used = dict.fromkeys(homes.values())
        tables = {name: self._alone[name].at(depth) for name in used}
        devices = dict.fromkeys(used, 0.0)
        for tensor, name in homes.items():
            part = part_of[tensor]
            devices[name] += tables[name][1].get(part, 0.0) * tensor.nbytes / sizes[part]
        host = max(ns for ns, _ in tables.values())
        copies = sum(ns for ns in crossings if ns is not None)
        on = " and ".join(f"{name} (driver {self._alone[name].driver})" for name in used)
        return Speed(
            tokens_per_s=1e9 / (sum(devices.values()) + copies + host),
            depth=depth,
            devices={name: round(ns) for name, ns in devices.items()},
            copies=copies,
            host=round(host),
            source=f"the layers of this model, timed on {on}",
        )

    def _path(self, *devices: OpenCLBackend) -> Path:
        infos = [device.info for device in devices]
        names = sorted((i.name, i.title, i.platform, i.driver_version) for i in infos)
        key = blake2b(repr((self._model, names)).encode(), digest_size=8).hexdigest()
        return cache_folder() / "speed" / f"{key}.sealed"


def measure_speed(
    opened: Opened,
    graphs: ModelGraphs,
    timings: Timings,
    part_of: PartOf,
    host: Backend,
    again: bool,
    progress: OnMeasured,
    cancelled: Callable[[], bool],
) -> None:
    """Time what was not timed before, or everything `again`. Raises as `time_step`."""
    pairs = list(combinations(timings.devices, 2))
    n_layers, todo = graphs.built.n_layer + 1, len(timings.devices) + len(pairs)
    depths = [depth for depth in DEPTHS if depth + 1 < graphs.built.n_ctx] or [0]

    def step(used: Sequence[Backend], layers: Sequence[str], depth: int) -> StepTiming:
        placed = Placement(tuple(layers))
        return time_step(opened, graphs, (*used, host), placed, part_of, depth, cancelled)

    for done, device in enumerate(timings.devices):
        progress(done, todo)
        if again or timings.alone(device) is None:
            layers = [device.name] * n_layers
            timings.put_alone(device, depths, [step([device], layers, d) for d in depths])
    for done, two in enumerate(pairs, len(timings.devices)):
        progress(done, todo)
        if again or timings.crossing(two[0].name, two[1].name) is None:
            layers = [two[i % 2].name for i in range(n_layers)]
            known = {b.name: alone.at(depths[0]) for b in two if (alone := timings.alone(b))}
            parts = {part for _, table in known.values() for part in table}
            foreseen = sum(known[layers[part[0]]][1].get(part, 0.0) for part in parts)
            foreseen += max(ns for ns, _ in known.values())
            left = step(two, layers, depths[0]).total - foreseen
            timings.put_in_turn(*two, max(0, round(left / (n_layers - 1))))
    progress(todo, todo)


def _read(path: Path, kind: type[Timed]) -> Timed | None:
    with suppress(OSError, *UNREADABLE):
        return msgspec.json.decode(read_sealed(path, MAGIC), type=kind)
    return None


def _write(path: Path, timed: msgspec.Struct) -> None:
    """Whole or not at all; where nothing can be written, nothing is kept."""
    with suppress(OSError):
        write_sealed(path, MAGIC, msgspec.json.encode(timed))
