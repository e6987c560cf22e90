"""A graph: nodes in an order that respects every source, its leaves, and what it is run for."""

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property

from engine.graph.op import VIEW_OPS, Op
from engine.graph.tensor import Role, Tensor

_NUMBERED = re.compile(r"node_\d+\b")

Current = Callable[[Tensor], Tensor]
"""The tensor that stands for one of a graph in its edited copy."""
Rewrite = Callable[[Tensor, Current], Tensor]
"""Makes of a result what its readers read."""


@dataclass(frozen=True, eq=False)
class Graph:
    """Immutable data. `nodes` holds every computed tensor and view in topological order.

    `outputs` are read after a run; `effects` (cache writes nobody reads) only have to happen.
    Behind each of `pauses` a run can report its progress, and be left.
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

    def edited(self, rewrites: Mapping[Tensor, Sequence[Rewrite]]) -> "Graph":
        """The graph in which readers of some results read what rewrites make of these, one of the
        result of the other. Nodes that depend on none stay the same objects.
        """
        return self.rewritten(rewrites)[0]

    def rewritten(self, rewrites: Mapping[Tensor, Sequence[Rewrite]]) -> tuple["Graph", Current]:
        """Like `edited`, with what stands for the nodes of this graph in that one."""
        made: dict[Tensor, Tensor] = {}

        def current(tensor: Tensor) -> Tensor:
            if tensor not in made:
                made[tensor] = _copied(tensor, current)
            return made[tensor]

        for node in self.nodes:
            now = current(node)
            for rewrite in rewrites.get(node, ()):
                now = rewrite(now, current)
            made[node] = now
        ends = (self.outputs, self.effects, self.pauses)
        return Graph.of(*([current(one) for one in each] for each in ends)), current

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


def _copied(tensor: Tensor, current: Current) -> Tensor:
    """The tensor with current sources; itself if they are the same. A view, or what a node writes
    into, has its bytes in the current storage.
    """
    src = tuple(None if source is None else current(source) for source in tensor.src)
    if all(now is source for now, source in zip(src, tensor.src, strict=True)):
        return tensor
    if tensor.root is None:
        return replace(tensor, src=src, arguments=None)
    pairs = ((s, now) for s, now in zip(tensor.src, src, strict=True) if s and now)
    target, now = next(pair for pair in pairs if pair[0].storage is tensor.root)
    moved = now.offset - target.offset if tensor.op in VIEW_OPS else 0
    offset = tensor.offset + moved
    return replace(tensor, src=src, root=now.storage, offset=offset, arguments=None)


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
