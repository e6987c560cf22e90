// block_formats: eight elements of a block, for every block format.
//
// The layouts are ggml's (ggml-common.h). Eight `i` of a block is its elements 8i ... 8i + 7; what
// the 32 elements around it share, scales and minima, is made before, once for all four eights.
// Where numbers of a few bits share bytes, a run of bytes holds first the lowest bits of all:
//
//   byte             0 1 2 ... n-1
//   bits 0-3         elements 0 ... n-1
//   bits 4-7         elements n ... 2n-1
//
// Products of scale and number are exact in f32, so that the one sum of a format with minima is
// rounded once, as a fused multiply-add or not. W is 8 where blocks are read.

typedef const __global uchar *Block;
typedef struct __attribute__((packed)) { uchar8 bytes; } Eight;  // some vload8 read byte by byte

static float half_at(Block p) { return vload_half(0, (const __global half *)p); }
static uint ushort_at(Block p) { return p[0] | (uint)p[1] << 8; }
static uint uint_at(Block p) { return ushort_at(p) | ushort_at(p + 2) << 16; }
static uchar8 bytes_at(Block p, uint i) { return ((const __global Eight *)p)[i].bytes; }
static float8 scaled(float scale, int8 q) { return scale * convert_float8(q); }

// Where 16 elements have a scale of their own: s.x and s.y.
static float of_16(float4 s, uint i) { return i % 4 < 2 ? s.x : s.y; }

// Numbers of `bits` bits in runs of 8 `n` bytes.
static int8 numbers(Block p, uint i, uint n, uint bits) {
  uint in_run = i % (n * 8 / bits);
  uchar8 bytes = bytes_at(p, i / (n * 8 / bits) * n + in_run % n);
  return (convert_int8(bytes) >> (int)(in_run / n * bits)) & ((1 << bits) - 1);
}

// Bit j for number j.
static int8 bits_of(uint byte) { return ((int8)(int)byte >> (int8)(0, 1, 2, 3, 4, 5, 6, 7)) & 1; }

// A byte holds the four bits of number i in its lower half where i is even.
static uint nibble(Block p, uint i) { return p[i / 2] >> (i % 2 * 4) & 15; }

static float4 one(float scale) { return (float4)(scale, 0, 0, 0); }
static float4 two(float scale, float other) { return (float4)(scale, other, 0, 0); }

// 32 elements: scale, minimum, bit five, the low four bits; or eight bits.

#define scales_q4_0(b, part) one(half_at(b))
#define scales_q5_0 scales_q4_0
#define scales_q8_0 scales_q4_0
#define scales_q4_1(b, part) two(half_at(b), half_at(b + 2))
#define scales_q5_1 scales_q4_1

static int8 five_bits(Block high, Block low, uint i) {
  return numbers(low, i, 2, 4) | bits_of(high[i]) << 4;
}

static float8 eight_q4_0(Block b, uint i, float4 s) {
  return scaled(s.x, numbers(b + 2, i, 2, 4) - 8);
}
static float8 eight_q4_1(Block b, uint i, float4 s) {
  return scaled(s.x, numbers(b + 4, i, 2, 4)) + s.y;
}
static float8 eight_q5_0(Block b, uint i, float4 s) {
  return scaled(s.x, five_bits(b + 2, b + 6, i) - 16);
}
static float8 eight_q5_1(Block b, uint i, float4 s) {
  return scaled(s.x, five_bits(b + 4, b + 8, i)) + s.y;
}
static float8 eight_q8_0(Block b, uint i, float4 s) {
  return scaled(s.x, convert_int8(as_char8(bytes_at(b + 2, i))));
}

// 256 elements with a scale (and minimum) for every 16 or 32 of them.

static float4 scales_q2_k(Block b, uint part) {
  uint first = b[part * 2], second = b[part * 2 + 1];
  float d = half_at(b + 80), m = half_at(b + 82);
  return (float4)(d * (first & 15), d * (second & 15), m * (first >> 4), m * (second >> 4));
}
static float8 eight_q2_k(Block b, uint i, float4 s) {
  return scaled(of_16(s, i), numbers(b + 16, i, 4, 2)) - of_16(s.zwzw, i);
}

// Bits five and six of the scales lie in the last four bytes.
static int scale_q3_k(Block b, uint of) {
  uint low = b[96 + of % 8] >> (of / 8 * 4) & 15, high = b[104 + of % 4] >> (of / 4 * 2) & 3;
  return (int)(low | high << 4) - 32;
}
static float4 scales_q3_k(Block b, uint part) {
  float d = half_at(b + 108);
  return two(d * scale_q3_k(b, part * 2), d * scale_q3_k(b, part * 2 + 1));
}
// The mask's bits say that nothing is subtracted.
static float8 eight_q3_k(Block b, uint i, float4 s) {
  return scaled(of_16(s, i), numbers(b + 32, i, 4, 2) + numbers(b, i, 4, 1) * 4 - 4);
}

// Eight scales and eight minima in twelve bytes of six bits each.
static float4 scales_q4_k(Block b, uint part) {
  uint first = b[4 + part % 4], second = b[8 + part % 4], last = b[12 + part % 4];
  uint scale = part < 4 ? first & 63 : (last & 15) | first >> 6 << 4;
  uint minimum = part < 4 ? second & 63 : last >> 4 | second >> 6 << 4;
  return two(half_at(b) * scale, half_at(b + 2) * minimum);
}
#define scales_q5_k scales_q4_k
static float8 eight_q4_k(Block b, uint i, float4 s) {
  return scaled(s.x, numbers(b + 16, i, 4, 4)) - s.y;
}
static float8 eight_q5_k(Block b, uint i, float4 s) {
  return scaled(s.x, numbers(b + 48, i, 4, 4) | numbers(b + 16, i, 4, 1) << 4) - s.y;
}

static float4 scales_q6_k(Block b, uint part) {
  float d = half_at(b + 208);
  return two(d * (char)b[192 + part * 2], d * (char)b[193 + part * 2]);
}
static float8 eight_q6_k(Block b, uint i, float4 s) {
  int8 q = numbers(b, i, 8, 4) | numbers(b + 128, i, 4, 2) << 4;
  return scaled(of_16(s, i), q - 32);
}

// Ternary: two bits, or five numbers a byte in base 3; the product keeps what lies below 256.

#define scales_tq1_0(b, part) one(half_at(b + 52))
#define scales_tq2_0(b, part) one(half_at(b + 64))

static float8 eight_tq2_0(Block b, uint i, float4 s) {
  return scaled(s.x, numbers(b, i, 4, 2) - 1);
}

__constant uchar powers_of_3[5] = {1, 3, 9, 27, 81};

static float8 eight_tq1_0(Block b, uint i, float4 s) {
  int8 bytes, powers;
  if (i < 20) {
    bytes = convert_int8(bytes_at(b, i % 4)), powers = powers_of_3[i / 4];
  } else if (i < 30) {
    bytes = convert_int8(bytes_at(b + 32, i % 2)), powers = powers_of_3[(i - 20) / 2];
  } else {
    int4 last = convert_int4(vload4(0, b + 48)), power = powers_of_3[i % 2 * 2];
    bytes = (int8)(last, last), powers = (int8)(power, power * 3);
  }
  return scaled(s.x, ((bytes * powers & 255) * 3 >> 8) - 1);
}

// Four bits that number the values of a table, or are a float of one bit mantissa (doubled here).

__constant char iq4_values[16] = {-127, -104, -83, -65, -49, -35, -22, -10,
                                  1,    13,   25,  38,  53,  69,  89,  113};

static int8 iq4_of(int8 q) {
  return (int8)(iq4_values[q.s0], iq4_values[q.s1], iq4_values[q.s2], iq4_values[q.s3],
                iq4_values[q.s4], iq4_values[q.s5], iq4_values[q.s6], iq4_values[q.s7]);
}

#define scales_iq4_nl scales_q4_0
static float8 eight_iq4_nl(Block b, uint i, float4 s) {
  return scaled(s.x, iq4_of(numbers(b + 2, i, 2, 4)));
}

static float4 scales_iq4_xs(Block b, uint part) {
  uint scale = nibble(b + 4, part) | (ushort_at(b + 2) >> 2 * part & 3) << 4;
  return one(half_at(b) * ((int)scale - 32));
}
static float8 eight_iq4_xs(Block b, uint i, float4 s) {
  return scaled(s.x, iq4_of(numbers(b + 8, i, 2, 4)));
}

// 0 1 2 3 4 6 8 12 and their negatives.
static int8 e2m1_doubled(int8 code) {
  int8 exponent = code >> 1 & 3, mantissa = code & 1;
  int8 size = exponent == 0 ? mantissa : (2 + mantissa) << exponent >> 1;
  return (code & 8) != 0 ? -size : size;
}

// A power of two, halved.
static float4 scales_mxfp4(Block b, uint part) {
  uint e = b[0];
  return one(as_float(e < 2 ? 0x00200000u << e : (e - 1) << 23));
}
static float8 eight_mxfp4(Block b, uint i, float4 s) {
  return scaled(s.x, e2m1_doubled(numbers(b + 1, i, 2, 4)));
}

// Three bits mantissa and four exponent (bias 7), halved; 127 means 0.
static float scale_nvfp4(uint code) {
  uint bits = code == 127 ? 0 : code & 127;
  return bits < 8 ? bits * 0x1p-10f : as_float((bits << 20) + (119u << 23));
}
static float4 scales_nvfp4(Block b, uint part) {
  return two(scale_nvfp4(b[part * 2]), scale_nvfp4(b[part * 2 + 1]));
}
static float8 eight_nvfp4(Block b, uint i, float4 s) {
  return scaled(of_16(s, i), e2m1_doubled(numbers(b + 4, i, 1, 4)));
}

// Codebooks (block_grids.cl): an index names eight numbers of two bits, or four of four bits; signs
// are eight bits, of which the last one makes their sum even where only seven are stored.

static int8 with_signs(int8 q, uint signs) { return q * (1 - 2 * bits_of(signs)); }
static uint with_parity(uint signs) { return signs | (popcount(signs) & 1) << 7; }

static int8 twos(uint packed) {
  return ((int8)(int)packed >> (int8)(0, 2, 4, 6, 8, 10, 12, 14)) & 3;
}
static int8 fours(uint first, uint second) {
  return ((int8)(int)(first | second << 16) >> (int8)(0, 4, 8, 12, 16, 20, 24, 28)) & 15;
}

// 0x08, 0x19 and 0x2b.
static int8 iq2_of(uint packed) {
  int8 q = twos(packed);
  return q * 17 + 8 + (q >> 1);
}

// Where 32 elements have their scale and four times seven signs in four bytes.
static uint signs_of(uint packed, uint i) { return with_parity(packed >> i % 4 * 7 & 127); }

static float4 scales_iq2_xxs(Block b, uint part) {
  return one(half_at(b) * (0.5f + (uint_at(b + 6 + part * 8) >> 28)) * 0.25f);
}
static float8 eight_iq2_xxs(Block b, uint i, float4 s) {
  Block of = b + 2 + i / 4 * 8;
  return scaled(s.x, with_signs(iq2_of(iq2_xxs_grid[of[i % 4]]), signs_of(uint_at(of + 4), i)));
}

static float4 scales_of_nibbles(float d, uint both) {
  return two(d * (0.5f + (both & 15)) * 0.25f, d * (0.5f + (both >> 4)) * 0.25f);
}

#define scales_iq2_xs(b, part) scales_of_nibbles(half_at(b), b[66 + part])
static float8 eight_iq2_xs(Block b, uint i, float4 s) {
  uint packed = ushort_at(b + 2 + i * 2);
  int8 q = iq2_of(iq2_xs_grid[packed & 511]);
  return scaled(of_16(s, i), with_signs(q, with_parity(packed >> 9)));
}

#define scales_iq2_s(b, part) scales_of_nibbles(half_at(b), b[74 + part])
static float8 eight_iq2_s(Block b, uint i, float4 s) {
  uint index = b[2 + i] | (b[66 + i / 4] >> i % 4 * 2 & 3) << 8;
  return scaled(of_16(s, i), with_signs(iq2_of(iq2_s_grid[index]), b[34 + i]));
}

static float4 scales_iq3_xxs(Block b, uint part) {
  return one(half_at(b) * (0.5f + (uint_at(b + 66 + part * 4) >> 28)) * 0.5f);
}
// 0x04, 0x0c, ... 0x34, and 0x3e for the last.
static float8 eight_iq3_xxs(Block b, uint i, float4 s) {
  int8 q = fours(iq3_xxs_grid[b[2 + i * 2]], iq3_xxs_grid[b[3 + i * 2]]);
  q = q * 8 + 4 + (q == 7 ? (int8)2 : (int8)0);
  return scaled(s.x, with_signs(q, signs_of(uint_at(b + 66 + i / 4 * 4), i)));
}

#define scales_iq3_s(b, part) one(half_at(b) * (1 + 2 * nibble(b + 106, part)))
static float8 eight_iq3_s(Block b, uint i, float4 s) {
  uint high = b[66 + i / 4] >> i % 4 * 2;
  uint first = b[2 + i * 2] | (high & 1) << 8, second = b[3 + i * 2] | (high & 2) << 7;
  int8 q = fours(iq3_s_grid[first], iq3_s_grid[second]) * 2 + 1;
  return scaled(s.x, with_signs(q, b[74 + i]));
}

// -1, 0 and 1, all moved by an eighth up or down; scales are an eighth.
static float8 iq1_of(float scale, uint index, uint down) {
  return scaled(scale, twos(iq1_grid[index]) * 8 + (down ? -9 : -7));
}

static float4 scales_iq1_s(Block b, uint part) {
  return one(half_at(b) * (1 + 2 * (b[35 + part * 2] >> 4 & 7)) * 0.125f);
}
static float8 eight_iq1_s(Block b, uint i, float4 s) {
  uint packed = ushort_at(b + 34 + i / 4 * 2), index = b[2 + i] | (packed >> i % 4 * 3 & 7) << 8;
  return iq1_of(s.x, index, packed >> 15);
}

// The scale of the block is in four parts, above the scales of 16 elements.
static float4 scales_iq1_m(Block b, uint part) {
  ushort bits = b[49] >> 4 | (b[51] & 0xf0) | (b[53] >> 4) << 8 | (b[55] >> 4) << 12;
  float d = vload_half(0, (half *)&bits) * 0.125f;
  uint scales = ushort_at(b + 48 + part / 2 * 2) >> part % 2 * 6;
  return two(d * (1 + 2 * (scales & 7)), d * (1 + 2 * (scales >> 3 & 7)));
}
static float8 eight_iq1_m(Block b, uint i, float4 s) {
  uint high = nibble(b + 32, i);
  return iq1_of(of_16(s, i), b[i] | (high & 7) << 8, high >> 3);
}

// Rows by vectors: SCALES is what the 32 elements around i share, SCALEDW W neighbours from i on.

#define SCALES(type, row, i) CAT(scales_at_, type)(row, i)
#define SCALEDW(type, row, i, scales) CAT(scaledw_, type)(row, i, scales)

#define PLAIN_FORMAT(type)                                                                        \
  static float4 CAT(scales_at_, type)(const __global char *row, int i) { return 0; }              \
  static floatW CAT(scaledw_, type)(const __global char *row, int i, float4 scales) {             \
    return FETCHW(type, row, i);                                                                  \
  }

#define IN_BLOCKS(fmt, elements, bytes)                                                           \
  static float4 CAT(scales_at_, fmt)(const __global char *row, int i) {                           \
    Block block = (Block)row + (ulong)((uint)i / elements) * bytes;                               \
    return CAT(scales_, fmt)(block, (uint)i % elements / 32);                                     \
  }                                                                                               \
  static float8 CAT(scaledw_, fmt)(const __global char *row, int i, float4 scales) {              \
    Block block = (Block)row + (ulong)((uint)i / elements) * bytes;                               \
    return CAT(eight_, fmt)(block, (uint)i % elements / 8, scales);                               \
  }

// Number i of eight. Of an array whose index is not known compilers for GPUs make memory.
static float one_of8(float8 v, int i) {
  int8 bits = as_int8(v) & ((int8)(0, 1, 2, 3, 4, 5, 6, 7) == (int8)i);
  int4 halves = bits.lo | bits.hi;
  int2 quarters = halves.lo | halves.hi;
  return as_float(quarters.x | quarters.y);
}

#define BLOCK_FORMAT(fmt, elements, bytes)                                                        \
  enum { CAT(size_, fmt) = bytes };                                                               \
  IN_BLOCKS(fmt, elements, bytes)                                                                 \
  static float8 CAT(fetchw_, fmt)(const __global char *row, int i) {                              \
    return SCALEDW(fmt, row, i, SCALES(fmt, row, i));                                             \
  }                                                                                               \
  static float CAT(fetch_, fmt)(const __global char *row, int i) {                                \
    return one_of8(FETCHW(fmt, row, i), i % 8);                                                   \
  }

PLAIN_FORMAT(f32)
PLAIN_FORMAT(f16)
PLAIN_FORMAT(bf16)
IN_BLOCKS(q4_0, 32, 18)
IN_BLOCKS(q8_0, 32, 34)
BLOCK_FORMAT(q4_1, 32, 20)
BLOCK_FORMAT(q5_0, 32, 22)
BLOCK_FORMAT(q5_1, 32, 24)
BLOCK_FORMAT(q2_k, 256, 84)
BLOCK_FORMAT(q3_k, 256, 110)
BLOCK_FORMAT(q4_k, 256, 144)
BLOCK_FORMAT(q5_k, 256, 176)
BLOCK_FORMAT(q6_k, 256, 210)
BLOCK_FORMAT(tq1_0, 256, 54)
BLOCK_FORMAT(tq2_0, 256, 66)
BLOCK_FORMAT(iq4_nl, 32, 18)
BLOCK_FORMAT(iq4_xs, 256, 136)
BLOCK_FORMAT(mxfp4, 32, 17)
BLOCK_FORMAT(nvfp4, 64, 36)
BLOCK_FORMAT(iq2_xxs, 256, 66)
BLOCK_FORMAT(iq2_xs, 256, 74)
BLOCK_FORMAT(iq2_s, 256, 82)
BLOCK_FORMAT(iq3_xxs, 256, 98)
BLOCK_FORMAT(iq3_s, 256, 110)
BLOCK_FORMAT(iq1_s, 256, 50)
BLOCK_FORMAT(iq1_m, 256, 56)
