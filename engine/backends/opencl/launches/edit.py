"""Launches of edit."""

from collections.abc import Sequence

from engine.backends.opencl.launch import Args, DeviceTraits, Launch
from engine.backends.opencl.launches.sizes import are, ints, readable, row_teams
from engine.device.backend import TypeOf
from engine.gguf.formats import F32, I32
from engine.graph.ops.edit import RowEdits
from engine.graph.tensor import Tensor


def supports_edit(node: Tensor, type_of: TypeOf) -> bool:
    """Packed float32 rows and 32-bit instructions."""
    op = RowEdits.of(node)
    floats = (op.x, op.number, op.vectors, op.entered)
    whole = (op.first, op.count, op.code, op.experts)
    packed = all(t is None or t.is_contiguous for t in node.src)
    return readable(node, type_of) and packed and are((F32,), *floats) and are((I32,), *whole)


def edit(node: Tensor, type_of: TypeOf, traits: DeviceTraits) -> Sequence[Launch]:
    """One team of work-items per row."""
    op = RowEdits.of(node)
    per_group, size, local, defines = row_teams(op.n_rows, traits)
    args: Args = {
        "out": node,
        "x": op.x,
        "first": op.first,
        "count": op.count,
        "code": op.code,
        "number": op.number,
        "vectors": op.vectors,
        "entered": op.entered,
        "experts": op.experts,
        **ints(n0=op.width, rows=op.n_rows),
        **ints(has_entered=op.entered is not None, has_experts=op.experts is not None),
        **ints(per_group=per_group),
    }
    return [Launch("edit", "edit", args, size, local, defines)]
