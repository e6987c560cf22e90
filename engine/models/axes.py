"""Which dimensions of a graph's named results count tokens, outputs or cells.

A graph does not say: it is built again with another number, and what differs is counted.
"""

from collections import OrderedDict
from collections.abc import Callable, Hashable, Iterator, Mapping, Sequence
from functools import partial
from typing import NamedTuple, TypeVar
from weakref import WeakKeyDictionary

import numpy as np
from numpy.typing import NDArray

from engine.graph.graph import Graph
from engine.graph.tensor import Tensor
from engine.scheduler.probes import ResultKey, named_results

Number = TypeVar("Number", bound=np.generic)

KEPT = 8
"""Kinds of graphs whose axes are kept."""


class Counts(NamedTuple):
    """Counts of a step or of a plan: its tokens, outputs, and the cells of each cache that are
    seen.
    """

    tokens: int
    outputs: int
    cells: tuple[int, ...]


Count = Callable[[Counts], int]


class CountedAxis(NamedTuple):
    """Dimension `dim` has `each` elements for every one that `of` counts."""

    dim: int
    each: int
    of: Count


Axes = Mapping[Tensor, Sequence[CountedAxis]]
"""Of the results that have any, and of no others."""


def counted_axes(
    graph: Graph, counts: Counts, build: Callable[[Counts], Graph], fused_attention: bool
) -> Axes:
    """Counted axes of all named results of a graph that `build` made with these counts.

    Where attention is one operation no result counts cells.
    """
    others = list(_more_rows(counts))
    if not fused_attention:
        others += _fewer_cells(counts)
    found: dict[Tensor, list[CountedAxis]] = {}
    for of, other in others:
        n, m = of(counts), of(other)
        changed = dict(named_results(build(other)))
        for key, node in named_results(graph):
            for dim, (a, b) in enumerate(zip(node.shape, changed[key].shape, strict=True)):
                if a != b:
                    assert a * m == b * n, f"{node} counts something else"
                    found.setdefault(node, []).append(CountedAxis(dim, a // n, of))
    return found


class KnownAxes:
    """Axes of graphs that were counted: those of alike graphs, with the same named results, are
    counted once.
    """

    def __init__(self) -> None:
        self._of: WeakKeyDictionary[Graph, Axes] = WeakKeyDictionary()
        self._alike: OrderedDict[Hashable, dict[ResultKey, Sequence[CountedAxis]]] = OrderedDict()

    def of(self, graph: Graph, alike: Hashable, count: Callable[[], Axes]) -> Axes:
        """Axes of a graph; `count` counts them, unless those of one `alike` are known."""
        found = self._of.get(graph)
        if found is None:
            found = self._of[graph] = self._found(dict(named_results(graph)), alike, count)
        return found

    def _found(
        self, named: Mapping[ResultKey, Tensor], alike: Hashable, count: Callable[[], Axes]
    ) -> Axes:
        known = self._alike.get(alike)
        if known is None or known.keys() != named.keys():
            axes = count()
            self._alike[alike] = {key: axes.get(node, ()) for key, node in named.items()}
            if len(self._alike) > KEPT:
                self._alike.popitem(last=False)
            return axes
        return {node: known[key] for key, node in named.items() if known[key]}


def cut(values: NDArray[Number], node: Tensor, axes: Axes, real: Counts) -> NDArray[Number]:
    """Cut a result's padding, in its plan's reversed shape, without leading ones.

    A dimension that counts something stays, though it may be one.
    """
    window, kept = [slice(None)] * 4, max(1, len(node.dims))
    for axis in axes.get(node, ()):
        window[3 - axis.dim] = slice(axis.each * axis.of(real))
        kept = max(kept, axis.dim + 1)
    real_part = values[tuple(window)]
    return real_part.reshape(real_part.shape[4 - kept :])


def _more_rows(counts: Counts) -> Iterator[tuple[Count, Counts]]:
    """With more tokens and with more outputs; where there are as many of both, tokens count all."""
    tokens, outputs, cells = counts
    if outputs == tokens:
        yield counts_tokens, Counts(2 * tokens, 2 * tokens, cells)
        return
    yield counts_tokens, Counts(2 * tokens, outputs, cells)
    yield counts_outputs, Counts(tokens, outputs + tokens, cells)


def _fewer_cells(counts: Counts) -> Iterator[tuple[Count, Counts]]:
    """One cell fewer of each cache in turn."""
    for i, n in enumerate(counts.cells):
        fewer = (*counts.cells[:i], n - 1, *counts.cells[i + 1 :])
        if n > 1:
            yield partial(_cells, i), counts._replace(cells=fewer)


def counts_tokens(counts: Counts) -> int:
    """Counts with another number of tokens."""
    return counts.tokens


def counts_outputs(counts: Counts) -> int:
    """Counts with another number of tokens whose logits are wanted."""
    return counts.outputs


def _cells(cache: int, counts: Counts) -> int:
    return counts.cells[cache]
