"""The patterns of fuse.py that stand around products by expert."""

from dataclasses import replace

from engine.backends.opencl.launches.experts import supports_combine_add
from engine.backends.opencl.launches.matmul_experts import supports_bias
from engine.backends.opencl.lowering.helpers import in_place_of, result
from engine.backends.opencl.lowering.rewrite import Fusion, NodeList, Pattern
from engine.graph.lowered import CombineAdd, LoweredRoute, MatmulExperts
from engine.graph.op import Op
from engine.graph.ops.arithmetic import AddId, Binary
from engine.graph.ops.experts import Combine, RouteWeights


def route_weights(nodes: NodeList, i: int) -> Fusion | None:
    """The choice of experts and their weights."""
    node = nodes[i]
    if node.op is not Op.ROUTE_WEIGHTS:
        return None
    wanted = RouteWeights.of(node)
    made = nodes.maker(LoweredRoute, wanted.ids, i, Op.ROUTE)
    if made is None or wanted.ids.shape != made.node.shape:
        return None
    same = wanted.logits is made.given.logits and wanted.score is made.given.score
    if not same or made.given.weights is not None:
        return None
    both = replace(made.given, weights=result(node), gains=wanted.gains)
    both = replace(both, normalised=wanted.normalised, scale=wanted.scale)
    return Fusion((made.place, i), in_place_of(made.node, Op.ROUTE, both))


def combine_add(nodes: NodeList, i: int) -> Fusion | None:
    """The sum over a token's experts, and what is added to it: a shared expert, the residual."""
    node = nodes[i]
    if node.op is not Op.ADD:
        return None
    total = Binary.of(node)
    for summed, added in ((total.a, total.b), (total.b, total.a)):
        if summed.shape != node.shape or not supports_combine_add(node, added):
            continue
        first = nodes.maker(Combine, summed, i, Op.COMBINE)
        if first is not None:
            fused = CombineAdd(first.given.weights, first.given.y, added)
            return Fusion((first.place, i), in_place_of(node, Op.COMBINE_ADD, fused))
        second = nodes.maker(CombineAdd, summed, i, Op.COMBINE_ADD)
        if second is not None and second.given.more is None:
            fused = replace(second.given, more=added)
            return Fusion((second.place, i), in_place_of(node, Op.COMBINE_ADD, fused))
    return None


def expert_bias(nodes: NodeList, i: int) -> Fusion | None:
    """A product by expert, and each expert's bias."""
    node = nodes[i]
    if node.op is not Op.ADD_ID:
        return None
    given = AddId.of(node)
    made = nodes.maker(MatmulExperts, given.a, i, Op.MATMUL_EXPERTS)
    if made is None or given.a.shape != made.node.shape:
        return None
    if not supports_bias(made.given, given.b, given.ids):
        return None
    fused = replace(made.given, bias=given.b)
    return Fusion((made.place, i), in_place_of(node, Op.MATMUL_EXPERTS, fused))


EXPERT_PATTERNS: tuple[Pattern, ...] = (route_weights, expert_bias, combine_add)
