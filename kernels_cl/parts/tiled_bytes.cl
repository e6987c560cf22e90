// tiled_bytes: what tiled_stage does otherwise where x is 8 bits (X_BITS 8): bytes of codes meet bytes
// of x, four neighbouring elements of K in every lane, with half the instructions of 12 bits.
//
// The instruction takes codes that are not negative, so OFFSET is added to those of a table. Of 32
// elements of K with one whole scale, or two of 16 elements each (1 where a format has none),
//
//   y += d * scale_x * sum over scales(scale * (sum((q + OFFSET) x) - (BIAS + OFFSET) * sum(x)))
//        + m * scale_x * sum(x)
//
// where all sums of products are exact. Processors with AVX-512 VNNI add four products to 32 bits at
// once. For others two at a time are added in 16 bits, and GROUP fours of them before they are widened:
// so many fit, as |x| <= 127 and q + OFFSET <= Scheme.most_code (tiles/schemes.py). Widening
// multiplies by the scale, too.
#if defined(STAGED) && X_BITS == 8

#define FOURS 8   // of a block's 32 elements
#ifndef OFFSET
  #define OFFSET 0
#endif
#ifndef GROUP
  #define GROUP 8 // fours that are added in 16 bits, less than two where the largest do not fit
#endif

// Intel's runtime for CPUs has instructions by LLVM's names alone, and no macros for a processor: who
// chooses 8 bits there knows that vectors are this wide, and VNNI. LLVM 22 calls bytes bytes.
#ifdef cl_intel_vec_len_hint
  #define HAS_AVX2
  #define HAS_AVX512
  #define HAS_VNNI
#endif
#ifdef __AVX2__
  #define HAS_AVX2
#endif
#ifdef __AVX512BW__
  #define HAS_AVX512
#endif
#if defined(__AVX512VNNI__) && defined(__AVX512VL__)
  #define HAS_VNNI
#endif
#if LANES == 16
typedef char chars __attribute__((ext_vector_type(64)));
  #define BY_WIDTH(narrow, wide) wide
#else
typedef char chars __attribute__((ext_vector_type(32)));
  #define BY_WIDTH(narrow, wide) narrow
#endif
#define AS_CHARS(v) __builtin_astype(v, chars)

// Sums under way, and how many fours they take.
#if defined(VNNI) && defined(HAS_VNNI)
  #define AS_INTS(v) __builtin_astype(v, ints)
  #define VNNI_NAME BY_WIDTH("llvm.x86.avx512.vpdpbusd.256", "llvm.x86.avx512.vpdpbusd.512")
  #if __clang_major__ >= 22
ints dot_of_fours(ints sum, chars a, chars x) __asm(VNNI_NAME);
    #define ADD_FOUR(sum, a, x) dot_of_fours(sum, AS_CHARS(a), AS_CHARS(x))
  #else
ints dot_of_fours(ints sum, ints a, ints x) __asm(VNNI_NAME);
    #define ADD_FOUR(sum, a, x) dot_of_fours(sum, AS_INTS(a), x)
  #endif
typedef ints Sum;
  #define SPAN (FOURS / SUMS)
#elif GROUP < 2
typedef ints Sum;
  #define SPAN (FOURS / SUMS)
static Sum ADD_FOUR(Sum sum, pairs a, ints x) {
  sum += madd(a & (pairs)255, AS_PAIRS(x) << (pairs)8 >> (pairs)8);
  return sum + madd(AS_PAIRS(__builtin_astype(a, bits) >> (bits)8), AS_PAIRS(x) >> (pairs)8);
}
#else
typedef pairs Sum;
  #define SPAN GROUP
  #if LANES == 16 && defined(HAS_AVX512) || LANES == 8 && defined(HAS_AVX2)
pairs products_of_two(chars a, chars x)
    __asm(BY_WIDTH("llvm.x86.avx2.pmadd.ub.sw", "llvm.x86.avx512.pmaddubs.w.512"));
    #define ADD_FOUR(sum, a, x) ((sum) + products_of_two(AS_CHARS(a), AS_CHARS(x)))
  #else
static Sum ADD_FOUR(Sum sum, pairs a, ints x) {
  pairs high = AS_PAIRS(__builtin_astype(a, bits) >> (bits)8) * (AS_PAIRS(x) >> (pairs)8);
  return sum + (a & (pairs)255) * (AS_PAIRS(x) << (pairs)8 >> (pairs)8) + high;
}
  #endif
  #define SUM_IS_PAIRS
#endif

#ifdef SUM_IS_PAIRS
static ints scaled(Sum sum, Sum scale) { return madd(sum, scale); }
static Sum factor_of(pairs scale) { return scale; }
#else
static ints scaled(Sum sum, Sum scale) { return SCALES > 0 ? sum * scale : sum; }
static Sum factor_of(pairs scale) { return __builtin_astype(scale, ints) >> (ints)16; }
#endif

// Of one block and vector of rows: what sums are multiplied by, and what the two sums of x are.
typedef struct {
  Sum of[SUMS];
#if BIAS + OFFSET > 0
  pairs of_x;
#endif
} Scales;

static void keep_scales(Scales *to, const pairs scales[SUMS]) {
#pragma unroll
  for (int s = 0; s < SUMS; s++) to->of[s] = factor_of(scales[s]);
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
static void add_fours(Sum sums[PANEL][VECTORS], const pairs codes[2][VECTORS], Columns x, int b,
                      int k) {
#pragma unroll
  for (int j = 0; j < 2; j++)
#pragma unroll
    for (int i = 0; i < PANEL; i++) {
      ints four_x = (ints)(((const __global int *)X_AT(x, i, b))[k + j]);
#pragma unroll
      for (int v = 0; v < VECTORS; v++) sums[i][v] = ADD_FOUR(sums[i][v], codes[j][v], four_x);
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
  for (int group = 0; group < FOURS; group += SPAN) {
    Sum sums[PANEL][VECTORS];
#pragma unroll
    for (int i = 0; i < PANEL; i++)
#pragma unroll
      for (int v = 0; v < VECTORS; v++) sums[i][v] = (Sum)0;
#pragma unroll 1
    for (int k = group; k < group + SPAN; k += 2) add_fours(sums, codes + k, x, b, k);
#pragma unroll
    for (int i = 0; i < PANEL; i++)
#pragma unroll
      for (int v = 0; v < VECTORS; v++)
        products[i][v] += scaled(sums[i][v], scales[v].of[group * SUMS / FOURS]);
  }
}

#endif
