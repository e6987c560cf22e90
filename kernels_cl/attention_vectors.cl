// attention_vectors: attention (parts/attention_units.cl) by items that take vectors of 16.
//
// A group is one item. A block is the next BLOCK cells that some query of its units may see, wherever
// they lie: for each of its units the item makes the scores of 16 cells at once, then mixes values in
// vectors of channels.

static float16 fold(float16 a, float16 b) {  // sums of neighbours: a's, then b's
  return (float16)(a.even, b.even) + (float16)(a.odd, b.odd);
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
    ATTENTION) {
  const Attention a = ATTENTION_GIVEN;
  const Share share = SHARE_GIVEN(&a);
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
    c = take_cells(&block, a.cells, c, share.to, all);
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
