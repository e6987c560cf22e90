"""Launches of products whose items normalise the one row that they meet."""

from collections.abc import Sequence

from engine.backends.opencl.launch import Args, DeviceTraits, Launch
from engine.backends.opencl.launches.matmul_tiled import (
    products,
    records,
    rows_of_item,
    vector_defines,
)
from engine.backends.opencl.launches.quantize import BLOCK, BLOCK_BYTES
from engine.backends.opencl.launches.sizes import Defines, floats, ints, longs, vector_width
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
    given = NormMatmul.of(node)
    weights = [a for a in (given.a, given.a1, given.a2) if a is not None]
    sizes = [a.shape[1] for a in weights]
    rows = rows_of_item(sum(sizes), traits)
    m0, m1, m2 = (*sizes, 0, 0)[:3]
    parts, items = sum(-(-m // rows) for m in sizes), given.own.shape[1]
    args: Args = {
        **products(node, given),
        "added": None,
        **_row(given),
        **ints(m0=m0, m1=m1, m2=m2, records=records(given.a), each=-(-parts // items)),
    }
    defines = _defines(given, given.a.fmt, rows, traits)
    return [Launch("matmul_tiled", "matmul", args, (items,), (1,), defines, packs=True)]


def norm_gated(node: Tensor, type_of: TypeOf, traits: DeviceTraits) -> Sequence[Launch]:
    """The activation of two products, in panels."""
    given = NormGated.of(node)
    gate, items = given.gate, given.own.shape[1]
    tiles = gate.shape[1] // TILE
    at_once = min(traits.tuned.tiles, -(-tiles // items))
    each = -(-tiles // (items * at_once)) * at_once  # no item begins within another's run
    args: Args = {
        "out": node,
        "gate": gate,
        "up": given.up,
        **_row(given),
        **ints(m=gate.shape[1], records=records(gate), each=each),
    }
    defines = {
        **_defines(given, gate.fmt, TILE, traits),
        "ACT": given.act.upper(),
        "TILES": at_once,
    }
    return [Launch("matmul_tiled", "gated", args, (items,), (1,), defines, packs=True)]


def _row(given: NormedRow) -> Args:
    """The arguments of tiled_normed.cl."""
    return {
        "x": given.x,
        "w1": given.weight1,
        "r": given.added,
        "w2": given.weight2,
        "h": given.total,
        "own": given.own,
        **longs(own_bytes=given.own.shape[0]),
        **floats(eps1=given.eps1, eps2=given.eps2),
    }


def _defines(given: NormedRow, fmt: Format, rows: int, traits: DeviceTraits) -> Defines:
    return {
        **SCHEMES[fmt].defines,
        **vector_defines(rows, 1, traits),
        "PANEL": 1,
        "CHUNK": 1,
        "AHEAD": traits.tuned.ahead,
        "NORMED": given.x.shape[0],
        "FIRST": int(given.added is not None),
        "W": vector_width(traits),
    }
