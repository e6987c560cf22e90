"""From when to when a device needs the bytes of each storage, and who may take them over.

Time counts what runs: a step for every lowered node, and one for the copies before a split. A
device runs its commands in that order, and runs its next split only when others have read
what they copy from it.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from engine.device.backend import Backend, BufferType
from engine.gguf.formats import F32
from engine.graph.graph import Graph
from engine.graph.op import Op
from engine.graph.tensor import Role, Tensor
from engine.scheduler.allocate import Lifetime
from engine.scheduler.places import Places
from engine.scheduler.split import Split


@dataclass(frozen=True)
class LoweredSplit:
    """A split, and its nodes as the backend runs them (fused, helpers inserted), each with the
    nodes of the graph that it computes, or helps to. `unfused` has the same of what was fused.
    """

    split: Split
    nodes: tuple[Tensor, ...]
    computes: Mapping[Tensor, tuple[Tensor, ...]] = field(default_factory=dict)
    unfused: Mapping[Tensor, tuple[Tensor, ...]] = field(default_factory=dict)


@dataclass(frozen=True)
class Timeline:
    """The lowered node of each step, None where copies are made; by device, what lives when."""

    steps: tuple[Tensor | None, ...]
    lifetimes: Mapping[str, tuple[Lifetime, ...]]


def arena_type(backend: Backend) -> BufferType:
    """The buffer type of arenas."""
    return backend.buffer_type(F32, (1, 1, 1, 1))


def timeline(
    graph: Graph,
    splits: Sequence[LoweredSplit],
    places: Places,
) -> Timeline:
    """The lifetimes of all that has no place yet: results and copies. Outputs live to the end."""
    arenas = {backend.name: _Arena(backend, places) for backend in places.backends}
    made: dict[Tensor, _Arena] = {}
    steps: list[Tensor | None] = []
    for part in splits:
        own = arenas[part.split.backend.name]
        for copy in part.split.copies:
            arenas[copy.target.name].touch(copy.source, len(steps))
            if copy.origin is not None:
                arenas[copy.origin.name].touch(copy.source, len(steps))
        if part.split.copies:
            steps.append(None)
        for node in part.nodes:
            made[node.storage] = own
            if node.op is not Op.RESULT:  # its maker, the node before, has it among its sources
                own.run(node, len(steps))
                steps.append(node)
    for output in graph.outputs:
        made[output.storage].touch(output, len(steps))
    lifetimes = {name: arena.lifetimes() for name, arena in arenas.items()}
    return Timeline(tuple(steps), lifetimes)


class _Arena:
    """The nodes of a device, and the first and the last step of each storage that they touch."""

    def __init__(self, backend: Backend, places: Places) -> None:
        self._backend = backend
        self._places = places
        self._padded = arena_type(backend).padded
        self._ran: list[tuple[int, Tensor]] = []
        self._uses: dict[Tensor, tuple[int, int]] = {}

    def touch(self, tensor: Tensor, step: int) -> None:
        """Inputs and what this device reads where it is placed need nothing."""
        storage = tensor.storage
        if storage.role is not Role.INPUT and self._places.readable(storage, self._backend) is None:
            first, _ = self._uses.get(storage, (step, step))
            self._uses[storage] = (first, step)

    def run(self, node: Tensor, step: int) -> None:
        self._ran.append((step, node))
        for tensor in (node, *node.src):
            if tensor is not None:
                self.touch(tensor, step)

    def lifetimes(self) -> tuple[Lifetime, ...]:
        """Lifetimes of chains of storages that take over each other's bytes."""
        chains = {storage: [storage] for storage in self._uses}
        for step, node in self._ran:
            giver = self._giver(node, step)
            if giver is not None:
                chains[giver].append(node.storage)
                chains[node.storage] = chains[giver]
        return tuple(
            Lifetime(
                tuple(chain),
                tuple(self._uses[s][0] for s in chain),
                self._uses[chain[-1]][1],
                self._padded(storage.nbytes),
            )
            for storage, chain in chains.items()
            if chain[0] is storage
        )

    def _giver(self, node: Tensor, step: int) -> Tensor | None:
        """The storage in whose place the node may write its own: nobody reads it any more."""
        born = self._uses.get(node.storage)
        if born is None or born[0] != step:
            return None
        taking = self._backend.in_place(node)
        for i in taking:
            source = node.src[i]
            giver = None if source is None else source.storage
            if giver is None or giver not in self._uses:
                continue
            first, last = self._uses[giver]
            reads = [(j, s) for j, s in enumerate(node.src) if s is not None and s.storage is giver]
            if first < step == last and all(j in taking and _alike(node, s) for j, s in reads):
                return giver
        return None


def _alike(node: Tensor, source: Tensor) -> bool:
    """True if each element of one would lie where the other's does, and nothing else besides."""
    return (
        node.fmt is source.fmt
        and node.shape == source.shape
        and all(t.is_contiguous and t.nbytes == t.storage.nbytes for t in (node, source))
    )
