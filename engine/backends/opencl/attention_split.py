"""How attention is cut into groups of work, and the helper node for what several chunks leave.

A tile is some queries of one kv head, a chunk a part of the cells. Where tiles are too few to keep
the device busy, as in decode, the cells are cut too; the shares are merged by a second node.
"""

from dataclasses import dataclass, replace
from types import MappingProxyType

from engine.backends.opencl.launch import DeviceTraits
from engine.gguf.formats import F32
from engine.graph.op import Op
from engine.graph.tensor import Tensor, node

ROWS = 4
"""Most queries of a tile: 4 queries times 4 cells are what registers hold."""


@dataclass(frozen=True)
class Split:
    """Queries a tile, tiles a kv head, chunks of the cells; `each` tiles of all heads a group."""

    rows: int
    tiles: int
    chunks: int
    each: int


def split_of(attention: Tensor, traits: DeviceTraits) -> Split:
    """The cut of an attention node on such a device. The number of cells in use plays no part."""
    q, k = attention.src[:2]
    assert q is not None
    assert k is not None
    _, heads, n_tokens, _ = q.shape
    kv_heads, capacity = k.shape[1:3]
    queries = n_tokens * heads // kv_heads
    wanted = traits.compute_units * (8 if traits.is_cpu else 4)
    tiles = -(-queries // ROWS)
    fewest = traits.tuned.cells if traits.is_cpu else traits.tuned.lane_cells
    most = min(capacity // fewest, wanted)
    chunks = max(1, min(most, -(-wanted // (kv_heads * tiles))))
    if chunks == 1:  # rather smaller tiles than idle cores
        tiles = max(tiles, min(queries, -(-traits.compute_units // kv_heads)))
    rows = -(-queries // tiles)
    tiles = -(-queries // rows)
    if traits.is_cpu and chunks > 1 and most >= 2 * traits.compute_units:
        # A core reads all heads of a chunk in one run: one after the other they jump in memory.
        return Split(rows, tiles, most, tiles * kv_heads)
    return Split(rows, tiles, chunks, 1)


def split_attention(attention: Tensor, traits: DeviceTraits) -> tuple[Tensor, ...]:
    """An attention node as the device runs it: itself, or its chunks' shares and their merge.

    The merge writes the storage of `attention`; the shares [Dv + 2, H, T, chunks] are their own.
    """
    chunks = split_of(attention, traits).chunks
    if chunks == 1:
        return (attention,)
    dim_v, heads, n_tokens, _ = attention.shape
    shape = (dim_v + 2, heads, n_tokens, chunks)
    shares = node(Op.ATTENTION, F32, shape, *attention.src, **attention.attr)
    sinks = attention.src[6]
    merged = replace(
        attention, src=(shares, sinks), attr=MappingProxyType({}), root=attention.storage
    )
    return shares.named(f"{attention.name} (shares)"), merged
