"""Which backend runs which node, and why. Pure data: the graph is never changed.

The passes are ggml's (ggml-backend.cpp), with two differences. What follows a node is what reads
it, not what stands behind it in the list. And the host, which is the reference and no device, only
takes what lies between two things that it must compute.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from types import MappingProxyType

from engine.device.backend import Backend
from engine.errors import CannotPlace
from engine.graph.graph import Graph, is_numbered
from engine.graph.op import VIEW_OPS, Op
from engine.graph.tensor import Role, Tensor
from engine.scheduler.places import Places, is_placed, sources

Pins = Mapping[Tensor | str, Backend]
"""Nodes, or the names that a model gave to nodes, that a person wants on a backend.

A name that only a view of a result has (`kqv_out-3`) means the node that makes the result.
"""

NO_PINS: Pins = MappingProxyType({})

CAUSES = {
    "usr": "pinned by the user",
    "1.vsrc": "writes to a tensor on this device",
    "1.wgt": "its weight is on this device",
    "1.src": "its cache is on this device",
    "2.src": "a source of it was computed there",
    "2.use": "its reader runs there",
    "3.upg": "reads its weight in place, in host memory",
    "3.best": "the best device, as nothing ties it to another",
    "3.sup": "not supported on the preferred device",
}
"""What the causes mean; a number behind one is the source's position."""

# Sources that are small whatever the model: an operation does not run where they happen to lie.
SIDE_SOURCES = frozenset({(Op.ROPE, 1), (Op.ATTENTION, 6), (Op.SOFTMAX, 3)})


@dataclass(frozen=True, slots=True)
class Assignment:
    """A node's backend and the rule that chose it, in the field's words (`1.wgt0`, `2.src1`)."""

    backend: Backend
    cause: str

    @property
    def reason(self) -> str:
        """The cause in plain words."""
        return CAUSES[self.cause.rstrip("0123456789")]


def assign(graph: Graph, places: Places, pins: Pins = NO_PINS) -> dict[Tensor, Assignment]:
    """An assignment for every node that is no view.

    Pinned nodes stay (`usr`). Others run where their weight or cache lies (`1.`), else where what
    they read was computed or what reads them runs (`2.`), else on the best device (`3.`). Raises
    `CannotPlace` where a pin or a write in place needs what the backend cannot do.
    """
    passes = Passes(graph, places)
    passes.pinned(pins)
    passes.located()
    passes.down()
    passes.up()
    passes.rest()
    passes.upgraded()
    return {n: passes.chosen[n.storage] for n in graph.nodes if n.op not in VIEW_OPS}


@dataclass(frozen=True, eq=False, slots=True)
class _Unit:
    """All nodes that write one storage: they run together, so that nobody writes into a copy.

    `reads` are (node, position, source) of what they read besides what they write.
    """

    storage: Tensor
    nodes: list[Tensor] = field(default_factory=list)
    reads: list[tuple[Tensor, int, Tensor]] = field(default_factory=list)


class Passes:
    """The passes in turn, over what is chosen so far for each storage that is written."""

    def __init__(self, graph: Graph, places: Places) -> None:
        self.chosen: dict[Tensor, Assignment] = {}
        self._places = places
        units: dict[Tensor, _Unit] = {}
        readers: dict[Tensor, list[_Unit]] = {}
        self._names: dict[Tensor, list[str]] = {}
        for node in graph.nodes:
            if not is_numbered(node.name):
                named = node.storage if node.op in VIEW_OPS else node
                if named is node or is_numbered(named.name):
                    self._names.setdefault(named, []).append(node.name)
            if node.op not in VIEW_OPS:
                unit = units.setdefault(node.storage, _Unit(node.storage))
                unit.nodes.append(node)
                for i, source in sources(node):
                    if source.storage is not node.storage:
                        unit.reads.append((node, i, source))
                        readers.setdefault(source.storage, []).append(unit)
        self._units, self._readers = list(units.values()), readers
        self._able: dict[tuple[Backend, Tensor], bool] = {}
        self._there: set[tuple[Tensor, Backend]] = set()
        self._for_host: set[_Unit] = set()

    def pinned(self, pins: Pins) -> None:
        """Assign what a person pinned. Raises `CannotPlace`."""
        for unit in self._units:
            for node in unit.nodes:
                names = (node, *self._names.get(node, ()))
                wanted = next((pins[name] for name in names if name in pins), None)
                if wanted is None:
                    continue
                other = self.chosen.get(unit.storage)
                if other is not None and other.backend is not wanted:
                    why = f"what else writes {unit.storage.name} is pinned to {other.backend.name}"
                    raise CannotPlace(node.op, node.name, wanted.name, why, "pin both alike")
                if not self.able(wanted, unit):
                    why = self._why_not(wanted, unit)
                    raise CannotPlace(node.op, node.name, wanted.name, why, "drop the pin")
                self._choose(unit, wanted, "usr")

    def located(self) -> None:
        """Where the result, a weight or a cache lies. Raises `CannotPlace` for a refused write."""
        for unit in self._open():
            home = self._places.home(unit.storage)
            if home is not None:  # Another backend would write into a copy.
                if not self.able(home, unit):
                    node, why = unit.nodes[0], self._why_not(home, unit)
                    instead = f"place {unit.storage.name} on another device"
                    raise CannotPlace(node.op, unit.storage.name, home.name, why, instead)
                self._choose(unit, home, "1.vsrc")
                continue
            found = self._weight(unit) or self._cache(unit)
            if found is not None and self.able(found.backend, unit):
                self._choose(unit, found.backend, found.cause)

    def down(self) -> None:
        """From devices to what reads their results; from the host where that goes back to it."""
        for unit in reversed(self._units):
            made = self.chosen.get(unit.storage)
            users = self._readers.get(unit.storage, ())
            if made.backend.is_host if made else any(u in self._for_host for u in users):
                self._for_host.add(unit)
        for unit in self._units:
            if unit.storage not in self.chosen:
                self._follow(unit)
            self._note(unit)

    def up(self) -> None:
        """From devices to what they read."""
        for unit in reversed(list(self._open())):
            for backend in self._users(unit):
                if self.able(backend, unit):
                    self._choose(unit, backend, "2.use")
                    break

    def rest(self) -> None:
        """Assign the other nodes, in order. Raises `CannotPlace` where no backend supports one."""
        for unit in self._units:
            if unit.storage not in self.chosen and not self._follow(unit):
                self._fall_back(unit)
            self._note(unit)

    def upgraded(self) -> None:
        """Move nodes from the host to the device that reads the result, if that needs no copy."""
        for unit in self._units:
            chosen = self.chosen[unit.storage]
            if not (chosen.backend.is_host and chosen.cause.startswith("1.wgt")):
                continue
            for backend in self._users(unit):
                if self.able(backend, unit) and self._to_copy(backend, unit) == (0, 0):
                    self._choose(unit, backend, "3.upg")
                    break

    def able(self, backend: Backend, unit: _Unit) -> bool:
        """True if a backend has the kernels, and can have every source."""
        key = (backend, unit.storage)
        if key not in self._able:
            self._able[key] = not self._why_not(backend, unit)
        return self._able[key]

    def _why_not(self, backend: Backend, unit: _Unit) -> str:
        home = self._places.home(unit.storage)
        if home is not None and home is not backend:
            return f"it writes to {unit.storage.name} on {home.name}"
        for _, _, source in unit.reads:
            if not self._places.reachable(source.storage, backend):
                lies = self._places.home(source.storage)
                where = "" if lies is None else f" on {lies.name}"
                return f"{source.storage.name} is{where} in a layout that cannot be copied"
        types = self._places.types_on(backend)
        refused = [node for node in unit.nodes if not backend.supports(node, types)]
        if refused:
            parts = [f"{s.fmt.name} {list(s.dims)}" for _, s in sources(refused[0])]
            return f"it has no kernel for {refused[0].op} of {', '.join(parts)}"
        return ""

    def _open(self) -> list[_Unit]:
        return [unit for unit in self._units if unit.storage not in self.chosen]

    def _choose(self, unit: _Unit, backend: Backend, cause: str) -> None:
        self.chosen[unit.storage] = Assignment(backend, cause)

    def _weight(self, unit: _Unit) -> Assignment | None:
        for node, i, source in unit.reads:
            home = self._places.home(source.storage)
            small = (node.op, i) in SIDE_SOURCES or source.storage.nelements == 1
            if home is not None and source.storage.role is Role.WEIGHT and not small:
                return Assignment(home, f"1.wgt{i}")
        return None

    def _cache(self, unit: _Unit) -> Assignment | None:
        for _, i, source in unit.reads:
            home = self._places.home(source.storage)
            if home is not None and source.storage.role is Role.CACHE:
                return Assignment(home, f"1.src{i}")
        return None

    def _follow(self, unit: _Unit) -> bool:
        """Run it where a source was computed: where the fewest bytes have to be copied."""
        makers: dict[Backend, int] = {}
        for _, i, source in unit.reads:
            made = self.chosen.get(source.storage)
            if made is None or (made.backend.is_host and unit not in self._for_host):
                continue
            if self.able(made.backend, unit):
                makers.setdefault(made.backend, i)
        if not makers:
            return False
        best = min(makers, key=lambda backend: self._to_copy(backend, unit))
        self._choose(unit, best, f"2.src{makers[best]}")
        return True

    def _fall_back(self, unit: _Unit) -> None:
        backends = self._places.backends
        able = [backend for backend in backends if self.able(backend, unit)]
        if not able:
            node, why = unit.nodes[-1], self._why_not(backends[-1], unit)
            raise CannotPlace(node.op, node.name, backends[-1].name, why, "no other device can")
        if able[0] is backends[0] and not self._refused(unit):
            self._choose(unit, able[0], "3.best")
            return

        def cost(backend: Backend) -> tuple[int, bool, int]:
            placed, made = self._to_copy(backend, unit)
            return placed, backend.is_host, made

        self._choose(unit, min(able, key=cost), "3.sup")

    def _refused(self, unit: _Unit) -> bool:
        """True if it has a device where it belongs: beside what it reads, or what reads it."""
        beside = set(self._users(unit))
        for _, _, source in unit.reads:
            made = self.chosen.get(source.storage)
            home = self._places.home(source.storage) if made is None else made.backend
            if home is not None and (made is None or not home.is_host):
                beside.add(home)
        return any(not self.able(backend, unit) for backend in beside)

    def _users(self, unit: _Unit) -> list[Backend]:
        """The devices of what reads it, in order."""
        made = [self.chosen.get(user.storage) for user in self._readers.get(unit.storage, ())]
        return [a.backend for a in made if a is not None and not a.backend.is_host]

    def _note(self, unit: _Unit) -> None:
        """Record that what a node reads is also on the node's backend from now on."""
        made = self.chosen.get(unit.storage)
        if made is not None:
            self._there.update((s.storage, made.backend) for _, _, s in unit.reads)

    def _to_copy(self, backend: Backend, unit: _Unit) -> tuple[int, int]:
        """Bytes of weights and caches, and of results, that would have to be copied."""
        placed = made = 0
        for storage in {source.storage for _, _, source in unit.reads}:
            if (storage, backend) in self._there:
                continue
            if is_placed(storage):
                if self._places.readable(storage, backend) is None:
                    placed += storage.nbytes
            elif storage in self.chosen and self.chosen[storage].backend is not backend:
                made += storage.nbytes
        return placed, made
