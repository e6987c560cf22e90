"""Allocations, frees and failures in order, and the size of each pool after each of them."""

from collections import deque
from collections.abc import Iterable
from dataclasses import dataclass
from functools import cached_property

from app.state.memory.totals import in_order
from engine.protocol import MemoryEvent, MemoryRow, PoolRow

LONGEST = 4000  # events that are kept
PAUSE_NS = 500_000_000  # events further apart than that are not of one load

Owner = tuple[str, str]
"""Device and component."""


@dataclass(frozen=True)
class Track:
    """A pool's events in order. `heights[owner][i]` is what that owner holds after event i."""

    pool: str
    events: tuple[MemoryEvent, ...]
    heights: dict[Owner, list[int]]

    @cached_property
    def most(self) -> int:
        """The maximum that was held, or requested where it was refused."""
        refused = (e.used + e.size for e in self.events if e.kind == "refuse")
        return max((*(e.used for e in self.events), *refused), default=0)

    def pauses(self) -> list[int]:
        """Events with which something new begins, the first one included."""
        times = [event.time_ns for event in self.events]
        later = (i for i in range(1, len(times)) if times[i] - times[i - 1] > PAUSE_NS)
        return [0, *later] if times else []


class Allocations:
    """The last LONGEST events; what the older ones left held is kept as a sum."""

    def __init__(self) -> None:
        self.events: deque[MemoryEvent] = deque()
        self._before: dict[tuple[str, Owner], int] = {}

    def add(self, events: Iterable[MemoryEvent]) -> None:
        """Append events."""
        self.events.extend(events)
        while len(self.events) > LONGEST:
            gone = self.events.popleft()
            at = gone.pool, (gone.device, gone.component)
            self._before[at] = self._before.get(at, 0) + _change(gone)

    def refuse(self, row: MemoryRow, pools: Iterable[PoolRow], time_ns: int) -> None:
        """A record of what was refused before any pool was tried."""
        pool = next((pool.name for pool in pools if row.device in pool.devices), "")
        used = next((e.used for e in reversed(self.events) if e.pool == pool), 0)
        self.add(
            [
                MemoryEvent(
                    *(time_ns, "refuse", pool, row.device, row.component, row.layer, ""),
                    *(row.size, used),
                )
            ]
        )

    def end(self, time_ns: int) -> None:
        """The process has ended, and with it all that it held."""
        held: dict[tuple[str, str, str, int | None], int] = {}
        for (pool, (device, component)), size in self._before.items():
            held[pool, device, component, None] = size
        used: dict[str, int] = {}
        for e in self.events:
            at = e.pool, e.device, e.component, e.layer
            held[at] = held.get(at, 0) + _change(e)
        for (pool, *_), size in held.items():
            used[pool] = used.get(pool, 0) + size
        freed = []
        for (pool, device, component, layer), size in held.items():
            if size:
                used[pool] -= size
                freed.append(
                    MemoryEvent(
                        time_ns, "free", pool, device, component, layer, "", size, used[pool]
                    )
                )
        self.add(freed)

    def tracks(self) -> list[Track]:
        """One track per pool."""
        return [self._track(pool) for pool in dict.fromkeys(e.pool for e in self.events)]

    def _track(self, pool: str) -> Track:
        events = tuple(e for e in self.events if e.pool == pool)
        now = {owner: size for (name, owner), size in self._before.items() if name == pool}
        for event in events:
            if event.kind != "refuse":
                now.setdefault((event.device, event.component), 0)
        heights: dict[Owner, list[int]] = {owner: [] for owner in in_order(now)}
        for event in events:
            if event.kind != "refuse":
                now[event.device, event.component] += _change(event)
            for owner, size in now.items():
                heights[owner].append(size)
        return Track(pool, events, heights)


def _change(event: MemoryEvent) -> int:
    return {"allocate": event.size, "free": -event.size}.get(event.kind, 0)
