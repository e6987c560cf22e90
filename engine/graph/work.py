"""How much a node asks for: bytes moved and float operations, from shapes and the step's inputs."""

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from engine.graph.op import Op
from engine.graph.tensor import Role, Tensor

Values = Mapping[Tensor, NDArray[np.generic]]


@dataclass(frozen=True, slots=True)
class Work:
    """`bytes` read and written, in the file's formats; an FMA is two `flops`."""

    bytes: int
    flops: int


def work_of(node: Tensor, inputs: Values) -> Work:
    """Of one node as a backend runs it. `inputs` tell which cells attention sees."""
    sources = [s for s in node.src if s is not None]
    if node.op in (Op.MATMUL, Op.MATMUL_ADD, Op.MATMUL_GATED):
        return Work(_sizes(node, *sources), _products(node, sources))
    if node.op is Op.MATMUL_ID:
        return _by_expert(node, *sources)
    if node.op is Op.ATTENTION and len(sources) >= 6:
        return _attention(node, sources, inputs)
    if node.op is Op.ROWS:
        table, ids = sources
        read = ids.nelements * table.fmt.row_bytes(table.shape[0])
        return Work(read + _sizes(node, ids), node.nelements)
    if node.op is Op.SET_ROWS:
        target, values, ids = sources
        written = ids.nelements * target.fmt.row_bytes(target.shape[0])
        return Work(written + _sizes(values, ids), values.nelements)
    # A fused node may write some rows of a cache too, never all of it.
    moved = [t for t in (node, *sources) if t.storage.role is not Role.CACHE]
    return Work(_sizes(*moved), node.nelements)


def _products(node: Tensor, sources: list[Tensor]) -> int:
    """Of weights, however many a fused node multiplies with; else of its first two sources."""
    matrices = [s for s in sources if s.role is Role.WEIGHT and s.shape[1] > 1]
    if not matrices:
        return 2 * sources[0].shape[0] * node.nelements
    x = sources[1]
    if x.op is Op.QUANTIZE and x.src[0] is not None:
        x = x.src[0]
    return sum(2 * w.nelements for w in matrices) * (x.nelements // x.shape[0])


def _by_expert(node: Tensor, experts: Tensor, *others: Tensor) -> Work:
    """As many experts as there are pairs of token and expert, at most all, are read once."""
    pairs, count = node.shape[1] * node.shape[2], experts.shape[2]
    read = _sizes(experts) * min(pairs, count) // count
    return Work(read + _sizes(node, *others), 2 * experts.shape[0] * node.nelements)


def _attention(node: Tensor, sources: list[Tensor], inputs: Values) -> Work:
    """Every query times the cells of its span; every cell that some query sees is read once."""
    q, k, v, spans = sources[:4]
    rows = np.asarray(inputs[spans]).reshape(-1, 4)
    seen = rows[rows[:, 0] != 0].astype(np.int64)
    if not len(seen):
        return Work(0, 0)
    pairs = int((seen[:, 2] - seen[:, 1] + 1).sum())
    cells = int(seen[:, 2].max() - seen[:, 1].min() + 1)
    dims = k.shape[0] + v.shape[0]
    cache = cells * k.shape[1] * (k.fmt.row_bytes(k.shape[0]) + v.fmt.row_bytes(v.shape[0]))
    return Work(cache + _sizes(node, q), 2 * pairs * q.shape[1] * dims)


def _sizes(*tensors: Tensor) -> int:
    return sum(t.nelements // t.fmt.block * t.fmt.bytes for t in tensors)
