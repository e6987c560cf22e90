"""Which results of a graph somebody wants to see."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from engine.graph.graph import Graph, is_numbered
from engine.graph.op import VIEW_OPS, Op
from engine.graph.tensor import Tensor
from engine.patterns import Pattern


class ResultKey(NamedTuple):
    """A result by its name, and how many of that name stand before it in the graph."""

    name: str
    occurrence: int


class Probed(NamedTuple):
    """A result of one step on its device; `values` are in the reversed shape, as NumPy has it."""

    key: ResultKey
    node: Tensor
    device: str
    values: NDArray[np.float32]


@dataclass(frozen=True)
class Probes:
    """Regular expressions: a result is wanted if one of them matches its whole name."""

    patterns: tuple[str, ...] = ()

    def __bool__(self) -> bool:
        return bool(self.patterns)

    def of(self, graph: Graph) -> Iterator[tuple[ResultKey, Tensor]]:
        """The results they name, in order. Raises `BadSetting` for what is no expression."""
        wanted = [Pattern("probe", text) for text in self.patterns]
        for key, node in named_results(graph):
            if any(one.matches(key.name) for one in wanted):
                yield key, node


NO_PROBES = Probes()


def named_results(graph: Graph) -> Iterator[tuple[ResultKey, Tensor]]:
    """Results that can be probed, in the graph's order: those that a model named. What is
    written into a cache is none.
    """
    counts: dict[str, int] = {}
    for node in graph.nodes:
        occurrence = counts[node.name] = counts.get(node.name, -1) + 1
        made = node.storage.op is not Op.NONE
        if made and not is_numbered(node.name) and not _changes_shape_only(node):
            yield ResultKey(node.name, occurrence), node


def _changes_shape_only(node: Tensor) -> bool:
    """True if it is a view that bears the name of what it looks at, and how it does."""
    source = node.src[0] if node.op in VIEW_OPS else None
    return source is not None and node.name.startswith(f"{source.name} (")
