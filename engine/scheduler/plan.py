"""A compiled outline that can be replayed, and the cache of them."""

from collections import OrderedDict
from collections.abc import Callable, Hashable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from engine.backends.base import (
    Backend,
    Buffer,
    Bytes,
    Commands,
    Component,
    Location,
    Owner,
)
from engine.errors import NoMem
from engine.gguf.formats import F32
from engine.graph.arrays import as_array
from engine.graph.graph import Graph
from engine.graph.tensor import Tensor
from engine.scheduler.outline import Outline, outline
from engine.scheduler.record import UNRECORDED, Recorder, Values
from engine.scheduler.split import Copy


@dataclass(frozen=True)
class Transfer:
    """A copy between devices through the host, with both ends resolved."""

    source: Location
    target: Location
    size: int

    def run(self) -> None:
        data = self.source.buffer.read(self.source.offset, self.size)
        self.target.buffer.write(self.target.offset, data)


@dataclass(frozen=True)
class Stage:
    """One split, ready to run: what is brought in, then its commands."""

    device: str
    transfers: tuple[Transfer, ...]
    commands: Commands


class Plan:
    """Replays one graph. Owns every buffer it names, so it stays valid while it is kept."""

    def __init__(
        self,
        made: Outline,
        arenas: Mapping[str, Buffer],
        placed: Mapping[Tensor, Location],
    ) -> None:
        self.outline = made
        self._arenas = arenas
        self._placed = placed
        self._staging: Bytes = np.zeros(made.input_block, np.uint8)
        self._inputs = {
            t: as_array(self._staging[start : start + t.nbytes], t)
            for t, start in made.input_offsets.items()
        }
        self._readers = tuple(
            arenas[name]
            for name in dict.fromkeys(
                copy.target.name
                for part in made.splits
                for copy in part.split.copies
                if copy.origin is None
            )
        )
        self._stages = tuple(
            Stage(
                part.split.backend.name,
                tuple(self._transfer(c) for c in part.split.copies if c.origin is not None),
                part.split.backend.compile(part.nodes, self._where(part.split.backend)),
            )
            for part in made.splits
        )
        self._homes = {
            node.storage: part.split.backend for part in made.splits for node in part.nodes
        }

    def run(self, inputs: Values, recorder: Recorder = UNRECORDED) -> list[NDArray[np.generic]]:
        """Fill the inputs, run every split in order, and read the outputs (reversed shapes)."""
        recorder.given(inputs)
        for tensor, array in self._inputs.items():
            array[...] = inputs[tensor]
        for arena in self._readers:
            arena.write(0, self._staging)
        recorder.done("inputs")
        for i, stage in enumerate(self._stages):
            for transfer in stage.transfers:
                transfer.run()
                recorder.done("copy")
            recorder.run(i, stage.device, stage.commands)
            recorder.done("queue")
        outputs = [self.read(t) for t in self.outline.graph.outputs]
        recorder.done("outputs")
        return outputs

    def read(self, tensor: Tensor) -> NDArray[np.generic]:
        """The values of an output, or of anything whose bytes are still there, after a run."""
        at = self._where(self._homes[tensor.storage])(tensor)
        data = at.buffer.read(at.offset + tensor.offset, tensor.nbytes)
        return as_array(data, tensor)

    def _where(self, backend: Backend) -> Callable[[Tensor], Location]:
        def where(tensor: Tensor) -> Location:
            storage = tensor.storage
            placed = self._placed.get(storage)
            if placed is not None and placed.buffer.type.device == backend.name:
                return placed
            return Location(self._arenas[backend.name], self.outline.offset(backend, storage))

        return where

    def _transfer(self, copy: Copy) -> Transfer:
        assert copy.origin is not None
        return Transfer(
            self._where(copy.origin)(copy.source),
            self._where(copy.target)(copy.source),
            copy.source.nbytes,
        )


class Planner:
    """Makes plans and keeps the most recent ones; all share one arena a device.

    An arena that must grow drops every plan, since their commands name the old one.
    """

    def __init__(
        self,
        backends: Sequence[Backend],
        placed: Mapping[Tensor, Location],
        capacity: int = 32,
        fused: bool = True,
    ) -> None:
        self.backends = tuple(backends)
        self.placed = dict(placed)
        self._capacity = capacity
        self._fused = fused
        self._arenas: dict[str, Buffer] = {}
        self._plans: OrderedDict[Hashable, Plan] = OrderedDict()

    def outline(self, graph: Graph) -> Outline:
        """What a plan of this graph would be; allocates nothing."""
        types = {tensor: at.buffer.type for tensor, at in self.placed.items()}
        return outline(graph, self.backends, types, self._fused)

    def reserve(self, graph: Graph) -> Outline:
        """Grow the arenas to what this graph needs, without compiling it. Raises `NoMem`."""
        made = self.outline(graph)
        self._grow(made)
        return made

    def plan(self, key: Hashable, build: Callable[[], Graph]) -> Plan:
        """The plan kept under `key`, or a new one of the graph that `build` makes."""
        kept = self._plans.get(key)
        if kept is not None:
            self._plans.move_to_end(key)
            return kept
        made = self.reserve(build())
        plan = Plan(made, dict(self._arenas), self.placed)
        self._plans[key] = plan
        if len(self._plans) > self._capacity:
            self._plans.popitem(last=False)
        return plan

    def close(self) -> None:
        """Drop every plan and free the arenas."""
        self._plans.clear()
        for arena in self._arenas.values():
            arena.free()
        self._arenas.clear()

    def _grow(self, made: Outline) -> None:
        for backend in self.backends:
            size = made.arena_size(backend)
            arena = self._arenas.get(backend.name)
            if size == 0 or (arena is not None and arena.size >= size):
                continue
            self._plans.clear()
            if arena is not None:
                del self._arenas[backend.name]
                arena.free()
            kind = backend.buffer_type(F32, (1, 1, 1, 1))
            if size > kind.max_size:
                raise NoMem(backend.name, "graph", size, kind.max_size, "one buffer at most")
            owner = Owner(Component.GRAPH)
            self._arenas[backend.name] = backend.allocate(kind, size, owner)
