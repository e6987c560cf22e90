"""Launches of products whose items, or groups of lanes, normalise the one row that they meet."""

from collections.abc import Sequence

from engine.backends.opencl.launch import Args, DeviceTraits, Launch
from engine.backends.opencl.launches.matmul_tiled import (
    lane_defines,
    larger_team,
    products,
    records,
    row_defines,
    rows_of_item,
    team_of_lanes,
    vector_defines,
)
from engine.backends.opencl.launches.quantize import BLOCK, BLOCK_BYTES, has_dots
from engine.backends.opencl.launches.sizes import (
    Defines,
    aligned,
    floats,
    ints,
    longs,
    vector_width,
)
from engine.backends.opencl.tiles.schemes import SCHEMES, TILE
from engine.device.backend import TypeOf
from engine.gguf.formats import F32, Format
from engine.graph.lowered import NormedRow, NormGated, NormMatmul
from engine.graph.tensor import Tensor

_ITEMS_OF_CORE = 3
_MOST = 32
"""Tiles of an item: more keep cores waiting for the last item longer than a launch takes."""
_WIDEST = 1024
"""Elements that an item normalises in a third of the time that a launch takes."""
_LINE = 64
_GROUPS_OF_UNIT = 16
"""Groups of lanes that a unit of a GPU makes one after the other, each of which normalises the row:
more take longer than a launch.
"""


def lanes_normalise(width: int, sizes: Sequence[int], traits: DeviceTraits) -> bool:
    """True if groups of lanes have room for a row of `width` elements in local memory, beside the
    sums of gate and up, and are few enough.
    """
    tiles = sum(-(-m // TILE) for m in sizes)
    sums = (2 * team_of_lanes(traits) + 1) * TILE * F32.bytes
    fits = _bytes_of_row(width) + sums <= traits.local_memory
    return has_dots(traits) and fits and tiles <= _GROUPS_OF_UNIT * traits.compute_units


def _bytes_of_row(width: int) -> int:
    """Bytes of a row in 12 bits."""
    return width // BLOCK * BLOCK_BYTES[12]


def items_of_normed(width: int, sizes: Sequence[int], traits: DeviceTraits) -> int:
    """Items that make products of a row of `width` elements, with so many rows each; 0 where a
    launch for the norm costs less.
    """
    tiles = sum(-(-m // TILE) for m in sizes)
    items = min(tiles, _ITEMS_OF_CORE * traits.compute_units)
    pays = width <= _WIDEST and tiles <= _MOST * items
    return items if traits.items_take_vectors and pays else 0


def bytes_of_item(width: int) -> int:
    """Bytes an item needs for a row of that many elements: its sum, and its blocks in 12 bits."""
    return -(-(width * F32.bytes + width // BLOCK * BLOCK_BYTES[12]) // _LINE) * _LINE


def norm_matmul(node: Tensor, type_of: TypeOf, traits: DeviceTraits) -> Sequence[Launch]:
    """One launch for up to three products."""
    op = NormMatmul.of(node)
    weights = [a for a in (op.a, op.a1, op.a2) if a is not None]
    sizes = [a.shape[1] for a in weights]
    rows = rows_of_item(sum(sizes), traits)
    m0, m1, m2 = (*sizes, 0, 0)[:3]
    parts, items = sum(-(-m // rows) for m in sizes), _items(op)
    args: Args = {
        **products(node, op),
        "added": None,
        **_row(op),
        **ints(m0=m0, m1=m1, m2=m2, records=records(op.a), each=-(-parts // items)),
    }
    if not traits.items_take_vectors:
        return [_by_lanes(op, op.a, sizes, "matmul", args, {}, traits)]
    defines = _defines(op, op.a.fmt, rows, traits)
    return [Launch("matmul_tiled", "matmul", args, (items,), (1,), defines, packs=True)]


def norm_gated(node: Tensor, type_of: TypeOf, traits: DeviceTraits) -> Sequence[Launch]:
    """The activation of two products, in panels."""
    op = NormGated.of(node)
    gate, items = op.gate, _items(op)
    tiles = gate.shape[1] // TILE
    at_once = min(traits.tuned.tiles, -(-tiles // items))
    each = -(-tiles // (items * at_once)) * at_once  # no item begins within another's run
    args: Args = {
        "out": node,
        "gate": gate,
        "up": op.up,
        **_row(op),
        **ints(m=gate.shape[1], records=records(gate), each=each),
    }
    if not traits.items_take_vectors:
        act: Defines = {"ACT": op.act.upper()}
        return [_by_lanes(op, gate, [gate.shape[1]], "gated", args, act, traits)]
    defines = {
        **_defines(op, gate.fmt, TILE, traits),
        "ACT": op.act.upper(),
        "TILES": at_once,
    }
    return [Launch("matmul_tiled", "gated", args, (items,), (1,), defines, packs=True)]


def _by_lanes(
    op: NormedRow,
    a: Tensor,
    sizes: Sequence[int],
    kernel: str,
    args: Args,
    more: Defines,
    traits: DeviceTraits,
) -> Launch:
    """A group of lanes makes a tile of 32 rows of products of so many rows."""
    tiles, used = sum(-(-m // TILE) for m in sizes), _bytes_of_row(op.x.shape[0])
    team = larger_team(team_of_lanes(traits), tiles, records(a), 1, traits, used)
    defines = {
        **SCHEMES[a.fmt].defines,
        **lane_defines(team),
        **_row_defines(op, traits),
        **more,
        **aligned(traits, op.x, op.added, op.weight1, op.weight2),
        "X_DIGITS": 1,
        "DOT4": traits.dot4,
    }
    size = (tiles * TILE, team)
    return Launch("matmul_tiled", kernel, args, size, (TILE, team), defines, packs=True)


def _items(op: NormedRow) -> int:
    """Items that have a row of their own; 1 where groups of lanes have it in local memory."""
    return 1 if op.own is None else op.own.shape[1]


def _row(op: NormedRow) -> Args:
    """The arguments of tiled_normed.cl."""
    return {
        "x": op.x,
        "w1": op.weight1,
        "r": op.added,
        "w2": op.weight2,
        "h": op.total,
        "own": op.own,
        **longs(own_bytes=0 if op.own is None else op.own.shape[0]),
        **floats(eps1=op.eps1, eps2=op.eps2),
    }


def _defines(op: NormedRow, fmt: Format, rows: int, traits: DeviceTraits) -> Defines:
    return {
        **row_defines(fmt, traits),
        **vector_defines(rows, 1, traits),
        **_row_defines(op, traits),
        "CHUNK": 1,
    }


def _row_defines(op: NormedRow, traits: DeviceTraits) -> Defines:
    return {
        "PANEL": 1,
        "NORMED": op.x.shape[0],
        "FIRST": int(op.added is not None),
        "W": vector_width(traits),
    }
