"""The memory records: what every device holds, by layer and component, each with its status.

Printed and logged as the Go engine of Ollama did (interface of 2025-08), with two additions: the
vision part is an entry of its own, and weights read from the mapped file are not allocated.
"""

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum

from engine.device.backend import Component, MemoryPool
from engine.errors import NoMem
from engine.protocol import MemoryRow
from engine.units import MIB


class Status(StrEnum):
    """The state of an allocation; values are those of the protocol's rows."""

    UNALLOCATED = "planned"
    FAILED = "failed"
    ALLOCATED = "allocated"
    MAPPED = "mapped"


LETTERS = {
    Status.UNALLOCATED: "U",
    Status.FAILED: "F",
    Status.ALLOCATED: "A",
    Status.MAPPED: "M",
}


@dataclass(frozen=True, slots=True)
class MemoryEntry:
    """Bytes and their status. Printed as `1024A`."""

    size: int = 0
    status: Status = Status.UNALLOCATED

    def __str__(self) -> str:
        return f"{self.size}{LETTERS[self.status]}"

    def __add__(self, other: "MemoryEntry") -> "MemoryEntry":
        """Both together: failed if one is, then unallocated, allocated, mapped."""
        if not (self.size and other.size):
            return self if self.size else other
        order = (Status.FAILED, Status.UNALLOCATED, Status.ALLOCATED, Status.MAPPED)
        return MemoryEntry(self.size + other.size, min(self.status, other.status, key=order.index))


NOTHING = MemoryEntry()


@dataclass(frozen=True)
class DeviceMemory:
    """One device: `weights`, `adapters` (LoRA), `cache`, recurrent `state` and its `checkpoints` by
    layer (the last entry is the output block's; empty where there are none).

    `vision` is the tower, `rows` what it has made of pictures.
    """

    name: str
    weights: tuple[MemoryEntry, ...]
    cache: tuple[MemoryEntry, ...]
    vision: MemoryEntry = NOTHING
    graph: MemoryEntry = NOTHING
    staging: MemoryEntry = NOTHING
    rows: MemoryEntry = NOTHING
    state: tuple[MemoryEntry, ...] = ()
    checkpoints: tuple[MemoryEntry, ...] = ()
    adapters: tuple[MemoryEntry, ...] = ()

    @property
    def columns(self) -> tuple[tuple[Component, tuple[MemoryEntry, ...]], ...]:
        """The components that are counted by layer."""
        return (
            (Component.WEIGHTS, self.weights),
            (Component.ADAPTERS, self.adapters),
            (Component.CACHE, self.cache),
            (Component.STATE, self.state),
            (Component.CHECKPOINTS, self.checkpoints),
        )

    def layer(self, i: int) -> int:
        """Bytes that move with layer i; the vision part goes with the output block."""
        vision = self.vision.size if i == len(self.weights) - 1 else 0
        return sum(entries[i].size for _, entries in self.columns if entries) + vision

    def __str__(self) -> str:
        names = ("Weights", "Adapters", "Cache", "State", "Checkpoints")
        lists = zip(names, (entries for _, entries in self.columns), strict=True)
        parts = [f"{k}:[{' '.join(map(str, v))}]" for k, v in lists if any(e.size for e in v)]
        ends = (
            ("Vision", self.vision),
            ("Graph", self.graph),
            ("Staging", self.staging),
            ("Rows", self.rows),
        )
        parts += [f"{key}:{entry}" for key, entry in ends if entry.size]
        return f"{{ID:{self.name} {' '.join(parts)}}}" if parts else "{}"


@dataclass(frozen=True)
class BackendMemory:
    """All of a model's memory. `input_weights` are rows read on the host and belong to no layer;
    `devices` are by priority, the host last.
    """

    input_weights: MemoryEntry
    devices: tuple[DeviceMemory, ...]

    @classmethod
    def of(cls, rows: Iterable[MemoryRow], names: Sequence[str], n_layer: int) -> "BackendMemory":
        """From single records."""
        sums: dict[tuple[str, str, int | None], MemoryEntry] = defaultdict(MemoryEntry)
        for row in rows:
            sums[row.device, row.component, row.layer] += MemoryEntry(row.size, Status(row.status))

        def column(name: str, component: Component) -> tuple[MemoryEntry, ...]:
            return tuple(sums[name, component, i] for i in range(n_layer + 1))

        devices = tuple(
            DeviceMemory(
                name,
                column(name, Component.WEIGHTS),
                column(name, Component.CACHE),
                sums[name, Component.VISION, n_layer],
                sums[name, Component.GRAPH, None],
                sums[name, Component.STAGING, None],
                sums[name, Component.VISION, None],
                column(name, Component.STATE),
                column(name, Component.CHECKPOINTS),
                column(name, Component.ADAPTERS),
            )
            for name in names
        )
        inputs = [e for (_, kind, _), e in sums.items() if kind == Component.INPUT]
        return cls(sum(inputs, NOTHING), devices)

    def device(self, name: str) -> DeviceMemory | None:
        """The record of a device by its name."""
        return next((d for d in self.devices if d.name == name), None)

    def rows(self) -> list[MemoryRow]:
        """One record per entry that is not empty."""
        found: list[tuple[str, Component, int | None, MemoryEntry]]
        found = [(self.devices[-1].name, Component.INPUT, None, self.input_weights)]
        for d in self.devices:
            last = len(d.weights) - 1
            for kind, column in d.columns:
                found += [(d.name, kind, i, e) for i, e in enumerate(column)]
            found.append((d.name, Component.VISION, last, d.vision))
            found.append((d.name, Component.GRAPH, None, d.graph))
            found.append((d.name, Component.STAGING, None, d.staging))
            found.append((d.name, Component.VISION, None, d.rows))
        return [
            MemoryRow(device, component, layer, entry.size, entry.status)
            for device, component, layer, entry in found
            if entry.size
        ]

    @property
    def allocated(self) -> int:
        """Bytes of the entries that are allocated."""
        return sum(r.size for r in self.rows() if r.status == Status.ALLOCATED)

    def log_lines(self) -> list[str]:
        """Lines for the log: one per device and component, zero sums skipped, then the total.

        Pages of the file are in lines of their own and not in the total: they are not allocated.
        """
        lines, total = [], 0
        for what, components in (
            ("model weights", (Component.WEIGHTS, Component.INPUT)),
            ("adapters", (Component.ADAPTERS,)),
            ("vision", (Component.VISION,)),
            ("kv cache", (Component.CACHE,)),
            ("recurrent state", (Component.STATE,)),
            ("checkpoints", (Component.CHECKPOINTS,)),
            ("compute graph", (Component.GRAPH,)),
            ("staging", (Component.STAGING,)),
        ):
            for device in self.devices:
                mine = [
                    r for r in self.rows() if r.device == device.name and r.component in components
                ]
                mapped = sum(r.size for r in mine if r.status == Status.MAPPED)
                size = sum(r.size for r in mine) - mapped
                total += size
                for title, bytes_ in ((what, size), (f"{what} in the mapped file", mapped)):
                    if bytes_:
                        lines.append(f"{title} device={device.name} size={bytes_ / MIB:.1f} MiB")
        return [*lines, f"total memory size={total / MIB:.1f} MiB"] if total else []

    def __str__(self) -> str:
        devices = " ".join(map(str, self.devices))
        return f"{{InputWeights:{self.input_weights} Devices:[{devices}]}}"


def now(
    planned: BackendMemory, pools: Iterable[MemoryPool], failure: NoMem | None = None
) -> BackendMemory:
    """The plan with what became of it: sizes as they are held, the failing entry marked."""
    taken: dict[tuple[str, str, int | None], int] = defaultdict(int)
    for pool in pools:
        for (device, owner), size in pool.taken.items():
            taken[device, owner.component, owner.layer] += size
    rows = [_now(row, taken, failure) for row in planned.rows()]
    known = {(row.device, row.component, row.layer) for row in rows}
    rows += [
        MemoryRow(*key, size, Status.ALLOCATED) for key, size in taken.items() if key not in known
    ]
    names = [d.name for d in planned.devices]
    return BackendMemory.of(rows, names, len(planned.devices[0].weights) - 1)


def _now(
    row: MemoryRow, taken: Mapping[tuple[str, str, int | None], int], failure: NoMem | None
) -> MemoryRow:
    if row.status == Status.MAPPED:
        return row
    failing = (failure.device, failure.component, failure.layer) if failure else None
    key = (row.device, row.component, row.layer)
    held = taken.get(key, 0)
    if key == failing:
        return MemoryRow(*key, max(row.size, held), Status.FAILED)
    if not held:
        return row
    # Several buffers make an entry; it is allocated when all of them are there.
    status = Status.ALLOCATED if held >= row.size else Status.UNALLOCATED
    return MemoryRow(*key, max(row.size, held), status)
