"""Lowered nodes while some of them are made into one: who writes and reads what, what may move."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from types import MappingProxyType

from engine.backends.opencl.launch import DeviceTraits
from engine.graph.op import Op
from engine.graph.tensor import Tensor


@dataclass(frozen=True)
class Fusion:
    """The places of the nodes that `node` replaces."""

    members: tuple[int, ...]
    node: Tensor


class Program:
    """Lowered nodes while they are rewritten. A place keeps its number; fused ones stay empty."""

    def __init__(
        self, nodes: Sequence[Tensor], kept: frozenset[Tensor], traits: DeviceTraits
    ) -> None:
        self.traits = traits
        self.nodes: list[Tensor | None] = [n for n in nodes if n.op is not Op.RESULT]
        self._kept = kept
        self._known: dict[Tensor, tuple[set[Tensor], set[Tensor]]] = {}
        self._touching: dict[Tensor, set[int]] = {}
        for i in range(len(self.nodes)):
            self._note(i)

    def lowered(self) -> tuple[Tensor, ...]:
        """What is left, each node followed by the further storages it writes."""
        left = [node for node in self.nodes if node is not None]
        return tuple(t for node in left for t in (node, *results(node)))

    def writer(self, tensor: Tensor, before: int) -> int | None:
        """The place that wrote the storage last before this one."""
        places = self._touching.get(tensor.storage, set())
        wrote = [i for i in places if i < before and tensor.storage in self._written(self[i])]
        return max(wrote, default=None)

    def maker(self, tensor: Tensor | None, before: int, *ops: Op) -> int | None:
        """The place of one of `ops` whose whole result `tensor` is, in any packed shape."""
        if tensor is None or not tensor.is_contiguous:
            return None
        place = self.writer(tensor, before)
        if place is None or self[place].op not in ops or tensor.storage in _others(self[place]):
            return None
        made = self[place]
        whole = tensor.nelements == made.nelements and tensor.offset == made.offset
        return place if whole and made.is_contiguous and tensor.fmt is made.fmt else None

    def apply(self, fusion: Fusion) -> bool:
        """Put the fused node where all its members can meet; False where that is nowhere."""
        members = [self[i] for i in fusion.members]
        wrote, read = _touched(fusion.node)
        vanished = set().union(*map(self._written, members)) - wrote
        if (
            vanished & self._kept
            or vanished & read
            or any(self._touching[storage] - set(fusion.members) for storage in vanished)
        ):
            return False
        for place in sorted(fusion.members, reverse=True):
            if all(self._may_move(i, place, fusion.members) for i in fusion.members):
                for i in fusion.members:
                    self._forget(i)
                self.nodes[place] = fusion.node
                self._note(place)
                return True
        return False

    def _may_move(self, start: int, end: int, members: tuple[int, ...]) -> bool:
        wrote, read = self._touches(self[start])
        between = range(min(start, end) + 1, max(start, end))
        for i in between:
            if self.nodes[i] is not None and i not in members:
                also, reads = self._touches(self[i])
                if not (
                    wrote.isdisjoint(also) and wrote.isdisjoint(reads) and also.isdisjoint(read)
                ):
                    return False
        return True

    def __getitem__(self, place: int) -> Tensor:
        node = self.nodes[place]
        assert node is not None
        return node

    def _note(self, place: int) -> None:
        for storages in self._touches(self[place]):
            for storage in storages:
                self._touching.setdefault(storage, set()).add(place)

    def _forget(self, place: int) -> None:
        for storages in self._touches(self[place]):
            for storage in storages:
                self._touching[storage].discard(place)
        self.nodes[place] = None

    def _touches(self, node: Tensor) -> tuple[set[Tensor], set[Tensor]]:
        if node not in self._known:
            self._known[node] = _touched(node)
        return self._known[node]

    def _written(self, node: Tensor) -> set[Tensor]:
        return self._touches(node)[0]


Pattern = Callable[[Program, int], Fusion | None]


def as_node(op: Op, target: Tensor, *src: Tensor | None, **attr: object) -> Tensor:
    """A node of `op` that writes where `target` does, with its attributes and further ones."""
    return Tensor(
        op,
        target.fmt,
        target.shape,
        target.strides,
        src,
        MappingProxyType({**target.attr, **attr}),
        root=target.storage,
        offset=target.offset,
        name=target.name,
    )


def result(node: Tensor) -> Tensor:
    """`node` as something that the launch of another one writes, too."""
    return as_node(Op.RESULT, node)


def results(node: Tensor) -> tuple[Tensor, ...]:
    """What a lowered node writes besides its own storage."""
    return tuple(s for s in node.src if s is not None and s.op is Op.RESULT)


def _others(node: Tensor) -> set[Tensor]:
    return {t.storage for t in results(node)}


def _touched(node: Tensor) -> tuple[set[Tensor], set[Tensor]]:
    """Storages that a node writes, and those that it reads."""
    others = _others(node)
    return {node.storage, *others}, {s.storage for s in node.src if s is not None} - others
