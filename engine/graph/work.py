"""A node's work: bytes moved and float operations, from shapes and the step's inputs."""

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from engine.graph.lowered import (
    FeedChain,
    LoweredAttention,
    MatmulAdd,
    MatmulGated,
    MatmulTiled,
    NormedRow,
    Quantize,
)
from engine.graph.op import Op
from engine.graph.ops.attention import FusedAttention
from engine.graph.ops.matmul import Matmul
from engine.graph.ops.recurrent import parts_in
from engine.graph.ops.rows import Gather, SetRows
from engine.graph.tensor import Role, Tensor

Values = Mapping[Tensor, NDArray[np.generic]]


@dataclass(frozen=True, slots=True)
class NodeWork:
    """`bytes` read and written, in the file's formats; an FMA is two `flops`."""

    bytes: int
    flops: int


@dataclass(frozen=True, slots=True)
class SeenWork:
    """Work of an attention by what its `spans` [4, T] see in a step: bytes `fixed` and for each
    cell that some query sees, which is read once; operations for each pair of a query and a cell.
    """

    spans: Tensor
    fixed: int
    cell_bytes: int
    pair_flops: int


def work_of(node: Tensor, inputs: Values) -> NodeWork:
    """Work of one node as a backend runs it. `inputs` give the cells that attention sees."""
    found = fixed_work(node)
    if isinstance(found, NodeWork):
        return found
    pairs, cells = seen(inputs[found.spans])
    if not pairs:
        return NodeWork(0, 0)
    return NodeWork(found.fixed + cells * found.cell_bytes, pairs * found.pair_flops)


def seen(spans: NDArray[np.generic]) -> tuple[int, int]:
    """Pairs of a query and a cell that it sees, and cells that some query sees: of each sequence
    its own, as if none were shared.
    """
    rows = np.asarray(spans).reshape(-1, 4)
    some = rows[rows[:, 0] != 0].astype(np.int64)
    cells = 0
    for bit in np.unique(some[:, 0]):
        mine = some[some[:, 0] == bit]
        cells += int(mine[:, 2].max() - mine[:, 1].min() + 1)
    return int((some[:, 2] - some[:, 1] + 1).sum()), cells


def fixed_work(node: Tensor) -> NodeWork | SeenWork:
    """Like `work_of`, for any inputs of a step."""
    sources = [s for s in node.src if s is not None]
    if node.op is Op.MATMUL:
        return NodeWork(_sizes(node, *sources), 2 * Matmul.of(node).a.shape[0] * node.nelements)
    if node.op is Op.MATMUL_TILED:
        tiled = MatmulTiled.of(node)
        return NodeWork(_sizes(node, *sources), _products(tiled.x, *tiled.weights))
    if node.op is Op.MATMUL_ADD:
        sum_of = MatmulAdd.of(node)
        return NodeWork(_sizes(node, *sources), _products(sum_of.x, sum_of.a))
    if node.op is Op.MATMUL_GATED:
        gated = MatmulGated.of(node)
        return NodeWork(_sizes(node, *sources), _products(gated.x, gated.gate, gated.up))
    if node.op in (Op.NORM_MATMUL, Op.NORM_GATED, Op.FEED_CHAIN):
        kind = FeedChain if node.op is Op.FEED_CHAIN else NormedRow
        own = node.src[kind.position("own")]  # no memory that counts: it stays in a cache
        moved = [s for s in sources if s is not own]
        weights = [s for s in moved if s.role is Role.WEIGHT and s.shape[1] > 1]
        return NodeWork(_sizes(node, *moved), sum(2 * a.nelements for a in weights))
    if node.op in (Op.MATMUL_ID, Op.MATMUL_EXPERTS):
        return _by_expert(node, *sources)
    if node.op is Op.ATTENTION:
        return _attention(node, LoweredAttention.of(node))
    if node.op is Op.ROWS:
        gather = Gather.of(node)
        read = gather.ids.nelements * gather.x.fmt.row_bytes(gather.x.shape[0])
        return NodeWork(read + _sizes(node, gather.ids), node.nelements)
    if node.op is Op.SET_ROWS:
        scatter = SetRows.of(node)
        written = scatter.ids.nelements * node.fmt.row_bytes(node.shape[0])
        return NodeWork(written + _sizes(scatter.values, scatter.ids), scatter.values.nelements)
    if node.op in RECURRENT:
        return _recurrence(node, *sources)
    # A fused node may write some rows of a cache too, never all of it.
    moved = [t for t in (node, *sources) if t.storage.role is not Role.CACHE]
    return NodeWork(_sizes(*moved), node.nelements)


def _products(x: Tensor, *weights: Tensor) -> int:
    """Work of a product of weights and the rows of x, which are stored in panels."""
    return sum(2 * a.nelements for a in weights) * Quantize.of(x).n_rows


def _by_expert(node: Tensor, experts: Tensor, *others: Tensor) -> NodeWork:
    """Bytes of the experts read: one for each pair of token and expert, at most all, once."""
    pairs, count = node.shape[1] * node.shape[2], experts.shape[2]
    read = _sizes(experts) * min(pairs, count) // count
    return NodeWork(read + _sizes(node, *others), 2 * experts.shape[0] * node.nelements)


RECURRENT = {Op.CAUSAL_CONV: 2, Op.DELTA_NET: 7, Op.SSM_SCAN: 5, Op.TOKEN_SHIFT: 3, Op.WKV: 9}
"""Operations on an element of a state for a token, of what carries one."""


def _recurrence(node: Tensor, *sources: Tensor) -> NodeWork:
    """A slot of each sequence's state is read; the new ones are part of the node, or are put into
    other slots instead. Each token passes the state's elements once.
    """
    state = next(t for t in sources if t.storage.role is Role.CACHE)
    parts = parts_in(sources[sources.index(state) + 1])
    others = [t for t in sources if t.storage is not state.storage and t.op is not Op.RESULT]
    size = state.shape[0]
    tokens = node.shape[1] - parts * size // node.shape[0]
    return NodeWork(
        _sizes(node, *others) + parts * state.fmt.row_bytes(size),
        RECURRENT[node.op] * size * tokens,
    )


def _attention(node: Tensor, op: FusedAttention) -> SeenWork:
    q, k, v = op.q, op.k, op.v
    cell = k.shape[1] * (k.fmt.row_bytes(k.shape[0]) + v.fmt.row_bytes(v.shape[0]))
    return SeenWork(op.spans, _sizes(node, q), cell, 2 * q.shape[1] * (k.shape[0] + v.shape[0]))


def _sizes(*tensors: Tensor) -> int:
    return sum(t.nelements // t.fmt.block * t.fmt.bytes for t in tensors)
