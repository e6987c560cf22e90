// pack_formats: what the blocks of a file hold, as codes: for pack.cl, which makes row tiles of them.
//
// Of a block `b`, and of the 32 elements `part` of it, a format FMT has
//
//   halves_FMT   d, and m or the d of the second sum
//   scales_FMT   bytes that scale d (and m), where the format has some
//   codes_FMT    numbers of two, four or eight bits: 32 bytes, element by element
//   high_FMT     further bits of the codes: a word of one bit each, or two words of two bits
//
// How blocks lie is told in tiles/words.py and tiles/codebooks.py, format by format: those make the
// same of them in NumPy, and tests hold the two against each other bit by bit.

#if !defined(FORMAT) && !defined(FLOATS)
  #define FORMAT q4_1
  #define BYTES 20
  #define PARTS 1
  #define BLOCKS 1
  #define HALVES 2
  #define WORDS 4
  #define HIGH 0
  #define SCALES 0
#endif
#define TILE 32
#ifndef FLOATS
  #define HEAD (2 * TILE * HALVES)
  #define BLOCK (TILE * (4 * (WORDS + HIGH) + SCALES))
  #define RECORD (HEAD + BLOCKS * BLOCK)
#endif

typedef const __global uchar *Block;
typedef struct __attribute__((packed)) { uint4 words; } Bytes16;  // blocks start anywhere
typedef struct __attribute__((packed)) { uint8 words; } Bytes32;

#define EACH_BYTE 0x01010101u
#define NIBBLES 0x0f0f0f0fu

static uint4 load16(Block p) { return ((const __global Bytes16 *)p)->words; }
static uint8 load32(Block p) { return ((const __global Bytes32 *)p)->words; }
static uint ushort_at(Block p) { return p[0] | (uint)p[1] << 8; }
static uint uint_at(Block p) { return ushort_at(p) | ushort_at(p + 2) << 16; }
static ushort2 one_half(Block p) { return (ushort2)(ushort_at(p), 0); }
static ushort2 two_halves(Block p) { return (ushort2)(ushort_at(p), ushort_at(p + 2)); }
static uint nibble(Block p, uint i) { return p[i / 2] >> (i % 2 * 4) & 15; }

// Bit i of a number to byte i.
static uint8 bytes_of_bits(uint bits) {
  uint8 fours = (uint8)bits >> (uint8)(0, 4, 8, 12, 16, 20, 24, 28) & 15;
  return fours * 0x00204081u & EACH_BYTE;
}

// Bits of a word that is made for pairs (layouts.py): from bit i for element i, or byte i.
static uint low_pairs(uint bits) {
  bits &= 0x33333333u;
  bits = (bits | bits >> 2) & 0x0f0f0f0fu;
  bits = (bits | bits >> 4) & 0x00ff00ffu;
  return (bits | bits >> 8) & 0x0000ffffu;
}
static uint word_of_bits(uint bits) { return low_pairs(bits) | low_pairs(bits >> 2) << 16; }
static uint word_of_bytes(uint8 bits) {
  uint8 pairs = ((bits | bits >> 7) & 0x00030003u) << (uint8)(0, 2, 4, 6, 8, 10, 12, 14);
  uint4 a = pairs.lo | pairs.hi;
  uint2 c = a.lo | a.hi;
  return c.x | c.y;
}

// Words of bits that stand above nibbles (layouts.py), of bytes of one bit or two an element. Byte i
// of `first` has those of elements i, 4 + i ..., `second` those of the elements 16 after them.
static uint above_nibbles(uint first, uint second) {
  return first << 4 | (second >> 8 & 0x00ff00ffu) | (second & 0x00ff00ffu) << 8;
}
static uint ones_above(uint8 bits) {
  uint4 twos = bits.even | bits.odd << 1;
  uint2 fours = twos.even | twos.odd << 2;
  return above_nibbles(fours.x, fours.y);
}
static uint2 twos_above(uint8 bits) {
  uint4 fours = bits.even | bits.odd << 2;
  return (uint2)(above_nibbles(fours.x, fours.z), above_nibbles(fours.y, fours.w));
}

// 32 codes: of 16 bytes, whose low nibbles come first; of 32 bytes, each of several parts' codes.
static uint8 nibbles(Block p) {
  uint4 both = load16(p);
  return (uint8)(both & NIBBLES, both >> 4 & NIBBLES);
}
static uint8 nibbles_of_32(Block p, uint of) { return load32(p) >> of * 4 & NIBBLES; }
static uint8 twos(Block p, uint part) {
  return load32(p + part / 4 * 32) >> part % 4 * 2 & 3 * EACH_BYTE;
}
static uint8 bits_of_32(Block p, uint part) { return load32(p) >> part & EACH_BYTE; }

// Of 32 elements: half d (and m), a fifth bit or none, the low four bits; or eight.

#define halves_q4_0(b, part) one_half(b)
#define codes_q4_0(b, part) nibbles(b + 2)

#define halves_q4_1(b, part) two_halves(b)
#define codes_q4_1(b, part) nibbles(b + 4)

#define halves_q5_0(b, part) one_half(b)
#define high_q5_0(b, part) ones_above(bytes_of_bits(uint_at(b + 2)))
#define codes_q5_0(b, part) nibbles(b + 6)

#define halves_q5_1(b, part) two_halves(b)
#define high_q5_1(b, part) ones_above(bytes_of_bits(uint_at(b + 4)))
#define codes_q5_1(b, part) nibbles(b + 8)

#define halves_q8_0(b, part) one_half(b)
#define codes_q8_0(b, part) load32(b + 2)

#define halves_iq4_nl halves_q4_0
#define codes_iq4_nl codes_q4_0

// A power of two as bf16.
static ushort2 halves_mxfp4(Block b, uint part) {
  uint e = b[0];
  return (ushort2)(e < 2 ? 0x20 << e : (e - 1) << 7, 0);
}
#define codes_mxfp4(b, part) nibbles(b + 1)

// Scales of 8 bits, three of them mantissa, halved: a half holds them. 127 means 0.
static ushort half_of_e4m3(uint code) {
  uint exponent = code >> 3 & 15, mantissa = code & 7;
  float value = exponent ? (8 + mantissa) * exp2((float)exponent - 11) : mantissa * 0x1p-10f;
  return code == 127 || value == 0 ? 0 : (as_uint(value) >> 13) - (112 << 10);
}
#define halves_nvfp4(b, part) \
  (ushort2)(half_of_e4m3(b[(part) * 2]), half_of_e4m3(b[(part) * 2 + 1]))
static uint8 codes_nvfp4(Block b, uint part) {
  uint4 both = load16(b + 4 + part * 16);
  uint4 low = both & NIBBLES, high = both >> 4 & NIBBLES;
  return (uint8)(low.xy, high.xy, low.zw, high.zw);
}

// Of 256 elements.

#define halves_q2_k(b, part) two_halves(b + 80)
#define scales_q2_k(b, part) (uchar2)(b[(part) * 2], b[(part) * 2 + 1])
#define codes_q2_k(b, part) twos(b + 16, part)

static uchar scale_q3_k(Block b, uint of) {
  uint low = b[96 + of % 8] >> (of / 8 * 4) & 15, high = b[104 + of % 4] >> (of / 4 * 2) & 3;
  return (low | high << 4) - 32;
}
#define halves_q3_k(b, part) one_half(b + 108)
#define scales_q3_k(b, part) (uchar2)(scale_q3_k(b, (part) * 2), scale_q3_k(b, (part) * 2 + 1))
#define high_q3_k(b, part) word_of_bytes(bits_of_32(b, part))
#define codes_q3_k(b, part) twos(b + 32, part)

static uchar2 scales_q4_k(Block b, uint part) {
  uint first = b[4 + part % 4], second = b[8 + part % 4], last = b[12 + part % 4];
  return part < 4 ? (uchar2)(first & 63, second & 63)
                  : (uchar2)((last & 15) | first >> 6 << 4, last >> 4 | second >> 6 << 4);
}
#define halves_q4_k(b, part) two_halves(b)
#define codes_q4_k(b, part) nibbles_of_32(b + 16 + (part) / 2 * 32, (part) % 2)

#define halves_q5_k halves_q4_k
#define scales_q5_k scales_q4_k
#define high_q5_k(b, part) ones_above(bits_of_32(b + 16, part))
#define codes_q5_k(b, part) nibbles_of_32(b + 48 + (part) / 2 * 32, (part) % 2)

#define halves_q6_k(b, part) one_half(b + 208)
#define scales_q6_k(b, part) (uchar2)(b[192 + (part) * 2], b[193 + (part) * 2])
#define high_q6_k(b, part) twos_above(twos(b + 128, part))
#define codes_q6_k(b, part) \
  nibbles_of_32(b + (part) / 4 * 64 + (part) % 2 * 32, (part) % 4 / 2)

#define halves_iq4_xs(b, part) one_half(b)
static uchar2 scales_iq4_xs(Block b, uint part) {
  return (uchar2)((nibble(b + 4, part) | (ushort_at(b + 2) >> part * 2 & 3) << 4) - 32, 0);
}
#define codes_iq4_xs(b, part) nibbles(b + 8 + (part) * 16)

#define halves_tq2_0(b, part) one_half(b + 64)
#define codes_tq2_0(b, part) twos(b, part)

// Numbers below 1 in base 3, times 256: digits come out on top once what is above is lost.
static uint4 digits(uchar16 bytes, uchar power) {
  return as_uint4(mul_hi(bytes * (uchar16)power, (uchar16)3));
}
__constant uchar powers_of_3[5] = {1, 3, 9, 27, 81};
#define halves_tq1_0(b, part) one_half(b + 52)
static uint8 codes_tq1_0(Block b, uint part) {
  if (part < 5) {
    uint8 both = load32(b);
    uchar power = powers_of_3[part];
    return (uint8)(digits(as_uchar16(both.lo), power), digits(as_uchar16(both.hi), power));
  }
  uchar16 next = as_uchar16(load16(b + 32));
  if (part < 7) {
    uint first = part * 2 - 10;
    return (uint8)(digits(next, powers_of_3[first]), digits(next, powers_of_3[first + 1]));
  }
  uchar4 last = vload4(0, b + 48);
  uchar16 rest = (uchar16)(last, last * (uchar4)3, last * (uchar4)9, last * (uchar4)27);
  return (uint8)(digits(next, 81), digits(rest, 1));
}

// Codebooks (block_grids.cl): an index names eight numbers of two bits, or four of four bits; signs
// are eight bits, of which the last one makes their sum even where only seven are stored.

static uint with_parity(uint signs) { return signs | (popcount(signs) & 1) << 7; }
// Four times seven signs.
static uint signs_of(uint packed) {
  return with_parity(packed & 127) | with_parity(packed >> 7 & 127) << 8 |
         with_parity(packed >> 14 & 127) << 16 | with_parity(packed >> 21 & 127) << 24;
}
// Numbers of two and of four bits to bytes.
static uint8 bytes_of_twos(uint4 packed) {
  uint8 fours = (uint8)(packed.x, packed.x >> 8, packed.y, packed.y >> 8, packed.z, packed.z >> 8,
                        packed.w, packed.w >> 8) & 0xff;
  fours = (fours | fours << 12) & 0x000f000fu;
  return (fours | fours << 6) & 3 * EACH_BYTE;
}
static uint8 bytes_of_fours(uint8 packed) {
  packed = (packed | packed << 8) & 0x00ff00ffu;
  return (packed | packed << 4) & NIBBLES;
}
// Scales s that mean s + 1/2, doubled.
static uchar2 doubled(uint first, uint second) {
  return (uchar2)(first * 2 + 1, second * 2 + 1);
}

#define FOUR(entry) (uint4)(entry(0), entry(1), entry(2), entry(3))
#define EIGHT(entry) (uint8)(FOUR(entry), entry(4), entry(5), entry(6), entry(7))

#define halves_iq2_xxs(b, part) one_half(b)
#define scales_iq2_xxs(b, part) doubled(uint_at(b + 6 + (part) * 8) >> 28, 0)
#define high_iq2_xxs(b, part) word_of_bits(signs_of(uint_at(b + 6 + (part) * 8)))
static uint8 codes_iq2_xxs(Block b, uint part) {
#define ENTRY(i) iq2_xxs_grid[b[2 + part * 8 + i]]
  return bytes_of_twos(FOUR(ENTRY));
#undef ENTRY
}

#define halves_iq2_xs(b, part) one_half(b)
#define scales_iq2_xs(b, part) doubled(b[66 + (part)] & 15, b[66 + (part)] >> 4)
static uint high_iq2_xs(Block b, uint part) {
#define SIGNS(i) with_parity(b[3 + part * 8 + i * 2] >> 1) << 8 * i
  return word_of_bits(SIGNS(0) | SIGNS(1) | SIGNS(2) | SIGNS(3));
#undef SIGNS
}
static uint8 codes_iq2_xs(Block b, uint part) {
#define ENTRY(i) iq2_xs_grid[ushort_at(b + 2 + part * 8 + i * 2) & 511]
  return bytes_of_twos(FOUR(ENTRY));
#undef ENTRY
}

#define halves_iq2_s(b, part) one_half(b)
#define scales_iq2_s(b, part) doubled(b[74 + (part)] & 15, b[74 + (part)] >> 4)
#define high_iq2_s(b, part) word_of_bits(uint_at(b + 34 + (part) * 4))
static uint8 codes_iq2_s(Block b, uint part) {
#define ENTRY(i) iq2_s_grid[b[2 + part * 4 + i] | (b[66 + part] >> i * 2 & 3) << 8]
  return bytes_of_twos(FOUR(ENTRY));
#undef ENTRY
}

// IQ3's signs are the fourth bit.
#define halves_iq3_xxs(b, part) one_half(b)
#define scales_iq3_xxs(b, part) doubled(uint_at(b + 66 + (part) * 4) >> 28, 0)
static uint8 codes_iq3_xxs(Block b, uint part) {
#define ENTRY(i) iq3_xxs_grid[b[2 + part * 8 + i]]
  return bytes_of_fours(EIGHT(ENTRY)) |
         bytes_of_bits(signs_of(uint_at(b + 66 + part * 4))) << 3;
#undef ENTRY
}

#define halves_iq3_s(b, part) one_half(b)
#define scales_iq3_s(b, part) doubled(nibble(b + 106, part), 0)
static uint8 codes_iq3_s(Block b, uint part) {
#define ENTRY(i) iq3_s_grid[b[2 + part * 8 + i] | (b[66 + part] >> i & 1) << 8]
  return bytes_of_fours(EIGHT(ENTRY)) | bytes_of_bits(uint_at(b + 74 + part * 4)) << 3;
#undef ENTRY
}

// IQ1's third bits say that eight numbers are moved down.
#define halves_iq1_s(b, part) one_half(b)
#define scales_iq1_s(b, part) doubled(b[35 + (part) * 2] >> 4 & 7, 0)
#define high_iq1_s(b, part) (b[35 + (part) * 2] >> 7 ? 0xffffffffu : 0)
static uint8 codes_iq1_s(Block b, uint part) {
  uint packed = ushort_at(b + 34 + part * 2);
#define ENTRY(i) iq1_grid[b[2 + part * 4 + i] | (packed >> i * 3 & 7) << 8]
  return bytes_of_twos(FOUR(ENTRY));
#undef ENTRY
}

// The half is in four parts, above the scales of 16 elements.
static ushort2 halves_iq1_m(Block b, uint part) {
  return (ushort2)(b[49] >> 4 | (b[51] & 0xf0) | (b[53] >> 4) << 8 | (b[55] >> 4) << 12, 0);
}
static uchar2 scales_iq1_m(Block b, uint part) {
  uint scales = ushort_at(b + 48 + part / 2 * 2) >> part % 2 * 6;
  return doubled(scales & 7, scales >> 3 & 7);
}
static uint high_iq1_m(Block b, uint part) {
#define DOWN(i) (uint)(nibble(b + 32, part * 4 + i) >> 3) * 0xff << 8 * i
  return word_of_bits(DOWN(0) | DOWN(1) | DOWN(2) | DOWN(3));
#undef DOWN
}
static uint8 codes_iq1_m(Block b, uint part) {
#define ENTRY(i) iq1_grid[b[part * 4 + i] | (nibble(b + 32, part * 4 + i) & 7) << 8]
  return bytes_of_twos(FOUR(ENTRY));
#undef ENTRY
}
