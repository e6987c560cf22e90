"""Launches of rows (gather) and set_rows (scatter)."""

from collections.abc import Sequence

from engine.backends.base import TypeOf
from engine.backends.opencl.launch import DeviceTraits, Launch
from engine.backends.opencl.launches.sizes import (
    TYPE_NAMES,
    Args,
    cover,
    i32,
    i64,
    operands,
    readable,
    sources,
)
from engine.gguf.formats import BF16, F16, F32, I32
from engine.graph.tensor import Tensor

FLOATS = (F32, F16, BF16)


def supports_rows(node: Tensor, type_of: TypeOf) -> bool:
    """Tables of plain numbers; quantised ones are gathered by the host from the mapped file."""
    x, ids = sources(node)
    plain = x.strides[0] == x.fmt.bytes and ids.strides[0] == 4
    return readable(node, type_of) and operands(node, (*FLOATS, I32), (I32,)) and plain


def rows(node: Tensor, type_of: TypeOf, traits: DeviceTraits) -> Sequence[Launch]:
    """Items over the gathered elements."""
    x, ids = sources(node)
    n0, n_ids = node.shape[:2]
    per_item, size, local, defines = cover(n0, n_ids, traits)
    args: Args = (node, x, ids, i32(n0), i32(n_ids), i32(x.shape[1]), i64(x.strides[1]), per_item)
    # Four bytes pass as they are, so i32 needs no kernel of its own.
    kind = "f32" if x.fmt == I32 else TYPE_NAMES[x.fmt]
    return [Launch("rows", "rows", args, size, local, {**defines, "X": kind})]


def supports_set_rows(node: Tensor, type_of: TypeOf) -> bool:
    """f32 values into f32, f16 or bf16 rows."""
    target, values, ids = sources(node)
    plain = target.strides[0] == target.fmt.bytes and values.strides[0] == 4 and ids.strides[0] == 4
    flat = values.shape[2:] == (1, 1) and ids.nelements == ids.shape[0]
    return readable(node, type_of) and operands(node, FLOATS, (F32,), (I32,)) and plain and flat


def set_rows(node: Tensor, type_of: TypeOf, traits: DeviceTraits) -> Sequence[Launch]:
    """Items over the written elements."""
    target, values, ids = sources(node)
    n0, n_ids = values.shape[:2]
    per_item, size, local, defines = cover(n0, n_ids, traits)
    args: Args = (
        *(node, values, ids, i32(n0), i32(n_ids), i32(node.shape[1])),
        *(i64(node.strides[1]), i64(values.strides[1]), per_item),
    )
    defines = {**defines, "X": TYPE_NAMES[node.fmt]}
    return [Launch("rows", "set_rows", args, size, local, defines)]
