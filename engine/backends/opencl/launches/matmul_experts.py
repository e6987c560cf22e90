"""Launches of matmul_id over experts in row tiles."""

from collections.abc import Sequence

from engine.backends.opencl.launch import Args, DeviceTraits, Launch
from engine.backends.opencl.launches.matmul_plain import supports_plain
from engine.backends.opencl.launches.matmul_tiled import (
    is_tiled,
    lane_defines,
    records,
    rows_of_item,
    team_of_lanes,
    tile_defines,
    vector_defines,
)
from engine.backends.opencl.launches.quantize import panel_rows
from engine.backends.opencl.launches.sizes import (
    Defines,
    are,
    gapless,
    ints,
    longs,
    readable,
    strides,
)
from engine.backends.opencl.tiles.layouts import matrix_bytes
from engine.backends.opencl.tiles.schemes import TILE
from engine.device.backend import TypeOf
from engine.gguf.formats import F32, I32
from engine.graph.lowered import GroupIds, MatmulExperts, Quantize
from engine.graph.op import Op
from engine.graph.ops.matmul import MatmulId
from engine.graph.tensor import Tensor


def supports_matmul_id(node: Tensor, type_of: TypeOf) -> bool:
    """Tiled experts as a whole times f32 rows; what plain kernels can."""
    op = MatmulId.of(node)
    a, b = op.a, op.b
    if not is_tiled(a, type_of):
        ids = are((I32,), op.ids)
        return readable(node, type_of) and supports_plain(a, b) and ids
    return a.root is None and b.fmt is F32 and gapless(b)


def matmul_experts(node: Tensor, type_of: TypeOf, traits: DeviceTraits) -> Sequence[Launch]:
    """One launch: items over rows, and over experts or pairs of token and expert."""
    op = MatmulExperts.of(node)
    a, x, ids = op.a, Quantize.of(op.x).x, op.ids
    m, used, tokens, _ = node.shape
    grouped = ids.op is Op.GROUP_IDS
    usual = tokens * used // a.shape[2]  # pairs of an expert; some have many more
    panel = panel_rows(max(2, 2 * usual), traits, scattered=True) if grouped else 1
    groups = a.shape[2] + 1 if grouped else tokens * used
    args: Args = {
        "y": node,
        "a": a,
        "x": op.x,
        "ids": ids,
        "bias": op.bias,
        **ints(m=m, records=records(a), experts=a.shape[2], used=used, step=x.shape[1]),
        **longs(expert_bytes=matrix_bytes(a.fmt, a.shape)),
        **strides("id", ids.strides[:2]),
        **longs(bias_bytes=0 if op.bias is None else op.bias.strides[1]),
    }
    defines: Defines = tile_defines(a.fmt, op.x, panel, traits)
    if traits.items_take_vectors:
        item = rows_of_item(m * groups, traits)
        size, local = (-(-m // item), groups), (1, 1)
        defines = {**defines, **vector_defines(item, panel, traits)}
    else:
        team = team_of_lanes(traits)
        size, local = (-(-m // TILE) * TILE, groups * team), (TILE, team)
        defines = {**defines, **lane_defines(team)}
    return [Launch("matmul_experts", "matmul_experts", args, size, local, defines)]


def supports_bias(product: MatmulExperts, bias: Tensor, ids: Tensor) -> bool:
    """f32 rows without gaps, chosen by the ids of the product."""
    own = product.ids
    chosen = GroupIds.of(own).ids if own.op is Op.GROUP_IDS else own
    return bias.fmt is F32 and gapless(bias) and chosen is ids and product.bias is None


def group_ids(node: Tensor, type_of: TypeOf, traits: DeviceTraits) -> Sequence[Launch]:
    """An item a group."""
    op = GroupIds.of(node)
    ids, (used, tokens, _, _) = op.ids, op.ids.shape
    args: Args = {
        "out": node,
        "ids": ids,
        **ints(experts=op.experts, used=used, pairs=used * tokens),
        **strides("id", ids.strides[:2]),
    }
    return [Launch("group_ids", "group_ids", args, (op.experts + 1,))]
