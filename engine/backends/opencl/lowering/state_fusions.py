"""Patterns of `fuse` around what carries a state from token to token."""

from collections.abc import Mapping
from dataclasses import replace

from engine.backends.opencl.lowering.helpers import in_place_of, result
from engine.backends.opencl.lowering.rewrite import (
    Fusion,
    NodeList,
    Pattern,
    PlacedNode,
    ends_with,
)
from engine.gguf.formats import F32, I32
from engine.graph.lowered import (
    LoweredCausalConv,
    LoweredDeltaNet,
    LoweredSsmScan,
    LoweredTokenShift,
    LoweredWkv,
)
from engine.graph.node import Unary
from engine.graph.op import Op
from engine.graph.ops.activation import Gated
from engine.graph.ops.arithmetic import Binary, Clamp
from engine.graph.ops.recurrent import parts_in
from engine.graph.ops.rows import SetRows
from engine.graph.tensor import Tensor

RECURRENT: Mapping[
    Op,
    type[LoweredCausalConv | LoweredDeltaNet | LoweredSsmScan | LoweredTokenShift | LoweredWkv],
] = {
    Op.CAUSAL_CONV: LoweredCausalConv,
    Op.DELTA_NET: LoweredDeltaNet,
    Op.SSM_SCAN: LoweredSsmScan,
    Op.TOKEN_SHIFT: LoweredTokenShift,
    Op.WKV: LoweredWkv,
}
"""What carries a state from token to token."""


@ends_with(Op.SET_ROWS)
def state_store(nodes: NodeList, i: int) -> Fusion | None:
    """Such a node, and the write of the new states, its last columns, into slots."""
    store = SetRows.of(nodes[i])
    tail = store.values
    for code, kind in RECURRENT.items():
        made = nodes.writer(kind, tail, i, code)
        if made is None or made.op.kept is not None:
            continue
        first = made.node.offset + made.node.nbytes - tail.nbytes
        size, parts = store.target.shape[0], parts_in(made.op.at)
        whole = tail.shape == (size, parts, 1, 1) and tail.offset == first
        plain = store.target.fmt is F32 and store.ids.fmt is I32 and tail.is_contiguous
        if whole and plain and not nodes.reads_behind(made.node, first, i):
            op = replace(made.op, to=store.ids, kept=result(nodes[i]))
            return Fusion((made.place, i), in_place_of(made.node, code, op))
    return None


@ends_with(Op.SSM_SCAN)
def scan_steps(nodes: NodeList, i: int) -> Fusion | None:
    """A scan whose steps of time are softplus of a product and a bias, maybe bounded below."""
    op = LoweredSsmScan.of(nodes[i])
    if op.dt is not None or op.a.shape[0] > 1:
        return None
    bound = nodes.maker(Clamp, op.delta, i, Op.CLAMP)
    if bound is not None and bound.op.high != float("inf"):
        return None
    softened = _softened(nodes, op.delta if bound is None else bound.op.x, i)
    if softened is None:
        return None
    members, delta, dt = softened
    least = 0.0 if bound is None else bound.op.low
    members += (i,) if bound is None else (bound.place, i)
    fused = replace(op, delta=delta.view(0, op.delta.dims, delta.strides[1:2]), dt=dt)
    return Fusion(members, in_place_of(nodes[i], Op.SSM_SCAN, replace(fused, least=least)))


@ends_with(Op.DELTA_NET)
def delta_gates(nodes: NodeList, i: int) -> Fusion | None:
    """A delta rule whose heads decay by softplus(product + bias) a, and step by a sigmoid."""
    op = LoweredDeltaNet.of(nodes[i])
    step = nodes.maker(Gated, op.beta, i, Op.SIGMOID)
    decay = nodes.maker(Binary, op.g, i, Op.MUL)
    by_channel = op.g.shape != op.beta.shape
    if op.dt is not None or step is None or decay is None or by_channel:
        return None
    softened, a, beta = _softened(nodes, decay.op.a, i), decay.op.b, step.op.gate
    if softened is None or not _is_row(a, decay.op.a):
        return None
    members, alpha, dt = softened
    heads, n = op.g.shape[:2]
    if not (alpha.is_contiguous and beta.is_contiguous):
        return None
    fused = replace(
        op, g=alpha.reshape(heads, n), beta=beta.reshape(heads, n), dt=dt, a=a.reshape(heads)
    )
    places = (*members, decay.place, step.place, i)
    return Fusion(places, in_place_of(nodes[i], Op.DELTA_NET, fused))


def _softened(
    nodes: NodeList, x: Tensor, before: int
) -> tuple[tuple[int, ...], Tensor, Tensor] | None:
    """Where softplus(x + dt) was made that is `x`, and both: dt is one for each head."""
    made = nodes.maker(Unary, x, before, Op.SOFTPLUS)
    if made is None:
        return None
    total: PlacedNode[Binary] | None = nodes.maker(Binary, made.op.x, made.place, Op.ADD)
    if total is None or not _is_row(total.op.b, total.op.a):
        return None
    delta, dt = total.op.a, total.op.b
    return (total.place, made.place), delta, dt.reshape(dt.nelements)


def _is_row(b: Tensor, a: Tensor) -> bool:
    """True if `b` has f32 numbers for the first dimensions of `a`, which tokens follow."""
    rows = a.shape[0] if a.shape[2] == 1 else a.shape[0] * a.shape[1]
    plain = a.fmt is F32 and b.fmt is F32 and b.is_contiguous and a.strides[0] == F32.bytes
    return plain and b.nelements == rows and a.shape[3] == 1


STATE_PATTERNS: tuple[Pattern, ...] = (state_store, scan_steps, delta_gates)
