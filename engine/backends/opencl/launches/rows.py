"""Launches of rows (gather) and set_rows (scatter)."""

from collections.abc import Sequence

from engine.backends.base import TypeOf
from engine.backends.opencl.launch import DeviceTraits, Launch
from engine.backends.opencl.launches.sizes import (
    BLOCK_NAMES,
    BLOCK_WIDTH,
    FLOATS,
    ROW_NAMES,
    TYPE_NAMES,
    Args,
    cover,
    i32,
    i64,
    operands,
    readable,
    row_shape,
    sources,
)
from engine.gguf.formats import F32, I32, I64
from engine.graph.tensor import Tensor


def supports_rows(node: Tensor, type_of: TypeOf) -> bool:
    """Tables of any type that can be read, and i32."""
    x, _ = sources(node)
    plain = x.strides[0] == x.fmt.bytes
    return readable(node, type_of) and operands(node, (*ROW_NAMES, I32), (I32,)) and plain


def rows(node: Tensor, type_of: TypeOf, traits: DeviceTraits) -> Sequence[Launch]:
    """Items over the gathered elements."""
    x, ids = sources(node)
    n0, n1, n2, count = row_shape(node.shape)
    width = BLOCK_WIDTH if x.fmt.quantized else 0
    per_item, size, local, defines = cover(node.shape[0], int(count), traits, width=width)
    args: Args = (
        *(node, x, *_ids(ids), n0, n1, n2, count, i32(x.shape[1])),
        *map(i64, x.strides[1:]),
        per_item,
    )
    # Four bytes pass as they are, so i32 needs no kernel of its own.
    kind = "f32" if x.fmt == I32 else ROW_NAMES[x.fmt]
    return [Launch("rows", "rows", args, size, local, {**defines, "FROM": kind})]


def supports_set_rows(node: Tensor, type_of: TypeOf) -> bool:
    """f32 values into rows of f32, f16, bf16 or blocks."""
    target, values, _ = sources(node)
    plain = target.strides[0] == target.fmt.bytes and values.strides[0] == 4
    types = ((*FLOATS, *BLOCK_NAMES), (F32,), (I32, I64))
    return readable(node, type_of) and operands(node, *types) and plain


def set_rows(node: Tensor, type_of: TypeOf, traits: DeviceTraits) -> Sequence[Launch]:
    """Items over the written elements or blocks."""
    _, values, ids = sources(node)
    block = node.fmt.block
    n0, n1, n2, count = row_shape((values.shape[0] // block, *values.shape[1:]))
    per_item, size, local, defines = cover(int(n0), int(count), traits, block)
    args: Args = (
        *(node, values, *_ids(ids), n0, n1, n2, count, i32(node.shape[1])),
        *map(i64, (*node.strides[1:], *values.strides[1:])),
        per_item,
    )
    defines = {**defines, **({"ID": "long"} if ids.fmt is I64 else {})}
    if node.fmt in BLOCK_NAMES:
        defines["B"] = BLOCK_NAMES[node.fmt]
        return [Launch("rows", "set_blocks", args, size, local, defines)]
    defines["X"] = TYPE_NAMES[node.fmt]
    return [Launch("rows", "set_rows", args, size, local, defines)]


def _ids(ids: Tensor) -> Args:
    """IDS in rows.cl."""
    return (ids, *map(i32, ids.shape[1:3]), *map(i64, ids.strides[:3]))
