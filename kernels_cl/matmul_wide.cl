// matmul_wide: products of many columns, where items are lanes: a group of 128 makes 64 rows of
// weights in row tiles times 64 columns of x in panels, by fragments (parts/fragments.cl).
//
// Defines, and which files stand before this one: parts/tiled_lanes.cl. Both sides pass through local
// memory, a block of 32 of K at a time: weights are unpacked once for all 64 columns, into bytes where
// x is two digits (the integer sums are those of parts/tiled_sums.cl), or scaled into halves where x is
// halves (X_BITS 16).

// Steps of a block, or of each of its sums.
#if X_BITS == 16
  #define STEPS (16 / STEP)
#else
  #define STEPS (8 / SUMS / STEP)
#endif
#define INTEGER_SUMS (X_BITS == 16 ? 1 : SUMS)
// Loads for the next block are on their way while one is multiplied; not with Intel's units, whose
// threads have registers for one, and whose other threads compute meanwhile.
#define BRINGS_AHEAD !(MATRIX_IS(DPAS8) || MATRIX_IS(DPAS16))

typedef float Sums[FRAGMENTS_DOWN][FRAGMENTS_ACROSS][LANE_SUMS];

// What a group brings of a block before it is put into local memory: each item half of a row's codes
// and its scale, and up to three of the 320 vectors of x.
typedef struct {
  uint codes[4];
  float d, m;
  uint4 x[3];
} Brought;

// A block of 64 rows and of 64 columns, and what scales the rows' sums.
typedef struct {
  uint4 a[SIDE * A_STRIDE / 4], x[SIDE * X_STRIDE / 4];
  float2 scales[INTEGER_SUMS][SIDE];
} Block;

// Where an item's vectors of x lie in the first block. Columns past the last panel are those of the
// last.
static void find_columns(uint at[3], uint first, uint panels, int blocks) {
#define FIND(i)                                                                                   \
  {                                                                                               \
    uint vector = get_local_id(0) + i * ITEMS, column = first + vector / 5;                       \
    uint panel = min(column / PANEL, panels - 1u);                                                \
    at[i] = (panel * blocks * PANEL + column % PANEL) * 5 + vector % 5;                           \
  }
  REPEAT(3, FIND)
}

static uint signed_codes(uint codes) {
#if BIAS
  return ((codes | 0x80808080u) - BIAS * 0x01010101u) ^ 0x80808080u;
#else
  return codes;
#endif
}

// Half `part` of block b of a row.
static Brought bring(const __global char *a, uint lane, uint part, const __global uint4 *x,
                     const uint at[3], uint b) {
  Brought brought;
  const __global char *record = a + b / BLOCKS * RECORD;
  const __global char *block = record + HEAD + b % BLOCKS * BLOCK;
  const int v = 0, s = SUMS == 2 ? part : 0;
  (void)s;  // where all sums have one scale
  float d[1] = {SCALAR_AT(record, 0, lane) * FACTOR};
  float m[1] = {HALVES == 2 ? SCALAR_AT(record, HALVES - 1, lane) : 0};
  brought.d = D_OF(v, s);
  brought.m = MINIMA ? M_OF(v, s) : 0;
#define BRING_CODES(j)                                                                            \
  brought.codes[j] =                                                                              \
      signed_codes(numbers_of_four(four_codes(block + TILE * SCALES, lane, 4 * part + j)));
#define BRING_COLUMN(i) \
  if (i < 2 || get_local_id(0) < SIDE) brought.x[i] = x[at[i] + b * PANEL * 5];
  REPEAT(4, BRING_CODES)
  REPEAT(3, BRING_COLUMN)
  return brought;
}

WITH_LOCAL void put(__local Block *block, const Brought *brought, uint row, uint part) {
#if X_BITS == 16
  __local half *to = (__local half *)(block->a + row * (A_STRIDE / 4) + 2 * part);
  #define PUT_HALVES(j) \
    vstore_half4_rte(convert_float4(as_char4(brought->codes[j])) * brought->d + brought->m, j, to);
  REPEAT(4, PUT_HALVES)
#else
  block->a[row * (A_STRIDE / 4) + part] = vload4(0, brought->codes);
  if (part < SUMS) block->scales[part][row] = (float2)(brought->d, brought->m);
#endif
#define PUT_COLUMN(i) \
  if (i < 2 || get_local_id(0) < SIDE) block->x[get_local_id(0) + i * ITEMS] = brought->x[i];
  REPEAT(3, PUT_COLUMN)
}

WITH_LOCAL void add_steps(Sum sum[LANE_SUMS], const __local uint *a, const __local uint *x) {
#if STEPS == 1
  add_fragment(sum, a, x, LANE);
#elif STEPS == 2
  add_fragment(sum, a, x, LANE);
  add_fragment(sum, a + STEP, x + STEP, LANE);
#else
  for (int step = 0; step < STEPS; step++)
    add_fragment(sum, a + step * STEP, x + step * STEP, LANE);
#endif
}

// Add sum s of a row and a column, scaled by the row's d and by the column's own scale.
WITH_LOCAL float add_scaled(float acc, Sum sum, const __local Block *block, int row, int column, const int s) {
  const __local float *x = (const __local float *)(block->x + column * (X_STRIDE / 4)) + 16;
#if X_BITS == 16
  return acc + sum * x[0];
#else
  float2 of_row = block->scales[s][row];
  acc += convert_float(sum) * (x[0] * of_row.x);
  #if MINIMA && SUMS == 2
  acc += x[0] * ((const __local short *)(x + 2))[s] * of_row.y;
  #elif MINIMA
  acc += x[1] * of_row.y;
  #endif
  return acc;
#endif
}

// Add sum s of a block's products of a fragment.
WITH_LOCAL void multiply_fragment(float acc[LANE_SUMS], const __local Block *block, const int down,
                       const int across, const int s) {
  const __local uint *a = (const __local uint *)block->a +
                          (WAVE_ROW + down * FRAGMENT_ROWS) * A_STRIDE + s * STEPS * STEP;
  const __local uint *x = (const __local uint *)block->x +
                          (WAVE_COLUMN + across * FRAGMENT_COLUMNS) * X_STRIDE + s * STEPS * STEP;
  Sum sum[LANE_SUMS];
#define NOTHING(i) sum[i] = 0;
#define UPPER_DIGIT(i) sum[i] *= 64;
#define ADD_SUM(i) \
  acc[i] = add_scaled(acc[i], sum[i], block, ROW_AT(down, i), COLUMN_AT(across, i), s);
  REPEAT(LANE_SUMS, NOTHING)
#if X_BITS != 16
  add_steps(sum, a, x + 8);
  REPEAT(LANE_SUMS, UPPER_DIGIT)
#endif
  add_steps(sum, a, x);
  REPEAT(LANE_SUMS, ADD_SUM)
}

WITH_LOCAL void multiply_block(Sums acc, const __local Block *block) {
#define MULTIPLY(down, across) multiply_fragment(acc[down][across], block, down, across, 0);
  EACH_FRAGMENT(MULTIPLY)
#if INTEGER_SUMS == 2
  #define MULTIPLY_OTHER(down, across) multiply_fragment(acc[down][across], block, down, across, 1);
  EACH_FRAGMENT(MULTIPLY_OTHER)
#endif
}

static void clear_sums(float acc[LANE_SUMS]) {
#define CLEAR_SUM(i) acc[i] = 0;
  REPEAT(LANE_SUMS, CLEAR_SUM)
}

// Sums of 64 rows, whose tiles are `first` and `second`, times 64 columns from number `column` on.
WITH_LOCAL void add_wide(Sums acc, __local Block *block, const __global char *first,
                     const __global char *second, const __global char *x, int column, int panels,
                     int records) {
  uint row = ITEM % SIDE, part = ITEM / SIDE, blocks = records * BLOCKS;
  const __global char *a = row < TILE ? first : second;
  uint at[3];
  find_columns(at, column, panels, blocks);
#define CLEAR(down, across) clear_sums(acc[down][across]);
  EACH_FRAGMENT(CLEAR)
#define BRING(b) bring(a, row % TILE, part, (const __global uint4 *)x, at, b)
#if BRINGS_AHEAD
  Brought brought = BRING(0);
#endif
  for (uint b = 0; b < blocks; b++) {
#if !BRINGS_AHEAD
    Brought brought = BRING(b);
#endif
    put(block, &brought, row, part);
    barrier(CLK_LOCAL_MEM_FENCE);
#if BRINGS_AHEAD
    brought = BRING(min(b + 1, blocks - 1u));
#endif
    multiply_block(acc, block);
    barrier(CLK_LOCAL_MEM_FENCE);  // the next block may come
  }
}

// What a group's sums go through to where they are stored: columns, side by side in local memory.
#define COLUMN_STRIDE (SIDE + 1)
typedef union {
  Block block;
  float sums[SIDE * COLUMN_STRIDE];
} Room;

WITH_LOCAL void keep_sums(__local float *sums, const float acc[LANE_SUMS], const int down,
                      const int across) {
#define KEEP_SUM(i) sums[COLUMN_AT(across, i) * COLUMN_STRIDE + ROW_AT(down, i)] = acc[i];
  REPEAT(LANE_SUMS, KEEP_SUM)
}

#define KEEP(down, across) keep_sums(room.sums, acc[down][across], down, across);

#ifndef ACT

// Group (c, t) makes the tiles 2t and 2t + 1 of all products'.
__kernel WIDE_ITEMS void matmul(PARTS, const __global char *x_buf, NUMBERS_GIVEN) {
  __local Room room;
  int tile = 2 * get_group_id(1), records = given.records;
  int all = (given.m0 + TILE - 1) / TILE + (given.m1 + TILE - 1) / TILE +
            (given.m2 + TILE - 1) / TILE;
  Part first = part_of(tile, TILE, PART(0, ADDED), PART(1, 0), PART(2, 0));
  Part second = part_of(min(tile + 1, all - 1), TILE, PART(0, ADDED), PART(1, 0), PART(2, 0));
  int from = get_group_id(0) * SIDE, item = get_local_id(0);
  Sums acc;
  add_wide(acc, &room.block, first.a + (long)(first.row / TILE) * records * RECORD,
           second.a + (long)(second.row / TILE) * records * RECORD, x_buf + given.x_off, from,
           given.panels, records);
  EACH_FRAGMENT(KEEP)
  barrier(CLK_LOCAL_MEM_FENCE);
  Part part = item % SIDE < TILE ? first : second;
  int row = part.row + item % TILE;
  if (row >= part.m || (tile + 1 == all && item % SIDE >= TILE)) return;
  float bias = part.bias ? part.bias[row] : 0;
  int end = min(SIDE, given.n - from);
  for (int column = item / SIDE; column < end; column += ITEMS / SIDE) {
    const __global float *added = added_at(part, from + column, given.step);
    float sum = (room.sums[column * COLUMN_STRIDE + item % SIDE] + bias) * given.factor;
    ((__global float *)part.y)[(long)(from + column) * part.m + row] =
        added ? sum + added[row] : sum;
  }
}

#else

// Group (c, t) makes tile t, the gate's rows and then the other's; then items quantise columns.
__kernel WIDE_ITEMS void gated(GATED, const __global char *x_buf, NUMBERS_GIVEN) {
  __local Room room;
  int tile = get_group_id(1), from = get_group_id(0) * SIDE, item = get_local_id(0);
  long at = (long)tile * given.records * RECORD;
  Sums acc;
  add_wide(acc, &room.block, gate_buf + given.gate_off + at, up_buf + given.up_off + at,
           x_buf + given.x_off, from, given.panels, given.records);
  EACH_FRAGMENT(KEEP)
  barrier(CLK_LOCAL_MEM_FENCE);
  for (int column = item / TILE; column < SIDE; column += ITEMS / TILE) {
    __local float *gate = room.sums + column * COLUMN_STRIDE + item % TILE;
    gate[0] = ACT(gate[0]) * gate[TILE];
  }
  barrier(CLK_LOCAL_MEM_FENCE);
  int panel = (from + item) / PANEL;
  const __local float *column = room.sums + item * COLUMN_STRIDE;
  if (item < SIDE && panel < given.panels)
    quantize_block(out_buf + given.out_off +
                       (((long)panel * (given.m / TILE) + tile) * PANEL + item % PANEL) * X_BYTES,
                   vload16(0, column), vload16(1, column));
}

#endif
