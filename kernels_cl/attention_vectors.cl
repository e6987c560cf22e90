// attention_vectors: attention (parts/attention_units.cl) by items that take vectors of W.
//
// A group is one item. A block is the next BLOCK cells that some query of its units may see, wherever
// they lie: for each of its units the item makes the scores of W cells at once, then mixes values in
// vectors of channels. W is what a register holds: wider ones would leave too few for the sums. Of a unit whose queries are of several sequences only those rows are made, one
// by one, that see some of the block.
//
// With LANES, which is a multiple of ROWS, tiles are made that attention_tiles.cl leaves out.

static floatW fold(floatW a, floatW b) {  // sums of neighbours: a's, then b's
  return (floatW)(a.even, b.even) + (floatW)(a.odd, b.odd);
}

// In decode memory is the limit. All heads of a cell lie together: the first group of a chunk fetches
// the block to come, also that of the next chunk, a piece with every two cells.
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
} Rows;

// Some of them: n, which is a constant wherever functions get it, from row `from` on.
#define INLINE static __attribute__((always_inline))
#define SOME const Rows *rows, int from, const int n
#define EACH_ROW EACH(r, n)

// W elements from d on of two keys, times those of every row's query.
INLINE void multiply(floatW sum[ROWS][2], SOME, const __global char *const key[2], int d) {
  floatW x[2];
  EACH(j, 2) x[j] = FETCHW(KV, key[j], d);
  EACH_ROW {
    floatW y = LOADV(rows->q[from + r] + d, 0);
    EACH(j, 2) sum[r][j] += y * x[j];
  }
}

// k.q of cells `at` and `at + 1` of the block for every row, folded to W partial sums. Two cells at a
// time: ROWS x 2 sums. In runs of 32, which a block of numbers has: it is unpacked once.
INLINE void dot_two(floatW pair[ROWS], SOME, const Attention *a, const Cells *block, int at,
                    const __global char *k) {
  const __global char *key[2];
  floatW sum[ROWS][2];
  EACH(j, 2) {
    key[j] = k + block->list[at + j] * a->k2;
    EACH_ROW sum[r][j] = 0.0f;
  }
  const int runs = a->dim / 32;
  for (int run = 0; run < runs; run++)
    EACH(i, 32 / W) multiply(sum, rows, from, n, key, run * 32 + i * W);
  int d = runs * 32;
  for (; d + W <= a->dim; d += W) multiply(sum, rows, from, n, key, d);
  for (; d < a->dim; d++) {
    EACH(j, 2) {
      float x = FETCH(KV, key[j], d);
      EACH_ROW sum[r][j].s0 += rows->q[from + r][d] * x;
    }
  }
  EACH_ROW pair[r] = fold(sum[r][0], sum[r][1]);
}

// The scores of W cells from `start` on into p, -inf where a row sees none, and into high what is
// higher.
INLINE void score(float p[ROWS][BLOCK], floatW high[ROWS], SOME, const Attention *a,
                  const Cells *block, int start, const __global char *k, Ahead *ahead) {
  floatW part[W / 2][ROWS];
  for (int i = 0; i < W / 2; i++) {
    fetch_pieces(ahead);
    dot_two(part[i], rows, from, n, a, block, start + 2 * i, k);
  }
  EACH_ROW {
    EACH(i, W / 4) part[i][r] = fold(part[2 * i][r], part[2 * i + 1][r]);
    EACH(i, W / 8) part[i][r] = fold(part[2 * i][r], part[2 * i + 1][r]);
#if W == 16
    part[0][r] = fold(part[0][r], part[1][r]);
#endif
  }
  intW bit = LOADV(block->bits + start, 0), position = LOADV(block->positions + start, 0);
  EACH_ROW {
    floatW s = part[0][r] * a->scale;
    if (a->cap > 0) s = a->cap * tanh(s / a->cap);
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
  }
  return rows;
}

// One chunk of several: every block of cells is taken once, for all units.
static void make_chunk(const Attention *a, const Share *share) {
  int4 all = NO_SPAN;
  for (int tile = share->first; tile < share->last; tile++) {
    all = joined(all, span_of_tile(a, tile, ROWS));
    for (int head = share->first_head; head < share->last_head; head++) {
      const Unit u = unit_of(a, tile, head);
      for (int r = 0; r < u.real; r++) {
        __global float *out = row_of_out(a, query_of(a, &u, r), share->chunk);
        out[a->dim_v] = -INFINITY;
        out[a->dim_v + 1] = 0.0f;
      }
    }
  }
  Cells block;
  for (int c = share->from; c < share->to;) {
    c = take_cells(&block, a->cells, c, share->to, all);
    if (block.n == 0) break;
    int units = 0;
    for (int tile = share->first; tile < share->last; tile++)
      units += touches(&block, span_of_tile(a, tile, ROWS));
    int pieces = units * (share->last_head - share->first_head) * (BLOCK / 2);
    Ahead ahead = {a->k + c * a->k2, a->v + c * a->v2, a->k, 0, 0};
    if (pieces && share->first == 0 && share->first_head == 0 && c < share->n_kv) {
      ahead.k_end = ahead.k + BLOCK * a->k2;
      ahead.piece_k = (BLOCK * a->k2 + pieces - 1) / pieces;
      ahead.piece_v = (BLOCK * a->v2 + pieces - 1) / pieces;
    }
    for (int tile = share->first; tile < share->last; tile++) {
      if (!touches(&block, span_of_tile(a, tile, ROWS))) continue;
      for (int head = share->first_head; head < share->last_head; head++) {
        const Unit u = unit_of(a, tile, head);
        Rows rows = rows_of(a, &u, share->chunk);
        add(&rows, a, &u, &block, &ahead);
        for (int r = 0; r < u.real; r++) {
          rows.out[r][a->dim_v] = rows.top[r];
          rows.out[r][a->dim_v + 1] = rows.total[r];
        }
      }
    }
  }
}

// A unit's results, where there is one chunk.
static void make_unit(const Attention *a, const Share *share, int tile, int head) {
  const Unit u = unit_of(a, tile, head);
  const int4 all = span_of_tile(a, tile, ROWS);
  Rows rows = rows_of(a, &u, 0);
  Ahead ahead = {a->k, a->v, a->k, 0, 0};
  Cells block;
  for (int c = share->from; c < share->to;) {
    c = take_cells(&block, a->cells, c, share->to, all);
    if (block.n == 0) break;
    add(&rows, a, &u, &block, &ahead);
  }
  for (int r = 0; r < u.real; r++) {
    float top = rows.top[r], sink = sink_of(a, query_of(a, &u, r));
    float whole = whole_of(top, rows.total[r], sink, a->has_sinks);
    for (int d = 0; d < a->dim_v; d++)
      rows.out[r][d] = top == -INFINITY ? 0.0f : rows.out[r][d] * whole;
    if (a->panel) {
      for (int b = 0; b < a->dim_v / 32; b++) quantize_row(a, &u, r, rows.out[r], b);
    }
  }
}

__kernel __attribute__((reqd_work_group_size(1, 1, 1))) void attention(ATTENTION) {
  const Attention a = ATTENTION_GIVEN;
  const Share share = SHARE_GIVEN(&a);
#ifdef LANES
  if (!mixes(&a, share.first * ROWS / LANES, LANES)) return;
#endif
  if (chunks > 1) {
    make_chunk(&a, &share);
    return;
  }
  for (int tile = share.first; tile < share.last; tile++)
    for (int head = share.first_head; head < share.last_head; head++)
      make_unit(&a, &share, tile, head);
}
