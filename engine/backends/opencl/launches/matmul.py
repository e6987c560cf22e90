"""Launches of matrix products: weights in row tiles; the others by matmul_plain."""

from collections.abc import Sequence
from typing import NamedTuple

from engine.backends.base import PLAIN, TypeOf
from engine.backends.opencl.launch import Arg, DeviceTraits, Launch
from engine.backends.opencl.launches.matmul_plain import matmul_plain, supports_plain
from engine.backends.opencl.launches.quantize import has_wide_vectors, panel_defines
from engine.backends.opencl.launches.sizes import i32, i64
from engine.backends.opencl.tiles.layouts import TILES
from engine.backends.opencl.tiles.schemes import SCHEMES, TILE
from engine.gguf.formats import F32, Format
from engine.graph.op import Op
from engine.graph.tensor import Tensor

AT_ONCE = 3
"""Products of the same activations that one launch makes."""

# The fewest rows of a weight that an item makes where it uses vectors.
LEAST_ROWS = 8

# Items that a core is left with where one makes several tiles.
_ITEMS_OF_CORE = 3


def supports_matmul(node: Tensor, type_of: TypeOf) -> bool:
    """Tiled weights as a whole times f32 rows, rounded unless weights are floats; what plain
    kernels can.
    """
    a, b = operands_of(node)
    if not is_tiled(a, type_of):
        return supports_plain(node, type_of)
    rows = b.op is Op.QUANTIZE or (b.fmt is F32 and b.strides[0] == 4)
    may_round = SCHEMES[a.fmt].exact or not node.attr.get("full_precision")
    return a.root is None and a.shape[2] == 1 and rows and may_round


def operands_of(node: Tensor) -> tuple[Tensor, Tensor]:
    """The weights and the activations of a product."""
    a, b, *_ = node.src
    assert a is not None
    assert b is not None
    return a, b


def is_tiled(a: Tensor, type_of: TypeOf) -> bool:
    """Whether the first operand lies in row tiles."""
    kind = type_of(a.storage)
    assert kind is None or kind.layout in (PLAIN, *TILES), kind
    return kind is not None and kind.layout in TILES


def matmul(node: Tensor, type_of: TypeOf, traits: DeviceTraits) -> Sequence[Launch]:
    """One launch. Sources of a tiled product: a, x, then further pairs of `a` and the product that
    it makes of x (lower.py).
    """
    x = node.src[1]
    if x is not None and x.op is Op.QUANTIZE:
        return [_tiled([node, *node.src[3::2]], node.src[::2], x, None, traits)]
    return [matmul_plain(node, traits)]


def supports_matmul_add(node: Tensor, type_of: TypeOf) -> bool:
    """Columns without gaps, one step apart from each other; or a bias."""
    *_, added = node.src
    assert added is not None
    same = added.shape == node.shape and (added.is_contiguous or node.shape[2:] == (1, 1))
    bias = added.dims == node.shape[:1]
    return added.fmt is F32 and added.strides[0] == 4 and (same or bias)


def matmul_add(node: Tensor, type_of: TypeOf, traits: DeviceTraits) -> Sequence[Launch]:
    """A tiled product and what is added to it. Sources: a, x, added."""
    a, x, added = node.src
    assert x is not None
    return [_tiled([node], [a], x, added, traits)]


def matmul_gated(node: Tensor, type_of: TypeOf, traits: DeviceTraits) -> Sequence[Launch]:
    """The activation of two tiled products in panels. Sources: gate, x, up."""
    gate, x, up = node.src
    assert gate is not None
    assert x is not None
    tiles = _tiles_of_item(gate.shape[1], x.attr["panel"], traits)
    each, size, local, defines = _grid(gate.fmt, [gate.shape[1]], x, tiles * TILE, traits)
    defines |= {"ACT": str(node.attr["act"]).upper(), "TILES": tiles}
    sizes = (gate.shape[1], records(gate), _columns(x), each)
    args: tuple[Arg, ...] = (node, gate, up, x, *map(i32, sizes))
    return [Launch("matmul_tiled", "gated", args, size, local, defines)]


def _tiled(
    results: Sequence[Tensor | None],
    weights: Sequence[Tensor | None],
    x: Tensor,
    added: Tensor | None,
    traits: DeviceTraits,
) -> Launch:
    present = [a for a in weights if a is not None]
    rows, fmt = [a.shape[1] for a in present], present[0].fmt
    item = rows_of_item(sum(rows), x.attr["panel"], traits)
    each, size, local, defines = _grid(fmt, rows, x, item, traits)
    absent = AT_ONCE - len(rows)
    parts = [t for pair in zip(results, present, strict=True) for t in pair] + [None, None] * absent
    sizes = map(i32, (*rows, *[0] * absent, records(present[0]), _columns(x), each))
    step = 0 if added is None or added.dims == (rows[0],) else added.strides[1]
    args: tuple[Arg, ...] = (*parts, added, x, *sizes, i64(step))
    return Launch("matmul_tiled", "matmul", args, size, local, defines)


def records(a: Tensor) -> int:
    """Records that a row of tiled weights has."""
    return a.shape[0] // SCHEMES[a.fmt].elements


def _columns(x: Tensor) -> int:
    """How many rows a tensor in panels has."""
    rows = x.src[0]
    assert rows is not None
    return rows.nelements // rows.shape[0]


def _tiles_of_item(m: int, panel: int, traits: DeviceTraits) -> int:
    """Several for one row of x: it waits for memory, which weights read in turn slow down."""
    if not traits.is_cpu or panel > 1:
        return 1
    return max(1, min(traits.tuned.tiles, m // TILE // (_ITEMS_OF_CORE * traits.compute_units)))


class _Grid(NamedTuple):
    """Panels that an item makes, sizes, and what the program is built with."""

    each: int
    size: tuple[int, ...]
    local: tuple[int, ...]
    defines: dict[str, int | str]


def _grid(fmt: Format, rows: Sequence[int], x: Tensor, item: int, traits: DeviceTraits) -> _Grid:
    """Items over products of so many rows each; on a CPU one makes `item` rows of them."""
    panel, panels = x.attr["panel"], x.shape[1]
    defines = tile_defines(fmt, x, panel, traits)
    if traits.is_cpu:
        each, items = traits.tuned.chunk // panel, sum(-(-m // item) for m in rows)
        return _Grid(each, (items, -(-panels // each)), (1, 1), defines | {"ROWS": min(item, TILE)})
    team, tiles = team_of_lanes(traits), sum(-(-m // TILE) for m in rows)
    size, local = (tiles * TILE, team, panels), (TILE, team, 1)
    return _Grid(1, size, local, defines | {"ROWS": 1, "TEAM": team})


def tile_defines(fmt: Format, x: Tensor, panel: int, traits: DeviceTraits) -> dict[str, int | str]:
    """What a program of products of row tiles is built with, whoever its items are."""
    made = {**SCHEMES[fmt].defines, **panel_defines(x), "PANEL": panel}
    if traits.is_cpu and panel == 1:
        made["AHEAD"] = traits.tuned.ahead
    return made


def team_of_lanes(traits: DeviceTraits) -> int:
    """Items that share a row's records where items are lanes."""
    return min(traits.tuned.lane_team, traits.max_work_group // TILE)


def rows_of_item(m: int, panel: int, traits: DeviceTraits) -> int:
    """A tile's; fewer where registers hold fewer sums, or where cores would have nothing to do."""
    rows = TILE if panel == 1 or has_wide_vectors(traits) else TILE // 2
    while rows > LEAST_ROWS and m < rows * traits.compute_units:
        rows //= 2
    return rows
