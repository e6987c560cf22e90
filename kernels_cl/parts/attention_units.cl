// attention_units: what attention computes and how it is shared out, compiled before
// attention_vectors.cl, attention_tiles.cl and attention_lanes.cl.
//
//   out[:, h, t] = softmax over cells of (scale k.q, masked) . v, without a mask tensor
//
//   q [D, H, T]   k [D, K, C]   v [Dv, K, C]   out [Dv, H, T]   head h reads kv head h / (H/K)
//   cells [2, C]: a cell's sequence bits, its position
//   spans [4, T]: a query's sequence bit, first and last position it sees, its own (of ALIBI)
//
// A query sees the cells below n_kv that share its bit and lie in its span. Scores are s = scale k.q,
// or cap tanh(s / cap) where cap > 0. A sink is a score without a value. With ALIBI scores fall
// with the distance (common.cl).
//
// The T H/K queries of a kv head, its heads innermost, are cut into tiles of ROWS, so that a cell of
// k and v is read once for all of them; the cells are cut into `chunks` parts. A group makes the
// units of a chunk: pairs of one of `tiles_each` tiles and one of `heads_each` kv heads. Groups are
//
//   chunk 0: kv heads 0 ...: tiles 0 ... | tiles tiles_each ... | kv heads heads_each ...: | chunk 1
//
// and work by the online softmax (Milakov & Gimelshein 2018): a row keeps the maximum and the sum so
// far, and shrinks what it added up when the maximum grows. Several chunks leave their shares for
// attention_merge.cl in out [Dv + 2, H, T, chunks]: what they added up, maximum, sum. KV is the type
// of k and v: f32, f16, or blocks (blocks.cl), whose heads are whole ones.
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
#define BLOCK 64  // cells taken at once, and of a page: runs that may be skipped (kvcache/causal.py)

#define EACH(i, n) _Pragma("unroll") for (int i = 0; i < n; i++)

#define LOADV(p, v) CAT(vload, W)(v, p)
#define STOREV(x, p, v) CAT(vstore, W)(x, v, p)

// 2^x where x <= 0, 0 below -126.5: 2^f of what is left of a whole number, by a polynomial (a minimax
// fit, at most 8e-8 off), whose exponent the whole number is added to.
#define LOG2_E 1.44269504f
#define TO_WHOLE 12582912.0f  // 1.5 * 2^23: what is added to it loses its fraction
static floatW power_of_2(floatW x) {
  x = select(x, (floatW)-127.0f, x < -127.0f);
  floatW whole = x + TO_WHOLE, f = x - (whole - TO_WHOLE);
  floatW y = 0.001327647152f * f + 0.009675541331f;
  y = y * f + 0.05550713275f;
  y = y * f + 0.2402211972f;
  y = y * f + 0.6931469671f;
  y = y * f + 1.000000072f;
  intW exponent = CAT(as_int, W)(whole) << 23;  // of the bits of TO_WHOLE none is left
  return y * CAT(as_float, W)(exponent + 0x3f800000);
}

// The kernels take the same arguments.
#define ATTENTION                                                                                 \
  __global char *out_buf, __global char *x_buf, const __global char *q_buf,                       \
      const __global char *k_buf, const __global char *v_buf, const __global char *spans_buf,     \
      const __global char *cells_buf, const __global char *n_kv_buf,                              \
      const __global char *sinks_buf, STORED MERGED NUMBERS_GIVEN
#ifndef STORES
  #define STORED
#endif
#ifndef MERGES
  #define MERGED
#endif
typedef struct {
  long out_off, x_off, q_off, k_off, v_off, spans_off, cells_off, n_kv_off, sinks_off;
#ifdef STORES
  long kc_off, vc_off, new_k_off, new_v_off, table_off, ids_off, wq_off, wk_off;
#endif
#ifdef MERGES
  long merged_off, counters_off;
#endif
  int dim, dim_v, kv_heads, group, tokens, capacity, chunks, tiles_each, heads_each;
  long q1, q2, k1, k2, v1, v2;
  int has_sinks, panel;
  float scale, cap;
#ifdef ALIBI
  float alibi;
#endif
#ifdef STORES
  long new_k1, new_v1;
  int rows_of_cache, half_rot, neox, has_norms;
  float eps_q, eps_k;
#endif
} Numbers;

// What all units have in common, of these arguments.
typedef struct {
  __global char *out, *x;
  const __global char *q, *k, *v;
  const __global int *spans, *cells;
  const __global float *sinks;
  int dim, dim_v, kv_heads, group, queries, tokens, chunks, has_sinks, panel;
  long q1, q2, k1, k2, v1, v2;
  float scale, cap;
#ifdef ALIBI
  float alibi;
#endif
} Attention;
#ifdef ALIBI
  #define ALIBI_GIVEN , given.alibi
#else
  #define ALIBI_GIVEN
#endif
#define ATTENTION_GIVEN                                                                           \
  (Attention) {                                                                                   \
    out_buf + given.out_off, x_buf + given.x_off, q_buf + given.q_off, k_buf + given.k_off,       \
        v_buf + given.v_off, (const __global int *)(spans_buf + given.spans_off),                 \
        (const __global int *)(cells_buf + given.cells_off),                                      \
        (const __global float *)(sinks_buf + given.sinks_off), given.dim, given.dim_v,            \
        given.kv_heads, given.group, given.tokens * given.group, given.tokens, given.chunks,      \
        given.has_sinks, given.panel, given.q1, given.q2, given.k1, given.k2, given.v1, given.v2, \
        given.scale, given.cap ALIBI_GIVEN                                                        \
  }
#define SHARE_GIVEN(a)                                                                            \
  share_of(get_group_id(0), a, (const __global int *)(n_kv_buf + given.n_kv_off),                 \
           given.capacity, given.tiles_each, given.heads_each)

// A group's tiles and kv heads, each from `first` to `last`, and its chunk of the cells.
typedef struct {
  int chunk, first, last, first_head, last_head, n_kv, from, to;
} Share;

static Share share_of(int group_id, const Attention *a, const __global int *n_kv, int capacity,
                      int tiles_each, int heads_each) {
  Share s;
  int tiles = (a->queries + ROWS - 1) / ROWS, groups = (tiles + tiles_each - 1) / tiles_each;
  int runs = (a->kv_heads + heads_each - 1) / heads_each;
  s.chunk = group_id / (groups * runs);
  s.first = group_id % groups * tiles_each;
  s.last = min(s.first + tiles_each, tiles);
  s.first_head = group_id / groups % runs * heads_each;
  s.last_head = min(s.first_head + heads_each, a->kv_heads);
  s.n_kv = min(*n_kv, capacity);
  int cells = ((s.n_kv + a->chunks - 1) / a->chunks + BLOCK - 1) / BLOCK * BLOCK;
  s.from = s.chunk * cells;
  s.to = min(s.from + cells, s.n_kv);
  return s;
}

// A unit: a tile of queries of a kv head, whose keys and values start at k and v. The last tile
// repeats its last query, which `real` does not count.
typedef struct {
  int tile, kv_head, real;
  const __global char *k, *v;
} Unit;

static Unit unit_of(const Attention *a, int tile, int kv_head) {
  Unit u;
  u.tile = tile;
  u.kv_head = kv_head;
  u.real = min(ROWS, a->queries - tile * ROWS);
  u.k = a->k + kv_head * a->k1;
  u.v = a->v + kv_head * a->v1;
  return u;
}

// Of a kv head's queries, the one of row r of a tile.
static int number_of(const Attention *a, int tile, int r) {
  return min(tile * ROWS + r, a->queries - 1);
}

// The query of row r of a unit: its token and its head.
static int2 query_of(const Attention *a, const Unit *u, int r) {
  int query = number_of(a, u->tile, r);
  return (int2)(query / a->group, u->kv_head * a->group + query % a->group);
}

static const __global float *row_of_q(const Attention *a, int2 query) {
  return (const __global float *)(a->q + query.y * a->q1 + query.x * a->q2);
}

// Where the result of a query lies, or its share of a chunk.
static __global float *row_of_out(const Attention *a, int2 query, int chunk) {
  int width = a->chunks > 1 ? a->dim_v + 2 : a->dim_v, heads = a->kv_heads * a->group;
  return (__global float *)a->out +
         (((long)chunk * a->tokens + query.x) * heads + query.y) * width;
}

static int4 span_of(const Attention *a, int2 query) { return INT4_AT(query.x, a->spans); }

// A span that holds both. One that sees nothing adds nothing.
#define NO_SPAN (int4)(0, INT_MAX, INT_MIN, 0)
static int4 joined(int4 a, int4 b) {
  if (b.x == 0) return a;
  return (int4)(a.x | b.x, min(a.y, b.y), max(a.z, b.z), 0);
}

// A span that holds those of a tile of `size` queries.
static int4 span_of_tile(const Attention *a, int tile, int size) {
  int4 all = NO_SPAN;
  int last = min((tile + 1) * size, a->queries) - 1;
  for (int token = tile * size / a->group; token <= last / a->group; token++)
    all = joined(all, INT4_AT(token, a->spans));
  return all;
}

// Whether such a tile's queries are of several sequences. Where they are lanes, all would score what
// one of them sees: such tiles are made row by row.
static int mixes(const Attention *a, int tile, int size) {
  return popcount(span_of_tile(a, tile, size).x) > 1;
}

static float sink_of(const Attention *a, int2 query) {
  return a->has_sinks ? a->sinks[query.y] : -INFINITY;
}

#ifdef ALIBI
static float slope_of_query(const Attention *a, int2 query) {
  return slope_of(query.y, a->kv_heads * a->group, a->alibi);
}
#endif

// What a row is multiplied with in the end: maximum, sum, sink.
static float whole_of(float top, float total, float sink, int has_sinks) {
  float high = fmax(top, sink);
  float grown = total > 0.0f ? exp(top - high) : 0.0f;
  float sunk = has_sinks ? exp(sink - high) : 0.0f;
  return total > 0.0f ? grown / (total * grown + sunk) : 0.0f;
}

// Block b of row r of a unit, as x has it.
static void quantize_row(const Attention *a, const Unit *u, int r, const __global float *out,
                         int b) {
  int2 query = query_of(a, u, r);
  quantize_head(a->x, out, b, a->dim_v, a->kv_heads * a->group, a->tokens, a->panel, query.x,
                query.y);
}
