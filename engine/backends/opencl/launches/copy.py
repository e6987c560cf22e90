"""Launches of contiguous and cast."""

from collections.abc import Sequence

from engine.backends.base import TypeOf
from engine.backends.opencl.launch import DeviceTraits, Launch
from engine.backends.opencl.launches.sizes import (
    TYPE_NAMES,
    Args,
    collapse,
    cover,
    i64,
    operands,
    readable,
    row_shape,
    sources,
)
from engine.graph.tensor import Tensor

MOVED_AS = {2: "u16", 4: "f32"}
"""What an element of so many bytes is copied as when its type stays: its bits are not looked at."""


def supports_copy(node: Tensor, type_of: TypeOf) -> bool:
    """f32, f16, bf16 and i32 among themselves."""
    return readable(node, type_of) and operands(node, TYPE_NAMES) and node.fmt in TYPE_NAMES


def copy(node: Tensor, type_of: TypeOf, traits: DeviceTraits) -> Sequence[Launch]:
    """Items over elements."""
    (x,) = sources(node)
    shape, (x_strides,) = collapse(x)
    n0, n1, n2, rows = row_shape(shape)
    per_item, size, local, defines = cover(shape[0], int(rows), traits)
    args: Args = (node, x, n0, n1, n2, rows, *map(i64, x_strides), per_item)
    source, target = TYPE_NAMES[x.fmt], TYPE_NAMES[node.fmt]
    if source == target:
        source = target = MOVED_AS[x.fmt.bytes]
    defines = {**defines, "X": source, "Y": target}
    return [Launch("copy", "copy", args, size, local, defines)]
