"""The buffers that probed results are copied into, and how a plan brings them to the host."""

from collections.abc import Mapping

import numpy as np

from engine.backends.base import Buffer, Bytes, Component, Event, Owner
from engine.gguf.formats import F32
from engine.scheduler.lifetimes import arena_type
from engine.scheduler.probed import ProbedOutline, Slot
from engine.scheduler.probes import Probed


class Rings:
    """At most one ring per device. All probed plans share it: it is read at the end of a step."""

    def __init__(self) -> None:
        self._held: dict[str, Buffer] = {}

    def fit(self, made: ProbedOutline) -> bool:
        """Whether they are as large as the outline needs."""
        return all(self._size(name) >= size for name, size in made.rings.items())

    def grow(self, made: ProbedOutline) -> None:
        """Make them as large as the outline needs; no plan may name those that are too small.

        Raises `NoMem`: what fits by then stays.
        """
        for backend in made.places.backends:
            size = made.rings[backend.name]
            if size > self._size(backend.name):
                if old := self._held.pop(backend.name, None):
                    old.free()
                owner = Owner(Component.STAGING, name="probes")
                self._held[backend.name] = backend.allocate(arena_type(backend), size, owner)

    def of(self, made: ProbedOutline) -> dict[str, Buffer]:
        """The ring of each device that the outline needs one of."""
        return {name: self._held[name] for name, size in made.rings.items() if size}

    def free(self) -> None:
        """Give the memory back; no plan may name it."""
        while self._held:
            self._held.popitem()[1].free()

    def _size(self, name: str) -> int:
        return self._held[name].size if name in self._held else 0


class RingReader:
    """Reads the rings once a step: each is in order with what its device computes."""

    def __init__(self, made: ProbedOutline, rings: Mapping[str, Buffer]) -> None:
        self._rings = {name: ring for name, ring in rings.items() if made.copied[name]}
        self._sizes = made.copied
        self._data: dict[str, Bytes] = {}
        self._slots = [(slot, _elements(slot), slot.node.shape[::-1]) for slot in made.slots]

    def start(self) -> list[Event]:
        """Queue the reads behind the step; `probed` is valid once they are done."""
        self._data = {name: np.empty(self._sizes[name], np.uint8) for name in self._rings}
        return [self._rings[name].start_read(0, data) for name, data in self._data.items()]

    def probed(self) -> list[Probed]:
        """The results of the last step, in the graph's order."""
        rings = {name: data.view(np.float32) for name, data in self._data.items()}
        return [
            Probed(slot.key, slot.node, slot.device, rings[slot.device][part].reshape(shape))
            for slot, part, shape in self._slots
        ]


def _elements(slot: Slot) -> slice:
    """Where its float32 are in the ring."""
    begin = slot.offset // F32.bytes
    return slice(begin, begin + slot.node.nelements)
