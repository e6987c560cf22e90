"""Launches of concat, repeat, set, pad and arange."""

from collections.abc import Sequence

from engine.backends.base import TypeOf
from engine.backends.opencl.launch import DeviceTraits, Launch
from engine.backends.opencl.launches.move import BITS, as_stored, move
from engine.backends.opencl.launches.sizes import (
    Args,
    cover,
    f32,
    i32,
    i64,
    row_shape,
    sources,
)
from engine.graph.tensor import Tensor


def concat(node: Tensor, type_of: TypeOf, traits: DeviceTraits) -> Sequence[Launch]:
    """Each source into its part of the result."""
    a, b = sources(node)
    dim = node.attr["dim"]
    start = a.shape[dim] // (a.fmt.block if dim == 0 else 1) * node.strides[dim]
    places = [node.view(at, t.shape, node.strides[1:]) for at, t in ((0, a), (start, b))]
    return [move(place, t, traits) for place, t in zip(places, (a, b), strict=True)]


def repeat(node: Tensor, type_of: TypeOf, traits: DeviceTraits) -> Sequence[Launch]:
    """One move: a smaller source tiles into the result."""
    (x,) = sources(node)
    return [move(node, x, traits)]


def set_(node: Tensor, type_of: TypeOf, traits: DeviceTraits) -> Sequence[Launch]:
    """All of the first source, then the second over it."""
    x, values = sources(node)
    window = node.view(node.attr["offset"], values.shape, node.attr["strides"][1:])
    return [move(node, x, traits), move(window, values, traits)]


def pad(node: Tensor, type_of: TypeOf, traits: DeviceTraits) -> Sequence[Launch]:
    """Items over the result's elements. Blocks of zero bytes are zeros, since their scale is 0."""
    node, x = as_stored(node), as_stored(sources(node)[0])
    n0, n1, n2, rows = row_shape(node.shape)
    per_item, size, local, defines = cover(node.shape[0], int(rows), traits)
    args: Args = (
        *(node, x, n0, n1, n2, rows),
        *map(i32, x.shape),
        *map(i64, x.strides),
        per_item,
    )
    defines = {**defines, "T": BITS[node.fmt.bytes][1]}
    return [Launch("shape", "pad", args, size, local, defines)]


def arange(node: Tensor, type_of: TypeOf, traits: DeviceTraits) -> Sequence[Launch]:
    """Items over elements."""
    per_item, size, local, defines = cover(node.shape[0], 1, traits)
    args: Args = (
        node,
        i32(node.shape[0]),
        per_item,
        f32(node.attr["start"]),
        f32(node.attr["step"]),
    )
    return [Launch("shape", "arange", args, size, local, defines)]
