"""The buffers that probed results are copied into, and how a plan brings them to the host."""

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from engine.device.backend import Buffer, Bytes, Component, Event, Owner
from engine.scheduler.lifetimes import arena_type
from engine.scheduler.probed import ProbedOutline, Slot
from engine.scheduler.probes import Probed


class Rings:
    """At most one ring per device. All probed plans share it: it is read at the end of a step."""

    def __init__(self) -> None:
        self._held: dict[str, Buffer] = {}

    def fit(self, made: ProbedOutline) -> bool:
        """True if they are as large as the outline needs."""
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


@dataclass(frozen=True)
class RingData:
    """Contents of the rings after a step, by device, and which results they are, in the graph's
    order.
    """

    slots: tuple[Slot, ...]
    floats: Mapping[str, NDArray[np.float32]]

    def probed(self) -> list[Probed]:
        """Each result, in views."""
        return [
            Probed(
                slot.key,
                slot.node,
                slot.device,
                self.floats[slot.device][slot.elements].reshape(slot.node.shape[::-1]),
            )
            for slot in self.slots
        ]


NOTHING_PROBED = RingData((), {})


class RingReader:
    """Reads the rings once a step: each is in order with what its device computes."""

    def __init__(self, made: ProbedOutline, rings: Mapping[str, Buffer]) -> None:
        self._rings = {name: ring for name, ring in rings.items() if made.copied[name]}
        self._sizes = made.copied
        self._slots = made.slots
        self._data: dict[str, Bytes] = {}

    def start(self) -> list[Event]:
        """Queue the reads behind the step; `data` is valid once they are done."""
        self._data = {name: np.empty(self._sizes[name], np.uint8) for name in self._rings}
        return [self._rings[name].start_read(0, data) for name, data in self._data.items()]

    @property
    def data(self) -> RingData:
        """The last step's data; the next one leaves it as it is."""
        floats = {name: data.view(np.float32) for name, data in self._data.items()}
        return RingData(self._slots, floats)
