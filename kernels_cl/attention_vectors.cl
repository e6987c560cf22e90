// attention_vectors: attention (parts/attention_units.cl) by items that take vectors of 16.
//
// A group is one item. A block is the next BLOCK cells that some query of its units may see, wherever
// they lie: for each of its units the item makes the scores of 16 cells at once, then mixes values in
// vectors of channels.

static float16 fold(float16 a, float16 b) {  // sums of neighbours: a's, then b's
  return (float16)(a.even, b.even) + (float16)(a.odd, b.odd);
}

// The cells of a block: n of them, filled up with blind ones to a multiple of 16.
typedef struct {
  int n, list[BLOCK], bits[BLOCK], positions[BLOCK];
} Cells;

// The next cells from c on that share a bit with `all` and lie in its span; returns where to go on.
static int take_cells(Cells *block, const __global int *cells, int c, int end, int4 all) {
  int n = 0;
  for (; c < end && n < BLOCK; c++) {
    int2 cell = vload2(c, cells);
    block->list[n] = c;
    block->bits[n] = cell.x;
    block->positions[n] = cell.y;
    n += sees(all, cell);
  }
  for (int i = n; n && i % 16; i++) {
    block->list[i] = block->list[n - 1];
    block->bits[i] = 0;
    block->positions[i] = 0;
  }
  block->n = n;
  return c;
}

// In decode memory is the limit. All heads of a cell lie together: the first group of a chunk fetches
// the block to come, also that of the next chunk, a piece with every two cells.
typedef struct {
  int wanted;
  const __global char *k, *v;
  long piece_k, piece_v;
} Ahead;

static void fetch_pieces(Ahead *ahead) {
  if (!ahead->wanted) return;
  fetch(ahead->k, ahead->piece_k);
  fetch(ahead->v, ahead->piece_v);
  ahead->k += ahead->piece_k;
  ahead->v += ahead->piece_v;
}

// k.q of cells `at` and `at + 1` of the block for every row, folded to 16 partial sums. Two cells at
// a time: ROWS x 2 sums fit 32 registers even where a vector takes two.
static void dot_two(float16 pair[ROWS], const Cells *block, int at, const __global char *k, long k2,
                    const __global float *q[ROWS], int dim) {
  const __global char *key[2];
  float16 sum[ROWS][2];
  EACH(j, 2) {
    key[j] = k + block->list[at + j] * k2;
    EACH_ROW sum[r][j] = 0.0f;
  }
  for (int d = 0; d + 16 <= dim; d += 16) {
    float16 x[2];
    EACH(j, 2) x[j] = FETCHW(KV, key[j], d);
    EACH_ROW {
      float16 y = vload16(0, q[r] + d);
      EACH(j, 2) sum[r][j] += y * x[j];
    }
  }
  for (int d = dim / 16 * 16; d < dim; d++) {
    EACH(j, 2) {
      float x = FETCH(KV, key[j], d);
      EACH_ROW sum[r][j].s0 += q[r][d] * x;
    }
  }
  EACH_ROW pair[r] = fold(sum[r][0], sum[r][1]);
}

// The scores of 16 cells from `start` on into p, -inf where a row sees none, and into high what is
// higher.
static void score(float p[ROWS][BLOCK], float16 high[ROWS], const Cells *block, int start,
                  const __global char *k, long k2, const __global float *q[ROWS], int dim,
                  const int4 span[ROWS], float scale, float cap, Ahead *ahead) {
  float16 pair[8][ROWS];
  for (int i = 0; i < 8; i++) {
    fetch_pieces(ahead);
    dot_two(pair[i], block, start + 2 * i, k, k2, q, dim);
  }
  int16 bit = vload16(0, block->bits + start), position = vload16(0, block->positions + start);
  EACH_ROW {
    float16 low = fold(fold(pair[0][r], pair[1][r]), fold(pair[2][r], pair[3][r]));
    float16 high_half = fold(fold(pair[4][r], pair[5][r]), fold(pair[6][r], pair[7][r]));
    float16 s = fold(low, high_half) * scale;
    if (cap > 0) s = cap * tanh(s / cap);
    s = select((float16)(-INFINITY), s, seesw(span[r], bit, position));
    high[r] = select(high[r], s, s > high[r]);
    vstore16(s, 0, p[r] + start);
  }
}

// One row's scores of n cells become exponentials; gives by what its result so far shrinks.
static float exponentiate(float p[BLOCK], int n, float16 high, float *top, float *total) {
  float before = *top;
  *top = fmax(before, max_of16(high));
  // A row that sees nothing yet has exp(-inf - 0) everywhere.
  float base = *top == -INFINITY ? 0.0f : *top;
  float shrink = before == *top ? 1.0f : exp((float16)(before - base)).s0;
  float16 sum = 0.0f;
  for (int start = 0; start < n; start += 16) {
    float16 e = exp(vload16(0, p + start) - base);
    sum += e;
    vstore16(e, 0, p + start);
  }
  *total = *total * shrink + sum16(sum);
  return shrink;
}

// mix_vectors_4 and mix_vectors_1: for N vectors of channels from `d` on,
// out = out * shrink + sum over the block of p v.
#define MIX(N)                                                                                    \
  static void CAT(mix_vectors_, N)(__global float *out[ROWS], const float shrink[ROWS], int fresh,\
                          const float p[ROWS][BLOCK], const Cells *block,                         \
                          const __global char *v, long v2, int d) {                               \
    float16 sum[ROWS][N];                                                                         \
    EACH_ROW EACH(j, N) {                                                                         \
      sum[r][j] = fresh ? 0.0f : vload16(j, out[r] + d) * shrink[r];                              \
    }                                                                                             \
    for (int i = 0; i < block->n; i++) {                                                          \
      const __global char *value = v + block->list[i] * v2;                                       \
      float16 x[N];                                                                               \
      EACH(j, N) x[j] = FETCHW(KV, value, d + j * 16);                                            \
      EACH_ROW EACH(j, N) sum[r][j] += p[r][i] * x[j];                                            \
    }                                                                                             \
    EACH_ROW EACH(j, N) vstore16(sum[r][j], j, out[r] + d);                                       \
  }
MIX(4)
MIX(1)

// All channels.
static void mix_values(__global float *out[ROWS], const float shrink[ROWS], int fresh,
                       const float p[ROWS][BLOCK], const Cells *block, const __global char *v,
                       long v2, int dim_v) {
  int d = 0;
  for (; d + 64 <= dim_v; d += 64) mix_vectors_4(out, shrink, fresh, p, block, v, v2, d);
  for (; d + 16 <= dim_v; d += 16) mix_vectors_1(out, shrink, fresh, p, block, v, v2, d);
  for (; d < dim_v; d++) {
    float sum[ROWS];
    EACH_ROW sum[r] = fresh ? 0.0f : out[r][d] * shrink[r];
    for (int i = 0; i < block->n; i++) {
      float x = FETCH(KV, v + block->list[i] * v2, d);
      EACH_ROW sum[r] += p[r][i] * x;
    }
    EACH_ROW out[r][d] = sum[r];
  }
}

// What some query of a share may see. With several chunks each row's share is begun.
static int4 begin_share(const Attention *a, const Share *share) {
  int4 all = 0;
  for (int number = share->first; number < share->last; number++) {
    Unit u = unit_of(a, share, number);
    EACH_ROW {
      int2 query = query_of(a, &u, r);
      int4 span = span_of(a, query);
      if (number == share->first && r == 0) all = span;
      all.x |= span.x;
      all.y = min(all.y, span.y);
      all.z = max(all.z, span.z);
      if (a->chunks > 1) {
        __global float *out = row_of_out(a, query, share->chunk);
        out[a->dim_v] = -INFINITY;
        out[a->dim_v + 1] = 0.0f;
      }
    }
  }
  return all;
}

__kernel __attribute__((reqd_work_group_size(1, 1, 1))) void attention(
    __global char *out_buf, long out_off, __global char *x_buf, long x_off,
    const __global char *q_buf, long q_off, const __global char *k_buf, long k_off,
    const __global char *v_buf, long v_off, const __global char *spans_buf, long spans_off,
    const __global char *cells_buf, long cells_off, const __global char *n_kv_buf, long n_kv_off,
    const __global char *sinks_buf, long sinks_off, int dim, int dim_v, int kv_heads, int group,
    int tokens, int capacity, int chunks, int each, long q1, long q2, long k1, long k2, long v1,
    long v2, int has_sinks, int panel, float scale, float cap) {
  const Attention a = {out_buf + out_off,
                       x_buf + x_off,
                       q_buf + q_off,
                       k_buf + k_off,
                       v_buf + v_off,
                       (const __global int *)(spans_buf + spans_off),
                       (const __global float *)(sinks_buf + sinks_off),
                       dim_v, kv_heads, group, tokens, chunks, has_sinks, panel,
                       q1, q2, k1, v1};
  const Share share =
      share_of(get_group_id(0), &a, (const __global int *)(n_kv_buf + n_kv_off), capacity, each);
  const __global int *cells = (const __global int *)(cells_buf + cells_off);
  const int4 all = begin_share(&a, &share);
  // Of a unit: its maximum and its sum so far, kept where its share has them.
  float top[ROWS], total[ROWS], shrink[ROWS], p[ROWS][BLOCK];
  EACH_ROW {
    top[r] = -INFINITY;
    total[r] = 0.0f;
  }
  const int pieces = (share.last - share.first) * (BLOCK / 2);
  const long piece_k = (BLOCK * k2 + pieces - 1) / pieces;
  const long piece_v = (BLOCK * v2 + pieces - 1) / pieces;
  Cells block;
  int fresh = 1;
  for (int c = share.from; c < share.to;) {
    c = take_cells(&block, cells, c, share.to, all);
    if (block.n == 0) break;
    Ahead ahead = {chunks > 1 && share.first == 0 && c < share.n_kv, a.k + c * k2, a.v + c * v2,
                   piece_k, piece_v};
    for (int number = share.first; number < share.last; number++) {
      const Unit u = unit_of(&a, &share, number);
      const __global float *q[ROWS];
      __global float *out[ROWS];
      int4 span[ROWS];
      float16 high[ROWS];
      EACH_ROW {
        int2 query = query_of(&a, &u, r);
        q[r] = row_of_q(&a, query);
        out[r] = row_of_out(&a, query, share.chunk);
        span[r] = span_of(&a, query);
        high[r] = -INFINITY;
      }
      if (chunks > 1) {
        EACH_ROW {
          top[r] = out[r][dim_v];
          total[r] = out[r][dim_v + 1];
        }
      }
      for (int start = 0; start < block.n; start += 16)
        score(p, high, &block, start, u.k, k2, q, dim, span, scale, cap, &ahead);
      EACH_ROW shrink[r] = exponentiate(p[r], block.n, high[r], &top[r], &total[r]);
      mix_values(out, shrink, fresh, p, &block, u.v, v2, dim_v);
      if (chunks > 1) {
        EACH_ROW {
          out[r][dim_v] = top[r];
          out[r][dim_v + 1] = total[r];
        }
      }
    }
    fresh = 0;
  }
  if (chunks > 1) return;
  for (int number = share.first; number < share.last; number++) {
    const Unit u = unit_of(&a, &share, number);
    for (int r = 0; r < u.real; r++) {
      int2 query = query_of(&a, &u, r);
      __global float *out = row_of_out(&a, query, share.chunk);
      float whole = whole_of(top[r], total[r], sink_of(&a, query), has_sinks);
      for (int d = 0; d < dim_v; d++) out[d] = fresh ? 0.0f : out[d] * whole;
      if (panel) {
        for (int b = 0; b < dim_v / 32; b++) quantize_row(&a, &u, r, out, b);
      }
    }
  }
}
