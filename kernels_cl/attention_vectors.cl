// attention_vectors: attention (parts/attention_units.cl) by items that take vectors of W.
//
// A group is one item. A block is the next BLOCK cells that some query of its units may see, wherever
// they lie: for each of its units the item makes the scores of W cells at once, then mixes values in
// vectors of channels. W is what a register holds: wider ones would leave too few for the sums. Of a unit whose queries are of several sequences only those rows are made, one
// by one, that see some of the block.
//
// With LANES, which is a multiple of ROWS, tiles are made that attention_tiles.cl leaves out.

// A vector is W / 4 quads. Sums across vectors take three steps, each of shuffles that processors have:
//
//   fold     one vector a cell          -> one whose quad j has four parts of the sum of cell j
//   pair     two such vectors x, y      -> quads of two parts of x's cell and two of y's
//   finish   two of those               -> the sums of W cells in order
#if W == 16
static floatW fold(const floatW cell[4]) {
  floatW a = (floatW)(cell[0].lo, cell[1].lo) + (floatW)(cell[0].hi, cell[1].hi);
  floatW b = (floatW)(cell[2].lo, cell[3].lo) + (floatW)(cell[2].hi, cell[3].hi);
  return (floatW)(a.lo.lo, a.hi.lo, b.lo.lo, b.hi.lo) + (floatW)(a.lo.hi, a.hi.hi, b.lo.hi, b.hi.hi);
}
static floatW pair(floatW x, floatW y) {
  return (floatW)(x.s01, y.s01, x.s45, y.s45, x.s89, y.s89, x.scd, y.scd) +
         (floatW)(x.s23, y.s23, x.s67, y.s67, x.sab, y.sab, x.sef, y.sef);
}
static floatW finish(floatW x, floatW y) {
  floatW sum = (floatW)(x.s02, y.s02, x.s46, y.s46, x.s8a, y.s8a, x.sce, y.sce) +
               (floatW)(x.s13, y.s13, x.s57, y.s57, x.s9b, y.s9b, x.sdf, y.sdf);
  return sum.s048c159d26ae37bf;
}
#else
static floatW fold(const floatW cell[2]) {
  return (floatW)(cell[0].lo, cell[1].lo) + (floatW)(cell[0].hi, cell[1].hi);
}
static floatW pair(floatW x, floatW y) {
  return (floatW)(x.s01, y.s01, x.s45, y.s45) + (floatW)(x.s23, y.s23, x.s67, y.s67);
}
static floatW finish(floatW x, floatW y) {
  floatW sum = (floatW)(x.s02, y.s02, x.s46, y.s46) + (floatW)(x.s13, y.s13, x.s57, y.s57);
  return sum.s04152637;
}
#endif
#define SOME_CELLS (W / 4)  // whose keys are multiplied at once: times ROWS sums in registers

// In decode memory is the limit. All heads of a cell lie together: the first group of a chunk fetches
// the block to come, also that of the next chunk, a piece with every SOME_CELLS.
typedef struct {
  const __global char *k, *v, *k_end;
  long piece_k, piece_v;
} Ahead;

static void fetch_pieces(Ahead *ahead) {
  if (ahead->k >= ahead->k_end) return;
  fetch(ahead->k, ahead->piece_k);
  fetch(ahead->v, ahead->piece_v);
  ahead->k += ahead->piece_k;
  ahead->v += ahead->piece_v;
}

// A unit's rows: queries and where their results go, whom they see; the maximum and sum so far. A row
// whose maximum is -inf has no result yet.
typedef struct {
  const __global float *q[ROWS];
  __global float *out[ROWS];
  int4 span[ROWS];
  float top[ROWS], total[ROWS];
#ifdef ALIBI
  float slope[ROWS];
#endif
} Rows;

// Some of them: n, which is a constant wherever functions get it, from row `from` on.
#define INLINE static __attribute__((always_inline))
#define SOME const Rows *rows, int from, const int n
#define EACH_ROW EACH(r, n)

// W elements from d on of some keys, times those of every row's query.
INLINE void multiply(floatW sum[ROWS][SOME_CELLS], SOME,
                     const __global char *const key[SOME_CELLS], int d) {
  floatW x[SOME_CELLS];
  EACH(j, SOME_CELLS) x[j] = FETCHW(KV, key[j], d);
  EACH_ROW {
    floatW y = LOADV(rows->q[from + r] + d, 0);
    EACH(j, SOME_CELLS) sum[r][j] += y * x[j];
  }
}

// k.q of SOME_CELLS of the block from `at` on for every row, folded. In runs of 32, which a block of
// numbers has: it is unpacked once.
INLINE void dot_some(floatW part[ROWS], SOME, const Attention *a, const Cells *block, int at,
                     const __global char *k) {
  const __global char *key[SOME_CELLS];
  floatW sum[ROWS][SOME_CELLS];
  EACH(j, SOME_CELLS) {
    key[j] = k + block->list[at + j] * a->k2;
    EACH_ROW sum[r][j] = 0.0f;
  }
  const int runs = a->dim / 32;
  for (int run = 0; run < runs; run++)
    EACH(i, 32 / W) multiply(sum, rows, from, n, key, run * 32 + i * W);
  int d = runs * 32;
  for (; d + W <= a->dim; d += W) multiply(sum, rows, from, n, key, d);
  for (; d < a->dim; d++) {
    EACH(j, SOME_CELLS) {
      float x = FETCH(KV, key[j], d);
      EACH_ROW sum[r][j].s0 += rows->q[from + r][d] * x;
    }
  }
  EACH_ROW part[r] = fold(sum[r]);
}

// The scores of W cells from `start` on into p, -inf where a row sees none, and into high what is
// higher.
INLINE void score(float p[ROWS][BLOCK], floatW high[ROWS], SOME, const Attention *a,
                  const Cells *block, int start, const __global char *k, Ahead *ahead) {
  floatW part[4][ROWS];
  for (int i = 0; i < 4; i++) {
    fetch_pieces(ahead);
    dot_some(part[i], rows, from, n, a, block, start + i * SOME_CELLS, k);
  }
  intW bit = LOADV(block->bits + start, 0), position = LOADV(block->positions + start, 0);
  EACH_ROW {
    floatW s = finish(pair(part[0][r], part[1][r]), pair(part[2][r], part[3][r])) * a->scale;
    if (a->cap > 0) s = a->cap * tanh(s / a->cap);
#ifdef ALIBI
    s = fallen_w(s, (floatW)rows->slope[from + r], position,
                 (intW)rows->span[from + r].w);
#endif
    s = select((floatW)(-INFINITY), s, seesw(rows->span[from + r], bit, position));
    high[r] = select(high[r], s, s > high[r]);
    STOREV(s, p[r] + start, 0);
  }
}

// One row's scores of n cells become exponentials; gives by what its result so far shrinks.
static float exponentiate(float p[BLOCK], int n, floatW high, float *top, float *total) {
  float before = *top;
  *top = fmax(before, maxW(high));
  // A row that sees nothing yet has exp(-inf - 0) everywhere.
  float base = *top == -INFINITY ? 0.0f : *top;
  float shrink = before == *top ? 1.0f : power_of_2((floatW)((before - base) * LOG2_E)).s0;
  floatW sum = 0.0f;
  for (int start = 0; start < n; start += W) {
    floatW e = power_of_2((LOADV(p + start, 0) - base) * LOG2_E);
    sum += e;
    STOREV(e, p + start, 0);
  }
  *total = *total * shrink + sumW(sum);
  return shrink;
}

// mix_vectors_N: for N vectors of channels from `d` on, out = out * shrink + sum of p v, over the cells
// from `begin` to `end` of the block. What is fresh starts from zero.
#define MIX(N)                                                                                    \
  INLINE void CAT(mix_vectors_, N)(SOME, const float shrink[ROWS], const int fresh[ROWS],         \
                                   const float p[ROWS][BLOCK], const Cells *block, int begin,     \
                                   int end, const __global char *v, long v2, int d) {             \
    floatW sum[ROWS][N];                                                                          \
    EACH_ROW EACH(j, N) {                                                                         \
      sum[r][j] = fresh[r] ? 0.0f : LOADV(rows->out[from + r] + d, j) * shrink[r];                \
    }                                                                                             \
    for (int i = begin; i < end; i++) {                                                           \
      const __global char *value = v + block->list[i] * v2;                                       \
      floatW x[N];                                                                                \
      EACH(j, N) x[j] = FETCHW(KV, value, d + j * W);                                             \
      EACH_ROW EACH(j, N) sum[r][j] += p[r][i] * x[j];                                            \
    }                                                                                             \
    EACH_ROW EACH(j, N) STOREV(sum[r][j], rows->out[from + r] + d, j);                            \
  }
#if W == 16
  #define MOST 4  // vectors of channels whose sums registers hold
#else
  #define MOST 2
#endif
MIX(MOST)
MIX(1)

// All channels, of 16 cells at a time: several vectors share a line of the cache, and lines of more
// cells drive one another out of it where heads are many.
INLINE void mix_values(SOME, float shrink[ROWS], int fresh[ROWS], const float p[ROWS][BLOCK],
                       const Attention *a, const Cells *block, const __global char *v) {
  for (int begin = 0; begin < block->n; begin += 16) {
    int end = min(begin + 16, block->n), d = 0;
    for (; d + MOST * W <= a->dim_v; d += MOST * W)
      CAT(mix_vectors_, MOST)(rows, from, n, shrink, fresh, p, block, begin, end, v, a->v2, d);
    for (; d + W <= a->dim_v; d += W)
      mix_vectors_1(rows, from, n, shrink, fresh, p, block, begin, end, v, a->v2, d);
    for (; d < a->dim_v; d++) {
      float sum[ROWS];
      EACH_ROW sum[r] = fresh[r] ? 0.0f : rows->out[from + r][d] * shrink[r];
      for (int i = begin; i < end; i++) {
        float x = FETCH(KV, v + block->list[i] * a->v2, d);
        EACH_ROW sum[r] += p[r][i] * x;
      }
      EACH_ROW rows->out[from + r][d] = sum[r];
    }
    EACH_ROW {
      shrink[r] = 1.0f;
      fresh[r] = 0;
    }
  }
}

// Adds a block's cells to some rows of a unit.
INLINE void add_to(Rows *rows, int from, const int n, const Attention *a, const Unit *u,
                   const Cells *block, Ahead *ahead) {
  float p[ROWS][BLOCK], shrink[ROWS];
  floatW high[ROWS];
  int fresh[ROWS];
  EACH_ROW {
    high[r] = -INFINITY;
    fresh[r] = rows->top[from + r] == -INFINITY;
  }
  for (int start = 0; start < block->n; start += W)
    score(p, high, rows, from, n, a, block, start, u->k, ahead);
  EACH_ROW {
    float *top = &rows->top[from + r], *total = &rows->total[from + r];
    shrink[r] = exponentiate(p[r], block->n, high[r], top, total);
  }
  mix_values(rows, from, n, shrink, fresh, p, a, block, u->v);
}

// To all rows at once, or one by one to those that may see some, where others do not.
static void add(Rows *rows, const Attention *a, const Unit *u, const Cells *block, Ahead *ahead) {
  int seeing = 0;
  EACH(r, ROWS) seeing += touches(block, rows->span[r]);
  if (seeing == ROWS) {
    add_to(rows, 0, ROWS, a, u, block, ahead);
    return;
  }
  for (int r = 0; r < u->real; r++) {
    if (touches(block, rows->span[r])) add_to(rows, r, 1, a, u, block, ahead);
  }
}

// A unit's rows; with several chunks they go on from what their share has, or have just begun it.
static Rows rows_of(const Attention *a, const Unit *u, int chunk) {
  Rows rows;
  EACH(r, ROWS) {
    int2 query = query_of(a, u, r);
    rows.q[r] = row_of_q(a, query);
    rows.out[r] = row_of_out(a, query, chunk);
    rows.span[r] = span_of(a, query);
    rows.top[r] = a->chunks > 1 ? rows.out[r][a->dim_v] : -INFINITY;
    rows.total[r] = a->chunks > 1 ? rows.out[r][a->dim_v + 1] : 0.0f;
#ifdef ALIBI
    rows.slope[r] = slope_of_query(a, query);
#endif
  }
  return rows;
}

// Leaves in a unit's share what rows_of goes on from.
static void leave(const Attention *a, const Unit *u, const Rows *rows) {
  for (int r = 0; r < u->real; r++) {
    rows->out[r][a->dim_v] = rows->top[r];
    rows->out[r][a->dim_v + 1] = rows->total[r];
  }
}

// Begins the shares of all units.
static void begin(const Attention *a, const Share *share) {
  for (int tile = share->first; tile < share->last; tile++) {
    for (int head = share->first_head; head < share->last_head; head++) {
      const Unit u = unit_of(a, tile, head);
      for (int r = 0; r < u.real; r++) {
        __global float *out = row_of_out(a, query_of(a, &u, r), share->chunk);
        out[a->dim_v] = -INFINITY;
        out[a->dim_v + 1] = 0.0f;
      }
    }
  }
}

// The next block, at `c`, which units fetch while they take this one; nothing with one chunk.
static Ahead ahead_of(const Attention *a, const Share *share, const Cells *block, int c) {
  Ahead ahead = {a->k + c * a->k2, a->v + c * a->v2, a->k, 0, 0};
  if (a->chunks == 1 || share->first != 0 || share->first_head != 0 || c >= share->n_kv)
    return ahead;
  int units = 0;
  for (int tile = share->first; tile < share->last; tile++)
    units += touches(block, span_of_tile(a, tile, ROWS));
  int pieces = units * (share->last_head - share->first_head) * (BLOCK / SOME_CELLS);
  if (pieces) {
    ahead.k_end = ahead.k + BLOCK * a->k2;
    ahead.piece_k = (BLOCK * a->k2 + pieces - 1) / pieces;
    ahead.piece_v = (BLOCK * a->v2 + pieces - 1) / pieces;
  }
  return ahead;
}

// A unit's results, where there is one chunk.
static void finish_unit(const Attention *a, const Unit *u, const Rows *rows) {
  for (int r = 0; r < u->real; r++) {
    float top = rows->top[r], sink = sink_of(a, query_of(a, u, r));
    float whole = whole_of(top, rows->total[r], sink, a->has_sinks);
    for (int d = 0; d < a->dim_v; d++)
      rows->out[r][d] = top == -INFINITY ? 0.0f : rows->out[r][d] * whole;
    if (a->panel) {
      for (int b = 0; b < a->dim_v / 32; b++) quantize_row(a, u, r, rows->out[r], b);
    }
  }
}

// The units of a share: every block of cells is taken once, for all. With one chunk it is one unit,
// whose maxima and sums stay here.
static void make(const Attention *a, const Share *share) {
  int4 all = NO_SPAN;
  for (int tile = share->first; tile < share->last; tile++)
    all = joined(all, span_of_tile(a, tile, ROWS));
  if (a->chunks > 1) begin(a, share);
  Unit u = unit_of(a, share->first, share->first_head);
  Rows rows = rows_of(a, &u, share->chunk);
  Cells block;
  for (int c = share->from; c < share->to;) {
    c = take_cells(&block, a->cells, c, share->to, all);
    if (block.n == 0) break;
    Ahead ahead = ahead_of(a, share, &block, c);
    for (int tile = share->first; tile < share->last; tile++) {
      // A unit alone takes no block that it does not see.
      if (a->chunks > 1 && !touches(&block, span_of_tile(a, tile, ROWS))) continue;
      for (int head = share->first_head; head < share->last_head; head++) {
        if (a->chunks > 1) {
          u = unit_of(a, tile, head);
          rows = rows_of(a, &u, share->chunk);
        }
        add(&rows, a, &u, &block, &ahead);  // inlined: one call, as compilers take long over it
        if (a->chunks > 1) leave(a, &u, &rows);
      }
    }
  }
  if (a->chunks == 1) finish_unit(a, &u, &rows);
}

__kernel __attribute__((reqd_work_group_size(1, 1, 1))) void attention(ATTENTION) {
  const Attention a = ATTENTION_GIVEN;
  const Share share = SHARE_GIVEN(&a);
#ifdef LANES
  if (!mixes(&a, share.first * ROWS / LANES, LANES)) return;
#endif
  const int tiles = a.chunks > 1 ? share.last - share.first : 1;
  const int heads = a.chunks > 1 ? share.last_head - share.first_head : 1;
  for (int tile = share.first; tile < share.last; tile += tiles) {
    for (int head = share.first_head; head < share.last_head; head += heads) {
      Share part = share;
      part.first = tile;
      part.last = tile + tiles;
      part.first_head = head;
      part.last_head = head + heads;
      make(&a, &part);
    }
  }
}
