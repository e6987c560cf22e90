"""The launch of all that stands behind the attention of one row."""

from collections.abc import Sequence

from engine.backends.opencl.launch import Args, DeviceTraits, Launch, Shared
from engine.backends.opencl.launches.matmul_tiled import (
    records,
    row_defines,
    rows_of_item,
    vector_defines,
)
from engine.backends.opencl.launches.sizes import Defines, floats, ints, longs, vector_width
from engine.backends.opencl.tiles.schemes import TILE
from engine.device.backend import TypeOf
from engine.gguf.formats import Format
from engine.graph.lowered import FeedChain
from engine.graph.tensor import Tensor

_MOST = 8
"""Tiles that an item takes at once."""


def supports_feed_chain(formats: set[Format], m: int, traits: DeviceTraits) -> bool:
    """Weights of one format, which one program reads, enough rows for every core, and a driver that
    takes long for what it replaces.
    """
    pays = traits.items_take_vectors and traits.slow_launches
    return pays and len(formats) == 1 and rows_of_item(m, traits) == TILE


def feed_chain(node: Tensor, type_of: TypeOf, traits: DeviceTraits) -> Sequence[Launch]:
    """An item a core: they claim what is to be done."""
    op = FeedChain.of(node)
    m, hidden, fmt = op.mix.shape[1], op.gate.shape[1], op.gate.fmt
    args: Args = {
        "y": node,
        "mix": op.mix,
        "x": op.x,
        "added": op.added,
        "h": op.h,
        "norm": op.weight,
        "own": op.own,
        "gate": op.gate,
        "up": op.up,
        "q": op.q,
        "down": op.down,
        "counters": Shared.COUNTERS,
        **longs(own_bytes=op.own.shape[0]),
        **ints(m=m, hidden=hidden, records_mix=records(op.mix), records=records(op.gate)),
        **ints(records_down=records(op.down), most=_MOST),
        **floats(eps=op.eps),
    }
    defines: Defines = {
        **row_defines(fmt, traits),
        **vector_defines(TILE, 1, traits),
        "CHUNK": 1,
        "NORMED": m,
        "W": vector_width(traits),
        "ACT": op.act.upper(),
        "TILES": traits.tuned.tiles,
        "CHAINED": 1,
    }
    items = op.own.shape[1]
    return [Launch("matmul_tiled", "feed_chain", args, (items,), (1,), defines, packs=True)]
