"""Launches of what stands around products by expert: who meets which, and the weighted sum."""

from collections.abc import Sequence

from engine.backends.opencl.launch import Args, DeviceTraits, Launch
from engine.backends.opencl.launches.sizes import (
    cover,
    floats,
    gapless,
    ints,
    readable,
    row_teams,
    strides,
)
from engine.device.backend import TypeOf
from engine.graph.lowered import CombineAdd, LoweredRoute
from engine.graph.ops.experts import Combine, Route, RouteWeights
from engine.graph.tensor import Tensor

MOST_EXPERTS = 1024
"""MOST in route.cl."""


def supports_route(node: Tensor, type_of: TypeOf) -> bool:
    """Up to 1024 experts."""
    return readable(node, type_of) and Route.of(node).logits.shape[0] <= MOST_EXPERTS


def supports_route_weights(node: Tensor, type_of: TypeOf) -> bool:
    """Any number is supported."""
    return readable(node, type_of)


def route(node: Tensor, type_of: TypeOf, traits: DeviceTraits) -> Sequence[Launch]:
    """One team of work-items per token; it makes the weights, too, where they are wanted."""
    op = LoweredRoute.of(node)
    logits, (experts, tokens) = op.logits, op.logits.shape[:2]
    per_group, size, local, defines = row_teams(tokens, traits)
    args: Args = {
        "out": node,
        "weights": op.weights,
        "l": logits,
        "bias": op.bias,
        "gains": op.gains,
        **ints(n0=experts, rows=tokens),
        **strides("l", logits.strides[:2]),
        **ints(used=op.used, by_score=op.by_score),
        **ints(groups=op.groups, groups_used=op.groups_used, sum_two=op.sums_two),
        **ints(normalised=op.normalised, has_weights=op.weights is not None),
        **ints(has_bias=op.bias is not None, has_gains=op.gains is not None),
        **ints(per_group=per_group),
        **floats(scale=op.scale),
    }
    defines = {**defines, "SCORE": op.score.upper(), "GROUPED": int(op.groups > 1)}
    return [Launch("route", "route", args, size, local, defines)]


def route_weights(node: Tensor, type_of: TypeOf, traits: DeviceTraits) -> Sequence[Launch]:
    """One team of work-items per token."""
    op = RouteWeights.of(node)
    logits, ids = op.logits, op.ids
    per_group, size, local, defines = row_teams(logits.shape[1], traits)
    args: Args = {
        "out": node,
        "l": logits,
        "ids": ids,
        "gains": op.gains,
        **ints(n0=logits.shape[0], rows=logits.shape[1]),
        **strides("l", logits.strides[:2]),
        **strides("id", ids.strides[:2]),
        **ints(used=ids.shape[0], normalised=op.normalised),
        **ints(has_gains=op.gains is not None, per_group=per_group),
        **floats(scale=op.scale),
    }
    defines = {**defines, "SCORE": op.score.upper()}
    return [Launch("route", "route_weights", args, size, local, defines)]


def supports_combine(node: Tensor, type_of: TypeOf) -> bool:
    """Rows without gaps."""
    return readable(node, type_of) and gapless(Combine.of(node).y)


def combine(node: Tensor, type_of: TypeOf, traits: DeviceTraits) -> Sequence[Launch]:
    """Items over elements of the sums."""
    op = Combine.of(node)
    return [_sums(node, CombineAdd(op.weights, op.y), traits)]


def supports_combine_add(node: Tensor, added: Tensor) -> bool:
    """Columns without gaps, a step apart from each other."""
    return added.fmt is node.fmt and gapless(added) and added.shape == node.shape


def combine_add(node: Tensor, type_of: TypeOf, traits: DeviceTraits) -> Sequence[Launch]:
    """With one or two further terms."""
    return [_sums(node, CombineAdd.of(node), traits)]


def _sums(node: Tensor, op: CombineAdd, traits: DeviceTraits) -> Launch:
    y, weights, added, more = op.y, op.weights, op.added, op.more
    rows = node.shape[1]
    per_item, size, local, defines = cover(node.shape[0], rows, traits)
    args: Args = {
        "out": node,
        "y": y,
        "weights": weights,
        "added": added,
        "more": more,
        **ints(n0=node.shape[0], rows=rows, used=y.shape[1]),
        **strides("y", y.strides[1:3], 1),
        **strides("w", weights.strides[:2]),
        **ints(has_added=added is not None),
        **strides("a", (added or node).strides[1:2], 1),
        **ints(has_more=more is not None),
        **strides("m", (more or node).strides[1:2], 1),
        **ints(per_item=per_item),
    }
    return Launch("combine", "combine", args, size, local, defines)
