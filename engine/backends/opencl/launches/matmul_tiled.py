"""Launches of matrix products whose weights lie in row tiles."""

from collections.abc import Sequence
from typing import NamedTuple

from engine.backends.opencl.launch import Args, DeviceTraits, Launch
from engine.backends.opencl.launches.matmul_plain import supports_plain
from engine.backends.opencl.launches.quantize import (
    WIDE_ITEMS,
    has_bytes,
    has_wide_vectors,
    in_digits,
    is_wide,
    panel_defines,
)
from engine.backends.opencl.launches.sizes import floats, gapless, ints, longs, readable
from engine.backends.opencl.tiles.layouts import TILES
from engine.backends.opencl.tiles.schemes import SCHEMES, TILE, FloatScheme
from engine.device.backend import PLAIN, TypeOf
from engine.gguf.formats import F32, Format
from engine.graph.lowered import MatmulAdd, MatmulGated, MatmulTiled, NormMatmul, Panels, Quantize
from engine.graph.ops.matmul import Matmul
from engine.graph.tensor import Tensor

AT_ONCE = 3
"""Products of the same activations that one launch makes."""

# The fewest rows of a weight that an item makes where it uses vectors.
LEAST_ROWS = 8

# Most rows of x with which a product of items with vectors still waits for its weights.
WAITING_ROWS = 16

WIDE_SIDE, SUB_GROUPS = 64, {"DPAS8": 8, "DPAS16": 16}
LARGE_GRF = {"LARGE_GRF": 1}
"""Define of a program whose threads get twice the registers, where Intel's matrix units are."""

"""Rows and columns of y that a group makes of many (matmul_wide.cl); lanes of Intel's waves."""

SHARED_ROWS = 64
"""Rows of x for which lanes bring a weight into local memory once."""

# Items of many rows of x that a core is left with, so that all cores end at about the same time;
# and the fewest rows of x for which weights are worth unpacking.
_LEAST_ITEMS, _LEAST_CHUNK = 8, 32

# Waves of 32 lanes that a unit of a GPU has, so that enough loads are on their way; and how many of
# them make a group at most.
_WAVES_OF_UNIT, _LARGEST_TEAM = 16, 32

# Items that a core is left with where one makes several tiles.
_ITEMS_OF_CORE = 3


def supports_matmul(node: Tensor, type_of: TypeOf) -> bool:
    """Tiled weights as a whole times f32 rows, rounded unless weights are floats; what plain
    kernels can.
    """
    op = Matmul.of(node)
    a, b = op.a, op.b
    if not is_tiled(a, type_of):
        return readable(node, type_of) and supports_plain(a, b)
    may_round = SCHEMES[a.fmt].exact or not op.full_precision
    return a.root is None and a.shape[2] == 1 and b.fmt is F32 and gapless(b) and may_round


def is_tiled(a: Tensor, type_of: TypeOf) -> bool:
    """True if the first operand lies in row tiles."""
    kind = type_of(a.storage)
    assert kind is None or kind.layout in (PLAIN, *TILES), kind
    return kind is not None and kind.layout in TILES


def matmul_tiled(node: Tensor, type_of: TypeOf, traits: DeviceTraits) -> Sequence[Launch]:
    """One launch for up to three products."""
    op = MatmulTiled.of(node)
    return [_products(op, node, None, 1.0, traits)]


def supports_matmul_add(node: Tensor, added: Tensor) -> bool:
    """Columns without gaps, one step apart from each other; or a bias."""
    same = added.shape == node.shape and (added.is_contiguous or node.shape[2:] == (1, 1))
    bias = added.dims == node.shape[:1]
    return added.fmt is F32 and gapless(added) and (same or bias)


def matmul_add(node: Tensor, type_of: TypeOf, traits: DeviceTraits) -> Sequence[Launch]:
    """A product and what is added to it."""
    op = MatmulAdd.of(node)
    product = MatmulTiled(op.a, op.x, bias=op.bias)
    return [_products(product, node, op.added, op.factor, traits)]


def matmul_gated(node: Tensor, type_of: TypeOf, traits: DeviceTraits) -> Sequence[Launch]:
    """The activation of two products, in panels."""
    op = MatmulGated.of(node)
    gate, x, m = op.gate, Quantize.of(op.x), op.gate.shape[1]
    tiles = _tiles_of_item(m, x.panels.rows, traits)
    grid = _grid(gate.fmt, [m], op.x, tiles * TILE, traits, column_bytes=4 * TILE)
    args: Args = {
        "out": node,
        "gate": gate,
        "up": op.up,
        "x": op.x,
        **ints(m=m, records=records(gate), n=x.n_rows, panels=grid.each),
    }
    defines = {**grid.defines, "ACT": op.act.upper(), "TILES": tiles}
    return [Launch(grid.family, "gated", args, grid.size, grid.local, defines, packs=True)]


def _products(
    op: MatmulTiled, node: Tensor, added: Tensor | None, factor: float, traits: DeviceTraits
) -> Launch:
    m0, m1, m2 = (0 if a is None else a.shape[1] for a in (op.a, op.a1, op.a2))
    rows, x = [a.shape[1] for a in op.weights], Quantize.of(op.x)
    item = rows_of_item(sum(rows), traits)
    grid = _grid(op.a.fmt, rows, op.x, item, traits)
    step = 0 if added is None or added.dims == (m0,) else added.strides[1]
    args: Args = {
        **products(node, op),
        "added": added,
        "x": op.x,
        **ints(m0=m0, m1=m1, m2=m2, records=records(op.a), n=x.n_rows, panels=grid.each),
        **longs(step=step),
        **floats(factor=factor),
    }
    return Launch(grid.family, "matmul", args, grid.size, grid.local, grid.defines, packs=True)


def records(a: Tensor) -> int:
    """Records that a row of tiled weights has."""
    return a.shape[0] // SCHEMES[a.fmt].elements


def _tiles_of_item(m: int, panel: int, traits: DeviceTraits) -> int:
    """Several for one row of x: it waits for memory, which weights read in turn slow down."""
    if not traits.items_take_vectors or panel > 1:
        return 1
    return max(1, min(traits.tuned.tiles, m // TILE // (_ITEMS_OF_CORE * traits.compute_units)))


class _Grid(NamedTuple):
    """Panels that an item makes (all panels of x for `matmul_wide`), sizes, and what the program is
    built with.
    """

    each: int
    size: tuple[int, ...]
    local: tuple[int, ...]
    defines: dict[str, int | str]
    family: str = "matmul_tiled"


def _grid(
    fmt: Format,
    rows: Sequence[int],
    x: Tensor,
    item: int,
    traits: DeviceTraits,
    column_bytes: int = 0,
) -> _Grid:
    """Items over products of so many rows each; with vectors one makes `item` rows of them, lanes
    share records in local memory where it also has `column_bytes` for every column of a group.
    """
    panel, panels = Quantize.of(x).panels.rows, x.shape[1]
    defines = tile_defines(fmt, x, panel, traits)
    if traits.items_take_vectors:
        items = sum(-(-m // item) for m in rows)
        most = 1 if panels == 1 else traits.tuned.chunk // panel
        groups = -(-panels * panel // chunk_of_item(items, panels * panel, traits))
        digits = Quantize.of(x).panels.digits
        sums = 2 * panel if digits and panel > 1 else panel
        defines |= {"CHUNK": most * panel, **vector_defines(min(item, TILE), sums, traits)}
        if Quantize.of(x).panels.bits == 8:
            defines["STAGED"] = 1
        elif panel > 1 and not digits and SCHEMES[fmt].stages(panels * panel):
            defines |= {"STAGED": 1, "CROSSED": _crossed(panel, traits)}
        return _Grid(-(-panels // groups), (items, groups), (1, 1), defines)
    if is_wide(fmt, Quantize.of(x).n_rows, traits) or Quantize.of(x).panels.bits == 16:
        return _wide_grid(rows, x, bool(column_bytes), defines, traits)
    team, tiles = team_of_lanes(traits), sum(-(-m // TILE) for m in rows)
    groups = panels
    each = -(-SHARED_ROWS // (panel * team))
    used = SCHEMES[fmt].record_bytes + each * panel * team * column_bytes
    if used <= traits.local_memory and Quantize.of(x).n_rows > SHARED_ROWS // 2:
        groups = -(-panels // (each * team))
        defines |= {"SHARED": 1, "PANELS": each}
    else:
        records = Quantize.of(x).x.shape[0] // SCHEMES[fmt].elements
        team = larger_team(team, tiles * panels, records, panel, traits)
    defines |= lane_defines(team)
    return _Grid(1, (tiles * TILE, team, groups), (TILE, team, 1), defines)


def _wide_grid(
    rows: Sequence[int],
    x: Tensor,
    gated: bool,
    defines: dict[str, int | str],
    traits: DeviceTraits,
) -> _Grid:
    """Groups over 64 rows of x and 64 of weights: two tiles, or one of gate and one of up; those of
    the same weights one after the other.
    """
    tiles = sum(-(-m // TILE) for m in rows)
    across = -(-Quantize.of(x).n_rows // WIDE_SIDE)
    halves = Quantize.of(x).panels.bits == 16
    # Experts read bytes beside products of halves; fma is a way of halves that has no units.
    matrix = traits.matrix if halves == traits.matrix_halves else ""
    if made := matrix_defines(matrix):
        defines |= made
        defines.pop("DOT4", None)
    size = (across * WIDE_ITEMS, tiles if gated else -(-tiles // 2))
    defines |= {"ROWS": 1, "LANES": 1}
    return _Grid(x.shape[1], size, (WIDE_ITEMS, 1), defines, "matmul_wide")


def matrix_defines(way: str) -> dict[str, int | str]:
    """Build options of a program that multiplies fragments with such units; none without."""
    if way in ("", "HALVES"):
        return {}
    return {"MATRIX": way, **({"SUB_GROUP": SUB_GROUPS[way]} if way in SUB_GROUPS else {})}


def tile_defines(fmt: Format, x: Tensor, panel: int, traits: DeviceTraits) -> dict[str, int | str]:
    """Build options of a program that multiplies row tiles, for items of any kind."""
    defines = {**SCHEMES[fmt].defines, **panel_defines(Quantize.of(x).panels), "PANEL": panel}
    if traits.items_take_vectors and Quantize.of(x).n_rows <= WAITING_ROWS:
        defines["AHEAD"] = traits.tuned.ahead
    return defines | _byte_defines(fmt, Quantize.of(x).panels, traits)


def row_defines(fmt: Format, traits: DeviceTraits) -> dict[str, int | str]:
    """Build options of a program for vectors whose items make the panels of one row themselves."""
    panels = Panels(1, 12, in_digits(fmt, 1, 1, traits))
    defines = {**SCHEMES[fmt].defines, **panel_defines(panels), "PANEL": 1}
    return defines | {"AHEAD": traits.tuned.ahead, **_byte_defines(fmt, panels, traits)}


def _byte_defines(fmt: Format, panels: Panels, traits: DeviceTraits) -> dict[str, int | str]:
    """Build options where instructions for bytes find or multiply what codes stand for."""
    scheme = SCHEMES[fmt]
    if isinstance(scheme, FloatScheme) or not traits.items_take_vectors:
        return {"DOT4": traits.dot4} if panels.digits else {}
    vnni = {"VNNI": 1} if traits.vnni else {}
    if panels.digits:
        return {**scheme.digit_defines, **vnni}
    if panels.bits == 8:
        return {**scheme.byte_defines, **vnni}
    return scheme.positive_defines if scheme.table and has_bytes(traits) else {}


def team_of_lanes(traits: DeviceTraits) -> int:
    """Items that share a row's records where items are lanes."""
    return max(1, min(traits.tuned.lane_team, traits.max_work_group // TILE))


def larger_team(
    team: int, groups: int, records: int, panel: int, traits: DeviceTraits, used: int = 0
) -> int:
    """`team`, doubled while that gives units more loads to wait for, and each item a record. The
    sums of gate and of up meet in local memory, of which so many bytes are `used` for something
    else.
    """
    fits = ((traits.local_memory - used) // (4 * TILE * panel) - 1) // 2
    most = min(_LARGEST_TEAM, traits.max_work_group // TILE, records, fits)
    while team * 2 <= most and groups * team < _WAVES_OF_UNIT * traits.compute_units:
        team *= 2
    return team


def lane_defines(team: int) -> dict[str, int | str]:
    """Build options where items are lanes, `team` of which make a row."""
    return {"ROWS": 1, "LANES": 1, "TEAM": team}


def vector_defines(rows: int, sums: int, traits: DeviceTraits) -> dict[str, int | str]:
    """Build options where an item makes several rows with vectors: as many as registers hold so
    many sums of each.
    """
    lanes = 16 if has_wide_vectors(traits) and rows >= 16 else 8
    vectors, most = 1, min(rows // lanes, _sums_in_registers(traits) // sums)
    while vectors * 2 <= most:
        vectors *= 2
    return {"ROWS": rows, "LANES": lanes, "VECTORS": vectors}


def _sums_in_registers(traits: DeviceTraits) -> int:
    """Three quarters of the registers: 32 wide ones, or 16, of which narrow ones go in pairs."""
    if has_wide_vectors(traits):
        return 24
    return 12 if traits.vector_ints >= LEAST_ROWS else 6


def _crossed(panel: int, traits: DeviceTraits) -> int:
    """Rows of a panel whose products are made with half the multiplications: as tuned where
    registers are wide; else three of four, which leaves units that multiply and units that only
    add busy alike.
    """
    if has_wide_vectors(traits):
        return traits.tuned.crossed * panel // 8
    return panel * 3 // 4 if traits.vector_ints >= LEAST_ROWS else 0


def rows_of_item(m: int, traits: DeviceTraits) -> int:
    """A tile's; fewer where cores would have nothing to do."""
    rows = TILE
    while rows > LEAST_ROWS and m < rows * traits.compute_units:
        rows //= 2
    return rows


def chunk_of_item(items: int, n: int, traits: DeviceTraits) -> int:
    """Rows of x, of n, that each of so many items makes: as tuned, as weights are unpacked once for
    them; fewer where some cores would wait long for others.
    """
    chunk = traits.tuned.chunk
    while chunk > _LEAST_CHUNK and items * -(-n // chunk) < _LEAST_ITEMS * traits.compute_units:
        chunk //= 2
    return chunk


def products(node: Tensor, op: MatmulTiled | NormMatmul) -> Args:
    """Where up to three products of the same x go, their weights, and their biases."""
    return {
        "y0": node,
        "a0": op.a,
        "y1": op.y1,
        "a1": op.a1,
        "y2": op.y2,
        "a2": op.a2,
        "b0": op.bias,
        "b1": op.bias1,
        "b2": op.bias2,
    }
