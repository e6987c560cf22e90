"""Warnings about a plan: costs of every step that work correctly but slowly."""

from collections.abc import Iterator
from dataclasses import dataclass

from engine.graph.tensor import Tensor
from engine.scheduler.outline import Division
from engine.scheduler.places import is_placed, sources
from engine.scheduler.split import Split
from engine.units import KIB, MIB


@dataclass(frozen=True)
class Streamed:
    """A weight or a cache that lies on one device and is copied to another in every step."""

    tensor: Tensor
    origin: str
    target: str
    node: Tensor
    cause: str

    def __str__(self) -> str:
        return (
            f"{self.tensor.name} ({_amount(self.tensor.nbytes)}) is copied from {self.origin} to "
            f"{self.target} in every step: {self.node.op} {self.node.name} runs there, {self.cause}"
        )


@dataclass(frozen=True)
class Refused:
    """An operation that the host computes since the device refuses it; `size` bytes are copied for
    that in every step.
    """

    node: Tensor
    count: int
    size: int

    def __str__(self) -> str:
        times = f"{self.count} times, first as " if self.count > 1 else ""
        return (
            f"{self.node.op} runs on the host, {times}{self.node.name}, as no device can: "
            f"{_amount(self.size)} are copied for it in every step"
        )


def costs(made: Division) -> list[Streamed | Refused]:
    """Weights and caches that are streamed, and what falls back to the host."""
    return [*_streamed(made), *_refused(made)]


def _streamed(made: Division) -> Iterator[Streamed]:
    for part in made.splits:
        for copy in part.copies:
            if is_placed(copy.source) and copy.origin is not None:
                node = _reader(part, copy.source)
                reason = made.assignments[node].reason
                yield Streamed(copy.source, copy.origin.name, copy.target.name, node, reason)


def _refused(made: Division) -> Iterator[Refused]:
    found: dict[str, list[Tensor]] = {}
    copied: dict[str, int] = {}
    for part in made.splits:
        for node in part.nodes:
            assigned = made.assignments[node]
            if assigned.cause == "3.sup" and assigned.backend.is_host:
                found.setdefault(node.op, []).append(node)
                wanted = {source.storage for _, source in sources(node)}
                copies = {c.source for c in part.copies if c.origin is not None}
                size = sum(t.nbytes for t in wanted & copies)
                copied[node.op] = copied.get(node.op, 0) + size
    for op, nodes in found.items():
        yield Refused(nodes[0], len(nodes), copied[op])


def _reader(part: Split, storage: Tensor) -> Tensor:
    reads = (n for n in part.nodes for _, source in sources(n) if source.storage is storage)
    return next(reads)


def _amount(size: int) -> str:
    return f"{size / MIB:.1f} MiB" if size >= MIB else f"{size / KIB:.1f} KiB"
