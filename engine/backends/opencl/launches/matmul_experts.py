"""Launches of matmul_id over experts in row tiles; over plain ones by matmul_plain."""

from collections.abc import Sequence

from engine.backends.base import TypeOf
from engine.backends.opencl.launch import Arg, DeviceTraits, Launch
from engine.backends.opencl.launches import matmul_plain
from engine.backends.opencl.launches.matmul import (
    is_tiled,
    operands_of,
    records,
    rows_of_item,
    team_of_lanes,
    tile_defines,
)
from engine.backends.opencl.launches.quantize import panel_rows
from engine.backends.opencl.launches.sizes import Defines, i32, i64
from engine.backends.opencl.tiles.layouts import matrix_bytes
from engine.backends.opencl.tiles.schemes import TILE
from engine.gguf.formats import F32, I32
from engine.graph.op import Op
from engine.graph.tensor import Tensor, node

# Pairs of token and expert for every expert, from which on they are grouped.
_GROUPED = 4


def supports_matmul_id(node: Tensor, type_of: TypeOf) -> bool:
    """Tiled experts as a whole times f32 rows; what plain kernels can."""
    a, b = operands_of(node)
    if not is_tiled(a, type_of):
        return matmul_plain.supports_plain(node, type_of)
    rows = b.op is Op.QUANTIZE or (b.fmt is F32 and b.strides[0] == 4)
    return a.root is None and rows


def matmul_id(node: Tensor, type_of: TypeOf, traits: DeviceTraits) -> Sequence[Launch]:
    """One launch. Sources of a tiled product: experts, x in panels of one row, ids or groups."""
    a, x, ids = node.src
    assert a is not None
    assert x is not None
    assert ids is not None
    if x.op is not Op.QUANTIZE:
        return matmul_plain.matmul_id(node, type_of, traits)
    rows = x.src[0]
    assert rows is not None
    m, used, tokens, _ = node.shape
    grouped = ids.op is Op.GROUP_IDS
    panel = panel_rows(tokens * used, traits) if grouped else 1
    groups = a.shape[2] + 1 if grouped else tokens * used
    sizes = (m, records(a), a.shape[2], used, rows.shape[1])
    strides = (matrix_bytes(a.fmt, a.shape), *ids.strides[:2])
    args: tuple[Arg, ...] = (node, a, x, ids, *map(i32, sizes), *map(i64, strides))
    defines: Defines = tile_defines(a.fmt, x, panel, traits)
    if traits.is_cpu:
        item = rows_of_item(m * groups, panel, traits)
        size, local = (-(-m // item), groups), (1, 1)
        defines = {**defines, "ROWS": item}
    else:
        team = team_of_lanes(traits)
        size, local = (-(-m // TILE) * TILE, groups * team), (TILE, team)
        defines = {**defines, "ROWS": 1, "TEAM": team}
    return [Launch("matmul_experts", "matmul_experts", args, size, local, defines)]


def grouped_ids(product: Tensor) -> Tensor | None:
    """A node of the pairs of token and expert by expert, where that saves reading weights:
    i32 [experts + 2] where each expert's pairs start, then the pairs [used * tokens]. The last
    group is of ids that no expert has.
    """
    a, ids = product.src[0], product.src[2]
    assert a is not None
    assert ids is not None
    experts, pairs = a.shape[2], ids.shape[0] * ids.shape[1]
    if pairs < _GROUPED * experts or pairs == 1:
        return None
    made = node(Op.GROUP_IDS, I32, (experts + 2 + pairs,), ids, experts=experts)
    return made.named(f"{ids.name} (grouped)")


def supports_group_ids(node: Tensor, type_of: TypeOf) -> bool:
    """i32 ids."""
    ids = node.src[0]
    return ids is not None and ids.fmt is I32


def group_ids(node: Tensor, type_of: TypeOf, traits: DeviceTraits) -> Sequence[Launch]:
    """An item a group."""
    ids = node.src[0]
    assert ids is not None
    used, tokens = ids.shape[:2]
    sizes = (node.attr["experts"], used, used * tokens)
    args: tuple[Arg, ...] = (node, ids, *map(i32, sizes), *map(i64, ids.strides[:2]))
    return [Launch("group_ids", "group_ids", args, (node.attr["experts"] + 1,))]
