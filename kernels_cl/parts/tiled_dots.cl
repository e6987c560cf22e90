// tiled_dots: what is otherwise in the middle of tiled_sums where items are lanes and a device adds
// four products of bytes at once (intrinsics.cl). An activation of 12 bits is two digits then,
//
//   q = 128 h + l     h from -16 to 16, l from -64 to 63
//
// (quantize.cl has the picture), and a code is a byte, so that
//
//   sum(code q) = sum(code l) + 128 sum(code h)
//
// is the same integer as that of pairs. A word of nibbles, masked, is the codes of four neighbours, and
// shifted that of the four 16 behind them (layouts.py).
#if defined(X_DIGITS) || X_BITS == 16  // halves are made of bytes, too

  #define WORD_AT(a, i, lane) (((const RECORDS_IN uint *)(a))[(i) * TILE + (lane)])

  #ifdef TABLE
__constant char four_table[16] = {TABLE};
static uint numbers_of_four(uint codes) {
  uchar4 code = as_uchar4(codes);
  return as_uint((char4)(four_table[code.x], four_table[code.y], four_table[code.z],
                         four_table[code.w]));
}
  #else
    #define numbers_of_four(codes) (codes)
  #endif

// The codes of elements 4j to 4j + 3 of a block of one row, a byte each.
WITH_SHARED uint four_codes(const RECORDS_IN char *a, int lane, const int j) {
  #if WORDS == 8
  return WORD_AT(a, j, lane);
  #elif WORDS == 4
  uint word = WORD_AT(a, HIGH + j % 4, lane);
  uint codes = (j < 4 ? word : word >> 4) & 0x0f0f0f0f;
    #if HIGH
  // Their further bits stand above each nibble's place, of the second 16 in the neighbour's byte.
  const int by = HIGH * (j % 4) % 4;
  uint high = WORD_AT(a, HIGH * (j % 4) / 4, lane);
  uint crossed = as_uint(as_uchar4(high).yxwz);
  codes |= (j < 4 ? high >> by : crossed << (4 - by)) & (HIGH == 2 ? 0x30303030 : 0x10101010);
    #endif
  return codes;
  #else
  uint word = WORD_AT(a, HIGH + j / 4, lane) >> (4 * (j % 4));
  uint codes = (word & 0x00030003) | ((word & 0x000c000c) << 6);
    #if HIGH
  uint high = WORD_AT(a, 0, lane) >> (2 * j);
  codes |= (high & 0x00010001) << 2 | (high & 0x00020002) << 9;
    #endif
  return codes;
  #endif
}

#endif

#ifdef X_DIGITS

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
    for (int s = 0; s < SUMS; s++) sums[i][0][s] += 128 * high[i][s];
}

#endif
