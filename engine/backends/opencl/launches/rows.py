"""Launches of rows (gather) and set_rows (scatter)."""

from collections.abc import Sequence

from engine.backends.opencl.launch import Args, DeviceTraits, Launch
from engine.backends.opencl.launches.sizes import (
    BLOCK_NAMES,
    BLOCK_WIDTH,
    FLOATS,
    ROW_NAMES,
    TYPE_NAMES,
    are,
    cover,
    extents,
    gapless,
    ints,
    readable,
    row_shape,
    rows_in,
    strides,
)
from engine.device.backend import TypeOf
from engine.gguf.formats import F32, I32, I64
from engine.graph.ops.rows import Gather, SetRows
from engine.graph.tensor import Tensor


def supports_rows(node: Tensor, type_of: TypeOf) -> bool:
    """Tables of any type that can be read, and i32."""
    op = Gather.of(node)
    types = are((*ROW_NAMES, I32), op.x) and are((I32,), op.ids)
    return readable(node, type_of) and types and gapless(op.x)


def rows(node: Tensor, type_of: TypeOf, traits: DeviceTraits) -> Sequence[Launch]:
    """Items over the gathered elements."""
    op = Gather.of(node)
    x = op.x
    width = BLOCK_WIDTH if x.fmt.quantized else 0
    count = rows_in(node.shape)
    per_item, size, local, defines = cover(node.shape[0], count, traits, width=width)
    args: Args = {
        "out": node,
        "x": x,
        **_ids(op.ids),
        **row_shape(node.shape),
        **ints(n_rows=x.shape[1]),
        **strides("x", x.strides[1:], 1),
        **ints(per_item=per_item),
    }
    # Four bytes pass as they are, so i32 needs no kernel of its own.
    kind = "f32" if x.fmt == I32 else ROW_NAMES[x.fmt]
    return [Launch("rows", "rows", args, size, local, {**defines, "FROM": kind})]


def supports_set_rows(node: Tensor, type_of: TypeOf) -> bool:
    """f32 values into rows of f32, f16, bf16 or blocks."""
    op = SetRows.of(node)
    types = are((*FLOATS, *BLOCK_NAMES), op.target) and are((I32, I64), op.ids)
    plain = are((F32,), op.values) and gapless(op.target, op.values)
    return readable(node, type_of) and types and plain


def set_rows(node: Tensor, type_of: TypeOf, traits: DeviceTraits) -> Sequence[Launch]:
    """Items over the written elements or blocks."""
    op = SetRows.of(node)
    values, ids, block = op.values, op.ids, node.fmt.block
    shape = (values.shape[0] // block, *values.shape[1:])
    per_item, size, local, defines = cover(shape[0], rows_in(shape), traits, block)
    args: Args = {
        "out": node,
        "v": values,
        **_ids(ids),
        **row_shape(shape),
        **ints(n_rows=node.shape[1]),
        **strides("out", node.strides[1:], 1),
        **strides("v", values.strides[1:], 1),
        **ints(per_item=per_item),
    }
    defines = {**defines, **({"ID": "long"} if ids.fmt is I64 else {})}
    if node.fmt in BLOCK_NAMES:
        defines["B"] = BLOCK_NAMES[node.fmt]
        return [Launch("rows", "set_blocks", args, size, local, defines)]
    defines["X"] = TYPE_NAMES[node.fmt]
    return [Launch("rows", "set_rows", args, size, local, defines)]


def _ids(ids: Tensor) -> Args:
    """IDS in rows.cl."""
    return {"ids": ids, **extents("m", ids.shape[1:3], 2), **strides("id", ids.strides[:3], 1)}
