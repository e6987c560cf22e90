"""The engine's memory records added up: by pool, device and component, and by layer."""

from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass, field

from engine.protocol import Memory, MemoryRow, PoolRow

ORDER = ("weights", "cache", "graph", "vision", "input", "staging")
MAPPED = "mapped"


@dataclass(frozen=True)
class Part:
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
        """What it takes in the end."""
        return max(self.planned, self.held)


@dataclass(frozen=True)
class PoolSum:
    """A pool with its parts, devices together and components in their order."""

    pool: PoolRow
    parts: tuple[Part, ...]

    @property
    def held(self) -> int:
        return sum(part.held for part in self.parts if not part.mapped)

    @property
    def planned(self) -> int:
        return sum(part.planned for part in self.parts if not part.mapped)

    @property
    def other(self) -> int | None:
        """What the rest of the machine uses; None where nobody tells what is free."""
        if self.pool.free is None:
            return None
        return max(0, self.pool.total - self.pool.free - self.pool.used)

    def text(self) -> str:
        """The same in words, for screen readers."""
        mib = 1 << 20
        said = [f"{self.pool.name} memory: {self.held / mib:.1f} MiB held"]
        said += [f"{self.planned / mib:.1f} MiB planned"] if self.planned > self.held else []
        said += [f"limit {self.pool.limit / mib:.0f} MiB of {self.pool.total / mib:.0f} MiB"]
        said += [f"{p.device} {p.component} {p.size / mib:.1f} MiB" for p in self.parts]
        return ", ".join(said)


@dataclass(frozen=True)
class LayerSum:
    """A layer's bytes; `cells` maps a component to its parts. `layer` None has what belongs to
    no layer.
    """

    layer: int | None
    title: str
    cells: dict[str, list[Part]] = field(default_factory=dict)


def pools(planned: Memory | None, held: Memory | None, loaded: int | None = None) -> list[PoolSum]:
    """Every pool with what is planned and held in it.

    While weights are loading the records do not change; `loaded` bytes of them are there then.
    """
    latest = held if held is not None and held.pools else planned
    if latest is None:
        return []
    parts = _parts(_rows(planned), _rows(held), loaded)
    return [
        PoolSum(pool, tuple(part for part in parts if part.device in pool.devices))
        for pool in latest.pools
    ]


def layers(planned: Memory | None, held: Memory | None) -> list[LayerSum]:
    """Layers from 0, the output block, then what belongs to none; empty without records."""
    rows = {"planned": _rows(planned), "held": _rows(held)}
    names = {row.layer for found in rows.values() for row in found}
    numbers = sorted(layer for layer in names if layer is not None)
    with_cache = {row.layer for found in rows.values() for row in found if row.component == "cache"}
    order: list[int | None] = [*numbers, *([None] if None in names else [])]
    made = []
    for layer in order:
        title = "shared" if layer is None else str(layer)
        if layer is not None and layer == numbers[-1] and with_cache and layer not in with_cache:
            title = "out"
        mine = {key: [r for r in found if r.layer == layer] for key, found in rows.items()}
        cells: dict[str, list[Part]] = defaultdict(list)
        for part in _parts(mine["planned"], mine["held"], None):
            cells[part.component].append(part)
        made.append(LayerSum(layer, title, dict(cells)))
    return made


def component(row: MemoryRow) -> str:
    """What a record is shown as."""
    return MAPPED if row.status == "mapped" else row.component


def _rows(memory: Memory | None) -> list[MemoryRow]:
    return memory.rows if memory is not None else []


def _parts(
    planned: Iterable[MemoryRow], held: Iterable[MemoryRow], loaded: int | None
) -> list[Part]:
    sums: dict[tuple[str, str], list[int]] = defaultdict(lambda: [0, 0, 0])
    for at, rows in enumerate((planned, held)):
        for row in rows:
            sums[row.device, component(row)][at] += row.size
            sums[row.device, component(row)][2] |= row.status == "failed"
    places = {name: at for at, name in enumerate((*ORDER, MAPPED))}
    devices = {device: at for at, (device, _) in enumerate(sums)}
    host_last = sorted(
        sums, key=lambda key: (key[0] == "host", devices[key[0]], places.get(key[1], 99))
    )
    made = []
    for device, name in host_last:
        plan, now, failed = sums[device, name]
        if loaded is not None and name == "weights" and not now:
            now = min(plan, loaded)
            loaded -= now
        made.append(Part(device, name, plan, now, bool(failed)))
    return made
