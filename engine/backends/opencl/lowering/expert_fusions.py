"""The patterns of fuse.py that stand around products by expert."""

from dataclasses import replace

from engine.backends.opencl.launches.experts import supports_combine_add
from engine.backends.opencl.lowering.helpers import in_place_of, result
from engine.backends.opencl.lowering.rewrite import Fusion, NodeList, Pattern
from engine.graph.lowered import CombineAdd, LoweredRoute
from engine.graph.op import Op
from engine.graph.ops.arithmetic import Binary
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


EXPERT_PATTERNS: tuple[Pattern, ...] = (route_weights, combine_add)
