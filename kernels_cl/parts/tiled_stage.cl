// tiled_stage: products of row tiles with several columns, for vectors: 256 elements of an item's rows
// are unpacked once and then meet one panel of x after the other. For quantised weights; behind
// tiled_sums.cl.
//
// Unpacked, an element is 16 bits: what its code stands for, less BIAS, times the scale of its 16 or
// 32 neighbours where that is a whole number. So all 32 products of a block are one exact sum:
//
//   y += d * scale_x * sum(unpacked x) + m * scale_x * sum(x)
//
// added up in the order of tiled_sums.cl, so that a row of x gives the same bits as alone.
//
// It costs a store and a load where code that keeps weights in registers unpacks again for every
// panel; and short loops leave compilers no room to move what they then have no registers for.
//
// Of CROSSED columns of a panel two neighbours a, b meet u, v by one product (Winograd, 1968):
//
//   a u + b v = (a + v) (b + u) - a b - u v
//
// where the last two are sums of a block that are made once, of weights here and of x when it was
// rounded. That is half the multiplications and twice as many additions, for processors that have
// more units for these. Nothing is rounded: 16 squares of |unpacked| + 2047 <= 6143 fit an integer.
//
// Where x is 8 bits an element is a byte, and its scale stands beside it: tiled_bytes.cl.
#ifdef STAGED

#ifndef CROSSED
  #define CROSSED 0
#endif

#define STAGE 8  // blocks unpacked together: a record, or eight records of one
#define STAGE_BYTES (STAGE / BLOCKS * RECORD)
#define PARTS_OF_ITEM (ROWS / LANES)

typedef struct {
#if X_BITS == 8
  pairs codes[STAGE][PARTS_OF_ITEM / VECTORS][FOURS][VECTORS];
  Scales scales[STAGE][PARTS_OF_ITEM / VECTORS][VECTORS];
#else
  pairs codes[STAGE][PARTS_OF_ITEM / VECTORS][16][VECTORS];
#endif
  floats d[STAGE / BLOCKS][PARTS_OF_ITEM];
#if CROSSED
  ints crossed[STAGE][PARTS_OF_ITEM];  // less the products of neighbours in a block
#endif
#if MINIMA
  floats m[STAGE / BLOCKS][PARTS_OF_ITEM];
#endif
#if MINIMA && SCALES > 0
  floats less[STAGE][PARTS_OF_ITEM][SUMS];
#endif
} Stage;

// Scale s in both halves of every lane.
static pairs scale_of(const __global char *block, int lane, int s) {
  ints scale = INTS_OF(SCALE_OF(0, s));
  return AS_PAIRS((scale << (ints)16) | (scale & (ints)0xffff));
}

// Unpack block b of the stage, of LANES rows.
static void unpack_block(Stage *stage, int b, int part, const __global char *block, int lane) {
  const __global char *a = block + TILE * SCALES;
  pairs scales[SUMS];
#pragma unroll
  for (int s = 0; s < SUMS; s++) scales[s] = scale_of(block, lane, s);
#if X_BITS == 8
  pairs numbers[16];
#endif
#pragma unroll
  for (int j = 0; j < WORDS; j++) {
    bits word = word_at(a, HIGH + j, lane);
#pragma unroll
    for (int t = 0; t < PAIRS; t++) {
      const int p = PAIR_NUMBER(j, t);
      pairs codes = low_bits(word, t);
#if HIGH
      codes |= high_bits(a, lane, p, CODE_BITS);
#endif
#if X_BITS == 8
      numbers[p] = NUMBERS(codes);
#else
      codes = NUMBERS(codes) - (pairs)BIAS;
  #if SCALES > 0
      codes *= scales[p * SUMS / 16];
  #endif
      stage->codes[b][part / VECTORS][p][part % VECTORS] = codes;
#endif
    }
  }
#if X_BITS == 8
#pragma unroll
  for (int k = 0; k < FOURS; k++)
    stage->codes[b][part / VECTORS][k][part % VECTORS] = four_of(numbers[2 * k], numbers[2 * k + 1]);
  keep_scales(&stage->scales[b][part / VECTORS][part % VECTORS], scales);
#endif
#if CROSSED
  const pairs(*codes)[VECTORS] = stage->codes[b][part / VECTORS];
  ints crossed = (ints)0;
#pragma unroll
  for (int p = 0; p < 16; p += 2)
    crossed -= madd(codes[p][part % VECTORS], codes[p + 1][part % VECTORS]);
  stage->crossed[b][part] = crossed;
#endif
}

// With few rows of x the next stage is fetched little by little (fetch_ahead explains why): its last
// quarter while one is unpacked, the rest during so many `calls` of add_stage.
#define BYTES_OF_UNPACKING (STAGE_BYTES / 4)
#define BYTES_OF_PART (BYTES_OF_UNPACKING / (STAGE * PARTS_OF_ITEM))
#define BYTES_OF_PAIR(calls) ((STAGE_BYTES - BYTES_OF_UNPACKING) / (16 * STAGE * (calls)) + 1)
static void fetch_next(const __global char *first, int bytes) {
#ifdef AHEAD
  fetch(first, bytes);
#endif
}

// Unpack `blocks` blocks of an item's rows.
static void unpack(Stage *stage, const __global char *a, int first, int blocks) {
  const __global char *ahead = a + 2 * STAGE_BYTES - BYTES_OF_UNPACKING;
  for (int r = 0; r < blocks / BLOCKS; r++, a += RECORD) {
    for (int part = 0; part < PARTS_OF_ITEM; part++) {
      int lane = first + part * LANES;
      stage->d[r][part] = SCALAR_AT(a, 0, lane) * FACTOR;
#if MINIMA
      floats m = SCALAR_AT(a, HALVES - 1, lane);
      stage->m[r][part] = SCALES > 0 ? -m : m;
#endif
    }
    for (int k = 0; k < BLOCKS; k++) {
      const __global char *block = a + HEAD + k * BLOCK;
      for (int part = 0; part < PARTS_OF_ITEM; part++, ahead += BYTES_OF_PART) {
        int lane = first + part * LANES;
        fetch_next(ahead, BYTES_OF_PART);
        unpack_block(stage, r * BLOCKS + k, part, block, lane);
#if MINIMA && SCALES > 0
        for (int s = 0; s < SUMS; s++)
          stage->less[r * BLOCKS + k][part][s] = FLOATS_OF(LESS_OF(0, s));
#endif
      }
    }
  }
}

#if X_BITS == 12
// What products of block b are added to: for CROSSED ones, less those of neighbours.
static void begin_products(ints products[PANEL][VECTORS], const Stage *stage, int part, Columns x,
                           int b) {
#pragma unroll
  for (int i = 0; i < PANEL; i++)
#pragma unroll
    for (int v = 0; v < VECTORS; v++) products[i][v] = (ints)0;
#if CROSSED
#pragma unroll
  for (int i = 0; i < CROSSED; i++) {
    ints of_x = (ints)(*(const __global int *)(X_AT(x, i, b) + 76));
#pragma unroll
    for (int v = 0; v < VECTORS; v++) products[i][v] = stage->crossed[b][part + v] + of_x;
  }
#endif
}

#define PAIRS_AT_ONCE (CROSSED ? 2 : 1)

// products += of neighbouring pairs of codes and a panel of x. With VNNI one instruction multiplies a
// pair and adds to its sum. Compilers use it for each pair that comes alone; of two in a row they add
// one by itself, so that it need not wait for the other.
static void add_pairs(ints products[PANEL][VECTORS], const pairs codes[PAIRS_AT_ONCE][VECTORS],
                      Columns x, int b, int p) {
#pragma unroll
  for (int i = 0; i < CROSSED; i++) {
    const __global int *pairs_x = (const __global int *)X_AT(x, i, b) + p;
    pairs x0 = AS_PAIRS((ints)pairs_x[0]), x1 = AS_PAIRS((ints)pairs_x[1]);
#pragma unroll
    for (int v = 0; v < VECTORS; v++)
      products[i][v] += madd(codes[0][v] + x1, codes[1][v] + x0);
  }
#pragma unroll
  for (int k = 0; k < PAIRS_AT_ONCE; k++)
#pragma unroll
    for (int i = CROSSED; i < PANEL; i++) {
      int pair_x = ((const __global int *)X_AT(x, i, b))[p + k];
#pragma unroll
      for (int v = 0; v < VECTORS; v++)
        products[i][v] += madd(codes[k][v], AS_PAIRS((ints)pair_x));
    }
}

#endif

static void load_sums(floats acc[PANEL][VECTORS], float sums[PANEL][ROWS], int part) {
#pragma unroll
  for (int i = 0; i < PANEL; i++)
#pragma unroll
    for (int v = 0; v < VECTORS; v++) acc[i][v] = BY_LANE(vload)(part + v, sums[i]);
}

static void store_sums(float sums[PANEL][ROWS], floats acc[PANEL][VECTORS], int part) {
#pragma unroll
  for (int i = 0; i < PANEL; i++)
#pragma unroll
    for (int v = 0; v < VECTORS; v++) BY_LANE(vstore)(acc[i][v], part + v, sums[i]);
}

#if BLOCKS > 1
// sums += acc times a number of every row.
static void add_scaled(float sums[PANEL][ROWS], floats acc[PANEL][VECTORS], const floats *by,
                       int part) {
  floats all[PANEL][VECTORS];
  load_sums(all, sums, part);
#pragma unroll
  for (int i = 0; i < PANEL; i++)
#pragma unroll
    for (int v = 0; v < VECTORS; v++) all[i][v] += acc[i][v] * by[part + v];
  store_sums(sums, all, part);
}
#endif

// sums[i][row] += of VECTORS vectors of rows from `part` on, with `blocks` blocks of a panel of x.
// Meanwhile the `next` panel is fetched, and with each pair so many `bytes` from `ahead` on.
static void add_stage(float sums[PANEL][ROWS], const Stage *stage, int part, Columns x, int blocks,
                      Columns next, const __global char *ahead, int bytes) {
  floats acc[PANEL][VECTORS];
#if BLOCKS == 1
  load_sums(acc, sums, part);
#else
  clear(acc);
#endif
  for (int b = 0; b < blocks; b++) {
    const pairs(*codes)[VECTORS] = stage->codes[b][part / VECTORS];
    ints products[PANEL][VECTORS];
    fetch(X_AT(next, 0, b), PANEL * X_BYTES);
#if X_BITS == 8
    fetch_next(ahead + b * 16 * bytes, 16 * bytes);
    add_bytes(products, codes, stage->scales[b][part / VECTORS], x, b);
#else
    begin_products(products, stage, part, x, b);
#if LANES == 8
#pragma unroll 2  // of four, sixteen registers do not hold the sums any more
#elif CROSSED == 0
#pragma unroll 1
#endif
    for (int p = 0; p < 16; p += PAIRS_AT_ONCE) {
      fetch_next(ahead + (b * 16 + p) * bytes, PAIRS_AT_ONCE * 64);
      add_pairs(products, codes + p, x, b, p);
    }
#endif
#pragma unroll
    for (int i = 0; i < PANEL; i++) {
      const __global float *scale_x = (const __global float *)(X_AT(x, i, b) + X_SCALES);
#pragma unroll
      for (int v = 0; v < VECTORS; v++) {
        floats sum = BY_LANE(convert_float)(products[i][v]);
#if BLOCKS == 1
        acc[i][v] += sum * (scale_x[0] * stage->d[b][part + v]);
  #if MINIMA
        acc[i][v] += scale_x[1] * stage->m[b][part + v];
  #endif
#else
        acc[i][v] += sum * scale_x[0];
#endif
      }
    }
  }
#if BLOCKS > 1
  add_scaled(sums, acc, stage->d[0], part);
  #if MINIMA
  clear(acc);
  for (int b = 0; b < blocks; b++)
    #pragma unroll
    for (int i = 0; i < PANEL; i++) {
      const __global float *scale_x = (const __global float *)(X_AT(x, i, b) + X_SCALES);
    #if SUMS == 2
      const __global short *sum_x = (const __global short *)(scale_x + 2);
      const float of_x[SUMS] = {scale_x[0] * sum_x[0], scale_x[0] * sum_x[1]};
    #else
      const float of_x[SUMS] = {scale_x[1]};
    #endif
    #pragma unroll
      for (int v = 0; v < VECTORS; v++)
    #pragma unroll
        for (int s = 0; s < SUMS; s++) acc[i][v] += of_x[s] * stage->less[b][part + v][s];
    }
  add_scaled(sums, acc, stage->m[0], part);
  #endif
#else
  store_sums(sums, acc, part);
#endif
}

// sums[i][row] of ROWS rows, the first being number `lane` of its tile, and of `panels` panels.
static void make_rows(float sums[CHUNK][ROWS], const __global char *a, int lane,
                      const __global char *x, int records, int panels) {
  Stage stage;
  for (int i = 0; i < panels * PANEL; i++)
    for (int part = 0; part < PARTS_OF_ITEM; part++) BY_LANE(vstore)((floats)0, part, sums[i]);
  long panel_bytes = (long)records * BLOCKS * PANEL * X_BYTES;
  for (int b = 0; b < records * BLOCKS; b += STAGE) {
    int blocks = min(STAGE, records * BLOCKS - b);
    unpack(&stage, a, lane, blocks);
    a += STAGE_BYTES;
    const __global char *ahead = a;
    for (int panel = 0; panel < panels; panel++) {
      Columns here = x + panel * panel_bytes + (long)b * PANEL * X_BYTES;
      Columns next = panel + 1 < panels ? here + panel_bytes : x + (long)(b + STAGE) * PANEL * X_BYTES;
#ifdef AHEAD
      int bytes = BYTES_OF_PAIR(panels * PARTS_OF_ITEM / VECTORS);
#else
      int bytes = STAGE_BYTES / panels;
      fetch(a + panel * bytes, bytes);
#endif
      for (int part = 0; part < PARTS_OF_ITEM; part += VECTORS, ahead += 16 * STAGE * bytes)
        add_stage(sums + panel * PANEL, &stage, part, here, blocks, next, ahead, bytes);
    }
  }
}

#endif
