"""Runs an outline on a memory that only remembers whose bytes it holds, without lifetimes."""

from collections.abc import Sequence

import numpy as np

from engine.device.backend import Backend
from engine.graph.op import Op
from engine.graph.tensor import Role, Tensor
from engine.scheduler.outline import Outline

UNIT = 64
"""What every device's alignment is a multiple of."""


def check(made: Outline, backends: Sequence[Backend]) -> int:
    """Whatever is read is still there, and nobody writes where others lie; how many took places.

    A result may only lie on a source where the backend says so and both are laid out alike.
    """
    arenas = {b.name: Shadow(made, b) for b in backends}
    homes = {}
    for part in made.splits:
        own = arenas[part.split.backend.name]
        for copy in part.split.copies:
            if copy.origin is not None:
                arenas[copy.origin.name].read(copy.source)
                arenas[copy.target.name].write(copy.source)
        for node in part.nodes:
            homes[node.storage] = own
            if node.op is not Op.RESULT:
                own.run(node)
    for output in made.graph.outputs:
        homes[output.storage].read(output)
    return sum(arena.taken for arena in arenas.values())


class Shadow:
    """The storage that wrote each unit of a device's arena last."""

    def __init__(self, made: Outline, backend: Backend) -> None:
        self.made, self.backend = made, backend
        layout = made.layouts[backend.name]
        self.chunks = [np.full(size // UNIT, -1) for size in layout.chunks]
        assert sum(layout.chunks) == made.layouts[backend.name].peak
        self.numbers: dict[Tensor, int] = {}
        self.taken = 0
        if layout.reserved:
            for tensor in made.graph.inputs:
                self.write(tensor)

    def units(self, storage: Tensor) -> np.ndarray:
        """Where it lies, to the last byte."""
        chunk, offset = self.made.place(self.backend, storage)
        assert offset % self.backend.buffer_type(storage.fmt, storage.shape).alignment == 0
        end = -(-(offset + storage.nbytes) // UNIT)
        assert end <= len(self.chunks[chunk]), f"{storage} ends outside its chunk"
        return self.chunks[chunk][offset // UNIT : end]

    def is_here(self, storage: Tensor) -> bool:
        return self.made.places.readable(storage, self.backend) is None

    def read(self, tensor: Tensor) -> None:
        storage = tensor.storage
        if self.is_here(storage):
            assert (self.units(storage) == self.numbers[storage]).all(), f"{storage} is gone"

    def write(self, storage: Tensor) -> None:
        number = self.numbers.setdefault(storage, len(self.numbers))
        self.units(storage)[:] = number

    def run(self, node: Tensor) -> None:
        """Inputs are there from the start, so nothing may lie on them, ever."""
        sources = [s for s in node.src if s is not None and s.op is not Op.RESULT]
        results = [node, *(s for s in node.src if s is not None and s.op is Op.RESULT)]
        results = [r for r in results if self.is_here(r.storage)]
        for result in results:
            if result.storage in self.numbers:  # written in parts
                self.read(result)
        for source in sources:
            if source.storage not in {r.storage for r in results}:
                self.read(source)
        for i, source in enumerate(node.src):
            if source is None or source.op is Op.RESULT or not self.is_here(source.storage):
                continue
            for result in results:
                if result.storage is source.storage:
                    continue
                if np.shares_memory(self.units(result.storage), self.units(source.storage)):
                    self.may_take(node, result, source, i)
        for result in results:
            self.write(result.storage)
        for result in results:  # none on another
            self.read(result)

    def may_take(self, node: Tensor, result: Tensor, source: Tensor, i: int) -> None:
        assert result is node
        assert i in self.backend.in_place(node), f"{node} on {source}"
        assert self.made.place(self.backend, node.storage) == self.made.place(
            self.backend, source.storage
        )
        assert (source.shape, source.fmt, source.offset) == (node.shape, node.fmt, node.offset)
        assert source.is_contiguous
        assert node.is_contiguous
        assert source.storage.role is not Role.INPUT
        self.taken += 1
