"""A compiled outline that can be replayed, and the cache of them."""

from collections import OrderedDict
from collections.abc import Callable, Collection, Generator, Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import zip_longest
from types import MappingProxyType
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray

from engine.device.backend import (
    Backend,
    Buffer,
    Commands,
    Component,
    Event,
    Location,
    Owner,
    Where,
)
from engine.graph.arrays import as_array
from engine.graph.graph import Graph
from engine.graph.tensor import Tensor
from engine.scheduler.allocate import ArenaLayout
from engine.scheduler.assign import NO_PINS, Pins
from engine.scheduler.lifetimes import arena_type
from engine.scheduler.outline import Outline, outline
from engine.scheduler.probed import ProbedOutline, probed
from engine.scheduler.probes import NO_PROBES, Probed, Probes
from engine.scheduler.record import UNRECORDED, Recorder, Values
from engine.scheduler.rings import NOTHING_PROBED, RingData, RingReader, Rings
from engine.scheduler.split import Copy
from engine.scheduler.transfer import Departure, ResolvedCopy, Staging


@dataclass(frozen=True)
class Stage:
    """One split, ready to run."""

    backend: Backend
    arrivals: tuple[ResolvedCopy, ...]
    commands: Commands
    departures: tuple[Departure, ...]


def stages(made: Outline, where_on: Callable[[Backend], Where], staging: Staging) -> list[Stage]:
    """Compile every split. A storage leaves its device once, however many others want it."""
    departures: dict[tuple[Tensor, int], Departure] = {}

    def departure(copy: Copy, origin: Backend) -> Departure | None:
        if origin.is_host or copy.target.is_host:
            return None
        source = where_on(origin)(copy.source)
        one = departures.setdefault((copy.source, copy.made), Departure(source, copy.source.nbytes))
        if copy.staged:
            one.staging, one.offset = staging, made.staging.places[copy.source].offset
        return one

    def transfers(copies: Sequence[Copy]) -> tuple[ResolvedCopy, ...]:
        return tuple(
            ResolvedCopy(
                copy,
                where_on(copy.origin)(copy.source),
                where_on(copy.target)(copy.source),
                departure(copy, copy.origin),
            )
            for copy in copies
            if copy.origin is not None
        )

    arrivals = [transfers(part.split.copies) for part in made.splits]
    leaving: dict[int, list[Departure]] = {}
    for (_, number), one in departures.items():
        leaving.setdefault(number, []).append(one)
    return [
        Stage(
            part.split.backend,
            arrivals[number],
            part.split.backend.compile(part.nodes, where_on(part.split.backend)),
            tuple(leaving.get(number, ())),
        )
        for number, part in enumerate(made.splits)
    ]


T = TypeVar("T")

NOTHING = np.empty(0, np.uint8)
KEPT = 14
"""Plans a planner keeps: of 30 layers each takes 2.4 MiB, and some 30 ms to be made again."""


class Plan:
    """Replays one graph. Owns every buffer it names, so it stays valid while it is kept."""

    def __init__(
        self,
        made: Outline,
        arenas: Mapping[str, Sequence[Buffer]],
        placed: Mapping[Tensor, Location],
        mapped: Mapping[Tensor, Location],
        staging: Staging,
        reader: RingReader | None = None,
    ) -> None:
        """`reader` brings what is probed to the host."""
        self.outline = made
        self._reader = reader
        self._arenas = arenas
        self._placed, self._mapped = placed, mapped
        self._shared: dict[tuple[Backend, Tensor], Location] = {}
        self._staging = staging
        self._inputs = {
            t: as_array(staging.data[start : start + t.nbytes], t)
            for t, start in made.input_offsets.items()
        }
        uploads: dict[str, int] = {}
        for i, part in enumerate(made.splits):
            for copy in part.split.copies:
                if copy.origin is None:
                    uploads.setdefault(copy.target.name, i)
        self._uploads = tuple((i, name, arenas[name][0]) for name, i in uploads.items())
        self._stages = stages(made, self._where, staging)
        self._lent: list[Event] = []
        self._homes = {
            node.storage: part.split.backend for part in made.splits for node in part.nodes
        }
        self._outputs = [(t, self._found(t), t.nbytes) for t in made.graph.outputs]

    def run(self, inputs: Values, recorder: Recorder = UNRECORDED) -> list[NDArray[np.generic]]:
        """Fill the inputs, run every split in order, and read the outputs (reversed shapes)."""
        self.start(inputs, recorder)
        return self.finish(recorder)

    def start(self, inputs: Values, recorder: Recorder = UNRECORDED) -> None:
        """Like `run`, but devices are still busy with the last splits; no plan of the planner may
        start before `finish`.
        """
        self._fill(inputs, recorder)
        for number in range(len(self._stages)):
            self.queue(number, recorder)
        if self._reader is not None:
            self._lent += self._reader.start()
            recorder.done("probe")

    def run_in_parts(self, inputs: Values) -> Generator[int, None, list[NDArray[np.generic]]]:
        """Like `run`, but stops behind each pause of the graph and yields how many are passed.

        Nothing is under way then: what is left there leaves nothing behind.
        """
        self._fill(inputs, UNRECORDED)
        passed = 0
        for number, part in enumerate(self.outline.splits):
            self.queue(number, UNRECORDED)
            if part.split.nodes[-1] in self.outline.graph.pauses:
                for device in {part.split.backend for part in self.outline.splits}:
                    device.synchronize()
                self._settle()
                passed += 1
                yield passed
        return self.finish()

    def _fill(self, inputs: Values, recorder: Recorder) -> None:
        """Bring the inputs to every device that reads them."""
        for backend in self.outline.places.backends:
            backend.measure(recorder.measures)
        recorder.given(self.outline, inputs)
        block = self._staging.claim(0, self.outline.input_block)
        for tensor, array in self._inputs.items():
            array[...] = inputs[tensor]
        for i, device, arena in self._uploads:
            uploaded = arena.start_write(0, block)
            self._staging.lend(0, block.size, uploaded)
            recorder.moved(i, f"{device}#inputs", block.size, (uploaded,))
        recorder.done("inputs")

    def queue(self, number: int, recorder: Recorder) -> None:
        """Bring in what a split reads, run it, and send off what others read."""
        stage = self._stages[number]
        if stage.backend.is_host:
            self._settle()
        for transfer in stage.arrivals:
            events = transfer.arrive()
            if transfer.lends:
                self._lent.append(events[-1])
            recorder.moved(number, transfer.copy.name, transfer.size, events)
            recorder.done("copy")
        recorder.run(number, stage.backend.name, stage.commands)
        for departure in stage.departures:
            departure.start()
        recorder.done("queue")

    def finish(self, recorder: Recorder = UNRECORDED) -> list[NDArray[np.generic]]:
        """The outputs (reversed shapes) of what was started."""
        outputs = [as_array(at.buffer.read(at.offset, size), t) for t, at, size in self._outputs]
        self._settle()
        recorder.done("outputs")
        return outputs

    @property
    def ring_data(self) -> RingData:
        """Results of the probes in the step that was finished; the next one leaves them as they
        are.
        """
        return NOTHING_PROBED if self._reader is None else self._reader.data

    def probed(self) -> list[Probed]:
        """The same as results, in the graph's order."""
        return self.ring_data.probed()

    def read(self, tensor: Tensor) -> NDArray[np.generic]:
        """The values of an output, or of anything whose bytes are still there, after a run."""
        at = self._found(tensor)
        return as_array(at.buffer.read(at.offset, tensor.nbytes), tensor)

    def _found(self, tensor: Tensor) -> Location:
        """Where its first byte lies."""
        at = self._where(self._homes[tensor.storage])(tensor)
        return Location(at.buffer, at.offset + tensor.offset)

    def _settle(self) -> None:
        """Wait until no device is reading host memory."""
        while self._lent:
            self._lent.pop().wait()

    def _where(self, backend: Backend) -> Where:
        def where(tensor: Tensor) -> Location:
            storage = tensor.storage
            kind = self.outline.places.readable(storage, backend)
            if kind is None:
                chunk, offset = self.outline.place(backend, storage)
                return Location(self._arenas[backend.name][chunk], offset)
            at = self._placed[storage]
            if at.buffer.type.device != kind.device:
                at = self._mapped[storage]
            if kind.device == backend.name:
                return at
            key = (backend, storage)
            if key not in self._shared:
                self._shared[key] = backend.share(at)
            return self._shared[key]

        return where


class Planner:
    """Makes plans and keeps the most recent ones; all share one arena per device, in chunks.

    A chunk that must grow drops every plan, since their commands name the old one.
    """

    def __init__(
        self,
        backends: Sequence[Backend],
        placed: Mapping[Tensor, Location],
        capacity: int = KEPT,
        fused: bool = True,
        mapped: Mapping[Tensor, Location] = MappingProxyType({}),
        pins: Pins = NO_PINS,
    ) -> None:
        """`placed` shows where weights and caches lie, `mapped` where weights are in the mapped
        file, for the host. The pins hold in every plan.
        """
        self.backends = tuple(backends)
        self.placed = dict(placed)
        self._mapped = dict(mapped)
        self._pins = pins
        self._capacity = capacity
        self._fused = fused
        self._arenas: dict[str, list[Buffer]] = {backend.name: [] for backend in backends}
        self._passage: list[Buffer] = []
        self._staging = Staging(NOTHING)
        self._staged: Buffer | None = None  # what the staging lies in
        self._plans: OrderedDict[Hashable, tuple[Plan, Any]] = OrderedDict()
        self.edited: OrderedDict[Hashable, tuple[Plan, Any]] = OrderedDict()
        self.probed_plans: OrderedDict[Hashable, tuple[Plan, Any]] = OrderedDict()
        self._rings = Rings()

    def pin(self, pins: Pins) -> None:
        """Other pins from now on; plans made with the old ones are dropped."""
        self._pins = pins
        self._drop()

    def replace(self, tensor: Tensor, at: Location) -> None:
        """Have a weight that stays in the mapped file read elsewhere; plans are dropped."""
        self.placed[tensor] = self._mapped[tensor] = at
        self._drop()

    def _drop(self) -> None:
        self._plans.clear()
        self.edited.clear()
        self.probed_plans.clear()

    def outline(self, graph: Graph) -> Outline:
        """Outline a plan of this graph; allocates nothing."""
        types = {tensor: at.buffer.type for tensor, at in self.placed.items()}
        return outline(graph, self.backends, types, self._fused, self._pins, self._mapped.keys())

    @property
    def chunks(self) -> list[Buffer]:
        """All of its arenas and staging."""
        return [chunk for arena in (*self._arenas.values(), self._passage) for chunk in arena]

    def take(
        self, chunks: Iterable[tuple[Backend, int, Owner]], spare: Sequence[Buffer] = ()
    ) -> None:
        """Allocate the first chunks of arenas and staging, as outlined; of `spare` ones those are
        taken that have the size and the device. Raises `NoMem`.
        """
        left = list(spare)
        for backend, size, owner in chunks:
            staging = owner.component is Component.STAGING
            arena = self._passage if staging else self._arenas[backend.name]
            wanted = (backend.name, size, owner)
            found = next((b for b in left if (b.type.device, b.size, b.owner) == wanted), None)
            if found is not None:
                left.remove(found)
            arena.append(found or backend.allocate(arena_type(backend), size, owner))
        self._stage()

    def has_room(self, graph: Graph) -> bool:
        """True if arenas and staging are large enough for this graph as they are."""
        made = self.outline(graph)
        wanted = [
            (made.layouts[backend.name], self._arenas[backend.name]) for backend in self.backends
        ]
        wanted.append((made.staging, self._passage))
        return all(
            len(layout.chunks) <= len(held)
            and all(size <= chunk.size for size, chunk in zip(layout.chunks, held, strict=False))
            for layout, held in wanted
        )

    def reserve(self, graph: Graph) -> Outline:
        """Grow the arenas to what this graph needs, without compiling it. Raises `NoMem`."""
        made = self.outline(graph)
        self.grow(made)
        return made

    def plan(self, key: Hashable, build: Callable[[], Graph]) -> Plan:
        """The plan kept under `key`, or a new one of the graph that `build` makes."""
        return self.plan_with(key, lambda: (None, build()))[0]

    def has(self, key: Hashable) -> bool:
        """True if the plan is kept."""
        return key in self._plans

    def plan_with(
        self,
        key: Hashable,
        build: Callable[[], tuple[T, Graph]],
        probes: Probes = NO_PROBES,
        edited: bool = False,
    ) -> tuple[Plan, T]:
        """Like `plan`, with whatever `build` makes beside the graph: kept as long as the plan is.

        Plans with probes are kept apart, as many again, until `end_probes`; they have the graph of
        the plan without, where that is kept. So are those with edited results, which push out no
        others. Raises `CannotProbe`.
        """
        unprobed = self.edited if edited else self._plans
        plans, own = (self.probed_plans, (key, probes)) if probes else (unprobed, key)
        kept = plans.get(own)
        if kept is not None:
            plans.move_to_end(own)
            return kept
        plain = unprobed.get(key)
        if plain is not None:
            made, beside = plain[0].outline, plain[1]
        else:
            beside, graph = build()
            made = self.reserve(graph)
        plan = self._with_probes(probed(made, probes)) if probes else self._compiled(made)
        plans[own] = plan, beside
        if len(plans) > self._capacity:
            plans.popitem(last=False)
        return plan, beside

    def _compiled(self, made: Outline, rings: Mapping[str, Buffer] = MappingProxyType({})) -> Plan:
        arenas = {
            name: (*chunks, rings[name]) if name in rings else tuple(chunks)
            for name, chunks in self._arenas.items()
        }
        reader = RingReader(made, rings) if isinstance(made, ProbedOutline) else None
        return Plan(made, arenas, self.placed, self._mapped, self._staging, reader)

    def _with_probes(self, made: ProbedOutline) -> Plan:
        if not self._rings.fit(made):
            self.probed_plans.clear()
            self._rings.grow(made)
        return self._compiled(made, self._rings.of(made))

    def end_probes(self) -> None:
        """Drop the plans with probes and free their memory; harmless where there are none."""
        self.probed_plans.clear()
        self._rings.free()

    def close(self, keep: Collection[Buffer] = ()) -> None:
        """Drop every plan, and free the arenas and the staging, but those to `keep`."""
        self.end_probes()
        self._drop()
        for arena in (*self._arenas.values(), self._passage):
            arena[:] = [chunk for chunk in arena if not any(chunk is one for one in keep)]
            _shrink(arena, 0)
        self._stage()

    def grow(self, made: Outline) -> None:
        for backend in self.backends:
            layout, arena = made.layouts[backend.name], self._arenas[backend.name]
            self._grow_one(backend, layout, arena, Component.GRAPH)
        try:
            self._grow_one(self.backends[-1], made.staging, self._passage, Component.STAGING)
        finally:
            self._stage()

    def _stage(self) -> None:
        """Have the staging lie in what is allocated for it now."""
        held = self._passage[0] if self._passage else None
        if held is not self._staged:
            self._staged = held
            self._staging = Staging(NOTHING if held is None else held.view(0, held.size))

    def _grow_one(
        self, backend: Backend, layout: ArenaLayout, arena: list[Buffer], component: Component
    ) -> None:
        held = [chunk.size for chunk in arena]
        sizes = [max(two) for two in zip_longest(held, layout.chunks, fillvalue=0)]
        fits = next((i for i, size in enumerate(held) if size < sizes[i]), len(held))
        if fits < len(held):
            self._drop()
            _shrink(arena, fits)
        names = (*layout.names, *[""] * len(held))
        for i in range(fits, len(sizes)):
            owner = Owner(component, name=names[i])
            arena.append(backend.allocate(arena_type(backend), sizes[i], owner))


def _shrink(arena: list[Buffer], chunks: int) -> None:
    """Free all chunks but the first so many."""
    while len(arena) > chunks:
        arena.pop().free()
