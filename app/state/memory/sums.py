"""Cells of memory added up: by pool, device and component."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from app.state.memory.totals import MAPPED, Cell
from engine.protocol import PoolRow
from engine.units import MIB

ORDER = (
    *("weights", "cache", "recurrent state", "checkpoints"),
    *("graph", "vision", "input", "staging", MAPPED),
)

Place = tuple[str, str]
"""Device and component as shown."""


@dataclass(frozen=True)
class MemoryPart:
    """Bytes of one component on one device, planned and held. Mapped pages are not allocated."""

    device: str
    component: str
    planned: int = 0
    held: int = 0
    failed: bool = False

    @property
    def mapped(self) -> bool:
        return self.component == MAPPED

    @property
    def size(self) -> int:
        """Bytes when loading has ended."""
        return max(self.planned, self.held)


@dataclass(frozen=True)
class PoolSum:
    """A pool with its parts, devices together and components in their order."""

    pool: PoolRow
    parts: tuple[MemoryPart, ...]

    @property
    def held(self) -> int:
        return sum(part.held for part in self.parts if not part.mapped)

    @property
    def planned(self) -> int:
        return sum(part.planned for part in self.parts if not part.mapped)

    @property
    def other(self) -> int | None:
        """Bytes used by other programs; None if the free memory is unknown."""
        if self.pool.free is None:
            return None
        return max(0, self.pool.total - self.pool.free - self.pool.used)

    def text(self) -> str:
        """The same in words, for screen readers."""
        said = [f"{self.pool.name} memory: {self.held / MIB:.1f} MiB held"]
        said += [f"{self.planned / MIB:.1f} MiB planned"] if self.planned > self.held else []
        said += [f"limit {self.pool.limit / MIB:.0f} MiB of {self.pool.total / MIB:.0f} MiB"]
        for part in self.parts:
            refused = ", refused" if part.failed else ""
            said.append(f"{part.device} {part.component} {part.size / MIB:.1f} MiB{refused}")
        return ", ".join(said)


def pools(cells: Iterable[Cell], rows: Sequence[PoolRow]) -> list[PoolSum]:
    """Every pool with what is planned and held in it."""
    parts = _parts(cells)
    return [
        PoolSum(pool, tuple(part for part in parts if part.device in pool.devices)) for pool in rows
    ]


def places(cells: Iterable[Cell]) -> list[Place]:
    """Devices with their components, in order."""
    return in_order((cell.device, cell.kind) for cell in cells)


def in_order(found: Iterable[Place]) -> list[Place]:
    """Each once: devices as they come, the host last; a device's components in their order."""
    found = list(dict.fromkeys(found))
    devices = {device: at for at, device in enumerate(dict.fromkeys(d for d, _ in found))}
    ranks = {name: at for at, name in enumerate(ORDER)}
    return sorted(found, key=lambda p: (p[0] == "host", devices[p[0]], ranks.get(p[1], len(ranks))))


def _parts(cells: Iterable[Cell]) -> list[MemoryPart]:
    cells = list(cells)
    sums: dict[Place, list[int]] = {place: [0, 0, 0] for place in places(cells)}
    for cell in cells:
        found = sums[cell.device, cell.kind]
        found[0] += cell.planned
        found[1] += cell.held
        found[2] |= cell.status == "failed"
    return [
        MemoryPart(device, name, planned, held, bool(failed))
        for (device, name), (planned, held, failed) in sums.items()
    ]
