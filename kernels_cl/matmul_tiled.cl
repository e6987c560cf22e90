// matmul_tiled: y[m, n] = sum_k a[k, m] x[k, n] of weights in row tiles and activations in panels.
//
// Defines, and which files stand before this one: parts/tiled_lanes.cl. A tile's row of records is
// summed up by add_record: in integers for quantised weights and 12-bit x (parts/tiled_sums.cl), in
// floats for float weights and x as it is (parts/tiled_floats.cl).

#if LANES > 1 && !defined(STAGED)
// sums[i][row] of ROWS rows, the first being number `lane` of its tile, and of `panels` panels.
static void make_rows(float sums[CHUNK][ROWS], const __global char *a, int lane,
                      const __global char *x, int records, int panels) {
  for (int panel = 0; panel < panels; panel++, x += (long)records * BLOCKS * PANEL * X_BYTES)
    for (int row = 0; row < ROWS; row += VECTORS * LANES) {
      floats acc[PANEL][VECTORS];
      clear(acc);
      for (int r = 0; r < records; r++)
        add_record(acc, a + (long)r * RECORD, lane + row, x, r * BLOCKS);
#pragma unroll
      for (int i = 0; i < PANEL; i++)
#pragma unroll
        for (int v = 0; v < VECTORS; v++)
          BY_LANE(vstore)(acc[i][v], 0, sums[panel * PANEL + i] + row + v * LANES);
    }
}
#endif

#if LANES == 1 && !defined(SHARED)
// Sums of a row over the records t, t + TEAM ...; of one block several at once, whose addresses then
// differ by numbers that are known.
WITH_SHARED void add_records(floats acc[PANEL][VECTORS], const __global char *a, int lane, Columns x,
                        int records, int t) {
  int r = t;
  #if defined(X_DIGITS) && BLOCKS_AT_ONCE > BLOCKS
  for (; r + (BLOCKS_AT_ONCE - 1) * TEAM < records; r += BLOCKS_AT_ONCE * TEAM)
    #pragma unroll
    for (int k = 0; k < BLOCKS_AT_ONCE; k++)
      add_record(acc, a + (long)(r + k * TEAM) * RECORD, lane, x, (r + k * TEAM) * BLOCKS);
  #endif
  for (; r < records; r += TEAM) add_record(acc, a + (long)r * RECORD, lane, x, r * BLOCKS);
}
#endif

#ifdef SHARED
// Sums lie in registers where every index is known; of more than these compilers could not keep all.
#if PANELS * PANEL <= 16
  #define PANELS_AT_ONCE PANELS
#else
  #define PANELS_AT_ONCE 1
#endif

// Intel's compiler leaves a loop of this size rolled whatever it is told; PoCL crashes where it is not.
#define ADD_PANEL(k)                                                                             \
  add_record(acc[k], (const __local char *)record, lane,                                         \
             x + (long)min(first + (k) * TEAM, all - 1) * records * BLOCKS * PANEL * X_BYTES,    \
             r * BLOCKS)

// Sums of a row with the panels first, first + TEAM ... of x, of which there are `all`: each record is
// brought once for all items of the group.
WITH_LOCAL void add_shared(floats acc[PANELS][PANEL][VECTORS], __local uint4 *record,
                       const __global char *a, const __global char *x, int records, int first,
                       int all) {
  int lane = get_local_id(0), item = get_local_id(1) * TILE + lane;
#pragma unroll PANELS_AT_ONCE
  for (int k = 0; k < PANELS; k++) clear(acc[k]);
  for (int r = 0; r < records; r++, a += RECORD) {
    for (int i = item; i < RECORD / 16; i += TILE * TEAM)
      record[i] = ((const __global uint4 *)a)[i];
    barrier(CLK_LOCAL_MEM_FENCE);
#if CAT(dot4_is_, DOT4) == dot4_is_INTEL && PANELS_AT_ONCE == 2
    ADD_PANEL(0);
    ADD_PANEL(1);
#else
  #pragma unroll PANELS_AT_ONCE
    for (int k = 0; k < PANELS; k++) ADD_PANEL(k);
#endif
    barrier(CLK_LOCAL_MEM_FENCE);  // the next record may come
  }
}
#endif

#if !defined(ACT) || defined(CHAINED)

#if LANES > 1
// ROWS rows of a product, which lie in one tile, and of n columns those in the panels from `start` to
// `end`, the first of which is at x.
static void make_part(Part part, const __global char *x, int records, int n, int start, int end,
                      long step, float factor) {
  const __global char *a = part.a + (long)(part.row / TILE) * records * RECORD;
  float sums[CHUNK][ROWS];
  make_rows(sums, a, part.row % TILE, x, records, end - start);
  for (int column = start * PANEL; column < min(end * PANEL, n); column++) {
    __global float *y = (__global float *)part.y + (long)column * part.m;
    const __global float *added = added_at(part, column, step);
    for (int v = 0; v < ROWS / LANES; v++)
      store(y, part.bias, factor, added, BY_LANE(vload)(v, sums[column - start * PANEL]),
            part.row + v * LANES, part.m);
  }
}

// For vectors. The hint keeps compilers from making vectors of vectors.
#define FOR_VECTORS __attribute__((vec_type_hint(int8))) void

#ifdef CHAINED
#elif defined(NORMED)
// An item makes `each` parts of a row that it normalises.
__kernel FOR_VECTORS matmul(PARTS, NORMED_ROW, NUMBERS_GIVEN) {
  const __global char *x = NORMED_GIVEN;
  int all = 0, m[3] = {given.m0, given.m1, given.m2};
  for (int i = 0; i < 3; i++) all += (m[i] + ROWS - 1) / ROWS;
  int first = get_global_id(0) * given.each;
  for (int g = first; g < min(first + given.each, all); g++)
    make_part(part_of(g, ROWS, PART(0, ADDED), PART(1, 0), PART(2, 0)), x, given.records, 1, 0, 1,
              0, 1.0f);
}
#else
// Item (g, c) makes a part of the columns in `panels` panels from c * panels on.
__kernel FOR_VECTORS matmul(PARTS, const __global char *x_buf, NUMBERS_GIVEN) {
  int records = given.records, panels = given.panels, n = given.n;
  int start = get_global_id(1) * panels, end = min(start + panels, (n + PANEL - 1) / PANEL);
  make_part(part_of(get_global_id(0), ROWS, PART(0, ADDED), PART(1, 0), PART(2, 0)),
            x_buf + given.x_off + (long)start * records * BLOCKS * PANEL * X_BYTES, records, n,
            start, end, given.step, given.factor);
}
#endif
#elif defined(SHARED)
// For lanes and many columns. A group is TILE x TEAM items and makes a tile's rows of CHUNK columns:
// item (row, t) those of the panels t, t + TEAM ... of them.
__kernel void matmul(PARTS, const __global char *x_buf, NUMBERS_GIVEN) {
  __local uint4 record[RECORD / 16];
  int records = given.records, n = given.n;
  Part part = part_of(get_group_id(0), TILE, PART(0, ADDED), PART(1, 0), PART(2, 0));
  int row = part.row + get_local_id(0), first = get_group_id(2) * TEAM * PANELS + get_local_id(1);
  const __global char *a = part.a + (long)(part.row / TILE) * records * RECORD;
  floats acc[PANELS][PANEL][VECTORS];
  add_shared(acc, record, a, x_buf + given.x_off, records, first, (n + PANEL - 1) / PANEL);
#pragma unroll PANELS_AT_ONCE * PANEL
  for (int c = 0; c < PANELS * PANEL; c++) {
    int column = (first + c / PANEL * TEAM) * PANEL + c % PANEL;
    if (row < part.m && column < n) {
      const __global float *added = added_at(part, column, given.step);
      float sum = acc[c / PANEL][c % PANEL][0] + (part.bias ? part.bias[row] : 0);
      sum *= given.factor;
      ((__global float *)part.y)[(long)column * part.m + row] = added ? sum + added[row] : sum;
    }
  }
}
#else
// For lanes. A group is TILE x TEAM items and makes a tile's rows of one panel's columns: item
// (row, t) adds the records t, t + TEAM ...; then the sums meet in local memory.
#ifdef NORMED
__kernel void matmul(PARTS, NORMED_ROW, NUMBERS_GIVEN) {
  __local uint4 row_of_x[NORMED / 32 * X_BYTES / 16];
  const int n = 1;
  const long step = 0;
  const float factor = 1.0f;
#else
__kernel void matmul(PARTS, const __global char *x_buf, NUMBERS_GIVEN) {
  int n = given.n;
  long step = given.step;
  float factor = given.factor;
#endif
  __local float sums[TEAM][PANEL][TILE];
  int records = given.records;
  Part part = part_of(get_group_id(0), TILE, PART(0, ADDED), PART(1, 0), PART(2, 0));
  int lane = get_local_id(0), t = get_local_id(1), panel = get_global_id(2);
  const __global char *a = part.a + (long)(part.row / TILE) * records * RECORD;
#ifdef NORMED
  NORMED_GIVEN(row_of_x, (__local float(*)[TILE])sums);
  Columns x = (Columns)row_of_x;
#else
  Columns x = x_buf + given.x_off + (long)panel * records * BLOCKS * PANEL * X_BYTES;
#endif
  floats acc[PANEL][VECTORS];
  clear(acc);
  add_records(acc, a, lane, x, records, t);
#pragma unroll
  for (int i = 0; i < PANEL; i++) sums[t][i][lane] = acc[i][0];
  barrier(CLK_LOCAL_MEM_FENCE);
  for (int i = t; i < PANEL; i += TEAM) {
    int column = panel * PANEL + i, row = part.row + lane;
    float sum = 0;
    for (int k = 0; k < TEAM; k++) sum += sums[k][i][lane];
    if (row < part.m && column < n) {
      const __global float *added = added_at(part, column, step);
      if (part.bias) sum += part.bias[row];
      sum *= factor;
      ((__global float *)part.y)[(long)column * part.m + row] = added ? sum + added[row] : sum;
    }
  }
}
#endif

#endif

#ifdef ACT

#if LANES > 1
// At most TILES tiles of the columns in the panels from `start` to `end`, the first of which is at
// x: the gate's and then the other's, as memory is read in long runs.
static void make_gated(__global char *to, const __global char *gate, const __global char *up,
                       const __global char *x, int m, int records, int first, int tiles, int start,
                       int end) {
  float both[2][TILES][CHUNK][TILE];
  for (int which = 0; which < 2; which++)
    for (int t = 0; t < tiles; t++)
      make_rows(both[which][t], (which ? up : gate) + (long)(first + t) * records * RECORD, 0, x,
                records, end - start);
  for (int panel = start; panel < end; panel++)
    for (int t = 0; t < tiles; t++) {
      __global char *out = to + ((long)panel * (m / TILE) + first + t) * PANEL * X_BYTES;
      for (int i = 0; i < PANEL; i++) {
        const float *of_gate = both[0][t][(panel - start) * PANEL + i];
        const float *of_up = both[1][t][(panel - start) * PANEL + i];
        quantize_block(out + i * X_BYTES, ACT(vload16(0, of_gate)) * vload16(0, of_up),
                       ACT(vload16(1, of_gate)) * vload16(1, of_up));
      }
    }
}

// For vectors.
#ifdef CHAINED
typedef struct {
  long y_off, mix_off, x_off, added_off, h_off, norm_off, own_off, gate_off, up_off, q_off;
  long down_off, counters_off, own_bytes;
  int m, hidden, records_mix, records, records_down, most;
  float eps;
} Numbers;

static void make_parts(Counters stage, __global char *y, const __global char *a,
                       const __global char *x, const __global char *added, int m, int records,
                       int most) {
  int all = (m + ROWS - 1) / ROWS;
  Run run = {0, 0};
  while (claim(&run, stage, all, most)) {
    for (int g = run.first; g < run.last; g++) {
      Part part = {y, a, 0, added, m, g * ROWS};
      make_part(part, x, records, 1, 0, 1, 0, 1.0f);
    }
    made(run, stage);
  }
  await(stage, all);
}

// Of one row x, and of m and `hidden` rows of weights:
//
//   h = mix x + added     q = 12 bits of ACT(gate n) * (up n), n = rms(h) * norm     y = down q + h
__kernel FOR_VECTORS feed_chain(
    __global char *y_buf, const __global char *mix_buf, const __global char *x_buf,
    const __global char *added_buf, __global char *h_buf, const __global char *norm_buf,
    __global char *own_buf, const __global char *gate_buf, const __global char *up_buf,
    __global char *q_buf, const __global char *down_buf, __global char *counters_buf,
    NUMBERS_GIVEN) {
  Counters counters = (Counters)(counters_buf + given.counters_off);
  __global char *h = h_buf + given.h_off, *q = q_buf + given.q_off;
  make_parts(counters, h, mix_buf + given.mix_off, x_buf + given.x_off,
             added_buf + given.added_off, given.m, given.records_mix, given.most);
  const __global char *row =
      normed(own_buf + given.own_off + get_global_id(0) * given.own_bytes,
             (const __global float *)h, 0, 0,
             (const __global float *)(norm_buf ? norm_buf + given.norm_off : 0), 0, 0.0f,
             given.eps);
  int tiles = given.hidden / TILE;
  Run run = {0, 0};
  while (claim(&run, counters + 2, tiles, TILES)) {
    make_gated(q, gate_buf + given.gate_off, up_buf + given.up_off, row, given.hidden,
               given.records, run.first, run.last - run.first, 0, 1);
    made(run, counters + 2);
  }
  await(counters + 2, tiles);
  make_parts(counters + 4, y_buf + given.y_off, down_buf + given.down_off, q, h, given.m,
             given.records_down, given.most);
  leave(counters, 3);
}
#elif defined(NORMED)
// An item makes `each` tiles of a row that it normalises.
__kernel __attribute__((vec_type_hint(int8))) void gated(GATED, NORMED_ROW, NUMBERS_GIVEN) {
  const __global char *x = NORMED_GIVEN;
  int first = get_global_id(0) * given.each, last = min(first + given.each, given.m / TILE);
  for (; first < last; first += TILES)
    make_gated(out_buf + given.out_off, gate_buf + given.gate_off, up_buf + given.up_off, x,
               given.m, given.records, first, min(TILES, last - first), 0, 1);
}
#else
// Item (g, c) makes TILES tiles of the columns that it makes in `matmul`.
__kernel __attribute__((vec_type_hint(int8))) void gated(GATED, const __global char *x_buf,
                                                         NUMBERS_GIVEN) {
  int records = given.records, panels = given.panels, start = get_global_id(1) * panels;
  int first = get_global_id(0) * TILES, end = min(start + panels, (given.n + PANEL - 1) / PANEL);
  make_gated(out_buf + given.out_off, gate_buf + given.gate_off, up_buf + given.up_off,
             x_buf + given.x_off + (long)start * records * BLOCKS * PANEL * X_BYTES, given.m,
             records, first, min(TILES, given.m / TILE - first), start, end);
}
#endif
#elif defined(SHARED)
// For lanes and many columns, as `matmul`, the gate's and then the other's: PoCL takes one loop with
// barriers, but not values that outlive a second one. Then every item quantises columns.
__kernel void gated(GATED, const __global char *x_buf, NUMBERS_GIVEN) {
  __local uint4 record[RECORD / 16];
  __local float both[TEAM][PANELS * PANEL][TILE];
  const __global char *gate = gate_buf + given.gate_off, *up = up_buf + given.up_off;
  int records = given.records;
  int tile = get_group_id(0), lane = get_local_id(0), t = get_local_id(1);
  int all = (given.n + PANEL - 1) / PANEL, first = get_group_id(2) * TEAM * PANELS + t;
  for (int which = 0; which < 2; which++) {
    const __global char *a = (which ? up : gate) + (long)tile * records * RECORD;
    floats acc[PANELS][PANEL][VECTORS];
    add_shared(acc, record, a, x_buf + given.x_off, records, first, all);
#pragma unroll PANELS_AT_ONCE * PANEL
    for (int c = 0; c < PANELS * PANEL; c++) {
      float sum = acc[c / PANEL][c % PANEL][0];
      both[t][c][lane] = which ? ACT(both[t][c][lane]) * sum : sum;
    }
  }
  barrier(CLK_LOCAL_MEM_FENCE);
  for (int c = lane; c < PANELS * PANEL; c += TILE) {
    long panel = first + c / PANEL * TEAM;
    if (panel < all)
      quantize_block(out_buf + given.out_off +
                         ((panel * (given.m / TILE) + tile) * PANEL + c % PANEL) * X_BYTES,
                     vload16(0, both[t][c]), vload16(1, both[t][c]));
  }
}
#else
// For lanes, as `matmul`.
#ifdef NORMED
__kernel void gated(GATED, NORMED_ROW, NUMBERS_GIVEN) {
  __local uint4 row_of_x[NORMED / 32 * X_BYTES / 16];
#else
__kernel void gated(GATED, const __global char *x_buf, NUMBERS_GIVEN) {
#endif
  __local float sums[2][TEAM][PANEL][TILE], both[PANEL][TILE];
  int tile = get_group_id(0), lane = get_local_id(0), t = get_local_id(1);
  int panel = get_global_id(2), records = given.records;
  const __global char *gate = gate_buf + given.gate_off, *up = up_buf + given.up_off;
#ifdef NORMED
  NORMED_GIVEN(row_of_x, (__local float(*)[TILE])sums);
  Columns x = (Columns)row_of_x;
#else
  Columns x = x_buf + given.x_off + (long)panel * records * BLOCKS * PANEL * X_BYTES;
#endif
  for (int which = 0; which < 2; which++) {
    const __global char *a = (which ? up : gate) + (long)tile * records * RECORD;
    floats acc[PANEL][VECTORS];
    clear(acc);
    add_records(acc, a, lane, x, records, t);
#pragma unroll
    for (int i = 0; i < PANEL; i++) sums[which][t][i][lane] = acc[i][0];
  }
  barrier(CLK_LOCAL_MEM_FENCE);
  for (int i = t; i < PANEL; i += TEAM) {
    float gate = 0, up = 0;
    for (int k = 0; k < TEAM; k++) {
      gate += sums[0][k][i][lane];
      up += sums[1][k][i][lane];
    }
    both[i][lane] = ACT(gate) * up;
  }
  barrier(CLK_LOCAL_MEM_FENCE);
  __global char *out =
      out_buf + given.out_off + ((long)panel * (given.m / TILE) + tile) * PANEL * X_BYTES;
#ifdef NORMED
  if (t == 0 && lane == 0)
    quantize_block((__local char *)row_of_x, vload16(0, both[0]), vload16(1, both[0]));
  barrier(CLK_LOCAL_MEM_FENCE);
  if (t == 0 && lane < X_BYTES / 16) ((__global uint4 *)out)[lane] = row_of_x[lane];
#else
  for (int i = t; i < PANEL; i += TEAM)
    if (lane == 0) quantize_block(out + i * X_BYTES, vload16(0, both[i]), vload16(1, both[i]));
#endif
}
#endif
#endif
