// block_formats: eight elements of a block, for every block format that is not in blocks.cl.
//
// The layouts are ggml's (ggml-common.h). Eight `i` of a block is its elements 8i ... 8i + 7. Where
// numbers of a few bits share bytes, a run of bytes holds first the lowest bits of all its bytes:
//
//   byte             0 1 2 ... n-1
//   bits 0-3         elements 0 ... n-1
//   bits 4-7         elements n ... 2n-1
//
// Products of scale and number are exact in f32, so that the one sum of a format with minima is
// rounded once, as a fused multiply-add or not. FETCHW needs W = 8 here.

typedef const __global uchar *Block;

static float half_at(Block p) { return vload_half(0, (const __global half *)p); }
static uint ushort_at(Block p) { return p[0] | (uint)p[1] << 8; }
static uint uint_at(Block p) { return ushort_at(p) | ushort_at(p + 2) << 16; }
static float8 scaled(float scale, int8 q) { return scale * convert_float8(q); }

// Numbers of `bits` bits in runs of 8 `n` bytes.
static int8 numbers(Block p, uint i, uint n, uint bits) {
  uint in_run = i % (n * 8 / bits);
  uchar8 bytes = vload8(i / (n * 8 / bits) * n + in_run % n, p);
  return (convert_int8(bytes) >> (int)(in_run / n * bits)) & ((1 << bits) - 1);
}

static int8 signed_bytes(Block p, uint i) {
  return convert_int8(vload8(i, (const __global char *)p));
}

// Bit j for number j.
static int8 bits_of(uint byte) { return ((int8)(int)byte >> (int8)(0, 1, 2, 3, 4, 5, 6, 7)) & 1; }

// A byte holds the four bits of number i in its lower half where i is even.
static uint nibble(Block p, uint i) { return p[i / 2] >> (i % 2 * 4) & 15; }

// 32 elements: scale, minimum, bit five, the low four bits.

static float8 eight_q4_1(Block b, uint i) {
  return scaled(half_at(b), numbers(b + 4, i, 2, 4)) + half_at(b + 2);
}

static int8 five_bits(Block high, Block low, uint i) {
  return numbers(low, i, 2, 4) | bits_of(high[i]) << 4;
}

static float8 eight_q5_0(Block b, uint i) {
  return scaled(half_at(b), five_bits(b + 2, b + 6, i) - 16);
}

static float8 eight_q5_1(Block b, uint i) {
  return scaled(half_at(b), five_bits(b + 4, b + 8, i)) + half_at(b + 2);
}

// 256 elements with a scale (and minimum) for every 16 or 32 of them.

static float8 eight_q2_k(Block b, uint i) {
  uint scales = b[i / 2];
  return scaled(half_at(b + 80) * (scales & 15), numbers(b + 16, i, 4, 2)) -
         half_at(b + 82) * (scales >> 4);
}

// The mask's bits say that nothing is subtracted. Bits five and six of the scales lie in the last
// four bytes.
static float8 eight_q3_k(Block b, uint i) {
  uint of = i / 2, low = b[96 + of % 8] >> (of / 8 * 4) & 15;
  uint high = b[104 + of % 4] >> (of / 4 * 2) & 3;
  int8 q = numbers(b + 32, i, 4, 2) + numbers(b, i, 4, 1) * 4 - 4;
  return scaled(half_at(b + 108) * ((int)(low | high << 4) - 32), q);
}

// Scale and minimum `of` eight, in twelve bytes of six bits each.
static uint2 six_bits(Block b, uint of) {
  if (of < 4) return (uint2)(b[of], b[of + 4]) & 63;
  uint low = b[of + 4], first = b[of - 4], second = b[of];
  return (uint2)((low & 15) | first >> 6 << 4, low >> 4 | second >> 6 << 4);
}

static float8 with_minimum(Block b, uint i, int8 q) {
  uint2 of = six_bits(b + 4, i / 4);
  return scaled(half_at(b) * of.x, q) - half_at(b + 2) * of.y;
}

static float8 eight_q4_k(Block b, uint i) { return with_minimum(b, i, numbers(b + 16, i, 4, 4)); }

static float8 eight_q5_k(Block b, uint i) {
  return with_minimum(b, i, numbers(b + 48, i, 4, 4) | numbers(b + 16, i, 4, 1) << 4);
}

static float8 eight_q6_k(Block b, uint i) {
  int8 q = (numbers(b, i, 8, 4) | numbers(b + 128, i, 4, 2) << 4) - 32;
  return scaled(half_at(b + 208) * (char)b[192 + i / 2], q);
}

// Ternary: two bits, or five numbers a byte in base 3; the product keeps what lies below 256.

static float8 eight_tq2_0(Block b, uint i) {
  return scaled(half_at(b + 64), numbers(b, i, 4, 2) - 1);
}

__constant uchar powers_of_3[5] = {1, 3, 9, 27, 81};

static float8 eight_tq1_0(Block b, uint i) {
  int8 bytes, powers;
  if (i < 20) {
    bytes = convert_int8(vload8(i % 4, b)), powers = powers_of_3[i / 4];
  } else if (i < 30) {
    bytes = convert_int8(vload8(i % 2, b + 32)), powers = powers_of_3[(i - 20) / 2];
  } else {
    int4 last = convert_int4(vload4(0, b + 48)), one = powers_of_3[i % 2 * 2];
    bytes = (int8)(last, last), powers = (int8)(one, one * 3);
  }
  return scaled(half_at(b + 52), ((bytes * powers & 255) * 3 >> 8) - 1);
}

// Four bits that number the values of a table, or are a float of one bit mantissa (doubled here).

__constant char iq4_values[16] = {-127, -104, -83, -65, -49, -35, -22, -10,
                                  1,    13,   25,  38,  53,  69,  89,  113};

static int8 iq4_of(int8 q) {
  return (int8)(iq4_values[q.s0], iq4_values[q.s1], iq4_values[q.s2], iq4_values[q.s3],
                iq4_values[q.s4], iq4_values[q.s5], iq4_values[q.s6], iq4_values[q.s7]);
}

static float8 eight_iq4_nl(Block b, uint i) {
  return scaled(half_at(b), iq4_of(numbers(b + 2, i, 2, 4)));
}

static float8 eight_iq4_xs(Block b, uint i) {
  uint of = i / 4, scale = nibble(b + 4, of) | (ushort_at(b + 2) >> 2 * of & 3) << 4;
  return scaled(half_at(b) * ((int)scale - 32), iq4_of(numbers(b + 8, i, 2, 4)));
}

// 0 1 2 3 4 6 8 12 and their negatives.
static int8 e2m1_doubled(int8 code) {
  int8 exponent = code >> 1 & 3, mantissa = code & 1;
  int8 size = exponent == 0 ? mantissa : (2 + mantissa) << exponent >> 1;
  return (code & 8) != 0 ? -size : size;
}

// The scale is a power of two, halved.
static float8 eight_mxfp4(Block b, uint i) {
  uint e = b[0];
  float scale = as_float(e < 2 ? 0x00200000u << e : (e - 1) << 23);
  return scaled(scale, e2m1_doubled(numbers(b + 1, i, 2, 4)));
}

// Scales of three bits mantissa and four exponent (bias 7), halved; 127 means 0.
static float8 eight_nvfp4(Block b, uint i) {
  uint code = b[i / 2] & 127, bits = b[i / 2] == 127 ? 0 : code;
  float scale = bits < 8 ? bits * 0x1p-10f : as_float((bits << 20) + (119u << 23));
  return scaled(scale, e2m1_doubled(numbers(b + 4, i, 1, 4)));
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

// Where 32 elements have their seven signs four times, and their scale, in four bytes.
static uint signs_of(uint packed, uint i) { return with_parity(packed >> i % 4 * 7 & 127); }

static float8 eight_iq2_xxs(Block b, uint i) {
  Block of = b + 2 + i / 4 * 8;
  uint packed = uint_at(of + 4);
  float scale = half_at(b) * (0.5f + (packed >> 28)) * 0.25f;
  return scaled(scale, with_signs(iq2_of(iq2_xxs_grid[of[i % 4]]), signs_of(packed, i)));
}

static float8 eight_iq2_xs(Block b, uint i) {
  uint packed = ushort_at(b + 2 + i * 2);
  float scale = half_at(b) * (0.5f + nibble(b + 66, i / 2)) * 0.25f;
  int8 q = iq2_of(iq2_xs_grid[packed & 511]);
  return scaled(scale, with_signs(q, with_parity(packed >> 9)));
}

static float8 eight_iq2_s(Block b, uint i) {
  uint index = b[2 + i] | (b[66 + i / 4] >> i % 4 * 2 & 3) << 8;
  float scale = half_at(b) * (0.5f + nibble(b + 74, i / 2)) * 0.25f;
  return scaled(scale, with_signs(iq2_of(iq2_s_grid[index]), b[34 + i]));
}

// 0x04, 0x0c, ... 0x34, and 0x3e for the last.
static float8 eight_iq3_xxs(Block b, uint i) {
  uint packed = uint_at(b + 66 + i / 4 * 4);
  int8 q = fours(iq3_xxs_grid[b[2 + i * 2]], iq3_xxs_grid[b[3 + i * 2]]);
  q = q * 8 + 4 + (q == 7 ? (int8)2 : (int8)0);
  float scale = half_at(b) * (0.5f + (packed >> 28)) * 0.5f;
  return scaled(scale, with_signs(q, signs_of(packed, i)));
}

static float8 eight_iq3_s(Block b, uint i) {
  uint high = b[66 + i / 4] >> i % 4 * 2;
  uint first = b[2 + i * 2] | (high & 1) << 8, second = b[3 + i * 2] | (high & 2) << 7;
  int8 q = fours(iq3_s_grid[first], iq3_s_grid[second]) * 2 + 1;
  return scaled(half_at(b) * (1 + 2 * nibble(b + 106, i / 4)), with_signs(q, b[74 + i]));
}

// -1, 0 and 1, all moved by an eighth up or down.
static float8 iq1_of(float scale, uint index, uint down) {
  int8 q = twos(iq1_grid[index]) * 8 + (down ? -9 : -7);
  return scaled(scale * 0.125f, q);
}

static float8 eight_iq1_s(Block b, uint i) {
  uint packed = ushort_at(b + 34 + i / 4 * 2), index = b[2 + i] | (packed >> i % 4 * 3 & 7) << 8;
  return iq1_of(half_at(b) * (1 + 2 * (packed >> 12 & 7)), index, packed >> 15);
}

// The scale of the block is in four parts, above the scales of 16 elements.
static float8 eight_iq1_m(Block b, uint i) {
  uint high = nibble(b + 32, i), index = b[i] | (high & 7) << 8;
  ushort d = b[49] >> 4 | (b[51] & 0xf0) | (b[53] >> 4) << 8 | (b[55] >> 4) << 12;
  uint scale = ushort_at(b + 48 + i / 8 * 2) >> i / 2 % 4 * 3 & 7;
  return iq1_of(vload_half(0, (half *)&d) * (1 + 2 * scale), index, high >> 3);
}

#define BLOCK_FORMAT(fmt, elements, bytes)                                                        \
  enum { CAT(size_, fmt) = bytes };                                                               \
  static float8 CAT(fetchw_, fmt)(const __global char *row, int i) {                              \
    Block block = (Block)row + (ulong)((uint)i / elements) * bytes;                               \
    return CAT(eight_, fmt)(block, (uint)i % elements / 8);                                       \
  }                                                                                               \
  static float CAT(fetch_, fmt)(const __global char *row, int i) {                                \
    float each[8];                                                                                \
    vstore8(CAT(fetchw_, fmt)(row, i), 0, each);                                                  \
    return each[i % 8];                                                                           \
  }

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
