"""Turning cached keys on, where the context shifts."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from engine.gguf.formats import F32, I32
from engine.graph import ops
from engine.graph.graph import Graph
from engine.graph.tensor import Role, Tensor, leaf
from engine.kvcache.causal import Ints
from engine.layers import hadamard
from engine.layers.rope import RopeParams
from engine.layers.step import LayerCache

Values = dict[Tensor, NDArray[np.generic]]


@dataclass(frozen=True)
class Shift:
    """Turns the keys of some cells in all layers of one cache. `tables` [n_rot, cells] are inputs,
    one for each distinct rope; `hadamard` are inputs that are always the same.
    """

    graph: Graph
    cells: Tensor
    tables: dict[RopeParams, Tensor]
    hadamard: dict[int, Tensor]

    def runs(self, distances: Ints) -> Iterator[Values]:
        """The inputs of each run; `distances` [C] say how far cells move. Those at 0 stay."""
        moved = np.flatnonzero(distances).astype(np.int32)
        size = self.cells.shape[0]
        for start in range(0, len(moved), size):
            ids = np.full(size, -1, np.int32)
            part = moved[start : start + size]
            ids[: len(part)] = part
            by = np.where(ids >= 0, distances[ids], 0)
            tables: Values = {table: rope.turn(by) for rope, table in self.tables.items()}
            fixed: Values = {h: hadamard.matrix(size) for size, h in self.hadamard.items()}
            yield {self.cells: ids, **tables, **fixed}


def build_shift(layers: Sequence[LayerCache], n_cells: int) -> Shift:
    """For layers of one cache, `n_cells` of it in a run."""
    cells = leaf("inp_cells", I32, (n_cells,), Role.INPUT)
    tables: dict[RopeParams, Tensor] = {}
    matrices: dict[int, Tensor] = {}
    written = []
    for cache in layers:
        rope = cache.rope
        if rope is None:
            continue
        if rope not in tables:
            tables[rope] = leaf("inp_shift", F32, (rope.n_rot, n_cells), Role.INPUT)
        width = cache.k.shape[0]
        keys = ops.rows(cache.k, cells).reshape(width // cache.heads, cache.heads, n_cells)
        if hadamard.helps(cache.k.fmt):
            size, _ = cache.blocks
            if size not in matrices:
                matrices[size] = leaf("inp_hadamard", F32, (size, size), Role.INPUT)
            back = hadamard.rotate(keys, matrices[size])  # it is its own inverse
            turned = hadamard.rotate(ops.rope(back, tables[rope], rope.neox), matrices[size])
        else:
            turned = ops.rope(keys, tables[rope], rope.neox)
        written.append(ops.set_rows(cache.k, turned.reshape(width, n_cells), cells))
    return Shift(Graph.of([], written), cells, tables, matrices)
