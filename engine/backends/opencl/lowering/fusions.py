"""The patterns of fuse.py: each looks at the node at one place and says what could become one."""

from engine.backends.opencl.launches.activation_quantize import supports_activation_quantize
from engine.backends.opencl.launches.matmul import supports_matmul_add
from engine.backends.opencl.launches.norm_chain import supports_norm_chain
from engine.backends.opencl.launches.quantize import BLOCK
from engine.backends.opencl.launches.rope_store import supports_rope_store
from engine.backends.opencl.lowering.rewrite import Fusion, Pattern, Program, as_node, result
from engine.backends.opencl.tiles.schemes import TILE
from engine.graph.op import Op
from engine.graph.tensor import Shape, Tensor


def norm_add(program: Program, i: int) -> Fusion | None:
    """A norm, and the sum of its result and rows of the same shape."""
    node = program[i]
    if node.op is not Op.ADD:
        return None
    for normed, added in (node.src, node.src[::-1]):
        place = program.maker(normed, i, Op.RMS_NORM)
        assert normed is not None
        assert added is not None
        if place is None or not (normed.shape == added.shape == program[place].shape):
            continue
        x, weight = program[place].src
        eps = program[place].attr["eps"]
        fused = as_node(Op.NORM_CHAIN, node, x, weight, added, None, None, eps1=eps, eps2=0.0)
        if supports_norm_chain(fused, _placed):
            return Fusion((place, i), fused)
    return None


def norm_quantize(program: Program, i: int) -> Fusion | None:
    """A norm whose result is only wanted in 12 bits."""
    node = program[i]
    place = program.maker(node.src[0], i, Op.RMS_NORM) if node.op is Op.QUANTIZE else None
    if place is None or _shape(node.src[0]) != program[place].shape:
        return None
    x, weight = program[place].src
    eps = program[place].attr["eps"]
    fused = as_node(Op.NORM_CHAIN, node, x, None, None, weight, None, eps1=0.0, eps2=eps)
    return Fusion((place, i), fused) if supports_norm_chain(fused, _placed) else None


def norm_add_norm_quantize(program: Program, i: int) -> Fusion | None:
    """The first two, one behind the other; the sum is written too."""
    node = program[i]
    if node.op is not Op.NORM_CHAIN or "panel" not in node.attr or node.src[2] is not None:
        return None
    place = program.maker(node.src[0], i, Op.NORM_CHAIN)
    if place is None or "panel" in program[place].attr:
        return None
    before = program[place]
    assert node.src[0] is not None
    if node.src[0].shape != before.shape:
        return None
    x, weight, added, *_ = before.src
    sources = (x, weight, added, node.src[3], result(before))
    eps1 = before.attr["eps1"]
    return Fusion((place, i), as_node(Op.NORM_CHAIN, node, *sources, eps1=eps1))


def activation_quantize(program: Program, i: int) -> Fusion | None:
    """An activation whose result is only wanted in 12 bits."""
    node = program[i]
    place = program.maker(node.src[0], i, Op.SILU, Op.GELU) if node.op is Op.QUANTIZE else None
    if place is None or _shape(node.src[0]) != program[place].shape:
        return None
    before = program[place]
    fused = as_node(Op.ACTIVATION_QUANTIZE, node, *before.src, act=str(before.op))
    return Fusion((place, i), fused) if supports_activation_quantize(fused, _placed) else None


def rope_store(program: Program, i: int) -> Fusion | None:
    """What stands between the products q, k, v and attention: rope of q, and k and v stored."""
    node = program[i]
    if node.op is not Op.ATTENTION or len(node.src) < 7:
        return None
    q, k, v = node.src[:3]
    assert k is not None
    assert v is not None
    rope_q = program.maker(q, i, Op.ROPE)
    set_k, set_v = program.writer(k, i), program.writer(v, i)
    if rope_q is None or set_k is None or set_v is None or set_k == set_v:
        return None
    if program[set_k].op is not Op.SET_ROWS or program[set_v].op is not Op.SET_ROWS:
        return None
    (_, keys, ids), (_, values, v_ids) = program[set_k].src, program[set_v].src
    rope_k = program.maker(keys, set_k, Op.ROPE)
    if rope_k is None or ids is not v_ids or values is None or not values.is_contiguous:
        return None
    (x_q, table), (x_k, k_table) = program[rope_q].src, program[rope_k].src
    assert x_q is not None
    assert x_k is not None
    if table is not k_table or program[rope_q].attr != program[rope_k].attr:
        return None
    heads, tokens = k.shape[1], x_q.shape[2]
    if x_q.shape[0] != x_k.shape[0] or x_k.shape[1:3] != (heads, tokens):
        return None
    if values.shape[0] != v.shape[0] * heads or values.shape[1:] != (tokens, 1, 1):
        return None
    stored = values.reshape(v.shape[0], heads, tokens)
    caches = (result(program[set_k]), result(program[set_v]))
    roped, neox = program[rope_q], program[rope_q].attr["neox"]
    sources: tuple[Tensor | None, ...]
    members = (rope_q, rope_k, set_k, set_v)
    norms = _norms_of_heads(program, (x_q, rope_q), (x_k, rope_k))
    if not norms:
        sources = (x_q, x_k, stored, table, ids, None, None, *caches)
        fused = as_node(Op.ROPE_STORE, roped, *sources, neox=neox, eps_q=0.0, eps_k=0.0)
    else:
        q_norm, k_norm = (program[place] for place in norms)
        weights = (q_norm.src[1], k_norm.src[1])
        sources = (q_norm.src[0], k_norm.src[0], stored, table, ids, *weights, *caches)
        eps_q, eps_k = q_norm.attr["eps"], k_norm.attr["eps"]
        fused = as_node(Op.ROPE_STORE, roped, *sources, neox=neox, eps_q=eps_q, eps_k=eps_k)
    return Fusion((*members, *norms), fused) if supports_rope_store(fused, _placed) else None


def attention_quantize(program: Program, i: int) -> Fusion | None:
    """Attention, or the merge of its chunks, whose result the next product wants in 12 bits too."""
    node = program[i]
    place = program.maker(node.src[0], i, Op.ATTENTION) if node.op is Op.QUANTIZE else None
    if place is None:
        return None
    made = program[place]
    dim_v, heads, tokens, last = made.shape
    if dim_v % BLOCK or last != 1 or _shape(node.src[0]) != (dim_v * heads, tokens, 1, 1):
        return None
    return Fusion((place, i), as_node(Op.ATTENTION, made, *made.src, result(node), **node.attr))


def matmul_add(program: Program, i: int) -> Fusion | None:
    """A product of a tiled weight, and the sum of its result and a residual or a bias."""
    node = program[i]
    if node.op is not Op.ADD:
        return None
    for product, added in (node.src, node.src[::-1]):
        place = program.maker(product, i, Op.MATMUL)
        if place is None or _shape(product) != node.shape or node.shape != program[place].shape:
            continue
        a, x, *others = program[place].src
        if x is None or x.op is not Op.QUANTIZE or others:
            continue
        fused = as_node(Op.MATMUL_ADD, node, a, x, added)
        if supports_matmul_add(fused, _placed):
            return Fusion((place, i), fused)
    return None


def matmul_gated(program: Program, i: int) -> Fusion | None:
    """Gate and up of one launch, and their activation in 12 bits."""
    node = program[i]
    if node.op is not Op.ACTIVATION_QUANTIZE or None in node.src:
        return None
    gate, up = node.src
    assert gate is not None
    assert up is not None
    place = program.writer(gate, i)
    if place is None or program[place].op is not Op.MATMUL or len(program[place].src) != 4:
        return None
    made = program[place]
    a, x, other, second = made.src
    assert x is not None
    assert second is not None
    weights = {made.storage: a, second.storage: other}
    whole = all(t.shape == made.shape and t.is_contiguous and t.offset == 0 for t in (gate, up))
    if not whole or {gate.storage, up.storage} != weights.keys():
        return None
    if x.attr["exact"] != node.attr["exact"]:
        return None
    # An item makes a whole tile: that must leave something to do for every core.
    if program.traits.is_cpu and made.shape[0] < TILE * program.traits.compute_units:
        return None
    fused = as_node(Op.MATMUL_GATED, node, weights[gate.storage], x, weights[up.storage])
    return Fusion((place, i), fused)


def _norms_of_heads(program: Program, *roped: tuple[Tensor, int]) -> tuple[int, ...]:
    """The norms that made q and k, both with a weight; else nothing."""
    found = []
    for x, place in roped:
        norm = program.maker(x, place, Op.RMS_NORM)
        if norm is None or program[norm].shape != x.shape or program[norm].src[1] is None:
            return ()
        found.append(norm)
    return tuple(found)


def _shape(tensor: Tensor | None) -> Shape:
    assert tensor is not None
    return tensor.shape


def _placed(tensor: Tensor) -> None:
    """Layouts were looked at when the single nodes were assigned."""


PATTERNS: tuple[Pattern, ...] = (
    norm_add,
    norm_quantize,
    norm_add_norm_quantize,
    activation_quantize,
    rope_store,
    attention_quantize,
    matmul_add,
    matmul_gated,
)
