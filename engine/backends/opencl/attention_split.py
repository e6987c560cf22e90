"""How attention is cut into groups of work.

A tile is some queries of one kv head, a chunk a part of the cells. Where tiles are too few to keep
the device busy, as in decode, the cells are cut too; a second node merges the
chunks' shares (lowering/helpers.py).
"""

from dataclasses import dataclass

from engine.backends.opencl.launch import DeviceTraits
from engine.graph.ops.attention import Attention

ROWS = 4
"""Most queries of a tile: 4 queries times 4 cells are what registers hold."""


@dataclass(frozen=True)
class AttentionSplit:
    """Queries per tile, tiles per kv head, chunks of cells; `each` of all tiles per group."""

    rows: int
    tiles: int
    chunks: int
    each: int


def split_of(attention: Attention, traits: DeviceTraits) -> AttentionSplit:
    """The cut of attention on such a device. The number of cells in use plays no part."""
    _, heads, n_tokens, _ = attention.q.shape
    kv_heads, capacity = attention.k.shape[1:3]
    queries = n_tokens * heads // kv_heads
    wanted = traits.compute_units * (8 if traits.items_take_vectors else 4)
    tiles = -(-queries // ROWS)
    fewest = traits.tuned.cells if traits.items_take_vectors else traits.tuned.lane_cells
    most = min(capacity // fewest, wanted)
    chunks = max(1, min(most, -(-wanted // (kv_heads * tiles))))
    if chunks == 1:  # rather smaller tiles than idle cores
        tiles = max(tiles, min(queries, -(-traits.compute_units // kv_heads)))
    rows = -(-queries // tiles)
    tiles = -(-queries // rows)
    if traits.items_take_vectors and chunks > 1 and most >= 2 * traits.compute_units:
        # A core reads all heads of a chunk in one run: one after the other they jump in memory.
        return AttentionSplit(rows, tiles, most, tiles * kv_heads)
    return AttentionSplit(rows, tiles, chunks, 1)
