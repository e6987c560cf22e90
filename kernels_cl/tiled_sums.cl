// tiled_sums: the arithmetic of matmul_tiled.cl, compiled before it: sums over K of quantised weights
// in row tiles (layouts.py has the picture) and 12-bit activations in panels (quantize.cl has it).
//
// An element of `a` is d q + m with integer q. For 32 elements of K (16 with two sums) the integer
// products are exact; then they are scaled and added in float:
//
//   y += d * scale_x * (sum(q x) - BIAS * sum(x)) + m * scale_x * sum(x)
//
// Lanes are rows of `a`. A word holds pairs of 16-bit halves, so that a product of vectors of pairs
// with one broadcast pair of x is a multiply-add-pairs instruction where the processor has one.

#ifndef BLOCKS
  #define BLOCKS 1   // blocks of 32 a record
  #define HALVES 2   // halves at a record's head: d, or d and m
  #define WORDS 4    // words a row and block: 4 of nibbles, 8 of bytes
  #define HIGH 0     // words of further bits: 1 of fifth bits, 2 of bits five and six
  #define SCALES 0   // bytes a row and block that scale d (and m)
  #define BIAS 0     // what q is stored with too much
#endif
#ifndef PANEL
  #define PANEL 1    // rows of x that an item makes at once: 1, 4 or 8
#endif
#ifndef ROWS
  #define ROWS 32    // rows of `a` that an item makes: 8, 16 or 32; 1 where items are lanes
#endif
#ifndef AHEAD
  #define AHEAD 8192 // bytes that weights are fetched before they are used
#endif
#ifndef TILES
  #define TILES 1    // tiles that an item of `gated` makes, where items are not lanes
#endif
#ifndef TEAM
  #define TEAM 1     // items that share a row's records
#endif

#define TILE 32
#define HEAD (2 * TILE * HALVES)
#define BLOCK (TILE * (4 * (WORDS + HIGH) + SCALES))
#define RECORD (HEAD + BLOCKS * BLOCK)
#define X_RECORD (BLOCKS * PANEL * X_BYTES)
#define SUMS (HIGH == 2 ? 2 : 1)

// Vectors, by rows of `a` in each: types by lane, and with a pair of 16-bit numbers in every lane.
// Compilers made of Clang also take vectors of 32 numbers, which OpenCL C does not have: 512 bits.
#if ROWS == 1
  #define LANES 1
  #define BY_LANE(name) name
  #define LOAD_LANES(p) (*(p))
  #define LOAD_HALVES(p) vload_half(0, p)
#elif ROWS > 8 && (defined(__INTEL_LLVM_COMPILER) || defined(__clang__) && defined(__AVX512BW__))
  #define LANES 16
  #define BY_LANE(name) name##16
  #define LOAD_LANES(p) vload16(0, p)
  #define LOAD_HALVES(p) vload_half16(0, p)
#else
  #define LANES 8
  #define BY_LANE(name) name##8
  #define LOAD_LANES(p) vload8(0, p)
  #define LOAD_HALVES(p) vload_half8(0, p)
#endif
typedef BY_LANE(int) ints;
typedef BY_LANE(float) floats;
#if LANES == 16
typedef ushort bits __attribute__((ext_vector_type(32)));
typedef short pairs __attribute__((ext_vector_type(32)));
typedef int products __attribute__((ext_vector_type(32)));
  #define AS_BITS(v) __builtin_astype(v, bits)
  #define AS_PAIRS(v) __builtin_astype(v, pairs)
  #define WIDEN(v) __builtin_convertvector(v, products)
#else
  #define BY_PAIR(name) CAT(name, PAIRED)
  #define PAIRED CAT(twice, LANES)
  #define twice1 2
  #define twice8 16
typedef BY_PAIR(ushort) bits;
typedef BY_PAIR(short) pairs;
typedef BY_PAIR(int) products;
  #define AS_BITS(v) BY_PAIR(as_ushort)(v)
  #define AS_PAIRS(v) BY_PAIR(as_short)(v)
  #define WIDEN(v) BY_PAIR(convert_int)(v)
#endif
// Vectors an item makes at once: with PANEL rows of x, at most as many sums as there are registers.
#define VECTORS (ROWS / LANES < 16 / PANEL ? ROWS / LANES : 16 / PANEL)

// Of every lane: a.x b.x + a.y b.y, where `apart` is zeros that the compiler does not know as such.
// x86 compilers make multiply-add-pairs of this shape, but only while the sum stays together: they
// reorder the additions of a longer sum. Intel's does not need to be kept from it.
static ints madd(pairs a, pairs b, ints apart) {
  products each = WIDEN(a) * WIDEN(b);
  ints sum = each.even + each.odd;
#ifndef __INTEL_LLVM_COMPILER
  sum |= apart;
#endif
  return sum;
}

// Number i of every lane's row in a part of the record.
#define HALF_AT(p, i, lane) LOAD_HALVES((const __global half *)(p) + (i) * TILE + (lane))
#define SCALE_AT(type, p, i, lane) \
  BY_LANE(convert_float)(LOAD_LANES((const __global type *)(p) + (i) * TILE + (lane)))
static bits word_at(const __global char *p, int i, int lane) {
  return AS_BITS(LOAD_LANES((const __global uint *)p + i * TILE + lane));
}

// Pair t of a word (layouts.py), its number among the block's 16, and its further bits.
#if WORDS == 8
  #define PAIRS 2
  #define PAIR_NUMBER(j, t) (2 * (j) + (t))
static pairs low_bits(bits word, int t) {
  return AS_PAIRS(t ? word : word << (bits)8) >> (pairs)8;
}
#else
  #define PAIRS 4
  #define PAIR_NUMBER(j, t) (2 * (j) + (t) / 2 + (t) % 2 * 8)
static pairs low_bits(bits word, int t) {
  return AS_PAIRS((word >> (bits)(4 * t)) & (bits)15);
}
#endif
static pairs high_bits(bits word, int p) {
  int from = HIGH == 2 ? p % 8 * 2 : p;
  bits moved = from < 4 ? word << (bits)(4 - from) : word >> (bits)(from - 4);
  return AS_PAIRS(moved & (bits)(HIGH == 2 ? 0x30 : 0x10));
}

// With one row of x memory is the limit: fetch what is needed some microseconds later. Processors do
// so too, but give up where the order of loads is not quite the order in memory.
static void fetch_ahead(const __global char *a) {
#if PANEL == 1 && LANES > 1 && defined(__clang__)
  #pragma unroll
  for (int i = 0; i < RECORD / BLOCKS; i += 64) __builtin_prefetch(a + AHEAD + i);
#endif
}

// Add one block of 32: `a` is its words, d and m its scales, x its PANEL rows.
static void add_block(floats acc[PANEL][VECTORS], const __global char *a, int lane,
                      const floats d[VECTORS][SUMS], const floats m[VECTORS],
                      const __global char *x, ints apart) {
  ints sums[PANEL][VECTORS][SUMS];
#pragma unroll
  for (int i = 0; i < PANEL; i++) {
    const __global int *sum_x = (const __global int *)(x + i * X_BYTES + 72);
#pragma unroll
    for (int v = 0; v < VECTORS; v++) {
#if SUMS == 2
      sums[i][v][0] = (ints)(-BIAS * sum_x[0]);
      sums[i][v][1] = (ints)(-BIAS * sum_x[1]);
#else
      sums[i][v][0] = (ints)(-BIAS * (sum_x[0] + sum_x[1]));
#endif
    }
  }
#pragma unroll
  for (int j = 0; j < WORDS; j++) {
#pragma unroll
    for (int t = 0; t < PAIRS; t++) {
      const int p = PAIR_NUMBER(j, t);
      pairs from_a[VECTORS];
#pragma unroll
      for (int v = 0; v < VECTORS; v++) {
        from_a[v] = low_bits(word_at(a, HIGH + j, lane + v * LANES), t);
#if HIGH
        from_a[v] |= high_bits(word_at(a, p * HIGH / 16, lane + v * LANES), p);
#endif
      }
#pragma unroll
      for (int i = 0; i < PANEL; i++) {
        int pair_x = ((const __global int *)(x + i * X_BYTES))[p];
#pragma unroll
        for (int v = 0; v < VECTORS; v++)
          sums[i][v][p * SUMS / 16] += madd(from_a[v], AS_PAIRS((ints)pair_x), apart);
      }
    }
  }
#pragma unroll
  for (int i = 0; i < PANEL; i++) {
    float2 scale_x = vload2(0, (const __global float *)(x + i * X_BYTES + 64));
#pragma unroll
    for (int v = 0; v < VECTORS; v++) {
#pragma unroll
      for (int s = 0; s < SUMS; s++)
        acc[i][v] += BY_LANE(convert_float)(sums[i][v][s]) * (scale_x.x * d[v][s]);
#if HALVES == 2
      acc[i][v] += scale_x.y * m[v];
#endif
    }
  }
}

static void clear(floats acc[PANEL][VECTORS]) {
#pragma unroll
  for (int i = 0; i < PANEL; i++)
#pragma unroll
    for (int v = 0; v < VECTORS; v++) acc[i][v] = (floats)0;
}

// Zeros, though a compiler cannot tell (offsets are not negative).
static ints unknown_zeros(long offset) {
#if LANES == 1
  return 0;
#else
  int8 different = (int8)(1, 2, 3, 4, 5, 6, 7, 8) * (int)(offset >> 63);
  #if LANES == 16
  return (ints)(different, different);
  #else
  return different;
  #endif
#endif
}

// Add one record: `a` is its start, x its PANEL rows of blocks.
static void add_record(floats acc[PANEL][VECTORS], const __global char *a, int lane,
                       const __global char *x, ints apart) {
  floats d[VECTORS], m[VECTORS];
#pragma unroll
  for (int v = 0; v < VECTORS; v++) {
    d[v] = HALF_AT(a, 0, lane + v * LANES);
    m[v] = HALVES == 2 ? HALF_AT(a, HALVES - 1, lane + v * LANES) : (floats)0;
  }
  for (int k = 0; k < BLOCKS; k++) {
    const __global char *block = a + HEAD + k * BLOCK;
    fetch_ahead(block);
    floats block_d[VECTORS][SUMS], block_m[VECTORS];
#pragma unroll
    for (int v = 0; v < VECTORS; v++) {
#if SCALES == 0
      block_d[v][0] = d[v];
      block_m[v] = m[v];
#else
      const __global char *scales = block;
  #if SUMS == 2
      block_d[v][0] = d[v] * SCALE_AT(char, scales, 0, lane + v * LANES);
      block_d[v][1] = d[v] * SCALE_AT(char, scales, 1, lane + v * LANES);
      block_m[v] = m[v];
  #else
      block_d[v][0] = d[v] * SCALE_AT(uchar, scales, 0, lane + v * LANES);
      block_m[v] = -m[v] * SCALE_AT(uchar, scales, 1, lane + v * LANES);
  #endif
#endif
    }
    add_block(acc, block + TILE * SCALES, lane, block_d, block_m, x + k * PANEL * X_BYTES, apart);
  }
}
