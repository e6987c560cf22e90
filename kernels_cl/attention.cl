// attention: softmax(scale k.q, masked) . v without a mask tensor.
//
//   q [D, H, T]   k [D, K, C]   v [Dv, K, C]   out [Dv, H, T]   head h reads kv head h / (H/K)
//   cells [2, C]: a cell's sequence bits, its position
//   spans [4, T]: a query's sequence bit, first and last position it sees, 0
//
// A query sees the cells below n_kv that share its bit and lie in its span. Scores are s = scale k.q,
// or cap tanh(s / cap) where cap > 0. A sink is a score without a value.
//
// The T H/K queries of a kv head, its heads innermost, are cut into tiles of ROWS, so that a cell of
// k and v is read once for all of them; the cells are cut into `chunks` parts. A group makes `each`
// of the units of a chunk, which are
//
//   kv head 0: tile 0 | tile 1 | ... | kv head 1: tile 0 | ...
//
// by the online softmax (Milakov & Gimelshein 2018): a row keeps the maximum and the sum so far, and
// shrinks what it added up when the maximum grows. Several chunks leave their shares for `merge` in
// out [Dv + 2, H, T, chunks]: what they added up, maximum, sum. KV is the type of k and v: f32, f16,
// or blocks (blocks.cl), whose heads are whole ones.
//
// Cells without the bit of a query of the tile are never read: free ones may hold anything.
//
// With `panel` above 0 results are written to x too, in 12 bits for the next matmul (quantize.cl): a
// token's heads are one row there, and Dv is a multiple of 32.

#ifndef KV
  #define KV f16
#endif
#ifndef ROWS
  #define ROWS 4
#endif
#define BLOCK 64  // cells taken at once

#define EACH(i, n) _Pragma("unroll") for (int i = 0; i < n; i++)
#define EACH_ROW EACH(r, ROWS)

#define ATTENTION_ARGUMENTS                                                                       \
  __global char *out_buf, long out_off, __global char *x_buf, long x_off,                         \
      const __global char *q_buf, long q_off, const __global char *k_buf, long k_off,             \
      const __global char *v_buf, long v_off, const __global char *spans_buf, long spans_off,     \
      const __global char *cells_buf, long cells_off, const __global char *n_kv_buf,              \
      long n_kv_off, const __global char *sinks_buf, long sinks_off, int dim, int dim_v,          \
      int kv_heads, int group, int tokens, int capacity, int chunks, int each, long q1, long q2,  \
      long k1, long k2, long v1, long v2, int has_sinks, int panel, float scale, float cap

// The units of a group, and its cells.
#define ATTENTION_SHARE                                                                           \
  int queries = tokens * group, tiles = (queries + ROWS - 1) / ROWS, units = tiles * kv_heads;    \
  int groups = (units + each - 1) / each, chunk = get_group_id(0) / groups;                       \
  int first = get_group_id(0) % groups * each, last = min(first + each, units);                   \
  int n_kv = min(*(const __global int *)(n_kv_buf + n_kv_off), capacity);                         \
  int share = ((n_kv + chunks - 1) / chunks + BLOCK - 1) / BLOCK * BLOCK;                         \
  int from = chunk * share, to = min(from + share, n_kv);                                         \
  int width = chunks > 1 ? dim_v + 2 : dim_v;                                                     \
  const __global int *cells = (const __global int *)(cells_buf + cells_off);                      \
  (void)last; /* a team makes one unit */

// Where a unit works; the last tile repeats its last query, which `real` does not count.
#define ATTENTION_PLACE(unit)                                                                     \
  int tile = unit % tiles, kv_head = unit / tiles, real = min(ROWS, queries - tile * ROWS);       \
  const __global char *k = k_buf + k_off + kv_head * k1, *v = v_buf + v_off + kv_head * v1;       \
  const __global float *q[ROWS];                                                                  \
  __global float *out[ROWS];                                                                      \
  int4 span[ROWS];                                                                                \
  float sink[ROWS];                                                                               \
  EACH_ROW {                                                                                      \
    int query = min(tile * ROWS + r, queries - 1), token = query / group;                         \
    int head = kv_head * group + query % group, heads = kv_heads * group;                         \
    q[r] = (const __global float *)(q_buf + q_off + head * q1 + token * q2);                      \
    out[r] = (__global float *)(out_buf + out_off) +                                              \
             (((long)chunk * tokens + token) * heads + head) * width;                             \
    span[r] = vload4(token, (const __global int *)(spans_buf + spans_off));                       \
    sink[r] = has_sinks ? ((const __global float *)(sinks_buf + sinks_off))[head] : -INFINITY;    \
  }                                                                                               \
  (void)real, (void)k, (void)v, (void)q, (void)out, (void)span, (void)sink; /* some need few */

// Block b of row r of a group's tile, as x has it.
#define QUANTIZE_ROW(r, b)                                                                        \
  {                                                                                               \
    int query = tile * ROWS + r;                                                                  \
    quantize_head(x_buf + x_off, out[r], b, dim_v, kv_heads * group, tokens, panel,               \
                  query / group, kv_head * group + query % group);                                \
  }

#if LOCAL == 1

// One item, vectors of 16: a block is the next BLOCK cells that some query may see, wherever.

static float16 fold(float16 a, float16 b) {  // sums of neighbours: a's, then b's
  return (float16)(a.even, b.even) + (float16)(a.odd, b.odd);
}

// The scores of 16 cells from list[start] on into p, -inf where a row sees none, and into high what
// is higher. Two cells at a time: ROWS x 2 sums fit 32 registers even where a vector takes two.
#define SCORES                                                                                    \
  {                                                                                               \
    float16 pair[8][ROWS];                                                                        \
    for (int i = 0; i < 8; i++) {                                                                 \
      if (fetches) {                                                                              \
        fetch(next_k, piece_k);                                                                   \
        fetch(next_v, piece_v);                                                                   \
        next_k += piece_k;                                                                        \
        next_v += piece_v;                                                                        \
      }                                                                                           \
      const __global char *key[2];                                                                \
      float16 sum[ROWS][2];                                                                       \
      EACH(j, 2) {                                                                                \
        key[j] = k + list[start + 2 * i + j] * k2;                                                \
        EACH_ROW sum[r][j] = 0.0f;                                                                \
      }                                                                                           \
      for (int d = 0; d + 16 <= dim; d += 16) {                                                   \
        float16 x[2];                                                                             \
        EACH(j, 2) x[j] = FETCHW(KV, key[j], d);                                                  \
        EACH_ROW {                                                                                \
          float16 y = vload16(0, q[r] + d);                                                       \
          EACH(j, 2) sum[r][j] += y * x[j];                                                       \
        }                                                                                         \
      }                                                                                           \
      for (int d = dim / 16 * 16; d < dim; d++) {                                                 \
        EACH(j, 2) {                                                                              \
          float x = FETCH(KV, key[j], d);                                                         \
          EACH_ROW sum[r][j].s0 += q[r][d] * x;                                                   \
        }                                                                                         \
      }                                                                                           \
      EACH_ROW pair[i][r] = fold(sum[r][0], sum[r][1]);                                           \
    }                                                                                             \
    int16 bit = vload16(0, bits + start), position = vload16(0, positions + start);               \
    EACH_ROW {                                                                                    \
      float16 low = fold(fold(pair[0][r], pair[1][r]), fold(pair[2][r], pair[3][r]));             \
      float16 high_half = fold(fold(pair[4][r], pair[5][r]), fold(pair[6][r], pair[7][r]));       \
      float16 s = fold(low, high_half) * scale;                                                   \
      if (cap > 0) s = cap * tanh(s / cap);                                                       \
      s = select((float16)(-INFINITY), s, seesw(span[r], bit, position));                         \
      high[r] = select(high[r], s, s > high[r]);                                                  \
      vstore16(s, 0, p[r] + start);                                                               \
    }                                                                                             \
  }

// N vectors of channels from `d` on: out = out * shrink + sum over the block of p v.
#define MIX(N)                                                                                    \
  {                                                                                               \
    float16 sum[ROWS][N];                                                                         \
    EACH_ROW EACH(j, N) {                                                                         \
      sum[r][j] = fresh ? 0.0f : vload16(j, out[r] + d) * shrink[r];                              \
    }                                                                                             \
    for (int i = 0; i < n; i++) {                                                                 \
      const __global char *value = v + list[i] * v2;                                              \
      float16 x[N];                                                                               \
      EACH(j, N) x[j] = FETCHW(KV, value, d + j * 16);                                            \
      EACH_ROW EACH(j, N) sum[r][j] += p[r][i] * x[j];                                            \
    }                                                                                             \
    EACH_ROW EACH(j, N) vstore16(sum[r][j], j, out[r] + d);                                       \
  }

__kernel __attribute__((reqd_work_group_size(1, 1, 1))) void attention(ATTENTION_ARGUMENTS) {
  ATTENTION_SHARE
  int4 all = 0;  // what some query may see
  for (int unit = first; unit < last; unit++) {
    ATTENTION_PLACE(unit)
    if (unit == first) all = span[0];
    EACH_ROW {
      all.x |= span[r].x;
      all.y = min(all.y, span[r].y);
      all.z = max(all.z, span[r].z);
      if (chunks > 1) {
        out[r][dim_v] = -INFINITY;
        out[r][dim_v + 1] = 0.0f;
      }
    }
  }
  // Of a unit: its maximum and its sum so far, kept where its share has them.
  float top[ROWS], total[ROWS], shrink[ROWS], p[ROWS][BLOCK];
  EACH_ROW {
    top[r] = -INFINITY;
    total[r] = 0.0f;
  }
  // In decode memory is the limit. All heads of a cell lie together: the first group of a chunk
  // fetches the block to come, also that of the next chunk, a piece with every two cells.
  int pieces = (last - first) * (BLOCK / 2);
  long piece_k = (BLOCK * k2 + pieces - 1) / pieces, piece_v = (BLOCK * v2 + pieces - 1) / pieces;
  int list[BLOCK], bits[BLOCK], positions[BLOCK], fresh = 1;
  for (int c = from; c < to;) {
    int n = 0;
    for (; c < to && n < BLOCK; c++) {
      int2 cell = vload2(c, cells);
      list[n] = c;
      bits[n] = cell.x;
      positions[n] = cell.y;
      n += sees(all, cell);
    }
    if (n == 0) break;
    for (int i = n; i % 16; i++) {
      list[i] = list[n - 1];
      bits[i] = 0;
      positions[i] = 0;
    }
    int fetches = chunks > 1 && first == 0 && c < n_kv;
    const __global char *next_k = k_buf + k_off + c * k2, *next_v = v_buf + v_off + c * v2;
    for (int unit = first; unit < last; unit++) {
      ATTENTION_PLACE(unit)
      if (chunks > 1) {
        EACH_ROW {
          top[r] = out[r][dim_v];
          total[r] = out[r][dim_v + 1];
        }
      }
      float16 high[ROWS];
      EACH_ROW high[r] = -INFINITY;
      for (int start = 0; start < n; start += 16) SCORES
      EACH_ROW {
        float before = top[r];
        top[r] = fmax(before, max_of16(high[r]));
        // A row that sees nothing yet has exp(-inf - 0) everywhere.
        float base = top[r] == -INFINITY ? 0.0f : top[r];
        shrink[r] = before == top[r] ? 1.0f : exp((float16)(before - base)).s0;
        float16 sum = 0.0f;
        for (int start = 0; start < n; start += 16) {
          float16 e = exp(vload16(0, p[r] + start) - base);
          sum += e;
          vstore16(e, 0, p[r] + start);
        }
        total[r] = total[r] * shrink[r] + sum16(sum);
      }
      int d = 0;
      for (; d + 64 <= dim_v; d += 64) MIX(4)
      for (; d + 16 <= dim_v; d += 16) MIX(1)
      for (; d < dim_v; d++) {
        float sum[ROWS];
        EACH_ROW sum[r] = fresh ? 0.0f : out[r][d] * shrink[r];
        for (int i = 0; i < n; i++) {
          float x = FETCH(KV, v + list[i] * v2, d);
          EACH_ROW sum[r] += p[r][i] * x;
        }
        EACH_ROW out[r][d] = sum[r];
      }
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
  for (int unit = first; unit < last; unit++) {
    ATTENTION_PLACE(unit)
    for (int r = 0; r < real; r++) {
      float high = fmax(top[r], sink[r]);
      float grown = total[r] > 0.0f ? exp(top[r] - high) : 0.0f;
      float sunk = has_sinks ? exp(sink[r] - high) : 0.0f;
      float whole = total[r] > 0.0f ? grown / (total[r] * grown + sunk) : 0.0f;
      for (int d = 0; d < dim_v; d++) out[r][d] = fresh ? 0.0f : out[r][d] * whole;
      if (panel) {
        for (int b = 0; b < dim_v / 32; b++) QUANTIZE_ROW(r, b)
      }
    }
  }
}

#else

// A team of items: each takes one cell of a block for the scores, then channels for the values.

#define PLUS(a, b) ((a) + (b))

// p[r][0] becomes what OP makes of the row p[r], for all rows at once.
#define TEAM(OP)                                                                                  \
  for (int half_way = LOCAL / 2; half_way > 0; half_way /= 2) {                                   \
    barrier(CLK_LOCAL_MEM_FENCE);                                                                 \
    if (me < half_way) {                                                                          \
      EACH_ROW p[r][me] = OP(p[r][me], p[r][me + half_way]);                                      \
    }                                                                                             \
  }                                                                                               \
  barrier(CLK_LOCAL_MEM_FENCE);

__kernel __attribute__((reqd_work_group_size(LOCAL, 1, 1))) void attention(ATTENTION_ARGUMENTS) {
  ATTENTION_SHARE
  ATTENTION_PLACE(first)
  __local float p[ROWS][LOCAL];
  int me = get_local_id(0);
  float top[ROWS], total[ROWS], shrink[ROWS];
  EACH_ROW {
    top[r] = -INFINITY;
    total[r] = 0.0f;
    if (r < real) {
      for (int d = me; d < dim_v; d += LOCAL) out[r][d] = 0.0f;
    }
  }
  for (int start = from; start < to; start += LOCAL) {
    int n = min(LOCAL, to - start), seen[ROWS], any_seen = 0;
    EACH_ROW {
      seen[r] = me < n && sees(span[r], vload2(min(start + me, to - 1), cells));
      any_seen |= seen[r];
    }
    float s[ROWS];
    EACH_ROW s[r] = 0.0f;
    if (any_seen) {
      const __global char *key = k + (start + me) * k2;
      int d = 0;
      for (; d + W <= dim; d += W) {
        floatW x = FETCHW(KV, key, d);
        EACH_ROW s[r] += sumW(x * CAT(vload, W)(0, q[r] + d));
      }
      for (; d < dim; d++) {
        float x = FETCH(KV, key, d);
        EACH_ROW s[r] += x * q[r][d];
      }
    }
    EACH_ROW {
      s[r] *= scale;
      if (cap > 0) s[r] = cap * tanh(s[r] / cap);
      if (!seen[r]) s[r] = -INFINITY;
      p[r][me] = s[r];
    }
    TEAM(fmax)
    float block_top = -INFINITY;
    EACH_ROW {
      float high = fmax(top[r], p[r][0]);
      block_top = fmax(block_top, p[r][0]);
      shrink[r] = high == -INFINITY ? 1.0f : exp(top[r] - high);
      top[r] = high;
    }
    barrier(CLK_LOCAL_MEM_FENCE);
    if (block_top == -INFINITY) continue;  // the same for all items: nothing is seen
    EACH_ROW {
      p[r][me] = top[r] == -INFINITY ? 0.0f : exp(s[r] - top[r]);
      total[r] = total[r] * shrink[r] + p[r][me];
    }
    barrier(CLK_LOCAL_MEM_FENCE);
    for (int d = me; d < dim_v; d += LOCAL) {
      float sum[ROWS];
      EACH_ROW sum[r] = r < real ? out[r][d] * shrink[r] : 0.0f;
      for (int i = 0; i < n; i++) {
        float used = 0.0f;
        EACH_ROW used += p[r][i];
        if (used == 0.0f) continue;
        float x = FETCH(KV, v + (start + i) * v2, d);
        EACH_ROW sum[r] += p[r][i] * x;
      }
      EACH_ROW {
        if (r < real) out[r][d] = sum[r];
      }
    }
    barrier(CLK_LOCAL_MEM_FENCE);
  }
  EACH_ROW p[r][me] = total[r];
  TEAM(PLUS)
  EACH_ROW {
    float sum = p[r][0];
    float high = fmax(top[r], sink[r]);
    float grown = sum > 0.0f ? exp(top[r] - high) : 0.0f;
    float sunk = has_sinks ? exp(sink[r] - high) : 0.0f;
    float whole = sum > 0.0f ? grown / (sum * grown + sunk) : 0.0f;
    if (r < real) {
      if (chunks == 1) {
        for (int d = me; d < dim_v; d += LOCAL) out[r][d] *= whole;
      } else if (me == 0) {
        out[r][dim_v] = top[r];
        out[r][dim_v + 1] = sum;
      }
    }
  }
  if (panel && chunks == 1) {
    barrier(CLK_GLOBAL_MEM_FENCE);
    for (int r = 0; r < real; r++)
      for (int b = me; b < dim_v / 32; b += LOCAL) QUANTIZE_ROW(r, b)
  }
}

#endif
