"""A graph: nodes in an order that respects every source, its leaves, and what it is run for."""

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property

from engine.graph.op import Op
from engine.graph.tensor import Role, Tensor

_NUMBERED = re.compile(r"node_\d+\b")


@dataclass(frozen=True, eq=False)
class Graph:
    """Immutable data. `nodes` holds every computed tensor and view in topological order.

    `outputs` are read after a run; `effects` (cache writes nobody reads) only have to happen.
    Behind each of `pauses` a run can be told how far it is, and left.
    """

    nodes: tuple[Tensor, ...]
    leaves: tuple[Tensor, ...]
    outputs: tuple[Tensor, ...]
    effects: tuple[Tensor, ...] = ()
    pauses: tuple[Tensor, ...] = ()

    @classmethod
    def of(
        cls,
        outputs: Sequence[Tensor],
        effects: Sequence[Tensor] = (),
        pauses: Sequence[Tensor] = (),
    ) -> "Graph":
        """The closure of `effects`, then `outputs`, sources first; nameless nodes get node_i."""
        nodes, leaves = _closure([*effects, *outputs])
        for i, tensor in enumerate(nodes):
            if not tensor.name:
                tensor.number(i)
        return cls(nodes, leaves, tuple(outputs), tuple(effects), tuple(pauses))

    @cached_property
    def inputs(self) -> tuple[Tensor, ...]:
        """Leaves that every step fills anew."""
        return tuple(t for t in self.leaves if t.role is Role.INPUT)

    def text(self) -> str:
        """One line a node: name = (type) op(sources) = {shape}."""
        lines = []
        for t in self.nodes:
            sources = ", ".join(f"{s.name}{list(s.dims)}" for s in t.src if s is not None)
            lines.append(f"{t.name:>24} = ({t.fmt.name}) {t.op}({sources}) = {list(t.dims)}")
        return "\n".join(lines)


def is_numbered(name: str) -> bool:
    """True if a graph named a node, or what it is a view of: elsewhere that is another's name."""
    return _NUMBERED.match(name) is not None


def _closure(roots: Iterable[Tensor]) -> tuple[tuple[Tensor, ...], tuple[Tensor, ...]]:
    nodes: list[Tensor] = []
    leaves: list[Tensor] = []
    done: set[Tensor] = set()
    stack = [(root, False) for root in reversed(list(roots))]
    while stack:
        tensor, expanded = stack.pop()
        if tensor in done:
            continue
        if expanded or not any(tensor.src):
            done.add(tensor)
            (leaves if tensor.op is Op.NONE else nodes).append(tensor)
            continue
        stack.append((tensor, True))
        stack.extend((s, False) for s in reversed(tensor.src) if s is not None and s not in done)
    return tuple(nodes), tuple(leaves)
