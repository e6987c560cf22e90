// tiled_stage: products of row tiles with several columns, for vectors: 256 elements of an item's rows
// are unpacked once and then meet one panel of x after the other. For quantised weights; behind
// tiled_sums.cl.
//
// Unpacked, an element is 16 bits: what its code stands for, less BIAS, times the scale of its 16 or
// 32 neighbours where that is a whole number. So all 32 products of a block are one exact sum:
//
//   y += d * scale_x * sum(unpacked x) + m * scale_x * sum(x)
//
// It costs a store and a load where code that keeps weights in registers unpacks again for every
// panel; and short loops leave compilers no room to move what they then have no registers for.
#ifdef STAGED

#define STAGE 8  // blocks unpacked together: a record, or eight records of one
#define PARTS_OF_ITEM (ROWS / LANES)

typedef struct {
  pairs codes[STAGE][PARTS_OF_ITEM / VECTORS][16][VECTORS];
  floats d[STAGE / BLOCKS][PARTS_OF_ITEM];
#if MINIMA
  floats m[STAGE][PARTS_OF_ITEM][SUMS];
#endif
} Stage;

#if SCALES > 0
  #if HALVES == 1
    #define SCALE_OF(s) BYTES(char, 0, s)
  #elif SUMS == 1
    #define SCALE_OF(s) BYTES(uchar, 0, 0)
  #else
    #define SCALE_OF(s) (BYTES(uchar, 0, s) & (BY_LANE(uchar))15)
  #endif
// Scale s in both halves of every lane.
static pairs scale_of(const __global char *block, int lane, int s) {
  ints scale = BY_LANE(convert_int)(SCALE_OF(s));
  return AS_PAIRS((scale << (ints)16) | (scale & (ints)0xffff));
}
#endif

// Unpack block b of the stage, of LANES rows.
static void unpack_block(Stage *stage, int b, int part, const __global char *block, int lane) {
  const __global char *a = block + TILE * SCALES;
#if SCALES > 0
  pairs scales[SUMS];
#pragma unroll
  for (int s = 0; s < SUMS; s++) scales[s] = scale_of(block, lane, s);
#endif
#pragma unroll
  for (int j = 0; j < WORDS; j++) {
    bits word = word_at(a, HIGH + j, lane);
#pragma unroll
    for (int t = 0; t < PAIRS; t++) {
      const int p = PAIR_NUMBER(j, t);
      pairs codes = low_bits(word, t);
#if HIGH
      codes |= high_bits(word_at(a, p * HIGH / 16, lane), p);
#endif
      codes = NUMBERS(codes) - (pairs)BIAS;
#if SCALES > 0
      codes *= scales[p * SUMS / 16];
#endif
      stage->codes[b][part / VECTORS][p][part % VECTORS] = codes;
    }
  }
}

// Unpack `blocks` blocks of an item's rows.
static void unpack(Stage *stage, const __global char *a, int first, int blocks) {
  for (int r = 0; r < blocks / BLOCKS; r++, a += RECORD) {
    for (int part = 0; part < PARTS_OF_ITEM; part++)
      stage->d[r][part] = SCALAR_AT(a, 0, first + part * LANES) * FACTOR;
    for (int k = 0; k < BLOCKS; k++) {
      const __global char *block = a + HEAD + k * BLOCK;
      fetch_ahead(block, RECORD / BLOCKS);
      for (int part = 0; part < PARTS_OF_ITEM; part++) {
        int lane = first + part * LANES;
        unpack_block(stage, r * BLOCKS + k, part, block, lane);
#if MINIMA
        floats m[1] = {SCALAR_AT(a, HALVES - 1, lane)};
        for (int s = 0; s < SUMS; s++) stage->m[r * BLOCKS + k][part][s] = M_OF(0, s);
#endif
      }
    }
  }
}

// sums[i][row] += of VECTORS vectors of rows from `part` on, with `blocks` blocks of a panel of x.
static void add_stage(float sums[PANEL][ROWS], const Stage *stage, int part, Columns x, int blocks) {
  floats acc[PANEL][VECTORS];
  clear(acc);
  for (int b = 0; b < blocks; b++) {
    const pairs(*codes)[VECTORS] = stage->codes[b][part / VECTORS];
    ints products[PANEL][VECTORS];
#pragma unroll
    for (int i = 0; i < PANEL; i++)
#pragma unroll
      for (int v = 0; v < VECTORS; v++) products[i][v] = (ints)0;
#pragma unroll 2
    for (int p = 0; p < 16; p++)
#pragma unroll
      for (int i = 0; i < PANEL; i++) {
        int pair_x = ((const __global int *)X_AT(x, i, b))[p];
#pragma unroll
        for (int v = 0; v < VECTORS; v++)
          products[i][v] += madd(codes[p][v], AS_PAIRS((ints)pair_x));
      }
#pragma unroll
    for (int i = 0; i < PANEL; i++) {
      const __global float *scale_x = (const __global float *)(X_AT(x, i, b) + 64);
#pragma unroll
      for (int v = 0; v < VECTORS; v++) {
        floats sum = BY_LANE(convert_float)(products[i][v]);
#if BLOCKS == 1
        acc[i][v] += sum * (scale_x[0] * stage->d[b][part + v]);
#else
        acc[i][v] += sum * scale_x[0];
#endif
      }
    }
  }
#if BLOCKS > 1
#pragma unroll
  for (int i = 0; i < PANEL; i++)
#pragma unroll
    for (int v = 0; v < VECTORS; v++) acc[i][v] *= stage->d[0][part + v];
#endif
#if MINIMA
  for (int b = 0; b < blocks; b++)
#pragma unroll
    for (int i = 0; i < PANEL; i++) {
      const __global float *scale_x = (const __global float *)(X_AT(x, i, b) + 64);
#if SUMS == 2
      const __global int *sum_x = (const __global int *)(scale_x + 2);
      const float of_x[SUMS] = {scale_x[0] * sum_x[0], scale_x[0] * sum_x[1]};
#else
      const float of_x[SUMS] = {scale_x[1]};
#endif
#pragma unroll
      for (int v = 0; v < VECTORS; v++)
#pragma unroll
        for (int s = 0; s < SUMS; s++) acc[i][v] += of_x[s] * stage->m[b][part + v][s];
    }
#endif
#pragma unroll
  for (int i = 0; i < PANEL; i++)
#pragma unroll
    for (int v = 0; v < VECTORS; v++) {
      floats sum = BY_LANE(vload)(part + v, sums[i]) + acc[i][v];
      BY_LANE(vstore)(sum, part + v, sums[i]);
    }
}

// sums[i][row] of ROWS rows, the first being number `lane` of its tile, and of `panels` panels.
static void make_rows(float sums[CHUNK][ROWS], const __global char *a, int lane,
                      const __global char *x, int records, int panels) {
  Stage stage;
  for (int i = 0; i < panels * PANEL; i++)
    for (int part = 0; part < PARTS_OF_ITEM; part++) BY_LANE(vstore)((floats)0, part, sums[i]);
  for (int b = 0; b < records * BLOCKS; b += STAGE) {
    int blocks = min(STAGE, records * BLOCKS - b);
    unpack(&stage, a + (long)(b / BLOCKS) * RECORD, lane, blocks);
    for (int panel = 0; panel < panels; panel++)
      for (int part = 0; part < PARTS_OF_ITEM; part += VECTORS)
        add_stage(sums + panel * PANEL, &stage, part,
                  x + ((long)panel * records * BLOCKS + b) * PANEL * X_BYTES, blocks);
  }
}

#endif
