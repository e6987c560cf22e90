"""Whose bytes allocations are, and the memory that devices share."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from enum import StrEnum
from time import time_ns
from typing import NoReturn

from engine.errors import NoMem
from engine.protocol import MemoryEvent


class Component(StrEnum):
    """The purpose of an allocation; the columns of the memory records."""

    WEIGHTS = "weights"
    ADAPTERS = "adapters"
    CACHE = "cache"
    STATE = "recurrent state"
    CHECKPOINTS = "checkpoints"
    GRAPH = "graph"
    INPUT = "input"
    VISION = "vision"
    STAGING = "staging"


KEPT = (Component.CACHE, Component.STATE, Component.CHECKPOINTS)
"""What layers keep between steps."""


@dataclass(frozen=True, slots=True)
class Owner:
    """Whose bytes these are. `layer` counts from 0, the output block is `block_count`.

    In a buffer that is for two components, the first has `own` bytes and the other the `rest`.
    """

    component: Component
    layer: int | None = None
    name: str = ""
    own: int = 0
    rest: Component | None = None

    def parts(self, size: int) -> Iterator[tuple["Owner", int]]:
        """Whose the bytes of such a buffer are, each part with one component."""
        if self.rest is None:
            yield self, size
        else:
            yield Owner(self.component, self.layer, self.name), self.own
            yield Owner(self.rest, self.layer, self.name), size - self.own


def _untold(event: MemoryEvent) -> None:
    """For pools that nobody watches."""


@dataclass
class MemoryPool:
    """RAM that devices share. Refuses by its own limit: a driver's yes proves nothing.

    `on_change` gets every allocation. Of those bytes `in_files` are mapped from files: the system
    calls them free, though they are in use.
    """

    name: str
    limit: int
    taken: dict[tuple[str, Owner], int] = field(default_factory=dict)
    on_change: Callable[[MemoryEvent], None] = _untold
    in_files: int = field(default=0, init=False)

    @property
    def used(self) -> int:
        """Bytes that live allocations hold."""
        return sum(self.taken.values())

    @property
    def left(self) -> int:
        """Bytes that may still be taken."""
        return self.limit - self.used

    def used_by(self, device: str) -> int:
        """Bytes that one device's live allocations hold."""
        return sum(n for (name, _), n in self.taken.items() if name == device)

    def take(self, device: str, owner: Owner, size: int) -> None:
        """Record an allocation; `NoMem` when it would pass the limit."""
        if size > self.left:
            self.refuse(device, owner, size, self.left)
        before = dict(self.taken)
        try:
            for one, part in owner.parts(size):
                self.taken[device, one] = self.taken.get((device, one), 0) + part
                self.on_change(self._event("allocate", device, one, part))
        except BaseException:
            self.taken = before
            raise

    def give_back(self, device: str, owner: Owner, size: int) -> None:
        """Forget an allocation that was freed."""
        events = []
        for one, part in owner.parts(size):
            key = (device, one)
            rest = self.taken.get(key, 0) - part
            if rest > 0:
                self.taken[key] = rest
            else:
                self.taken.pop(key, None)
            events.append(self._event("free", device, one, part))
        for event in events:  # a listener may fail, but the memory is free
            self.on_change(event)

    def refuse(self, device: str, owner: Owner, size: int, left: int, detail: str = "") -> NoReturn:
        """Raises `NoMem` that names the allocation."""
        self.on_change(self._event("refuse", device, owner, size))
        raise NoMem(device, owner.component, size, left, detail, owner.layer, owner.name)

    def _event(self, kind: str, device: str, owner: Owner, size: int) -> MemoryEvent:
        of = (owner.component, owner.layer, owner.name)
        return MemoryEvent(time_ns(), kind, self.name, device, *of, size, self.used)
