"""A list of lowered nodes while some of them are made into one: who writes and reads what, what may
move.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from itertools import chain
from typing import Generic, TypeVar

from engine.backends.opencl.launch import DeviceTraits
from engine.device.backend import Computes
from engine.graph.node import Arguments
from engine.graph.op import Op
from engine.graph.tensor import Tensor

A = TypeVar("A", bound=Arguments)


@dataclass(frozen=True)
class Fusion:
    """The places of the nodes that `node` replaces."""

    members: tuple[int, ...]
    node: Tensor


@dataclass(frozen=True)
class PlacedNode(Generic[A]):
    """A node of the list, its place, and its operation with operands and numbers."""

    place: int
    node: Tensor
    op: A


class NodeList:
    """Lowered nodes while they are rewritten. A place keeps its number; fused ones stay empty."""

    def __init__(
        self,
        nodes: Sequence[Tensor],
        kept: frozenset[Tensor],
        traits: DeviceTraits,
        computes: Computes,
    ) -> None:
        """Storages in `kept` are read elsewhere: they do not vanish."""
        self.traits = traits
        self._computes = computes
        self._nodes: list[Tensor | None] = [n for n in nodes if n.op is not Op.RESULT]
        self._kept = kept
        self._known: dict[Tensor, Touched] = {}
        # Places that read or write a storage.
        self._touching: dict[Tensor, set[int]] = {}
        for place in range(len(self._nodes)):
            self._note(place)

    def places(self, op: Op) -> Iterator[int]:
        """The places whose node has this operation, in order; nodes may be fused meanwhile."""
        return (i for i, node in enumerate(self._nodes) if node is not None and node.op is op)

    def __contains__(self, place: int) -> bool:
        """True if there still is a node."""
        return self._nodes[place] is not None

    def __getitem__(self, place: int) -> Tensor:
        node = self._nodes[place]
        assert node is not None
        return node

    def lowered(self) -> tuple[Tensor, ...]:
        """The nodes that are left, each followed by the further storages it writes."""
        left = [node for node in self._nodes if node is not None]
        return tuple(t for node in left for t in (node, *results(node)))

    def writer(self, kind: type[A], tensor: Tensor, before: int, *ops: Op) -> PlacedNode[A] | None:
        """The node that wrote the storage last before this place, if that is one of `ops`."""
        places = self._touching.get(tensor.storage, set())
        wrote = (p for p in places if p < before and tensor.storage in self._touched(p).written)
        place = max(wrote, default=None)
        if place is None or self[place].op not in ops:
            return None
        return PlacedNode(place, self[place], kind.of(self[place]))

    def maker(self, kind: type[A], tensor: Tensor, before: int, *ops: Op) -> PlacedNode[A] | None:
        """The node, one of `ops`, whose whole result `tensor` is, in any packed shape."""
        found = self.writer(kind, tensor, before, *ops)
        if found is None or not tensor.is_contiguous:
            return None
        node = found.node
        own = node.storage is tensor.storage and node.offset == tensor.offset
        whole = tensor.nelements == node.nelements and tensor.fmt is node.fmt
        return found if own and whole and node.is_contiguous else None

    def reads_behind(self, node: Tensor, offset: int, but: int) -> bool:
        """True if another place reads bytes of the node's storage from `offset` on."""
        if node.storage in self._kept:
            return True
        readers = (self[place] for place in self._touching[node.storage] - {but})
        read = (t for reader in readers for t in reader.src if t is not None)
        return any(t.storage is node.storage and t.offset + t.nbytes > offset for t in read)

    def readers(self, node: Tensor) -> set[int]:
        """The places of the nodes that read a node's storage."""
        places = self._touching.get(node.storage, set())
        return {place for place in places if node.storage in self._touched(place).read}

    def apply(self, fusion: Fusion) -> bool:
        """Put the fused node where all its members can meet; False where that is nowhere, or where
        somebody else reads what would vanish.
        """
        fused = touched(fusion.node)
        wrote = set().union(*(self._touched(place).written for place in fusion.members))
        vanished = wrote - fused.written
        if vanished & (self._kept | fused.read):
            return False
        if any(self._touching[storage] - set(fusion.members) for storage in vanished):
            return False
        for place in sorted(fusion.members, reverse=True):
            if all(self._may_move(member, place, fusion.members) for member in fusion.members):
                origins = [self._computes.get(self[member], ()) for member in fusion.members]
                self._computes[fusion.node] = tuple(dict.fromkeys(chain.from_iterable(origins)))
                for member in fusion.members:
                    self._forget(member)
                self._nodes[place] = fusion.node
                self._note(place)
                return True
        return False

    def _may_move(self, start: int, end: int, members: tuple[int, ...]) -> bool:
        """True if a node depends on none that it would pass, and none of these on it."""
        own = self._touched(start)
        between = range(min(start, end) + 1, max(start, end))
        passed = (self._touched(p) for p in between if p in self and p not in members)
        return all(own.may_swap_with(other) for other in passed)

    def _note(self, place: int) -> None:
        for storage in self._touched(place).storages:
            self._touching.setdefault(storage, set()).add(place)

    def _forget(self, place: int) -> None:
        for storage in self._touched(place).storages:
            self._touching[storage].discard(place)
        self._nodes[place] = None

    def _touched(self, place: int) -> "Touched":
        node = self[place]
        if node not in self._known:
            self._known[node] = touched(node)
        return self._known[node]


Find = Callable[[NodeList, int], Fusion | None]


@dataclass(frozen=True)
class Pattern:
    """Nodes that one launch can compute. `find` gives the fusion whose last member is the node at a
    place, which has the operation `op`; None where there is none.
    """

    op: Op
    find: Find

    @property
    def name(self) -> str:
        """The name that the setting `CUTAWAY_FUSE` takes."""
        return self.find.__name__


def ends_with(op: Op) -> Callable[[Find], Pattern]:
    """Make a pattern of the function that finds it, by the operation of its last member."""
    return lambda find: Pattern(op, find)


@dataclass(frozen=True)
class Touched:
    """The storages that a node writes, and those that it reads."""

    written: frozenset[Tensor]
    read: frozenset[Tensor]

    @property
    def storages(self) -> frozenset[Tensor]:
        return self.written | self.read

    def may_swap_with(self, other: "Touched") -> bool:
        """True if the order of two nodes makes no difference."""
        return self.written.isdisjoint(other.storages) and other.written.isdisjoint(self.read)


def touched(node: Tensor) -> Touched:
    """Storages that a node writes, its RESULTs included, and those it reads."""
    also = {tensor.storage for tensor in results(node)}
    sources = {source.storage for source in node.src if source is not None}
    return Touched(frozenset({node.storage, *also}), frozenset(sources - also))


def results(node: Tensor) -> tuple[Tensor, ...]:
    """Storages that a lowered node writes besides its own."""
    return tuple(s for s in node.src if s is not None and s.op is Op.RESULT)
