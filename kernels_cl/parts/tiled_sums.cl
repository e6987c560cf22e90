// tiled_sums: the arithmetic of products of row tiles: sums over K of quantised weights (layouts.py
// has the picture, schemes.py what the defines mean) and 12-bit activations in panels
// (quantize.cl has it).
//
// An element of `a` is d q + m with integer q. For 32 elements of K (16 with two sums) the integer
// products are exact; then they are scaled and added in float:
//
//   y += d * scale_x * (sum(q x) - BIAS * sum(x)) + m * scale_x * sum(x)
//
// Where blocks of a record have scales of their own, these are whole numbers: they multiply the
// integer sums, and d and m are taken once a record. The order of the float additions is the same for
// any number of rows of x (tiled_stage.cl has it, too), so that a row of x gives the same bits alone
// and among others.
//
// Lanes are rows of `a`. A word holds pairs of 16-bit halves, so that a product of vectors of pairs
// with one broadcast pair of x is a multiply-add-pairs instruction where the processor has one.
//
// One block of one row by hand, of Q4_0 (WORDS 4, BIAS 8): d = 0.5, codes 9 8 8 8 8 ... 8, which mean
// 1 0 0 0 0 ... 0 times d. Word j has the codes of elements 4j .. 4j+3 and, one nibble up, of 16 more:
//
//   word 0   bits  0-3: 9 (element 0)   4-7: 8 (16)    8-11: 8 (1)   12-15: 8 (17)
//            bits 16-19: 8 (element 2) 20-23: 8 (18)  24-27: 8 (3)   28-31: 8 (19)
//
// As two halves, masked and shifted, it gives the pairs t = 0 .. 3: (9, 8) of elements (0, 2), (8, 8)
// of (16, 18), (8, 8) of (1, 3), (8, 8) of (17, 19): numbers 0, 8, 1 and 9 of the block's 16, as x
// has them (quantize.cl). Let x be 1 0 -0.5 0 0 ... 0: scale_x = 1/2047, its pair 0 is (2047, -1024),
// the others (0, 0), and sum(x) = 1023. Then
//
//   sums = -8 * 1023                                   = -8184    before the first pair
//        +  9 * 2047 + 8 * -1024                       =  2047    pair 0; the others add 0
//   y   += 2047 * (scale_x * d) = 2047 * 0.5 / 2047    =   0.5    which is 1 * d * 1

#ifndef FLOATS

#define MINIMA (HALVES == 2 && (SCALES > 0 || SUMS == 1))

// A half, and a word, of every lane's row.
#if BF16
  #define SCALAR_AT BF16_AT
#else
  #define SCALAR_AT HALF_AT
#endif
typedef bits words __attribute__((aligned(4)));  // of PoCL's vload16 come three loads
WITH_SHARED bits word_at(const RECORDS_IN char *p, int i, int lane) {
  return *(const RECORDS_IN words *)((const RECORDS_IN uint *)p + i * TILE + lane);
}

// Pair t of a word (layouts.py), its number among the block's 16, and its further bits.
#if WORDS == 8
  #define PAIRS 2
  #define PAIR_NUMBER(j, t) (2 * (j) + (t))
static pairs low_bits(bits word, int t) {
  return AS_PAIRS(t ? word : word << (bits)8) >> (pairs)8;
}
#elif WORDS == 4
  #define PAIRS 4
  #define PAIR_NUMBER(j, t) (2 * (j) + (t) / 2 + (t) % 2 * 8)
static pairs low_bits(bits word, int t) {
  return AS_PAIRS((word >> (bits)(4 * t)) & (bits)15);
}
#else
  #define PAIRS 8
  #define PAIR_NUMBER(j, t) (8 * (j) + (t))
static pairs low_bits(bits word, int t) { return AS_PAIRS((word >> (bits)(2 * t)) & (bits)3); }
#endif
#define CODE_BITS (WORDS == 2 ? 2 : 4)

// The further bits of pair p, moved to bit `to`: those above nibbles stand right above their nibble in
// the word, so that one shift serves several pairs.
#if WORDS == 4 && HIGH
  #define NIBBLE_OF(p) ((p) / 8 + (p) % 2 * 2)
  #define HIGH_WORD(p) ((p) % 8 / 2 * HIGH / 4)
  #define HIGH_BIT(p) ((4 * NIBBLE_OF(p) + 4 + (p) % 8 / 2 * HIGH % 4) % 16)
#else
  #define HIGH_WORD(p) 0
  #define HIGH_BIT(p) (p)
#endif
WITH_SHARED pairs high_bits(const RECORDS_IN char *a, int lane, const int p, const int to) {
  bits word = word_at(a, HIGH_WORD(p), lane);
  bits moved = HIGH_BIT(p) < to ? word << (bits)(to - HIGH_BIT(p)) : word >> (bits)(HIGH_BIT(p) - to);
  return AS_PAIRS(moved & (bits)((HIGH == 2 ? 3 : 1) << to));
}

// What codes stand for, OFFSET being added.
#ifdef TABLE
  #define NUMBERS(code) number_of(code)
#elif OFFSET
  #define NUMBERS(code) ((code) + (pairs)OFFSET)
#else
  #define NUMBERS(code) (code)
#endif

// Of one row of x, codes of nibbles are multiplied where they stand in their words, 16 or 256 times
// too large: a mask is all they need. Moving the sums instead loses nothing, as they are whole
// multiples, and short chains of additions keep a processor busier than one.
#if PANEL == 1 && WORDS == 4 && !defined(TABLE) && !defined(X_DIGITS)
  #define UNMOVED

// Pair t of word j as it stands there; the last is moved, as its upper bit would be a sign.
WITH_SHARED pairs unmoved(const RECORDS_IN char *a, int lane, int j, const int t) {
  bits word = word_at(a, HIGH + j, lane);
  pairs codes = AS_PAIRS(t == 3 ? word >> (bits)12 : word & (bits)(15 << 4 * t));
#if HIGH
  const int p = PAIR_NUMBER(j, t);
  codes |= high_bits(a, lane, p, t == 3 ? 4 : 4 * t + 4);
#endif
  return codes;
}

// Add the products of a block of LANES rows and one row of x.
WITH_SHARED void add_unmoved(ints sums[SUMS], const RECORDS_IN char *a, int lane,
                        const __global int *x) {
  ints of[4];
#pragma unroll
  for (int t = 0; t < 4; t++) {
    of[t] = (ints)0;
#pragma unroll
    for (int j = 0; j < 4; j++)
      of[t] += madd(unmoved(a, lane, j, t), AS_PAIRS((ints)(x[PAIR_NUMBER(j, t)])));
  }
  sums[0] += of[0] + (of[2] >> (ints)8);
  sums[SUMS - 1] += of[3] + (of[1] >> (ints)4);
}
#endif

// The sum that pair p belongs to; a number that is known where there is but one.
#define SUM_OF(p) (SUMS == 1 ? 0 : (p) * SUMS / 16)

// Words that compilers see at once. With several rows of x registers hold the sums and little more,
// and what compilers would like to keep goes to the stack.
#if PANEL == 1 || HIGH || SUMS == 2
  #define WORDS_AT_ONCE WORDS
#else
  #define WORDS_AT_ONCE 1
#endif

// Scale and sums of a block of x; in digits it lies at 16 bytes, and one load brings them.
#ifdef X_DIGITS
  #define SUMS_OF_X(x) as_short2(((const X_IN uint4 *)(x))[4].z)
  #define SCALES_OF_X(x) as_float2(((const X_IN uint4 *)(x))[4].xy)
#else
  #define SUMS_OF_X(x) vload2(0, (const __global short *)((x) + 72))
  #define SCALES_OF_X(x) vload2(0, (const __global float *)((x) + 64))
#endif

// The sums of a block of 32 with PANEL rows of x at block b, BIAS taken off: `a` is its words.
WITH_SHARED void add_products(ints sums[PANEL][VECTORS][SUMS], const RECORDS_IN char *a, int lane,
                              Columns x, int b) {
#pragma unroll
  for (int i = 0; i < PANEL; i++) {
    short2 sum_x = SUMS_OF_X(X_AT(x, i, b));
#pragma unroll
    for (int v = 0; v < VECTORS; v++) {
#if SUMS == 2
      sums[i][v][0] = (ints)(-BIAS * sum_x.x);
      sums[i][v][1] = (ints)(-BIAS * sum_x.y);
#else
      sums[i][v][0] = (ints)(-BIAS * (sum_x.x + sum_x.y));
#endif
    }
  }
#ifdef X_DIGITS
  add_dots(sums, a, lane, x, b);
#elif defined(UNMOVED)
#pragma unroll
  for (int v = 0; v < VECTORS; v++) {
    fetch_ahead(a, v, VECTORS);
    add_unmoved(sums[0][v], a, lane + v * LANES, (const __global int *)X_AT(x, 0, b));
  }
#else
#pragma unroll WORDS_AT_ONCE
  for (int j = 0; j < WORDS; j++) {
    fetch_ahead(a, j, WORDS);
#pragma unroll
    for (int t = 0; t < PAIRS; t++) {
      const int p = PAIR_NUMBER(j, t);
      pairs from_a[VECTORS];
#pragma unroll
      for (int v = 0; v < VECTORS; v++) {
        from_a[v] = low_bits(word_at(a, HIGH + j, lane + v * LANES), t);
#if HIGH
        from_a[v] |= high_bits(a, lane + v * LANES, p, CODE_BITS);
#endif
        from_a[v] = NUMBERS(from_a[v]);
      }
#pragma unroll
      for (int i = 0; i < PANEL; i++) {
        int pair_x = ((const __global int *)X_AT(x, i, b))[p];
#pragma unroll
        for (int v = 0; v < VECTORS; v++)
          sums[i][v][SUM_OF(p)] += madd(from_a[v], AS_PAIRS((ints)pair_x));
      }
    }
  }
#endif
}

// Of a block and sum s: the whole numbers that scale it, and those times m that are taken off.
#define BYTES(type, v, s) \
  LOAD_LANES((const RECORDS_IN type *)block + (s) * TILE + lane + (v) * LANES)
#if SCALES == 0
  #define SCALE_OF(v, s) ((BY_LANE(char))1)
#elif HALVES == 1
  #define SCALE_OF(v, s) BYTES(char, v, s)
#elif SUMS == 1
  #define SCALE_OF(v, s) BYTES(uchar, v, 0)
  #define LESS_OF(v, s) BYTES(uchar, v, 1)
#else
  #define SCALE_OF(v, s) (BYTES(uchar, v, s) & (BY_LANE(uchar))15)
  #define LESS_OF(v, s) (BYTES(uchar, v, s) >> (BY_LANE(uchar))4)
#endif
#define INTS_OF(bytes) BY_LANE(convert_int)(bytes)
#define FLOATS_OF(numbers) BY_LANE(convert_float)(numbers)

// Of sum s: what a block's elements are scaled by, and what is added to them.
#if SCALES == 0
  #define D_OF(v, s) ((s) ? m[v] : d[v])
  #define M_OF(v, s) m[v]
#else
  #define D_OF(v, s) (d[v] * FLOATS_OF(SCALE_OF(v, s)))
  #if MINIMA
    #define M_OF(v, s) (-m[v] * FLOATS_OF(LESS_OF(v, s)))
  #else
    #define M_OF(v, s) m[v]
  #endif
#endif

// Blocks of a record whose addresses differ by numbers that are known: for one column, of which an
// item has few enough sums.
#if PANEL == 1
  #define BLOCKS_AT_ONCE 4
#else
  #define BLOCKS_AT_ONCE 1
#endif

#if BLOCKS > 1 && LANES > 1

// Add one record of several blocks: `a` is its start, x its PANEL rows, of which it meets the blocks
// from b on. Sums times the scales of blocks are whole numbers, below 2^31 for every format.
WITH_SHARED void add_record(floats acc[PANEL][VECTORS], const RECORDS_IN char *a, int lane,
                            Columns x, int b) {
  floats of_d[PANEL][VECTORS], of_m[PANEL][VECTORS];
  clear(of_d);
  clear(of_m);
  for (int k = 0; k < BLOCKS; k++) {
    const RECORDS_IN char *block = a + HEAD + k * BLOCK;
    ints sums[PANEL][VECTORS][SUMS];
    add_products(sums, block + TILE * SCALES, lane, x, b + k);
#pragma unroll
    for (int i = 0; i < PANEL; i++) {
      float2 scale_x = SCALES_OF_X(X_AT(x, i, b + k));
#pragma unroll
      for (int v = 0; v < VECTORS; v++) {
        ints sum = INTS_OF(SCALE_OF(v, 0)) * sums[i][v][0];
#if SUMS == 2
        sum += INTS_OF(SCALE_OF(v, 1)) * sums[i][v][1];
#endif
        of_d[i][v] += FLOATS_OF(sum) * scale_x.x;
#if MINIMA && SUMS == 2
        short2 sum_x = SUMS_OF_X(X_AT(x, i, b + k));
        of_m[i][v] += scale_x.x * sum_x.x * FLOATS_OF(LESS_OF(v, 0));
        of_m[i][v] += scale_x.x * sum_x.y * FLOATS_OF(LESS_OF(v, 1));
#elif MINIMA
        of_m[i][v] += scale_x.y * FLOATS_OF(LESS_OF(v, 0));
#endif
      }
    }
  }
#pragma unroll
  for (int v = 0; v < VECTORS; v++) {
    floats d = SCALAR_AT(a, 0, lane + v * LANES) * FACTOR;
#pragma unroll
    for (int i = 0; i < PANEL; i++) acc[i][v] += of_d[i][v] * d;
#if MINIMA
    floats m = SCALAR_AT(a, HALVES - 1, lane + v * LANES);
#pragma unroll
    for (int i = 0; i < PANEL; i++) acc[i][v] -= of_m[i][v] * m;
#endif
  }
}

#elif defined(X_DIGITS) && SCALES > 0 && LANES == 1

// As above, of one row: in vectors of one compilers make more of it.
  #if HALVES == 1
    #define TIMES_OF(s) (int)((const RECORDS_IN char *)block)[(s) * TILE + lane]
    #define OFF_OF(s) 0
  #elif SUMS == 1
    #define TIMES_OF(s) (int)((const RECORDS_IN uchar *)block)[lane]
    #define OFF_OF(s) (int)((const RECORDS_IN uchar *)block)[TILE + lane]
  #else
    #define TIMES_OF(s) (((const RECORDS_IN uchar *)block)[(s) * TILE + lane] & 15)
    #define OFF_OF(s) (((const RECORDS_IN uchar *)block)[(s) * TILE + lane] >> 4)
  #endif

// Add one record: `a` is its start, x its PANEL rows, of which it meets the blocks from b on.
WITH_SHARED void add_record(floats acc[PANEL][VECTORS], const RECORDS_IN char *a, int lane,
                                Columns x, int b) {
  float of_d[PANEL], of_m[PANEL];
  #pragma unroll
  for (int i = 0; i < PANEL; i++) of_d[i] = of_m[i] = 0;
  #pragma unroll BLOCKS_AT_ONCE
  for (int k = 0; k < BLOCKS; k++) {
    const RECORDS_IN char *block = a + HEAD + k * BLOCK;
    ints sums[PANEL][VECTORS][SUMS];
  #pragma unroll
    for (int i = 0; i < PANEL; i++) {
      short2 sum_x = SUMS_OF_X(X_AT(x, i, b + k));
      sums[i][0][0] = -BIAS * (SUMS == 1 ? sum_x.x + sum_x.y : sum_x.x);
      if (SUMS == 2) sums[i][0][SUMS - 1] = -BIAS * sum_x.y;
    }
    add_dots(sums, block + TILE * SCALES, lane, x, b + k);
  #pragma unroll
    for (int i = 0; i < PANEL; i++) {
      float2 scale_x = SCALES_OF_X(X_AT(x, i, b + k));
      int sum = TIMES_OF(0) * sums[i][0][0];
      if (SUMS == 2) sum += TIMES_OF(1) * sums[i][0][SUMS - 1];
      of_d[i] += scale_x.x * sum;
  #if HALVES == 2 && SUMS == 2
      short2 sum_x = SUMS_OF_X(X_AT(x, i, b + k));
      of_m[i] += scale_x.x * (OFF_OF(0) * sum_x.x + OFF_OF(1) * sum_x.y);
  #elif HALVES == 2
      of_m[i] += scale_x.y * OFF_OF(0);
  #endif
    }
  }
  float d = SCALAR_AT(a, 0, lane) * FACTOR, m = HALVES == 2 ? SCALAR_AT(a, HALVES - 1, lane) : 0;
  #pragma unroll
  for (int i = 0; i < PANEL; i++) acc[i][0] += d * of_d[i] - m * of_m[i];
}

#else

// Add one record: `a` is its start, x its PANEL rows, of which it meets the blocks from b on.
WITH_SHARED void add_record(floats acc[PANEL][VECTORS], const RECORDS_IN char *a, int lane,
                            Columns x, int b) {
  floats d[VECTORS], m[VECTORS];
#pragma unroll
  for (int v = 0; v < VECTORS; v++) {
    d[v] = SCALAR_AT(a, 0, lane + v * LANES) * FACTOR;
    m[v] = HALVES == 2 ? SCALAR_AT(a, HALVES - 1, lane + v * LANES) : (floats)0;
  }
  for (int k = 0; k < BLOCKS; k++) {
    const RECORDS_IN char *block = a + HEAD + k * BLOCK;
    ints sums[PANEL][VECTORS][SUMS];
    floats block_d[VECTORS][SUMS], block_m[VECTORS][SUMS];
#pragma unroll
    for (int v = 0; v < VECTORS; v++) {
#pragma unroll
      for (int s = 0; s < SUMS; s++) {
        block_d[v][s] = D_OF(v, s);
        block_m[v][s] = M_OF(v, s);
      }
    }
    add_products(sums, block + TILE * SCALES, lane, x, b + k);
#pragma unroll
    for (int i = 0; i < PANEL; i++) {
      float2 scale_x = SCALES_OF_X(X_AT(x, i, b + k));
#pragma unroll
      for (int v = 0; v < VECTORS; v++) {
#pragma unroll
        for (int s = 0; s < SUMS; s++)
          acc[i][v] += FLOATS_OF(sums[i][v][s]) * (scale_x.x * block_d[v][s]);
#if MINIMA && SUMS == 2
        short2 sum_x = SUMS_OF_X(X_AT(x, i, b + k));
        acc[i][v] +=
            scale_x.x * sum_x.x * block_m[v][0] + scale_x.x * sum_x.y * block_m[v][1];
#elif MINIMA
        acc[i][v] += scale_x.y * block_m[v][0];
#endif
      }
    }
  }
}

#endif

#endif
