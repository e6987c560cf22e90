"""Fusion patterns around norms: with the sum after them, and with panels for a product."""

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from engine.backends.opencl.launches.feed_chain import supports_feed_chain
from engine.backends.opencl.launches.matmul_normed import (
    bytes_of_item,
    items_of_normed,
    lanes_normalise,
)
from engine.backends.opencl.launches.norm_chain import supports_norm_chain
from engine.backends.opencl.lowering.helpers import either_way, in_place_of, result
from engine.backends.opencl.lowering.rewrite import (
    Fusion,
    NodeList,
    Pattern,
    PlacedNode,
    ends_with,
)
from engine.gguf.formats import I8
from engine.graph.lowered import (
    FeedChain,
    MatmulAdd,
    MatmulGated,
    MatmulTiled,
    NormChain,
    NormGated,
    NormKind,
    NormMatmul,
    Quantize,
)
from engine.graph.node import Unary
from engine.graph.node import node as make_node
from engine.graph.op import Op
from engine.graph.ops.arithmetic import Binary
from engine.graph.ops.norm import LayerNorm, RmsNorm
from engine.graph.tensor import Tensor


@ends_with(Op.ADD)
def norm_add(nodes: NodeList, i: int) -> Fusion | None:
    """A norm, and the sum of its result and rows of the same shape."""
    node = nodes[i]
    for normed, added in either_way(Binary.of(node)):
        norm = _norm(nodes, normed, i)
        if norm is None or not (normed.shape == added.shape == norm.node.shape):
            continue
        chain = replace(_first(norm), added=added)
        if supports_norm_chain(chain):
            return Fusion((norm.place, i), in_place_of(node, Op.NORM_CHAIN, chain))
    return None


@ends_with(Op.QUANTIZE)
def norm_quantize(nodes: NodeList, i: int) -> Fusion | None:
    """A norm whose result is only wanted in panels."""
    found = _wanted_norm(nodes, i)
    if found is None:
        return None
    norm, wanted = found
    first = _first(norm)
    chain = NormChain(
        first.x,
        weight2=first.weight1,
        bias2=first.bias1,
        norm2=first.norm1,
        eps2=first.eps1,
        panels=wanted.panels,
    )
    return Fusion((norm.place, i), in_place_of(nodes[i], Op.NORM_CHAIN, chain))


@ends_with(Op.QUANTIZE)
def norm_also_quantize(nodes: NodeList, i: int) -> Fusion | None:
    """A norm whose result is wanted in panels, too."""
    found = _wanted_norm(nodes, i)
    if found is None:
        return None
    norm, wanted = found
    chain = replace(_first(norm), panels=wanted.panels, total=result(norm.node))
    return Fusion((norm.place, i), in_place_of(nodes[i], Op.NORM_CHAIN, chain))


@ends_with(Op.NORM_CHAIN)
def norm_add_norm_quantize(nodes: NodeList, i: int) -> Fusion | None:
    """The first two, one behind the other; the sum is written too."""
    node = nodes[i]
    last = NormChain.of(node)
    first = _chain(nodes, last.x, i)
    if first is None or last.panels is None or last.writes:
        return None
    both = replace(first.op, weight2=last.weight2, bias2=last.bias2, panels=last.panels)
    both = replace(both, norm2=last.norm2, eps2=last.eps2, total=result(first.node))
    return Fusion((first.place, i), in_place_of(node, Op.NORM_CHAIN, both))


@ends_with(Op.QUANTIZE)
def norm_add_quantize(nodes: NodeList, i: int) -> Fusion | None:
    """A norm and a sum that is wanted in panels, too: what follows has no norm before it."""
    node = nodes[i]
    wanted = Quantize.of(node)
    first = _chain(nodes, wanted.x, i)
    if first is None:
        return None
    chain = replace(first.op, panels=wanted.panels, total=result(first.node))
    return Fusion((first.place, i), in_place_of(node, Op.NORM_CHAIN, chain))


@ends_with(Op.MATMUL_TILED)
def norm_matmul(nodes: NodeList, i: int) -> Fusion | None:
    """A norm of one row, and products that nobody but them reads it for."""
    op = MatmulTiled.of(nodes[i])
    found = _normed_row(nodes, op.x, op.weights, i)
    if found is None:
        return None
    members, row = found
    products = {name: getattr(op, name) for name in _PRODUCTS}
    fused = NormMatmul(**row, **products)
    return Fusion(members, in_place_of(nodes[i], Op.NORM_MATMUL, fused))


@ends_with(Op.MATMUL_GATED)
def norm_gated(nodes: NodeList, i: int) -> Fusion | None:
    """The same of gate and up, and their activation in panels."""
    op = MatmulGated.of(nodes[i])
    found = _normed_row(nodes, op.x, (op.gate, op.up), i)
    if found is None:
        return None
    members, row = found
    fused = NormGated(**row, gate=op.gate, up=op.up, act=op.act)
    return Fusion(members, in_place_of(nodes[i], Op.NORM_GATED, fused))


@ends_with(Op.MATMUL_ADD)
def feed_chain(nodes: NodeList, i: int) -> Fusion | None:
    """The product behind attention and the sum, and all of the feed-forward, of one row."""
    last = MatmulAdd.of(nodes[i])
    gated = nodes.maker(NormGated, last.x, i, Op.NORM_GATED)
    if gated is None:
        return None
    row = gated.op
    mix = nodes.maker(MatmulAdd, row.x, gated.place, Op.MATMUL_ADD)
    if mix is None or row.own is None or row.added is not None or row.weight1 is not None:
        return None
    first, h = mix.op, nodes.maker(MatmulAdd, last.added, i, Op.MATMUL_ADD)
    plain = all(one.bias is None and one.factor == 1.0 for one in (first, last))
    if h is None or h.place != mix.place or not plain or first.added.shape != mix.node.shape:
        return None
    weights = (first.a, row.gate, row.up, last.a)
    if not supports_feed_chain({a.fmt for a in weights}, first.a.shape[1], nodes.traits):
        return None
    size, items = row.own.shape[0], nodes.traits.compute_units
    own = make_node(Op.QUANTIZE, I8, (size, items), Unary(row.x)).named(row.own.name)
    fused = FeedChain(
        first.a,
        first.x,
        first.added,
        result(mix.node),
        row.weight2,
        result(own),
        row.gate,
        row.up,
        result(gated.node),
        last.a,
        act=row.act,
        eps=row.eps2,
    )
    members = (mix.place, gated.place, i)
    return Fusion(members, in_place_of(nodes[i], Op.FEED_CHAIN, fused))


def _normed_row(
    nodes: NodeList, x: Tensor, weights: Sequence[Tensor], i: int
) -> tuple[tuple[int, ...], dict[str, Any]] | None:
    """The members of a fusion of the one row x and products of these weights, and what makes it a
    `NormedRow`, if they can. On lanes all products that read the row make it.
    """
    chain = nodes.maker(NormChain, x, i, Op.NORM_CHAIN)
    if chain is None or Quantize.of(x).n_rows > 1:
        return None
    op = chain.op
    width, sizes = op.x.shape[0], [a.shape[1] for a in weights]
    items, lanes = items_of_normed(width, sizes, nodes.traits), not nodes.traits.items_take_vectors
    groups = sizes[:1] if nodes[i].op is Op.MATMUL_GATED else sizes  # a group makes gate and up
    if not (lanes_normalise(width, groups, nodes.traits) if lanes else items):
        return None
    if op.panels is None or op.panels.bits != 12 or op.norm2 != "rms" or op.bias2:
        return None
    adds = op.norm1 == "rms" and op.bias1 is None and op.added is not None
    if op.writes and not adds:
        return None
    same = {name: getattr(op, name) for name in _ROW}
    if lanes:
        others = nodes.readers(chain.node) - {i}
        shared = others and not op.writes and all(nodes[o].op in _READERS for o in others)
        return ((i,) if shared else (chain.place, i)), {**same, "own": None}
    own = make_node(Op.QUANTIZE, I8, (bytes_of_item(width), items), Unary(op.x))
    return (chain.place, i), {**same, "own": result(own.named(f"{x.name} (each)"))}


def _wanted_norm(nodes: NodeList, i: int) -> tuple[PlacedNode[RmsNorm], Quantize] | None:
    """The norm whose result the node at that place puts into panels."""
    wanted = Quantize.of(nodes[i])
    norm = _norm(nodes, wanted.x, i)
    if norm is None or wanted.x.shape != norm.node.shape:
        return None
    return (norm, wanted) if supports_norm_chain(_first(norm)) else None


def _norm(nodes: NodeList, normed: Tensor, i: int) -> PlacedNode[RmsNorm] | None:
    """The norm of either kind that made a tensor."""
    rms = nodes.maker(RmsNorm, normed, i, Op.RMS_NORM)
    return rms or nodes.maker(LayerNorm, normed, i, Op.LAYER_NORM)


def _first(norm: PlacedNode[RmsNorm]) -> NormChain:
    """The chain that is that norm alone."""
    op = norm.op
    kind: NormKind = "layer" if isinstance(op, LayerNorm) else "rms"
    bias = op.bias if isinstance(op, LayerNorm) else None
    return NormChain(op.x, op.weight, bias, norm1=kind, eps1=op.eps)


def _chain(nodes: NodeList, total: Tensor, i: int) -> PlacedNode[NormChain] | None:
    """The norm and sum that made a tensor, which no panels follow yet."""
    first = nodes.maker(NormChain, total, i, Op.NORM_CHAIN)
    if first is None or first.op.panels is not None or total.shape != first.node.shape:
        return None
    return first


NORM_PATTERNS: tuple[Pattern, ...] = (
    norm_add,
    norm_quantize,
    norm_also_quantize,
    norm_add_norm_quantize,
    norm_add_quantize,
)

_READERS = frozenset({Op.MATMUL_TILED, Op.MATMUL_GATED})
_ROW = ("x", "weight1", "added", "weight2", "total", "eps1", "eps2")
_PRODUCTS = ("a", "a1", "y1", "a2", "y2", "bias", "bias1", "bias2")

NORMED_PATTERNS: tuple[Pattern, ...] = (norm_matmul, norm_gated, feed_chain)
"""What products take over in the end."""
