"""Fusion: lowered nodes that one launch computes together, so that a step is fewer launches.

A pattern looks at the node at one place and proposes what could become one node; rewrite.py decides
for all alike whether it may: nothing else reads what vanishes, and no member passes another node
that it depends on. A fused node lists what it writes besides its own storage among its sources, as
RESULTs, which follow it.
"""

from collections.abc import Sequence
from dataclasses import replace

from engine.backends.opencl.launch import DeviceTraits
from engine.backends.opencl.launches.activation import (
    IN_PANELS,
    supports_activation_quantize,
)
from engine.backends.opencl.launches.attention import merges_at_once, stores_at_once
from engine.backends.opencl.launches.experts import supports_combine_add
from engine.backends.opencl.launches.matmul_experts import supports_bias
from engine.backends.opencl.launches.matmul_tiled import supports_matmul_add
from engine.backends.opencl.launches.quantize import BLOCK
from engine.backends.opencl.launches.rope import supports_rope_store
from engine.backends.opencl.launches.sizes import gapless
from engine.backends.opencl.lowering.helpers import either_way, in_place_of, result
from engine.backends.opencl.lowering.norm_fusions import NORM_PATTERNS, NORMED_PATTERNS
from engine.backends.opencl.lowering.rewrite import (
    Fusion,
    NodeList,
    Pattern,
    PlacedNode,
    ends_with,
)
from engine.backends.opencl.lowering.state_fusions import STATE_PATTERNS
from engine.backends.opencl.tiles.schemes import TILE
from engine.device.backend import Computes
from engine.errors import BadSetting
from engine.graph.lowered import (
    ActivationQuantize,
    AttentionMerge,
    CombineAdd,
    LoweredAttention,
    LoweredRoute,
    MatmulAdd,
    MatmulExperts,
    MatmulGated,
    MatmulTiled,
    Quantize,
    RopeStore,
)
from engine.graph.op import Op
from engine.graph.ops.activation import Gated
from engine.graph.ops.arithmetic import AddId, Binary, Scale
from engine.graph.ops.experts import Combine, RouteWeights
from engine.graph.ops.norm import RmsNorm
from engine.graph.ops.rope import Rope
from engine.graph.ops.rows import SetRows
from engine.graph.tensor import Role, Tensor
from engine.settings import FUSE


@ends_with(Op.ROUTE_WEIGHTS)
def route_weights(nodes: NodeList, i: int) -> Fusion | None:
    """The choice of experts and their weights."""
    node = nodes[i]
    wanted = RouteWeights.of(node)
    made = nodes.maker(LoweredRoute, wanted.ids, i, Op.ROUTE)
    if made is None or wanted.ids.shape != made.node.shape:
        return None
    same = wanted.logits is made.op.logits and wanted.score is made.op.score
    if not same or made.op.weights is not None:
        return None
    both = replace(made.op, weights=result(node), gains=wanted.gains)
    both = replace(both, normalised=wanted.normalised, scale=wanted.scale)
    return Fusion((made.place, i), in_place_of(made.node, Op.ROUTE, both))


@ends_with(Op.ADD)
def combine_add(nodes: NodeList, i: int) -> Fusion | None:
    """The sum over a token's experts, and what is added to it: a shared expert, the residual."""
    node = nodes[i]
    total = Binary.of(node)
    for summed, added in ((total.a, total.b), (total.b, total.a)):
        if summed.shape != node.shape or not supports_combine_add(node, added):
            continue
        first = nodes.maker(Combine, summed, i, Op.COMBINE)
        if first is not None:
            fused = CombineAdd(first.op.weights, first.op.y, added)
            return Fusion((first.place, i), in_place_of(node, Op.COMBINE_ADD, fused))
        second = nodes.maker(CombineAdd, summed, i, Op.COMBINE_ADD)
        if second is not None and second.op.more is None:
            fused = replace(second.op, more=added)
            return Fusion((second.place, i), in_place_of(node, Op.COMBINE_ADD, fused))
    return None


@ends_with(Op.ADD_ID)
def expert_bias(nodes: NodeList, i: int) -> Fusion | None:
    """A product by expert, and each expert's bias."""
    node = nodes[i]
    op = AddId.of(node)
    made = nodes.maker(MatmulExperts, op.a, i, Op.MATMUL_EXPERTS)
    if made is None or op.a.shape != made.node.shape:
        return None
    if not supports_bias(made.op, op.b, op.ids):
        return None
    fused = replace(made.op, bias=op.b)
    return Fusion((made.place, i), in_place_of(node, Op.MATMUL_EXPERTS, fused))


EXPERT_PATTERNS: tuple[Pattern, ...] = (route_weights, expert_bias, combine_add)


@ends_with(Op.QUANTIZE)
def activation_quantize(nodes: NodeList, i: int) -> Fusion | None:
    """An activation whose result is only wanted in panels."""
    node = nodes[i]
    wanted = Quantize.of(node)
    act = nodes.maker(Gated, wanted.x, i, *IN_PANELS)
    if act is None or wanted.x.shape != act.node.shape:
        return None
    op = act.op
    fused = ActivationQuantize(op.gate, op.up, act=str(act.node.op), panels=wanted.panels)
    if not supports_activation_quantize(fused):
        return None
    return Fusion((act.place, i), in_place_of(node, Op.ACTIVATION_QUANTIZE, fused))


@ends_with(Op.ATTENTION)
def rope_store(nodes: NodeList, i: int) -> Fusion | None:
    """Fuse what lies between the products q, k, v and attention: rope of q, storing k and v."""
    attention = LoweredAttention.of(nodes[i])
    rope_q = nodes.maker(Rope, attention.q, i, Op.ROPE)
    set_k = nodes.writer(SetRows, attention.k, i, Op.SET_ROWS)
    set_v = nodes.writer(SetRows, attention.v, i, Op.SET_ROWS)
    if rope_q is None or set_k is None or set_v is None or set_k.place == set_v.place:
        return None
    rope_k = nodes.maker(Rope, set_k.op.values, set_k.place, Op.ROPE)
    if rope_k is None or not _fit(attention, rope_q, rope_k, set_k, set_v):
        return None
    q, k = rope_q.op, rope_k.op
    v = _by_head(set_v.op.values, k.x.shape[1])
    if v is None:
        return None
    caches = (result(set_k.node), result(set_v.node))
    fused = RopeStore(*(q.x, k.x, v, q.table, set_k.op.ids, None, None, *caches), neox=q.neox)
    members = [rope_q.place, rope_k.place, set_k.place, set_v.place]
    norm_q, norm_k = _norm_of_heads(nodes, rope_q), _norm_of_heads(nodes, rope_k)
    if norm_q is not None and norm_k is not None:
        members += [norm_q.place, norm_k.place]
        fused = replace(fused, q=norm_q.op.x, q_weight=norm_q.op.weight, q_eps=norm_q.op.eps)
        fused = replace(fused, k=norm_k.op.x, k_weight=norm_k.op.weight, k_eps=norm_k.op.eps)
    if not supports_rope_store(fused, caches[0]):
        return None
    return Fusion(tuple(members), in_place_of(rope_q.node, Op.ROPE_STORE, fused))


@ends_with(Op.ATTENTION)
def store_both(nodes: NodeList, i: int) -> Fusion | None:
    """Keys and values of a layer without rope, stored."""
    attention = LoweredAttention.of(nodes[i])
    set_k = nodes.writer(SetRows, attention.k, i, Op.SET_ROWS)
    set_v = nodes.writer(SetRows, attention.v, i, Op.SET_ROWS)
    if set_k is None or set_v is None or set_k.place == set_v.place:
        return None
    heads, ids = attention.k.shape[1], set_k.op.ids
    if set_v.op.ids is not ids:
        return None
    k, v = (_by_head(one.op.values, heads) for one in (set_k, set_v))
    if k is None or v is None:
        return None
    fused = RopeStore(None, k, v, None, ids, None, None, None, result(set_v.node))
    if not supports_rope_store(fused, set_k.node):
        return None
    return Fusion((set_k.place, set_v.place), in_place_of(set_k.node, Op.ROPE_STORE, fused))


def _by_head(values: Tensor, heads: int) -> Tensor | None:
    """Rows [D heads, T] as heads [D, heads, T], if they lie without gaps."""
    width, tokens, *others = values.shape
    if others != [1, 1] or not gapless(values) or width % heads:
        return None
    dim = width // heads
    return values.view(0, (dim, heads, tokens), (values.fmt.bytes * dim, values.strides[1]))


def _fit(
    attention: LoweredAttention,
    rope_q: PlacedNode[Rope],
    rope_k: PlacedNode[Rope],
    set_k: PlacedNode[SetRows],
    set_v: PlacedNode[SetRows],
) -> bool:
    """True if q and k are turned alike, and k and v stored alike, as heads of the same tokens."""
    q, k, values = rope_q.op, rope_k.op, set_v.op.values
    if q.table is not k.table or q.neox != k.neox or set_k.op.ids is not set_v.op.ids:
        return False
    dim_v, heads, tokens = attention.v.shape[0], attention.k.shape[1], q.x.shape[2]
    if k.x.shape[:3] != (q.x.shape[0], heads, tokens):
        return False
    return values.shape == (dim_v * heads, tokens, 1, 1)


def _norm_of_heads(nodes: NodeList, rope: PlacedNode[Rope]) -> PlacedNode[RmsNorm] | None:
    """The norm with a weight that made what is turned, head by head."""
    norm = nodes.maker(RmsNorm, rope.op.x, rope.place, Op.RMS_NORM)
    if norm is None or norm.node.shape != rope.op.x.shape or norm.op.weight is None:
        return None
    return norm


@ends_with(Op.QUANTIZE)
def attention_quantize(nodes: NodeList, i: int) -> Fusion | None:
    """Attention, or the merge of its chunks, whose result the next product wants in panels too."""
    node = nodes[i]
    wanted = Quantize.of(node)
    whole = nodes.maker(LoweredAttention, wanted.x, i, Op.ATTENTION)
    merge = nodes.maker(AttentionMerge, wanted.x, i, Op.ATTENTION_MERGE)
    made = whole or merge
    if made is None:
        return None
    dim_v, heads, tokens, last = made.node.shape
    if dim_v % BLOCK or last != 1 or wanted.x.shape != (dim_v * heads, tokens, 1, 1):
        return None
    fused = replace(made.op, packed=result(node), panels=wanted.panels)
    return Fusion((made.place, i), in_place_of(made.node, made.node.op, fused))


@ends_with(Op.ATTENTION_MERGE)
def attention_merged(nodes: NodeList, i: int) -> Fusion | None:
    """Chunks of attention, and their merge."""
    merge = AttentionMerge.of(nodes[i])
    made = nodes.maker(LoweredAttention, merge.shares, i, Op.ATTENTION)
    if made is None or not merges_at_once(made.op, nodes.traits):
        return None
    whole = replace(made.op, packed=merge.packed, panels=merge.panels, shares=result(merge.shares))
    return Fusion((made.place, i), in_place_of(nodes[i], Op.ATTENTION, whole))


@ends_with(Op.ATTENTION)
def attention_stored(nodes: NodeList, i: int) -> Fusion | None:
    """Attention of one token, and what turns its query and stores its key and value."""
    op = LoweredAttention.of(nodes[i])
    made = nodes.maker(RopeStore, op.q, i, Op.ROPE_STORE)
    if made is None or op.table is not None or not stores_at_once(op, nodes.traits):
        return None
    store = made.op
    if store.q is None or store.k_cache is None or op.q.shape != made.node.shape:
        return None
    caches = ((op.k, store.k_cache), (op.v, store.v_cache))
    if not all(_reads_cache(read, cache) for read, cache in caches):
        return None
    names = ("table", "ids", "q_weight", "k_weight", "k_cache", "v_cache", "neox", "q_eps", "k_eps")
    fused = replace(
        op,
        q=store.q,
        new_k=store.k,
        new_v=store.v,
        **{name: getattr(store, name) for name in names},
    )
    return Fusion((made.place, i), in_place_of(nodes[i], Op.ATTENTION, fused))


def _reads_cache(read: Tensor, cache: Tensor) -> bool:
    """True if heads [D, K, C] are those of the cells [D K, C or more] of a cache."""
    same = read.storage is cache.storage and read.offset == cache.offset
    width = read.fmt.row_bytes(read.shape[0])
    return same and read.strides[1:3] == (width, cache.strides[1])


@ends_with(Op.ADD)
def matmul_bias(nodes: NodeList, i: int) -> Fusion | None:
    """Products of tiled weights that one launch makes, and the sum of one of them and its bias."""
    node = nodes[i]
    product, bias = Binary.of(node).a, Binary.of(node).b
    made = nodes.writer(MatmulTiled, product, i, Op.MATMUL_TILED)
    is_bias = bias.role is Role.WEIGHT and bias.dims == node.shape[:1]
    if made is None or not is_bias or not supports_matmul_add(node, bias):
        return None
    op = made.op
    ys = (made.node, op.y1, op.y2)
    k, y = next((k, y) for k, y in enumerate(ys) if y and y.storage is product.storage)
    if not (product.shape == node.shape == y.shape and product.is_contiguous):
        return None
    if k == 0:
        fused = replace(op, bias=bias)
        return Fusion((made.place, i), in_place_of(node, Op.MATMUL_TILED, fused))
    both = {f"y{k}": result(node), f"bias{k}": bias}
    fused = replace(op, **both)
    return Fusion((made.place, i), in_place_of(made.node, Op.MATMUL_TILED, fused))


@ends_with(Op.ADD)
def matmul_add(nodes: NodeList, i: int) -> Fusion | None:
    """A product of a tiled weight, and the sum of its result, scaled or not, and a residual or a
    bias.
    """
    node = nodes[i]
    for product, added in either_way(Binary.of(node)):
        members, factor = [i], 1.0
        scaled = nodes.maker(Scale, product, i, Op.SCALE)
        if scaled is not None and scaled.node.shape == node.shape:
            members, factor, product = [scaled.place, i], scaled.op.factor, scaled.op.x
        made = nodes.maker(MatmulTiled, product, members[0], Op.MATMUL_TILED)
        if made is None or not (product.shape == node.shape == made.node.shape):
            continue
        if len(made.op.weights) == 1 and supports_matmul_add(node, added):
            op = made.op
            fused = MatmulAdd(op.a, op.x, added, op.bias, factor=factor)
            return Fusion((made.place, *members), in_place_of(node, Op.MATMUL_ADD, fused))
    return None


@ends_with(Op.ACTIVATION_QUANTIZE)
def matmul_gated(nodes: NodeList, i: int) -> Fusion | None:
    """Gate and up of one launch, and their activation in panels."""
    node = nodes[i]
    act = ActivationQuantize.of(node)
    made = nodes.writer(MatmulTiled, act.gate, i, Op.MATMUL_TILED)
    if made is None or act.up is None or len(made.op.weights) != 2 or made.op.has_biases:
        return None
    op, second = made.op, made.op.y1
    assert second is not None
    weights = dict(zip((made.node.storage, second.storage), op.weights, strict=True))
    both = (act.gate, act.up)
    whole = all(t.shape == made.node.shape and t.is_contiguous and t.offset == 0 for t in both)
    if not whole or {t.storage for t in both} != weights.keys():
        return None
    if Quantize.of(op.x).panels != act.panels:
        return None
    # An item makes a whole tile: that must leave something to do for every core.
    traits = nodes.traits
    if traits.items_take_vectors and made.node.shape[0] < TILE * traits.compute_units:
        return None
    gate, up = (weights[t.storage] for t in both)
    fused = MatmulGated(gate, op.x, up, act=act.act, panels=act.panels)
    return Fusion((made.place, i), in_place_of(node, Op.MATMUL_GATED, fused))


PATTERNS: tuple[Pattern, ...] = (
    *NORM_PATTERNS,
    activation_quantize,
    rope_store,
    store_both,
    attention_quantize,
    *STATE_PATTERNS,
    *EXPERT_PATTERNS,
    matmul_bias,
    matmul_add,
    matmul_gated,
    *NORMED_PATTERNS,
    attention_merged,
    attention_stored,
)


def fuse(
    nodes: Sequence[Tensor],
    kept: frozenset[Tensor],
    traits: DeviceTraits,
    computes: Computes | None = None,
) -> tuple[Tensor, ...]:
    """The nodes with every pattern applied that the setting allows.

    `kept` are storages that are read elsewhere: they do not vanish. In `computes` a fused node
    takes over what its members had. Raises `BadSetting`.
    """
    listed = NodeList(nodes, kept, traits, {} if computes is None else computes)
    for pattern in _wanted():
        for place in listed.places(pattern.op):
            fusion = pattern.find(listed, place)
            if fusion is not None:
                listed.apply(fusion)
    return listed.lowered()


def _wanted() -> tuple[Pattern, ...]:
    chosen = FUSE.get()
    known = {pattern.name: pattern for pattern in PATTERNS}
    if chosen is not None and not chosen <= known.keys():
        expected = f"all, none, or some of {','.join(known)}"
        raise BadSetting(FUSE.name, ",".join(sorted(chosen)), expected)
    return tuple(p for name, p in known.items() if chosen is None or name in chosen)
