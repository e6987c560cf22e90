// tiled_bytes: what tiled_stage does otherwise where x is 8 bits (X_BITS 8): bytes of codes meet bytes
// of x, four neighbouring elements of K in every lane, with half the instructions of 12 bits.
//
// The instruction takes codes that are not negative (tiled_vectors.cl). Of 32 elements of K with one
// whole scale, or two of 16 elements each (1 where a format has none),
//
//   y += d * scale_x * sum over scales(scale * (sum(q x) - BIAS * sum(x))) + m * scale_x * sum(x)
//
// where all sums of products are exact. Processors with AVX-512 VNNI add four products to 32 bits at
// once. For others two at a time are added in 16 bits, and GROUP fours of them before they are widened:
// so many fit, as |x| <= 127 and q <= Scheme.most_code (tiles/schemes.py). Widening
// multiplies by the scale, too.
#if defined(STAGED) && X_BITS == 8

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
#if BIAS > 0
  pairs of_x;
#endif
} Scales;

static void keep_scales(Scales *to, const pairs scales[SUMS]) {
#pragma unroll
  for (int s = 0; s < SUMS; s++) to->of[s] = factor_of(scales[s]);
#if BIAS > 0
  ints low = __builtin_astype(scales[0] * (pairs)(-BIAS), ints);
  ints high = __builtin_astype(scales[SUMS - 1] * (pairs)(-BIAS), ints);
  to->of_x = AS_PAIRS((low & (ints)0xffff) | (high & (ints)0xffff0000));
#endif
}

// Numbers of the pairs 2k and 2k + 1 of a block as its four k: (0, 2) and (1, 3) make 0 1 2 3.
static pairs four_of(pairs first, pairs second) {
  return first | second << (pairs)8;
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
#if BIAS > 0
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
