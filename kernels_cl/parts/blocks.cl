// blocks: rows of Q8_0 and Q4_0, compiled before the families that hold keys and values.
//
//   Q8_0 | half d | 32 chars q  |   x[i] = d q[i]
//   Q4_0 | half d | 16 bytes    |   x[i] = d (low nibble i - 8), x[16 + i] = d (high nibble i - 8)
//
// FETCH reads element i of a row of any type, FETCHW W neighbours from an i that W divides, PUT
// writes a block of 32 as ggml does. A block is aligned as a half.

#define size_q8_0 34
#define size_q4_0 18

#define FETCH(type, row, i) CAT(fetch_, type)(row, i)
#define FETCHW(type, row, i) CAT(fetchw_, type)(row, i)
#define PUT(type, block, first, last) CAT(put_, type)(block, first, last)

#define FETCH_PLAIN(type)                                                                         \
  static float CAT(fetch_, type)(const __global char *row, int i) {                               \
    return LOAD(type, row + i * SIZE(type));                                                      \
  }                                                                                               \
  static floatW CAT(fetchw_, type)(const __global char *row, int i) {                             \
    return LOADW(type, row + i * SIZE(type));                                                     \
  }
FETCH_PLAIN(f32)
FETCH_PLAIN(f16)
FETCH_PLAIN(bf16)

// PoCL makes a lone half a float bit by bit, and loads chars one by one.
static float scale_of(const __global char *block) {
  return vload_half4(0, (const __global half *)block).x;
}
#define CHARS(p) CAT(as_char, W)(CAT(vload, HALF)(0, (const __global ushort *)(p)))
#define HALF CAT(half_of_, W)  // W / 2
#define half_of_16 8
#define half_of_8 4
#define half_of_4 2

static float fetch_q8_0(const __global char *row, int i) {
  const __global char *block = row + (i >> 5) * size_q8_0;
  return block[2 + (i & 31)] * scale_of(block);
}
static floatW fetchw_q8_0(const __global char *row, int i) {
  const __global char *block = row + (i >> 5) * size_q8_0;
  return CAT(convert_float, W)(CHARS(block + 2 + (i & 31))) * scale_of(block);
}

static float fetch_q4_0(const __global char *row, int i) {
  const __global char *block = row + (i >> 5) * size_q4_0;
  return ((block[2 + (i & 15)] >> ((i >> 2) & 4) & 15) - 8) * scale_of(block);
}
static floatW fetchw_q4_0(const __global char *row, int i) {
  const __global char *block = row + (i >> 5) * size_q4_0;
  intW pairs = CAT(convert_int, W)(CHARS(block + 2 + (i & 15)));
  return CAT(convert_float, W)((pairs >> ((i >> 2) & 4) & 15) - 8) * scale_of(block);
}

// Numbers so small that the quotient would overflow count as zeros.
static float inverse_of(float scale) { return fabs(scale) < 1e-32f ? 0.0f : 1.0f / scale; }

static void put_q8_0(__global char *block, float16 first, float16 last) {
  float scale = max_of16(fmax(fabs(first), fabs(last))) / 127.0f, inverse = inverse_of(scale);
  vstore_half_rte(scale, 0, (__global half *)block);
  vstore16(convert_char16(round(first * inverse)), 0, block + 2);
  vstore16(convert_char16(round(last * inverse)), 1, block + 2);
}

// The element farthest from zero becomes -8.
static void put_q4_0(__global char *block, float16 first, float16 last) {
  float high = max_of16(fmax(first, last)), low = -max_of16(fmax(-first, -last));
  float scale = (-low > high ? low : high) / -8.0f, inverse = inverse_of(scale);
  int16 a = min(convert_int16(first * inverse + 8.5f), (int16)(15));
  int16 b = min(convert_int16(last * inverse + 8.5f), (int16)(15));
  vstore_half_rte(scale, 0, (__global half *)block);
  vstore16(convert_uchar16(a | b << 4), 0, (__global uchar *)block + 2);
}
