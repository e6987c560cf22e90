// attention_tiles: attention (parts/attention_units.cl) of many queries by items that take vectors.
//
// A group is one item and makes a unit, whose ROWS queries are cut into tiles of VECTORS x W: the
// lanes of vectors. So scores are products of matrices, and nothing is ever summed up across lanes:
//
//   scores [BLOCK][LANES] = keys [BLOCK][DIM]        x queries [DIM][LANES]   AT_ONCE cells a time
//   out    [DIM_V][LANES] += values^T [DIM_V][BLOCK] x p     [BLOCK][LANES]   AT_ONCE channels
//
// Keys and values of a block of cells are brought as f32 once for all tiles that see some of it;
// queries are transposed at first and out at last. Tiles whose queries are of several sequences are
// left to attention_vectors.cl. Exponentials are to base 2: exp(s) = 2^(s log2(e)).

#ifndef DIM
  #define DIM 64      // size of a head: a multiple of 8, as DIM_V is
#endif
#ifndef DIM_V
  #define DIM_V 64
#endif
#define VECTORS 3
#define LANES (VECTORS * W)
#define TILES ((ROWS + LANES - 1) / LANES)
#define AT_ONCE (W == 16 ? 8 : 4)  // times VECTORS sums in registers

#define EACH_VECTOR EACH(v, VECTORS)

// What an item has of a tile: who sees what by lane, how far the softmax is, and the sums.
typedef struct {
  int bits[LANES], first[LANES], last[LANES];
  int4 all;   // a span that holds all of them, or nothing where the tile is left out
  int4 each;  // what is seen by each of them
#ifdef ALIBI
  int own[LANES];
  float slope[LANES];  // of scores to base 2
#endif
  floatW top[VECTORS], total[VECTORS];
  float queries[DIM][LANES], out[DIM_V][LANES];
} Tile;

// The tile whose first query is row `first` of a unit.
static void begin(Tile *tile, const Attention *a, const Unit *u, int first, float factor) {
  int number = u->tile * TILES + first / LANES;
  tile->all = mixes(a, number, LANES) ? NO_SPAN : span_of_tile(a, number, LANES);
  tile->each = (int4)(-1, INT_MIN, INT_MAX, 0);
  for (int r = 0; r < LANES; r++) {
    int2 query = query_of(a, u, first + r);
    const __global float *q = row_of_q(a, query);
    for (int d = 0; d < DIM; d++) tile->queries[d][r] = q[d] * factor;
    int4 span = span_of(a, query);
    tile->bits[r] = span.x;
    tile->first[r] = span.y;
    tile->last[r] = span.z;
#ifdef ALIBI
    tile->own[r] = span.w;
    tile->slope[r] = slope_of_query(a, query) * LOG2_E;
#endif
    tile->each.x &= span.x;
    tile->each.y = max(tile->each.y, span.y);
    tile->each.z = min(tile->each.z, span.z);
  }
  for (int d = 0; d < DIM_V; d++)
    EACH_VECTOR STOREV((floatW)0, tile->out[d], v);
  EACH_VECTOR {
    tile->top[v] = -INFINITY;
    tile->total[v] = 0;
  }
}

// Keys or values of a block's cells.
#define BRING(name, SIZE_OF_HEAD)                                                                 \
  static void name(float to[BLOCK][SIZE_OF_HEAD], const Cells *block, const __global char *x,     \
                   long step) {                                                                   \
    for (int i = 0; i < block->n; i++) {                                                          \
      const __global char *row = x + block->list[i] * step;                                       \
      int d = 0;                                                                                  \
      for (; d + W <= SIZE_OF_HEAD; d += W) CAT(vstore, W)(FETCHW(KV, row, d), 0, to[i] + d);     \
      for (; d < SIZE_OF_HEAD; d++) to[i][d] = FETCH(KV, row, d);                                 \
    }                                                                                             \
  }
BRING(bring_keys, DIM)
BRING(bring_values, DIM_V)

// Whether each query of the tile sees each cell of the block: most blocks of a long prompt.
static int sees_all(const Tile *tile, const Cells *block) {
  return block->n == BLOCK && block->all.x == tile->each.x && block->all.y >= tile->each.y &&
         block->all.z <= tile->each.z;
}

// The scores of AT_ONCE cells into p, -inf where a query sees none, and into high what is higher.
static void score(float p[BLOCK][LANES], floatW high[VECTORS], const Tile *tile,
                  const Cells *block, float keys[BLOCK][DIM], int at, float cap, int masked) {
  floatW sum[AT_ONCE][VECTORS];
  EACH(i, AT_ONCE) EACH_VECTOR sum[i][v] = 0;
  for (int d = 0; d < DIM; d++) {
    floatW q[VECTORS];
    EACH_VECTOR q[v] = LOADV(tile->queries[d], v);
    EACH(i, AT_ONCE) {
      float key = keys[at + i][d];
      EACH_VECTOR sum[i][v] += q[v] * key;
    }
  }
  EACH(i, AT_ONCE) {
    int bits = block->bits[at + i], position = block->positions[at + i];
    EACH_VECTOR {
      floatW s = sum[i][v];
      if (cap > 0) s = cap * LOG2_E * tanh(s);
#ifdef ALIBI
      s = fallen_w(s, LOADV(tile->slope, v), (intW)position, LOADV(tile->own, v));
#endif
      if (masked) {
        intW seen = (LOADV(tile->bits, v) & bits) != 0 && LOADV(tile->first, v) <= position &&
                    LOADV(tile->last, v) >= position;
        s = select((floatW)(-INFINITY), s, seen);
      }
      high[v] = select(high[v], s, s > high[v]);
      STOREV(s, p[at + i], v);
    }
  }
}

// Scores of a block become powers of 2; gives by what the result so far shrinks.
static void raise(float p[BLOCK][LANES], floatW shrink[VECTORS], Tile *tile,
                  const floatW high[VECTORS], int n) {
  floatW base[VECTORS];
  EACH_VECTOR {
    floatW top = select(tile->top[v], high[v], high[v] > tile->top[v]);
    // A query that sees nothing yet has 2^(-inf - 0) everywhere.
    base[v] = select(top, (floatW)0, top == -INFINITY);
    shrink[v] = power_of_2(tile->top[v] - base[v]);
    tile->top[v] = top;
    tile->total[v] *= shrink[v];
  }
  for (int i = 0; i < n; i++) {
    EACH_VECTOR {
      floatW e = power_of_2(LOADV(p[i], v) - base[v]);
      tile->total[v] += e;
      STOREV(e, p[i], v);
    }
  }
}

// AT_ONCE channels of out from d on: out * shrink + values^T p.
static void mix(Tile *tile, const floatW shrink[VECTORS], float p[BLOCK][LANES],
                float values[BLOCK][DIM_V], int n, int d) {
  floatW sum[AT_ONCE][VECTORS];
  EACH(j, AT_ONCE) EACH_VECTOR sum[j][v] = LOADV(tile->out[d + j], v) * shrink[v];
  for (int i = 0; i < n; i++) {
    floatW weight[VECTORS];
    EACH_VECTOR weight[v] = LOADV(p[i], v);
    EACH(j, AT_ONCE) {
      float value = values[i][d + j];
      EACH_VECTOR sum[j][v] += weight[v] * value;
    }
  }
  EACH(j, AT_ONCE) EACH_VECTOR STOREV(sum[j][v], tile->out[d + j], v);
}

// What the tile's queries get.
static void finish(const Tile *tile, const Attention *a, const Unit *u, int first) {
  float tops[LANES], totals[LANES];
  EACH_VECTOR {
    STOREV(tile->top[v] / LOG2_E, tops, v);
    STOREV(tile->total[v], totals, v);
  }
  for (int r = 0; r < min(LANES, u->real - first); r++) {
    int2 query = query_of(a, u, first + r);
    __global float *out = row_of_out(a, query, 0);
    float whole = whole_of(tops[r], totals[r], sink_of(a, query), a->has_sinks);
    for (int d = 0; d < DIM_V; d++) out[d] = tile->out[d][r] * whole;
    if (a->panel) {
      for (int b = 0; b < DIM_V / 32; b++) quantize_row(a, u, first + r, out, b);
    }
  }
}

// Adds a block's cells to a tile.
static void add(Tile *tile, const Cells *block, float keys[BLOCK][DIM], float values[BLOCK][DIM_V],
                float cap) {
  float p[BLOCK][LANES];
  floatW high[VECTORS], shrink[VECTORS];
  EACH_VECTOR high[v] = -INFINITY;
  const int masked = !sees_all(tile, block);
  for (int at = 0; at < block->n; at += AT_ONCE)
    score(p, high, tile, block, keys, at, cap, masked);
  raise(p, shrink, tile, high, block->n);
  for (int d = 0; d < DIM_V; d += AT_ONCE) mix(tile, shrink, p, values, block->n, d);
}

__kernel __attribute__((reqd_work_group_size(1, 1, 1))) void attention(ATTENTION) {
  const Attention a = ATTENTION_GIVEN;
  const Share share = SHARE_GIVEN(&a);
  const Unit u = unit_of(&a, share.first, share.first_head);
  const int n = (u.real + LANES - 1) / LANES;
  Tile tiles[TILES];
  int4 all = NO_SPAN;
  for (int t = 0; t < n; t++) {
    begin(&tiles[t], &a, &u, t * LANES, a.cap > 0 ? a.scale / a.cap : a.scale * LOG2_E);
    all = joined(all, tiles[t].all);
  }
  Cells block;
  float keys[BLOCK][DIM], values[BLOCK][DIM_V];
  for (int c = share.from; c < share.to;) {
    c = take_cells(&block, a.cells, c, share.to, all);
    if (block.n == 0) break;
    bring_keys(keys, &block, u.k, a.k2);
    bring_values(values, &block, u.v, a.v2);
    for (int t = 0; t < n; t++) {
      if (touches(&block, tiles[t].all)) add(&tiles[t], &block, keys, values, a.cap);
    }
  }
  for (int t = 0; t < n; t++) {
    if (!mixes(&a, u.tile * TILES + t, LANES)) finish(&tiles[t], &a, &u, t * LANES);
  }
}
