"""How attention is cut into groups of work.

A tile is some queries of one kv head, a chunk a part of the cells. Where tiles are too few to keep
the device busy, as in decode, the cells are cut too; a second node merges the
chunks' shares (lowering/helpers.py).
"""

from dataclasses import dataclass

from engine.backends.opencl.launch import DeviceTraits
from engine.backends.opencl.launches.quantize import has_wide_vectors
from engine.backends.opencl.launches.sizes import WIDE_LOAD
from engine.graph.ops.attention import FusedAttention

ROWS = 4
"""Most queries of a tile: 4 queries times 4 cells are what registers hold."""

LARGEST_HEAD = 256
"""Where queries are lanes an item holds queries, keys and values: some 250 KiB for such heads."""

LANE_VECTORS = 3
"""Vectors of queries of a tile where these are lanes: times 8 cells, what registers hold."""

SHARES = 512
"""Most shares of all tokens together that one head's chunks leave, where these are made whole."""

LANE_TOKENS = 32
"""Fewest tokens of a step whose queries are lanes: fewer may well be of as many sequences."""

WIDE_SIDE, WIDE_CHANNELS = 64, 128
"""Queries, and most channels of values, that a group of lanes makes of many (attention_wide.cl)."""

WIDE_TEAM, WIDE_BYTES = 256, 31 << 10
"""Items of such a group, and bytes of local memory that it takes at most."""


@dataclass(frozen=True)
class AttentionSplit:
    """Queries per tile, tiles per kv head, chunks of cells; a group makes `tiles_each` tiles of
    `heads_each` kv heads.

    `lanes`: queries are the lanes of vectors, so many of a tile (attention_tiles.cl); 0: rows.
    `parts`: groups that share the values' channels of a tile (attention_wide.cl); 0: rows.
    """

    rows: int
    tiles: int
    chunks: int = 1
    tiles_each: int = 1
    heads_each: int = 1
    lanes: int = 0
    parts: int = 0

    def groups(self, kv_heads: int) -> int:
        """Groups of a launch."""
        return -(-self.tiles // self.tiles_each) * -(-kv_heads // self.heads_each) * self.chunks


def split_of(attention: FusedAttention, traits: DeviceTraits) -> AttentionSplit:
    """The cut of attention on such a device. The number of cells in use plays no part."""
    _, heads, n_tokens, _ = attention.q.shape
    kv_heads, capacity = attention.k.shape[1:3]
    queries = n_tokens * heads // kv_heads
    rows = _rows_of_lanes(attention, traits)
    if rows:
        return AttentionSplit(rows, -(-queries // rows), lanes=LANE_VECTORS * lane_width(traits))
    wanted = traits.compute_units * (8 if traits.items_take_vectors else 4)
    wide = _is_wide(attention, traits)
    rows = WIDE_SIDE if wide else _rows_of(n_tokens, heads // kv_heads)
    parts = -(-attention.v.shape[0] // WIDE_CHANNELS)
    tiles = -(-queries // rows)
    fewest = traits.tuned.cells if traits.items_take_vectors else traits.tuned.lane_cells
    most = min(capacity // fewest, wanted)
    few = traits.items_take_vectors and n_tokens < LANE_TOKENS
    # A few tokens are cut as one alone is, so that they give the same bits.
    cut = -(-(heads // kv_heads) // _rows_of(1, heads // kv_heads)) if few else tiles
    chunks = max(1, min(most, -(-wanted // (kv_heads * cut))))
    whole = min(most, SHARES // n_tokens)
    if few and whole >= 2 * traits.compute_units:
        # A core reads all heads of a chunk in one run: one after the other they jump in memory.
        return AttentionSplit(rows, tiles, whole, tiles, kv_heads)
    if wide:
        return AttentionSplit(rows, tiles, chunks, parts=parts)
    if chunks == 1:  # rather smaller tiles than idle cores
        tiles = max(tiles, min(queries, -(-traits.compute_units // kv_heads)))
        rows = -(-queries // tiles)
        tiles = -(-queries // rows)
    return AttentionSplit(rows, tiles, chunks)


def split_of_mixed(attention: FusedAttention, traits: DeviceTraits) -> AttentionSplit:
    """The cut of what tiles of lanes leave out: a group has the rows of one of them, of a head."""
    _, heads, n_tokens, _ = attention.q.shape
    group = heads // attention.k.shape[1]
    rows, lanes = _rows_of(n_tokens, group), LANE_VECTORS * lane_width(traits)
    return AttentionSplit(rows, -(-n_tokens * group // rows), 1, lanes // rows, lanes=lanes)


def _is_wide(attention: FusedAttention, traits: DeviceTraits) -> bool:
    """True if a group of lanes makes a tile of many queries, which lie where it can read four words
    at once, as keys and values do.
    """
    q, k, v = attention.q, attention.k, attention.v
    if traits.items_take_vectors or q.shape[2] < LANE_TOKENS:
        return False
    if k.shape[0] % 8 or v.shape[0] % 8 or not traits.own_local_memory:
        return False
    tensors = (q,) if k.fmt.block > 1 else (q, k, v)
    places = [n for t in tensors for n in (t.offset, *t.strides[1:3])]
    fits = traits.max_work_group >= WIDE_TEAM and traits.local_memory >= WIDE_BYTES
    return fits and not any(n % WIDE_LOAD for n in places)


def lane_width(traits: DeviceTraits) -> int:
    """Lanes of a vector of queries."""
    return 16 if has_wide_vectors(traits) else 8


def _rows_of(n_tokens: int, group: int) -> int:
    """Queries of a tile: all of one token where that costs little, as tokens may be of different
    sequences.
    """
    if n_tokens == 1:
        return -(-group // -(-group // ROWS))
    return 3 if group % 3 == 0 and group % ROWS else ROWS


def _rows_of_lanes(attention: FusedAttention, traits: DeviceTraits) -> int:
    """Queries of an item where they are lanes: those of several tiles, as keys and values are
    brought for all of them; 0 where there are too few to keep lanes and cores busy.
    """
    dim, heads, n_tokens, _ = attention.q.shape
    dim_v, kv_heads = attention.v.shape[:2]
    size, queries = max(dim, dim_v), n_tokens * heads // kv_heads
    tile = LANE_VECTORS * lane_width(traits)
    if not traits.items_take_vectors or dim % 8 or dim_v % 8 or size > LARGEST_HEAD:
        return 0
    if n_tokens < LANE_TOKENS:
        return 0
    for tiles in range(min(4, LARGEST_HEAD // size), 0, -1):
        items = -(-queries // (tiles * tile)) * kv_heads
        if queries >= tile and items >= (4 if tiles > 1 else 2) * traits.compute_units:
            return tiles * tile
    return 0
