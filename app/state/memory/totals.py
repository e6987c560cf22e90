"""Planned and allocated bytes of each device, component and layer: the single source for all
pictures.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

from app.language import mark, tr
from engine.protocol import Memory, MemoryEvent, MemoryRow, PoolRow
from engine.units import MIB

Key = tuple[str, str, int | None]
"""Device, component, layer; of no layer is None."""
Status = Literal["planned", "allocated", "failed", "mapped"]

MAPPED = mark("mapped")


@dataclass(frozen=True)
class Cell:
    """Bytes, planned and held. `failed` is where memory ran out, `mapped` a file's pages."""

    device: str
    component: str
    layer: int | None
    planned: int = 0
    held: int = 0
    status: Status = "planned"

    @property
    def key(self) -> Key:
        return self.device, self.component, self.layer

    @property
    def kind(self) -> str:
        """The component as it is shown: mapped pages apart, since they are not allocated."""
        return kind_of(self)

    @property
    def size(self) -> int:
        """The bytes at the end of loading."""
        return max(self.planned, self.held)

    def row(self) -> MemoryRow:
        """The cell as a record of the engine."""
        return MemoryRow(self.device, self.component, self.layer, self.size, self.status)


def kind_of(row: Cell | MemoryRow) -> str:
    """The component as it is shown: mapped pages apart, since they are not allocated."""
    return MAPPED if row.status == MAPPED else row.component


def cells(
    planned: Memory | None, held: Mapping[Key, int], latest: Memory | None = None
) -> list[Cell]:
    """One cell per record of `planned` and of what is held.

    `latest` says what failed and what is mapped.
    """
    plan = {key(row): row for row in _rows(planned)}
    now = {key(row): row for row in _rows(latest)}
    made = []
    for at in dict.fromkeys([*plan, *now, *held]):
        foreseen, record = plan.get(at), now.get(at)
        size, there = foreseen.size if foreseen is not None else 0, held.get(at, 0)
        status: Status = "allocated" if there and there >= size else "planned"
        if record is not None and record.status == "failed":
            status, size = "failed", max(size, record.size)
        elif any(row is not None and row.status == MAPPED for row in (foreseen, record)):
            status = "mapped"
            there = record.size if record is not None else 0
        if size or there:
            made.append(Cell(*at, size, there, status))
    return made


def key(row: MemoryRow | MemoryEvent) -> Key:
    """The cell that a record is about."""
    return row.device, row.component, row.layer


def allocated(memory: Memory) -> dict[Key, int]:
    """Return the bytes that the record lists as allocated."""
    return {key(row): row.size for row in memory.rows if row.status == "allocated"}


def apply(events: Iterable[MemoryEvent], held: dict[Key, int]) -> None:
    """Change what is held by what has happened."""
    for event in events:
        sign = {"allocate": 1, "free": -1}.get(event.kind, 0)
        size = held.get(key(event), 0) + sign * event.size
        if size > 0:
            held[key(event)] = size
        else:
            held.pop(key(event), None)


def _rows(memory: Memory | None) -> list[MemoryRow]:
    return memory.rows if memory is not None else []


ORDER = (
    *(mark("weights"), mark("adapters"), mark("cache")),
    *(mark("recurrent state"), mark("checkpoints")),
    *(mark("graph"), mark("vision"), mark("input"), mark("staging"), MAPPED),
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
        parts_of_text = [
            tr("{name} memory: {held:.1f} MiB held", name=self.pool.name, held=self.held / MIB)
        ]
        parts_of_text += (
            [tr("{planned:.1f} MiB planned", planned=self.planned / MIB)]
            if self.planned > self.held
            else []
        )
        parts_of_text += [
            tr(
                "limit {limit:.0f} MiB of {total:.0f} MiB",
                limit=self.pool.limit / MIB,
                total=self.pool.total / MIB,
            )
        ]
        for part in self.parts:
            refused = tr(", refused") if part.failed else ""
            parts_of_text.append(
                tr(
                    "{device} {component} {size:.1f} MiB{refused}",
                    device=part.device,
                    component=tr(part.component),
                    size=part.size / MIB,
                    refused=refused,
                )
            )
        return ", ".join(parts_of_text)


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
