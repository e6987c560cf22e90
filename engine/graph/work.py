"""How much a node asks for: bytes moved and float operations, from shapes and the step's inputs."""

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from engine.graph.lowered import (
    LoweredAttention,
    MatmulAdd,
    MatmulGated,
    MatmulTiled,
    Quantize,
)
from engine.graph.op import Op
from engine.graph.ops.attention import FusedAttention
from engine.graph.ops.matmul import Matmul
from engine.graph.ops.rows import Gather, SetRows
from engine.graph.tensor import Role, Tensor

Values = Mapping[Tensor, NDArray[np.generic]]


@dataclass(frozen=True, slots=True)
class NodeWork:
    """`bytes` read and written, in the file's formats; an FMA is two `flops`."""

    bytes: int
    flops: int


def work_of(node: Tensor, inputs: Values) -> NodeWork:
    """Of one node as a backend runs it. `inputs` tell which cells attention sees."""
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
    if node.op in (Op.MATMUL_ID, Op.MATMUL_EXPERTS):
        return _by_expert(node, *sources)
    if node.op is Op.ATTENTION:
        return _attention(node, LoweredAttention.of(node), inputs)
    if node.op is Op.ROWS:
        gather = Gather.of(node)
        read = gather.ids.nelements * gather.x.fmt.row_bytes(gather.x.shape[0])
        return NodeWork(read + _sizes(node, gather.ids), node.nelements)
    if node.op is Op.SET_ROWS:
        scatter = SetRows.of(node)
        written = scatter.ids.nelements * node.fmt.row_bytes(node.shape[0])
        return NodeWork(written + _sizes(scatter.values, scatter.ids), scatter.values.nelements)
    # A fused node may write some rows of a cache too, never all of it.
    moved = [t for t in (node, *sources) if t.storage.role is not Role.CACHE]
    return NodeWork(_sizes(*moved), node.nelements)


def _products(x: Tensor, *weights: Tensor) -> int:
    """Of weights and the rows of x, which wait for them in panels."""
    return sum(2 * a.nelements for a in weights) * Quantize.of(x).n_rows


def _by_expert(node: Tensor, experts: Tensor, *others: Tensor) -> NodeWork:
    """As many experts as there are pairs of token and expert, at most all, are read once."""
    pairs, count = node.shape[1] * node.shape[2], experts.shape[2]
    read = _sizes(experts) * min(pairs, count) // count
    return NodeWork(read + _sizes(node, *others), 2 * experts.shape[0] * node.nelements)


def _attention(node: Tensor, given: FusedAttention, inputs: Values) -> NodeWork:
    """Every query times the cells of its span; every cell that some query sees is read once."""
    q, k, v = given.q, given.k, given.v
    rows = np.asarray(inputs[given.spans]).reshape(-1, 4)
    seen = rows[rows[:, 0] != 0].astype(np.int64)
    if not len(seen):
        return NodeWork(0, 0)
    pairs = int((seen[:, 2] - seen[:, 1] + 1).sum())
    cells = int(seen[:, 2].max() - seen[:, 1].min() + 1)
    dims = k.shape[0] + v.shape[0]
    cache = cells * k.shape[1] * (k.fmt.row_bytes(k.shape[0]) + v.fmt.row_bytes(v.shape[0]))
    return NodeWork(cache + _sizes(node, q), 2 * pairs * q.shape[1] * dims)


def _sizes(*tensors: Tensor) -> int:
    return sum(t.nelements // t.fmt.block * t.fmt.bytes for t in tensors)
