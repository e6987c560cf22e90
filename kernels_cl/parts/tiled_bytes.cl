// tiled_bytes: what tiled_stage does otherwise where x is 8 bits (X_BITS 8): bytes of codes meet bytes
// of x, four neighbouring elements of K in every lane, with half the instructions of 12 bits.
//
// The instruction takes codes that are not negative, so OFFSET is added to those of a table. Of 32
// elements of K with one whole scale, or two of 16 elements each (1 where a format has none),
//
//   y += d * scale_x * sum over scales(scale * (sum((q + OFFSET) x) - (BIAS + OFFSET) * sum(x)))
//        + m * scale_x * sum(x)
//
// where all sums of products are exact. Two products at a time are added in 16 bits, and GROUP fours
// of them before they are widened: so many fit, as |x| <= 127 and q + OFFSET <= Scheme.most_code
// (tiles/schemes.py). Widening multiplies by the scale, too.
#if defined(STAGED) && X_BITS == 8

#define FOURS 8   // of a block's 32 elements
#ifndef OFFSET
  #define OFFSET 0
#endif
#ifndef GROUP
  #define GROUP 8 // fours that are added in 16 bits
#endif

// Two products of every half. Intel's runtime for CPUs has the instruction by LLVM's name alone, and
// no macro for a processor: who chooses 8 bits there knows that vectors are this wide.
#if LANES == 16 && (defined(__AVX512BW__) || defined(cl_intel_vec_len_hint))
typedef char chars __attribute__((ext_vector_type(64)));
pairs products_of_two(chars a, chars x) __asm("llvm.x86.avx512.pmaddubs.w.512");
#elif LANES == 8 && (defined(__AVX2__) || defined(cl_intel_vec_len_hint))
typedef char chars __attribute__((ext_vector_type(32)));
pairs products_of_two(chars a, chars x) __asm("llvm.x86.avx2.pmadd.ub.sw");
#else
typedef pairs chars;
static pairs products_of_two(pairs a, pairs x) {
  pairs high = AS_PAIRS(__builtin_astype(a, bits) >> (bits)8);
  return (a & (pairs)255) * (x << (pairs)8 >> (pairs)8) + high * (x >> (pairs)8);
}
#endif
#define AS_CHARS(v) __builtin_astype(v, chars)

// Of one block and vector of rows: scales in both halves of every lane; and what the two sums of x
// are multiplied by.
typedef struct {
  pairs of[SUMS];
#if BIAS + OFFSET > 0
  pairs of_x;
#endif
} Scales;

static void keep_scales(Scales *to, const pairs scales[SUMS]) {
#pragma unroll
  for (int s = 0; s < SUMS; s++) to->of[s] = scales[s];
#if BIAS + OFFSET > 0
  ints low = __builtin_astype(scales[0] * (pairs)(-(BIAS + OFFSET)), ints);
  ints high = __builtin_astype(scales[SUMS - 1] * (pairs)(-(BIAS + OFFSET)), ints);
  to->of_x = AS_PAIRS((low & (ints)0xffff) | (high & (ints)0xffff0000));
#endif
}

// Numbers of the pairs 2k and 2k + 1 of a block as its four k: (0, 2) and (1, 3) make 0 1 2 3.
static pairs four_of(pairs first, pairs second) {
  return (first + (pairs)OFFSET) | (second + (pairs)OFFSET) << (pairs)8;
}

// sums += of two fours of codes, the first being four k of block b, and a panel of x.
static void add_fours(pairs sums[PANEL][VECTORS], const pairs codes[2][VECTORS], Columns x, int b,
                      int k) {
#pragma unroll
  for (int j = 0; j < 2; j++)
#pragma unroll
    for (int i = 0; i < PANEL; i++) {
      ints four_x = (ints)(((const __global int *)X_AT(x, i, b))[k + j]);
#pragma unroll
      for (int v = 0; v < VECTORS; v++)
        sums[i][v] += products_of_two(AS_CHARS(codes[j][v]), AS_CHARS(four_x));
    }
}

// products = of one block's codes, scaled, and a panel of x at block b. Loops stay loops: compilers
// mix up all that they see at once, and then have no registers for it.
static void add_bytes(ints products[PANEL][VECTORS], const pairs codes[FOURS][VECTORS],
                      const Scales scales[VECTORS], Columns x, int b) {
#pragma unroll
  for (int i = 0; i < PANEL; i++)
#pragma unroll
    for (int v = 0; v < VECTORS; v++) {
#if BIAS + OFFSET > 0
      int sums_x = *(const __global int *)(X_AT(x, i, b) + X_SCALES + 8);
      products[i][v] = madd(AS_PAIRS((ints)sums_x), scales[v].of_x);
#else
      products[i][v] = (ints)0;
#endif
    }
#pragma unroll 1
  for (int group = 0; group < FOURS; group += GROUP) {
    pairs sums[PANEL][VECTORS];
#pragma unroll
    for (int i = 0; i < PANEL; i++)
#pragma unroll
      for (int v = 0; v < VECTORS; v++) sums[i][v] = (pairs)0;
#pragma unroll 1
    for (int k = group; k < group + GROUP; k += 2) add_fours(sums, codes + k, x, b, k);
#pragma unroll
    for (int i = 0; i < PANEL; i++)
#pragma unroll
      for (int v = 0; v < VECTORS; v++)
        products[i][v] += madd(sums[i][v], scales[v].of[group * SUMS / FOURS]);
  }
}

#endif
