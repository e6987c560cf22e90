"""Planned and allocated bytes of each device, component and layer: the single source for all
pictures.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Literal

from engine.protocol import Memory, MemoryEvent, MemoryRow

Key = tuple[str, str, int | None]
"""Device, component, layer; of no layer is None."""
Status = Literal["planned", "allocated", "failed", "mapped"]

MAPPED = "mapped"


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
