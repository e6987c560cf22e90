// attention_wide: attention (parts/attention_units.cl) of many queries, where items are lanes: a group
// of 256 makes 64 queries of a kv head, in turns of 64 cells, by fragments (parts/fragments.cl). Each
// key and value is thus brought to local memory once for 64 queries.
//
//   scores [64 queries, 64 cells]    += q [64 queries, dims]  k [64 cells, dims]
//   sums   [64 queries, channels]    += p [64 queries, cells] v [channels, cells]
//
// Local memory has two sides: q, then scores, then their exponentials p, in 64 lines of 64 words; and
// k, then v, turned around, in 128 lines of 16 words. Each half of the group multiplies 64 of these: of
// k one half of the dims of a turn, whose scores are added; of v 64 channels. Numbers are halves, or
// floats (FRAGMENT_BITS 32), W of them in four words. Where they are halves, q has two: what it is, and
// what that leaves out, as large scores would be wrong otherwise. Scores are powers of two: q is
// multiplied by log2(e).
//
// DIM and DIM_V are sizes of heads. Group (g, part) makes 128 CHANNELS of the values; or 64, of which
// each half of the group adds other cells.

#ifndef DIM
  #define DIM 64
#endif
#ifndef DIM_V
  #define DIM_V 64
#endif
#ifndef CHANNELS
  #define CHANNELS 64
#endif
#define LINE 16                          // words of a line of the second side
#define TURN (2 * LINE * 32 / FRAGMENT_BITS)  // dims of both halves
#define SLOTS (LINE * 32 / FRAGMENT_BITS)     // cells of a line
// Compilers would otherwise make all turns at once, and keep what they bring in registers.
#define ONE_AT_A_TIME _Pragma("unroll 1")
#define HALF_OF_GROUP (ITEM / ITEMS)

// A function that begins so computes by itself what follows from the item's number: NVIDIA's compiler
// would keep all of that in registers from the first turn on, and then a unit holds one group.
#define ITEM_HERE const uint item = item_here();
#undef ITEM
#define ITEM item
#if MATRIX_IS(HMMA)
static uint item_here(void) {
  uint item;
  __asm__ volatile("mov.u32 %0, %%tid.x;" : "=r"(item));
  return item;
}
#else
  #define item_here() get_local_id(0)
#endif
#define LN_2 0.693147181f

typedef float Sums[FRAGMENTS_DOWN][FRAGMENTS_ACROSS][LANE_SUMS];

// All of local memory. Cells of which no query of the group sees anything have no bits; `all` is a span
// that holds those of all queries.
typedef struct {
  uint4 a[SIDE * A_STRIDE / 4], x[2 * SIDE * X_STRIDE / 4];
  int2 cells[SIDE];
  int4 all;
  uint q_at[SIDE], out_at[SIDE], tokens[SIDE];
  float tops[4][SIDE], factors[SIDE];
  int seen[2 * ITEMS];
#ifdef ALIBI
  float slopes[SIDE];  // of scores to base 2
#endif
} Room;

// W numbers as four words, and what halves leave out.
#if FRAGMENT_BITS == 32
static uint4 words_of(float4 v) { return as_uint4(v); }
#elif MATRIX_IS(PLAIN)
static uint4 words_of(float8 v) {
  uint words[4];
  vstore_half8_rte(v, 0, (half *)words);
  return vload4(0, words);
}
static float8 left_out(float8 v, uint4 words) {
  uint each[4];
  vstore4(words, 0, each);
  return v - vload_half8(0, (const half *)each);
}
#elif MATRIX_IS(HMMA)
static uint two_halves(float2 v) {
  uint word;
  __asm__("cvt.rn.f16x2.f32 %0, %1, %2;" : "=r"(word) : "f"(v.y), "f"(v.x));
  return word;
}
static float2 of_two_halves(uint word) {
  float2 v;
  __asm__("{.reg .b16 a, b; mov.b32 {a, b}, %2; cvt.f32.f16 %0, a; cvt.f32.f16 %1, b;}"
          : "=f"(v.x), "=f"(v.y)
          : "r"(word));
  return v;
}
static uint4 words_of(float8 v) {
  return (uint4)(two_halves(v.s01), two_halves(v.s23), two_halves(v.s45), two_halves(v.s67));
}
static float8 left_out(float8 v, uint4 words) {
  return v - (float8)(of_two_halves(words.x), of_two_halves(words.y), of_two_halves(words.z),
                      of_two_halves(words.w));
}
#else
  #pragma OPENCL EXTENSION cl_khr_fp16 : enable
static uint4 words_of(float8 v) { return as_uint4(convert_half8(v)); }
static float8 left_out(float8 v, uint4 words) { return v - convert_float8(as_half8(words)); }
#endif

static uint4 fetch_words(const __global char *row, int i) {
#if FRAGMENT_BITS == 16 && SIZE(KV) == 2
  return *(const __global uint4 *)(row + 2 * i);
#else
  return words_of(FETCHW(KV, row, i));
#endif
}

// Queries' dims from `from` on: eight items a row.
WITH_LOCAL void put_queries(__local Room *room, const Attention *a, float factor, int from) {
  ITEM_HERE
  int d = from + ITEM % 8 * W;
  ONE_AT_A_TIME
  for (int row = ITEM / 8; row < SIDE; row += 2 * ITEMS / 8) {
    floatW q = 0.0f;
    if (d < DIM) {
      const __global float4 *at =
          (const __global float4 *)((const __global float *)a->q + room->q_at[row] + d);
#if FRAGMENT_BITS == 16
      q = (float8)(at[0], at[1]) * factor;
#else
      q = at[0] * factor;
#endif
    }
    uint4 words = words_of(q);
    __local uint4 *to = room->a + row * (A_STRIDE / 4) + ITEM % 8;
    to[0] = words;
#if FRAGMENT_BITS == 16
    to[8] = words_of(left_out(q, words));
#endif
  }
}

// The first half of the dims goes to the first 64 lines.
WITH_LOCAL void put_keys(__local Room *room, const __global char *k, long k2, int from) {
  ITEM_HERE
  int vector = ITEM % 8, d = from + vector * W;
  ONE_AT_A_TIME
  for (int cell = ITEM / 8; cell < SIDE; cell += 2 * ITEMS / 8) {
    uint4 words = 0;
    if (d < DIM && room->cells[cell].x) words = fetch_words(k + cell * k2, d);
    room->x[(vector / 4 * SIDE + cell) * (X_STRIDE / 4) + vector % 4] = words;
  }
}

// SLOTS cells' values, a line of them for each channel: two items read neighbours, so that all of
// what memory gives at once is used.
WITH_LOCAL void put_values(__local Room *room, const __global char *v, long v2, int turn,
                           int channel) {
  ITEM_HERE
  int word = ITEM / 2 % LINE;
  ONE_AT_A_TIME
  for (int vector = ITEM % 2 + ITEM / 32 * 2; vector < 2 * SIDE / W; vector += 16) {
    __local uint *to = (__local uint *)room->x + vector * W * X_STRIDE + word;
#if CHANNELS == SIDE
    int d = channel + vector * W % SIDE, cell = (2 * turn + vector * W / SIDE) * SLOTS;
#else
    int d = channel + vector * W, cell = turn * SLOTS;
#endif
#if FRAGMENT_BITS == 16
    cell += 2 * word;
    uint4 first = 0, other = 0;
    if (d < DIM_V && room->cells[cell].x) first = fetch_words(v + cell * v2, d);
    if (d < DIM_V && room->cells[cell + 1].x) other = fetch_words(v + (cell + 1) * v2, d);
    uint4 even = (first & 0xffff) | other << 16, odd = first >> 16 | (other & 0xffff0000);
  #define PUT_PAIR(i, of)                                                                         \
    to[2 * i * X_STRIDE] = even.of;                                                               \
    to[(2 * i + 1) * X_STRIDE] = odd.of;
    PUT_PAIR(0, x) PUT_PAIR(1, y) PUT_PAIR(2, z) PUT_PAIR(3, w)
#else
    cell += word;
    uint4 words = 0;
    if (d < DIM_V && room->cells[cell].x) words = fetch_words(v + cell * v2, d);
    to[0] = words.x;
    to[X_STRIDE] = words.y;
    to[2 * X_STRIDE] = words.z;
    to[3 * X_STRIDE] = words.w;
#endif
  }
}

// Products of lines, of the first side from word `from` on.
WITH_LOCAL void add_lines(Sums acc, const __local Room *room, int from) {
  ITEM_HERE
  const __local uint *a = (const __local uint *)room->a + WAVE_ROW * A_STRIDE + from;
  const __local uint *x = (const __local uint *)room->x + WAVE_COLUMN * X_STRIDE;
  ONE_AT_A_TIME
  for (int word = 0; word < LINE; word += STEP) {
#define ADD_LINES(down, across)                                                                   \
  add_fragment(acc[down][across], a + down * FRAGMENT_ROWS * A_STRIDE + word,                     \
               x + across * FRAGMENT_COLUMNS * X_STRIDE + word, LANE);
    EACH_FRAGMENT(ADD_LINES)
  }
}

static void clear_fragment(float acc[LANE_SUMS]) {
#define CLEAR_SUM(i) acc[i] = 0.0f;
  REPEAT(LANE_SUMS, CLEAR_SUM)
}
#define CLEAR(down, across) clear_fragment(acc[down][across]);

// All scores of 64 queries and 64 cells, left where the queries were.
WITH_LOCAL void make_scores(__local Room *room, const Attention *a, float factor,
                            const __global char *k) {
  ITEM_HERE
  Sums acc;
  EACH_FRAGMENT(CLEAR)
  ONE_AT_A_TIME
  for (int from = 0; from < DIM; from += TURN) {
    put_queries(room, a, factor, from);
    put_keys(room, k, a->k2, from);
    barrier(CLK_LOCAL_MEM_FENCE);
    add_lines(acc, room, HALF_OF_GROUP * LINE);
#if FRAGMENT_BITS == 16
    add_lines(acc, room, (2 + HALF_OF_GROUP) * LINE);
#endif
    barrier(CLK_LOCAL_MEM_FENCE);
  }
  __local float *scores = (__local float *)room->a - HALF_OF_GROUP * SIDE;
#define AT_SCORE(i) scores[ROW_AT(down_, i) * A_STRIDE + COLUMN_AT(across_, i)]
#define KEEP_SUM(i) AT_SCORE(i) = acc[down_][across_][i];
#define ADD_TO_KEPT(i) AT_SCORE(i) += acc[down_][across_][i];
#define KEEP(down, across)                                                                        \
  {                                                                                               \
    const int down_ = down, across_ = across;                                                     \
    REPEAT(LANE_SUMS, KEEP_SUM)                                                                   \
  }
#define ADD_KEPT(down, across)                                                                    \
  {                                                                                               \
    const int down_ = down, across_ = across;                                                     \
    REPEAT(LANE_SUMS, ADD_TO_KEPT)                                                                \
  }
  if (HALF_OF_GROUP == 0) {
    EACH_FRAGMENT(KEEP)
  }
  barrier(CLK_LOCAL_MEM_FENCE);
  if (HALF_OF_GROUP == 1) {
    EACH_FRAGMENT(ADD_KEPT)
  }
  barrier(CLK_LOCAL_MEM_FENCE);
}

// A row's maximum and sum; four items have one, each of a quarter of the cells.
typedef struct {
  float top, total;
} Row;

// Four scores of cells as row `at` sees them.
WITH_LOCAL float4 seen_scores(float4 s, const __local Room *room, int at, int4 span, int cell,
                              float cap) {
  if (cap > 0) s = cap * LOG2_E * tanh(s / cap);
  int8 cells = *(const __local int8 *)(room->cells + cell);
#ifdef ALIBI
  s -= room->slopes[at] * convert_float4(abs_diff(cells.odd, (int4)span.w));
#endif
  int4 seen = (cells.even & span.x) != 0 && cells.odd >= span.y && cells.odd <= span.z;
  return select((float4)(-INFINITY), s, seen);
}

// Scores become exponentials, the sums' factors what they shrink by.
WITH_LOCAL void make_exponentials(__local Room *room, Row *row, const Attention *a) {
  ITEM_HERE
  uint at = ITEM % SIDE, part = ITEM / SIDE;
  __local float4 *scores = (__local float4 *)room->a + at * (A_STRIDE / 4);
  int4 span = INT4_AT(room->tokens[at], a->spans);
  float4 s[4];
#define SEEN(i) \
  s[i] = seen_scores(scores[part * 4 + i], room, at, span, part * 16 + 4 * i, a->cap);
  REPEAT(4, SEEN)
  room->tops[part][at] = max_of4(fmax(fmax(s[0], s[1]), fmax(s[2], s[3])));
  barrier(CLK_LOCAL_MEM_FENCE);
  float top = fmax(row->top, fmax(fmax(room->tops[0][at], room->tops[1][at]),
                                  fmax(room->tops[2][at], room->tops[3][at])));
  float shrink = top == -INFINITY ? 1.0f : exp2(row->top - top);
  float from = top == -INFINITY ? 0.0f : top;
#define RAISE(i) s[i] = exp2(s[i] - from);
  REPEAT(4, RAISE)
  row->total = row->total * shrink + sum4((s[0] + s[1]) + (s[2] + s[3]));
  row->top = top;
  if (part == 0) room->factors[at] = shrink;
#if FRAGMENT_BITS == 16
  #define PUT_EXPONENTIALS(i) \
    ((__local uint4 *)scores)[part * 2 + i] = words_of((float8)(s[2 * i], s[2 * i + 1]));
  REPEAT(2, PUT_EXPONENTIALS)
#else
  #define PUT_EXPONENTIALS(i) scores[part * 4 + i] = s[i];
  REPEAT(4, PUT_EXPONENTIALS)
#endif
  barrier(CLK_LOCAL_MEM_FENCE);
}

WITH_LOCAL void shrink_fragment(float acc[LANE_SUMS], const __local Room *room, const int down) {
  ITEM_HERE
#define SHRINK_SUM(i) acc[i] *= room->factors[ROW_AT(down, i)];
  REPEAT(LANE_SUMS, SHRINK_SUM)
}
#define SHRINK(down, across) shrink_fragment(acc[down][across], room, down);

// The cells' values.
WITH_LOCAL void add_values(Sums acc, __local Room *room, const __global char *v, long v2,
                           int channel) {
  ITEM_HERE
  const int halves = CHANNELS == SIDE ? 2 : 1;
  EACH_FRAGMENT(SHRINK)
  ONE_AT_A_TIME
  for (int turn = 0; turn < SIDE / SLOTS / halves; turn++) {
    put_values(room, v, v2, turn, channel);
    barrier(CLK_LOCAL_MEM_FENCE);
    add_lines(acc, room, (turn * halves + (halves == 2 ? HALF_OF_GROUP : 0)) * LINE);
    barrier(CLK_LOCAL_MEM_FENCE);
  }
}

// Whether some query may see some of a block of cells.
static int any_of_block(int4 all, const __global int *cells, int start, int to) {
  int seen = 0;
  ONE_AT_A_TIME
  for (int c = start; c < min(start + SIDE, to) && !seen; c++) seen = sees(all, INT2_AT(c, cells));
  return seen;
}

// Cells from `start` on as the queries see them.
WITH_LOCAL void put_cells(__local Room *room, const __global int *cells, int start, int to) {
  ITEM_HERE
  if (ITEM >= SIDE) return;
  int2 cell = INT2_AT(min(start + (int)ITEM, to - 1), cells);
  int seen = start + (int)ITEM < to && sees(room->all, cell);
  room->cells[ITEM] = seen ? cell : (int2)(0);
}

// The sums, as the result has them or as a share of it.
WITH_LOCAL void store_sums(Sums acc, __local Room *room, const Attention *a, const Unit *u, Row row,
                           int chunk, int channel) {
  ITEM_HERE
  const uint at = ITEM % SIDE, part = ITEM / SIDE;
  room->tops[part][at] = row.total;
#if CHANNELS == SIDE
  __local float *scores = (__local float *)room->a - HALF_OF_GROUP * SIDE;
  if (HALF_OF_GROUP == 1) {
    EACH_FRAGMENT(KEEP)
  }
#endif
  barrier(CLK_LOCAL_MEM_FENCE);
  if (part == 0) {
    int2 query = query_of(a, u, at);
    float total = (room->tops[0][at] + room->tops[1][at]) + (room->tops[2][at] + room->tops[3][at]);
    float top = row.top * LN_2, whole_row = whole_of(top, total, sink_of(a, query), a->has_sinks);
    room->factors[at] = a->chunks > 1 ? 1.0f : whole_row;
    if (a->chunks > 1 && channel == 0 && (int)at < u->real) {
      __global float *left = row_of_out(a, query, chunk) + DIM_V;
      left[0] = top;
      left[1] = total;
    }
  }
  barrier(CLK_LOCAL_MEM_FENCE);
  __global float *out = (__global float *)a->out;
  const long width = a->chunks > 1 ? DIM_V + 2 : DIM_V;
#if CHANNELS == SIDE
  #define WHOLE_SUM(i) (acc[down_][across_][i] + AT_SCORE(i))
#else
  #define WHOLE_SUM(i) acc[down_][across_][i]
#endif
#define STORE_SUM(i)                                                                              \
  {                                                                                               \
    int r = ROW_AT(down_, i), d = channel + COLUMN_AT(across_, i);                                \
    if (r < u->real && d < DIM_V)                                                                 \
      out[room->out_at[r] * width + d] = WHOLE_SUM(i) * room->factors[r];                         \
  }
#define STORE_SUMS(down, across)                                                                  \
  {                                                                                               \
    const int down_ = down, across_ = across;                                                     \
    REPEAT(LANE_SUMS, STORE_SUM)                                                                  \
  }
  if (CHANNELS > SIDE || HALF_OF_GROUP == 0) {
    EACH_FRAGMENT(STORE_SUMS)
  }
}

__kernel __attribute__((reqd_work_group_size(2 * ITEMS, 1, 1))) void attention(ATTENTION) {
  ITEM_HERE
  const Attention a = ATTENTION_GIVEN;
  const Share share = SHARE_GIVEN(&a);
  const Unit u = unit_of(&a, share.first, share.first_head);
  const float factor = a.scale * (a.cap > 0 ? 1.0f : LOG2_E);
  const int channel = get_group_id(1) * CHANNELS;
  __local Room whole;
  __local Room *room = &whole;
  if (ITEM == 0) room->all = span_of_tile(&a, share.first, ROWS);
  if (ITEM < SIDE) {
    const int2 query = query_of(&a, &u, ITEM);
    room->q_at[ITEM] = (query.y * a.q1 + query.x * a.q2) / 4;
    room->out_at[ITEM] = (share.chunk * a.tokens + query.x) * a.kv_heads * a.group + query.y;
    room->tokens[ITEM] = query.x;
#ifdef ALIBI
    room->slopes[ITEM] = slope_of_query(&a, query) * LOG2_E;
#endif
  }
  Row row = {-INFINITY, 0.0f};
  Sums acc;
  EACH_FRAGMENT(CLEAR)
  ONE_AT_A_TIME
  for (int start = share.from, i = 0; start < share.to; start += SIDE, i++) {
    if (i % (2 * ITEMS) == 0) {
      barrier(CLK_LOCAL_MEM_FENCE);
      room->seen[ITEM] = any_of_block(room->all, a.cells, start + ITEM * SIDE, share.to);
      barrier(CLK_LOCAL_MEM_FENCE);
    }
    if (!room->seen[i % (2 * ITEMS)]) continue;
    put_cells(room, a.cells, start, share.to);
    barrier(CLK_LOCAL_MEM_FENCE);
    make_scores(room, &a, factor, u.k + start * a.k2);
    make_exponentials(room, &row, &a);
    add_values(acc, room, u.v + start * a.v2, a.v2, channel);
  }
  store_sums(acc, room, &a, &u, row, share.chunk, channel);
  if (a.panel && a.chunks == 1) {
    barrier(CLK_GLOBAL_MEM_FENCE);
    int blocks = min(CHANNELS, DIM_V - channel) / 32;
    ONE_AT_A_TIME
    for (int i = ITEM; i < u.real * blocks; i += 2 * ITEMS) {
      const __global float *made = row_of_out(&a, query_of(&a, &u, i / blocks), 0);
      quantize_row(&a, &u, i / blocks, made, channel / 32 + i % blocks);
    }
  }
}
