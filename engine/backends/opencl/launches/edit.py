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
    given = RowEdits.of(node)
    floats = (given.x, given.number, given.vectors, given.entered)
    whole = (given.first, given.count, given.code, given.experts)
    packed = all(t is None or t.is_contiguous for t in node.src)
    return readable(node, type_of) and packed and are((F32,), *floats) and are((I32,), *whole)


def edit(node: Tensor, type_of: TypeOf, traits: DeviceTraits) -> Sequence[Launch]:
    """One team of work-items per row."""
    given = RowEdits.of(node)
    per_group, size, local, defines = row_teams(given.n_rows, traits)
    args: Args = {
        "out": node,
        "x": given.x,
        "first": given.first,
        "count": given.count,
        "code": given.code,
        "number": given.number,
        "vectors": given.vectors,
        "entered": given.entered,
        "experts": given.experts,
        **ints(n0=given.width, rows=given.n_rows),
        **ints(has_entered=given.entered is not None, has_experts=given.experts is not None),
        **ints(per_group=per_group),
    }
    return [Launch("edit", "edit", args, size, local, defines)]
