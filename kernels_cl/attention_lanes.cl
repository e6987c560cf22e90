// attention_lanes: attention (parts/attention_units.cl) by teams of items that are lanes.
//
// A group is LOCAL items and makes one unit: each item takes one cell of LOCAL for the scores, then
// every LOCAL-th channel for the values. Blocks of LOCAL cells that no row sees are passed over: of
// every LOCAL blocks, each item has looked through one.

#define EACH_ROW EACH(r, ROWS)
#define PLUS(a, b) ((a) + (b))

// p[r][0] becomes what OP makes of the row p[r], for all rows at once.
#define REDUCE(name, OP)                                                                          \
  static void name(__local float p[ROWS][LOCAL], int me) {                                        \
    for (int half_way = LOCAL / 2; half_way > 0; half_way /= 2) {                                 \
      barrier(CLK_LOCAL_MEM_FENCE);                                                               \
      if (me < half_way) {                                                                        \
        EACH_ROW p[r][me] = OP(p[r][me], p[r][me + half_way]);                                    \
      }                                                                                           \
    }                                                                                             \
    barrier(CLK_LOCAL_MEM_FENCE);                                                                 \
  }
REDUCE(reduce_max, fmax)
REDUCE(reduce_sum, PLUS)

// k.q of one cell for every row.
static void dot_one(float s[ROWS], const __global char *key, const __global float *q[ROWS],
                    int dim) {
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

// An item's channels: out = out * shrink + sum over the n cells from `start` on of p v.
WITH_LOCAL void mix_values(__global float *out[ROWS], const float shrink[ROWS],
                       __local float p[ROWS][LOCAL], const __global char *v, long v2, int start,
                       int n, int real, int dim_v, int me) {
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
}

// Whether some row sees some of a block of LOCAL cells.
static int any_sees(const int4 span[ROWS], const __global int *cells, int start, int to) {
  int seen = 0;
  for (int c = start; c < min(start + LOCAL, to); c++) {
    int2 cell = vload2(c, cells);
    EACH_ROW seen |= sees(span[r], cell);
  }
  return seen;
}

__kernel __attribute__((reqd_work_group_size(LOCAL, 1, 1))) void attention(ATTENTION) {
  const Attention a = ATTENTION_GIVEN;
  const Share share = SHARE_GIVEN(&a);
  const Unit u = unit_of(&a, share.first, share.first_head);
  __local float p[ROWS][LOCAL];
  __local int seen_by_some[LOCAL];
  int me = get_local_id(0);
  const __global float *q[ROWS];
  __global float *out[ROWS];
  int4 span[ROWS];
  float top[ROWS], total[ROWS], shrink[ROWS];
  EACH_ROW {
    int2 query = query_of(&a, &u, r);
    q[r] = row_of_q(&a, query);
    out[r] = row_of_out(&a, query, share.chunk);
    span[r] = span_of(&a, query);
    top[r] = -INFINITY;
    total[r] = 0.0f;
    if (r < u.real) {
      for (int d = me; d < a.dim_v; d += LOCAL) out[r][d] = 0.0f;
    }
  }
  for (int start = share.from, i = 0; start < share.to; start += LOCAL, i++) {
    if (i % LOCAL == 0) {
      barrier(CLK_LOCAL_MEM_FENCE);
      seen_by_some[me] = any_sees(span, a.cells, start + me * LOCAL, share.to);
      barrier(CLK_LOCAL_MEM_FENCE);
    }
    if (!seen_by_some[i % LOCAL]) continue;
    int n = min(LOCAL, share.to - start), seen[ROWS], any_seen = 0;
    EACH_ROW {
      seen[r] = me < n && sees(span[r], vload2(min(start + me, share.to - 1), a.cells));
      any_seen |= seen[r];
    }
    float s[ROWS];
    EACH_ROW s[r] = 0.0f;
    if (any_seen) dot_one(s, u.k + (start + me) * a.k2, q, a.dim);
    EACH_ROW {
      s[r] *= a.scale;
      if (a.cap > 0) s[r] = a.cap * tanh(s[r] / a.cap);
      if (!seen[r]) s[r] = -INFINITY;
      p[r][me] = s[r];
    }
    reduce_max(p, me);
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
    mix_values(out, shrink, p, u.v, a.v2, start, n, u.real, a.dim_v, me);
    barrier(CLK_LOCAL_MEM_FENCE);
  }
  EACH_ROW p[r][me] = total[r];
  reduce_sum(p, me);
  EACH_ROW {
    float sum = p[r][0];
    float whole = whole_of(top[r], sum, sink_of(&a, query_of(&a, &u, r)), a.has_sinks);
    if (r < u.real) {
      if (a.chunks == 1) {
        for (int d = me; d < a.dim_v; d += LOCAL) out[r][d] *= whole;
      } else if (me == 0) {
        out[r][a.dim_v] = top[r];
        out[r][a.dim_v + 1] = sum;
      }
    }
  }
  if (a.panel && a.chunks == 1) {
    barrier(CLK_GLOBAL_MEM_FENCE);
    int blocks = a.dim_v / 32;
    for (int i = me; i < u.real * blocks; i += LOCAL) {
      const __global float *made = row_of_out(&a, query_of(&a, &u, i / blocks), share.chunk);
      quantize_row(&a, &u, i / blocks, made, i % blocks);
    }
  }
}
