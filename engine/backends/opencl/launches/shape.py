"""Launches of concat, repeat, set, pad and arange."""

from collections.abc import Sequence

from engine.backends.opencl.launch import Args, DeviceTraits, Launch
from engine.backends.opencl.launches.move import BITS, as_stored, move
from engine.backends.opencl.launches.sizes import (
    cover,
    extents,
    floats,
    ints,
    row_shape,
    rows_in,
    strides,
)
from engine.device.backend import TypeOf
from engine.graph.node import Unary
from engine.graph.ops.shape import Arange, Concat, Set
from engine.graph.tensor import Tensor


def concat(node: Tensor, type_of: TypeOf, traits: DeviceTraits) -> Sequence[Launch]:
    """Each source into its part of the result."""
    op = Concat.of(node)
    a, b, dim = op.a, op.b, op.dim
    start = a.shape[dim] // (a.fmt.block if dim == 0 else 1) * node.strides[dim]
    places = [node.view(at, t.shape, node.strides[1:]) for at, t in ((0, a), (start, b))]
    return [move(place, t, traits) for place, t in zip(places, (a, b), strict=True)]


def repeat(node: Tensor, type_of: TypeOf, traits: DeviceTraits) -> Sequence[Launch]:
    """One move: a smaller source tiles into the result."""
    return [move(node, Unary.of(node).x, traits)]


def set_(node: Tensor, type_of: TypeOf, traits: DeviceTraits) -> Sequence[Launch]:
    """All of the first source, then the second over it."""
    op = Set.of(node)
    window = node.view(op.offset, op.values.shape, op.strides[1:])
    return [move(node, op.x, traits), move(window, op.values, traits)]


def pad(node: Tensor, type_of: TypeOf, traits: DeviceTraits) -> Sequence[Launch]:
    """Items over the result's elements. Blocks of zero bytes are zeros, since their scale is 0."""
    node, x = as_stored(node), as_stored(Unary.of(node).x)
    per_item, size, local, defines = cover(node.shape[0], rows_in(node.shape), traits)
    args: Args = {
        "out": node,
        "x": x,
        **row_shape(node.shape),
        **extents("m", x.shape),
        **strides("x", x.strides),
        **ints(per_item=per_item),
    }
    defines = {**defines, "T": BITS[node.fmt.bytes][1]}
    return [Launch("shape", "pad", args, size, local, defines)]


def arange(node: Tensor, type_of: TypeOf, traits: DeviceTraits) -> Sequence[Launch]:
    """Items over elements."""
    per_item, size, local, defines = cover(node.shape[0], 1, traits)
    op = Arange.of(node)
    args: Args = {
        "out": node,
        **ints(n0=node.shape[0], per_item=per_item),
        **floats(first=op.start, step=op.step),
    }
    return [Launch("shape", "arange", args, size, local, defines)]
