// attention_lanes: attention (parts/attention_units.cl) by teams of items that are lanes.
//
// A group is LOCAL items and makes one unit: each item takes one cell of LOCAL for the scores, then
// channels of DIM_V for the values, whose sums it keeps. Blocks of LOCAL cells that no row sees are
// passed over: of every LOCAL blocks, each item has looked through one.
//
//   PARTS   an item has eight channels that are neighbours, of every PARTS-th cell, which halves the
//           instructions; if it is missing every LOCAL-th channel, of all cells
//   STORES  of one token: q is turned first, and the new k, turned, and v go into the caches, as in
//           rope_store.cl; the group does so whose share has their cell, which no other group reads
//   MERGES  most chunks: the group of a unit that is done last makes the result of the shares, as
//           attention_merge.cl does

#ifndef DIM_V
  #define DIM_V 64
#endif
#define CHANNELS ((DIM_V + LOCAL - 1) / LOCAL)
#define IS_CHANNEL(d) (DIM_V % LOCAL == 0 || (d) < DIM_V)

#define EACH_ROW EACH(r, ROWS)
#define EACH_CHANNEL EACH(c, CHANNELS)
#define PLUS(a, b) ((a) + (b))

// Eight halves of a row are one load.
#if defined(ALIGNED) && SIZE(KV) == 2
  #define WIDE 8
static float8 fetch_wide(const __global char *row, int i) {
  uint words[4];
  vstore4(*(const __global uint4 *)(row + 2 * i), 0, words);
  return vload_half8(0, (const half *)words);
}
#endif

// p[r][0] becomes what OP makes of the row p[r], for all rows at once.
#define REDUCE(name, OP)                                                                          \
  WITH_LOCAL void name(__local float p[ROWS][LOCAL], int me) {                                    \
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

#ifdef STORES
  #define Q_IN __local
  #define STORED                                                                                  \
    __global char *kc_buf, __global char *vc_buf, const __global char *new_k_buf,                 \
        const __global char *new_v_buf, const __global char *table_buf,                           \
        const __global char *ids_buf, const __global char *wq_buf, const __global char *wk_buf,

// An item's pairs of a head of q.
WITH_LOCAL void turn_here(__local float *out, Head head) {
  int step = head.neox ? 1 : 2, apart = head.neox ? head.half_rot : 1;
#pragma unroll 1  // there is one turn, as a rule
  for (int pair = head.chunk; pair < head.half_rot; pair += head.chunks) {
    float a = normed(head, pair * step), b = normed(head, pair * step + apart);
    float c = head.cosines[pair], s = head.sines[pair];
    out[pair * step] = a * c - b * s;
    out[pair * step + apart] = a * s + b * c;
  }
  for (int i = 2 * head.half_rot + head.chunk; i < head.dim; i += head.chunks)
    out[i] = normed(head, i);
}

static Head head_of(const NUMBERS_IN Numbers *n, const __global char *table,
                    const __global char *weight, const __global float *x, float eps) {
  Head head;
  head.x = x;
  head.cosines = (const __global float *)table;
  head.sines = head.cosines + n->half_rot;
  head.weight = n->has_norms ? (const __global float *)weight : 0;
  head.factor = n->has_norms ? norm_factor(x, n->dim, eps) : 1.0f;
  head.dim = n->dim;
  head.half_rot = n->half_rot;
  head.neox = n->neox;
  head.chunk = get_local_id(0);
  head.chunks = LOCAL;
  return head;
}
#else
  #define Q_IN __global
#endif

#ifdef MERGES
  #define MERGED __global char *merged_buf, __global char *counters_buf,

// Numbers that other groups read: by atomic operations alone, which every device sees alike. What an
// exchange gives back has taken place.
static int publish(__global float *to, float v) {
  return atomic_xchg((volatile __global int *)to, as_int(v));
}
static float published(__global float *from) {
  return as_float(atomic_or((volatile __global int *)from, 0));
}
#endif

// k.q of one cell for every row.
WITH_LOCAL void dot_one(float s[ROWS], const __global char *key, const Q_IN float *q[ROWS], int dim) {
  int d = 0;
#ifdef WIDE
  for (; d + WIDE <= dim; d += WIDE) {
    float8 x = fetch_wide(key, d);
    EACH_ROW {
      const Q_IN float4 *of_q = (const Q_IN float4 *)(q[r] + d);
      s[r] += sum4(x.lo * of_q[0] + x.hi * of_q[1]);
    }
  }
#else
  for (; d + W <= dim; d += W) {
    floatW x = FETCHW(KV, key, d);
    EACH_ROW s[r] += sumW(x * CAT(vload, W)(0, q[r] + d));
  }
  for (; d < dim; d++) {
    float x = FETCH(KV, key, d);
    EACH_ROW s[r] += x * q[r][d];
  }
#endif
}

#ifdef PARTS
typedef float8 Mixed;
  #define OF_MIXED 1
#else
typedef float Mixed;
  #define OF_MIXED CHANNELS
#endif
#define EACH_MIXED EACH(c, OF_MIXED)

// An item's channels: sums = sums * shrink + sum over the n cells from `start` on of p v.
WITH_LOCAL void mix_values(Mixed sums[OF_MIXED][ROWS], const float shrink[ROWS],
                           __local float p[ROWS][LOCAL], const __global char *v, long v2, int start,
                           int n, int me) {
  EACH_MIXED EACH_ROW sums[c][r] *= shrink[r];
#ifdef PARTS
  for (int i = me / (LOCAL / PARTS); i < n; i += PARTS) {
#else
  for (int i = 0; i < n; i++) {
#endif
    float used = 0.0f;
    EACH_ROW used += p[r][i];
    if (used == 0.0f) continue;
#ifdef PARTS
    float8 x = fetch_wide(v + (start + i) * v2, me % (LOCAL / PARTS) * WIDE);
    EACH_ROW sums[0][r] += p[r][i] * x;
#else
    EACH_CHANNEL {
      int d = me + c * LOCAL;
      float x = IS_CHANNEL(d) ? FETCH(KV, v + (start + i) * v2, d) : 0.0f;
      EACH_ROW sums[c][r] += p[r][i] * x;
    }
#endif
  }
}

#ifdef PARTS
// Every LOCAL-th channel, of all parts.
WITH_LOCAL void add_parts(float sums[CHANNELS][ROWS], Mixed mixed[OF_MIXED][ROWS],
                          __local float8 each[PARTS][DIM_V / WIDE], int me) {
  EACH_ROW {
    each[me / (LOCAL / PARTS)][me % (LOCAL / PARTS)] = mixed[0][r];
    barrier(CLK_LOCAL_MEM_FENCE);
    EACH_CHANNEL {
      sums[c][r] = 0.0f;
      for (int k = 0; k < PARTS; k++)
        if (IS_CHANNEL(me + c * LOCAL))
          sums[c][r] += ((const __local float *)each[k])[me + c * LOCAL];
    }
    barrier(CLK_LOCAL_MEM_FENCE);
  }
}
#endif

// Whether some row sees some of a block of LOCAL cells.
static int any_sees(const int4 span[ROWS], const __global int *cells, int start, int to) {
  int seen = 0;
  for (int c = start; c < min(start + LOCAL, to); c++) {
    int2 cell = INT2_AT(c, cells);
    EACH_ROW seen |= sees(span[r], cell);
  }
  return seen;
}

// The first of LOCAL blocks from i on that is seen by some row.
WITH_LOCAL int next_seen(const __local int *seen, int i) {
  while (i < LOCAL && !seen[i]) i++;
  return i;
}

__kernel __attribute__((reqd_work_group_size(LOCAL, 1, 1))) void attention(ATTENTION) {
  const Attention a = ATTENTION_GIVEN;
  const Share share = SHARE_GIVEN(&a);
  const Unit u = unit_of(&a, share.first, share.first_head);
  __local float p[ROWS][LOCAL];
  __local int seen_by_some[LOCAL];
  int me = get_local_id(0);
  const Q_IN float *q[ROWS];
#ifdef STORES
  __local float turned_q[ROWS][DIM] __attribute__((aligned(16)));
  const __global char *table = table_buf + given.table_off;
#endif
  int4 span[ROWS];
#ifdef ALIBI
  float slope[ROWS];
#endif
  float top[ROWS], total[ROWS], shrink[ROWS], sums[CHANNELS][ROWS];
  Mixed mixed[OF_MIXED][ROWS];
  EACH_ROW {
    int2 query = query_of(&a, &u, r);
#ifdef STORES
    turn_here(turned_q[r], head_of(&given, table, wq_buf + given.wq_off, row_of_q(&a, query),
                                   given.eps_q));
    q[r] = turned_q[r];
#else
    q[r] = row_of_q(&a, query);
#endif
    span[r] = span_of(&a, query);
#ifdef ALIBI
    slope[r] = slope_of_query(&a, query);
#endif
    top[r] = -INFINITY;
    total[r] = 0.0f;
    EACH_MIXED mixed[c][r] = 0.0f;
  }
#ifdef STORES
  int id = *(const __global int *)(ids_buf + given.ids_off);
  if (id >= share.from && id < share.to && id < given.rows_of_cache) {
    const __global float *x =
        (const __global float *)(new_k_buf + given.new_k_off + u.kv_head * given.new_k1);
    turn_into_cache(kc_buf + given.kc_off + u.kv_head * given.k1 + id * given.k2,
                    head_of(&given, table, wk_buf + given.wk_off, x, given.eps_k));
    store_values(vc_buf + given.vc_off + u.kv_head * given.v1 + id * given.v2,
                 new_v_buf + given.new_v_off + u.kv_head * given.new_v1, a.dim_v, me, LOCAL);
  }
  barrier(CLK_LOCAL_MEM_FENCE | CLK_GLOBAL_MEM_FENCE);
#endif
  // No barrier is under a condition: PoCL would make all that is behind it twice.
  for (int from = share.from; from < share.to; from += LOCAL * LOCAL) {
    barrier(CLK_LOCAL_MEM_FENCE);
    seen_by_some[me] = any_sees(span, a.cells, from + me * LOCAL, share.to);
    barrier(CLK_LOCAL_MEM_FENCE);
    for (int i = next_seen(seen_by_some, 0); i < LOCAL; i = next_seen(seen_by_some, i + 1)) {
      int start = from + i * LOCAL;
      int n = min(LOCAL, share.to - start), seen[ROWS], any_seen = 0;
      EACH_ROW {
        seen[r] = me < n && sees(span[r], INT2_AT(min(start + me, share.to - 1), a.cells));
        any_seen |= seen[r];
      }
      float s[ROWS];
      EACH_ROW s[r] = 0.0f;
      if (any_seen) dot_one(s, u.k + (start + me) * a.k2, q, a.dim);
      EACH_ROW {
        s[r] *= a.scale;
        if (a.cap > 0) s[r] = a.cap * tanh(s[r] / a.cap);
#ifdef ALIBI
        int position = INT2_AT(min(start + me, share.to - 1), a.cells).y;
        s[r] = fallen(s[r], slope[r], position, span[r].w);
#endif
        if (!seen[r]) s[r] = -INFINITY;
        p[r][me] = s[r];
      }
      reduce_max(p, me);
      EACH_ROW {
        float high = fmax(top[r], p[r][0]);
        shrink[r] = high == -INFINITY ? 1.0f : exp(top[r] - high);
        top[r] = high;
      }
      barrier(CLK_LOCAL_MEM_FENCE);
      EACH_ROW {
        p[r][me] = top[r] == -INFINITY ? 0.0f : exp(s[r] - top[r]);
        total[r] = total[r] * shrink[r] + p[r][me];
      }
      barrier(CLK_LOCAL_MEM_FENCE);
      mix_values(mixed, shrink, p, u.v, a.v2, start, n, me);
      barrier(CLK_LOCAL_MEM_FENCE);
    }
  }
#ifdef PARTS
  __local float8 parts[PARTS][DIM_V / WIDE];
  add_parts(sums, mixed, parts, me);
#else
  EACH_CHANNEL EACH_ROW sums[c][r] = mixed[c][r];
#endif
  EACH_ROW p[r][me] = total[r];
  reduce_sum(p, me);
#ifdef MERGES
  __local float tops[ROWS][MERGES], totals[ROWS][MERGES];
  volatile __local int *arrived = seen_by_some;
  int back = 0;
  EACH_ROW {
    if (r < u.real) {
      __global float *out = row_of_out(&a, query_of(&a, &u, r), share.chunk);
      EACH_CHANNEL {
        if (IS_CHANNEL(me + c * LOCAL)) back |= publish(out + me + c * LOCAL, sums[c][r]);
      }
      if (me == 0) back |= publish(out + DIM_V, top[r]) | publish(out + DIM_V + 1, p[r][0]);
    }
  }
  arrived[me] = back;
  barrier(CLK_LOCAL_MEM_FENCE | CLK_GLOBAL_MEM_FENCE);
  volatile __global int *counter = (volatile __global int *)(counters_buf + given.counters_off) +
                                   get_group_id(0) % (get_num_groups(0) / a.chunks);
  if (me == 0) arrived[0] = atomic_inc(counter);
  barrier(CLK_LOCAL_MEM_FENCE);
  int is_last = arrived[0] == a.chunks - 1;
  if (is_last) {
    if (me == 0) atomic_xchg(counter, 0);
    for (int i = me; i < u.real * a.chunks; i += LOCAL) {
      int r = i / a.chunks, c = i % a.chunks;
      __global float *left = row_of_out(&a, query_of(&a, &u, r), c);
      tops[r][c] = published(left + a.dim_v);
      totals[r][c] = published(left + a.dim_v + 1);
    }
  }
  barrier(CLK_LOCAL_MEM_FENCE);
  __global float *merged = (__global float *)(merged_buf + given.merged_off);
  if (is_last) {
    for (int r = 0; r < u.real; r++) {
      int2 query = query_of(&a, &u, r);
      float sink = sink_of(&a, query), high = sink;
      for (int c = 0; c < a.chunks; c++) high = fmax(high, tops[r][c]);
      float all = a.has_sinks ? exp(sink - high) : 0.0f;
      for (int c = 0; c < a.chunks; c++)
        if (totals[r][c] != 0.0f) all += exp(tops[r][c] - high) * totals[r][c];
      float whole = all > 0.0f ? 1.0f / all : 0.0f;
      __global float *to = merged + ((long)query.x * a.kv_heads * a.group + query.y) * a.dim_v;
      for (int d = me; d < a.dim_v; d += LOCAL) {
        float v = 0.0f;
        for (int c = 0; c < a.chunks; c++)  // one that saw nothing left nothing
          if (totals[r][c] != 0.0f)
            v += exp(tops[r][c] - high) * published(row_of_out(&a, query, c) + d);
        to[d] = v * whole;
      }
    }
  }
  barrier(CLK_GLOBAL_MEM_FENCE);
  if (is_last && a.panel) {
    int blocks = a.dim_v / 32;
    for (int i = me; i < u.real * blocks; i += LOCAL) {
      int2 query = query_of(&a, &u, i / blocks);
      quantize_row(&a, &u, i / blocks,
                   merged + ((long)query.x * a.kv_heads * a.group + query.y) * a.dim_v, i % blocks);
    }
  }
#else
  EACH_ROW {
    float sum = p[r][0];
    float whole = whole_of(top[r], sum, sink_of(&a, query_of(&a, &u, r)), a.has_sinks);
    if (r < u.real) {
      __global float *out = row_of_out(&a, query_of(&a, &u, r), share.chunk);
      EACH_CHANNEL {
        if (IS_CHANNEL(me + c * LOCAL))
          out[me + c * LOCAL] = a.chunks == 1 ? sums[c][r] * whole : sums[c][r];
      }
      if (a.chunks > 1 && me == 0) {
        out[DIM_V] = top[r];
        out[DIM_V + 1] = sum;
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
#endif
}
