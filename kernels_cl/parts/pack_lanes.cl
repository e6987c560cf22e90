// pack_lanes: blocks of eight rows at a time, where an item takes vectors: for pack.cl.
//
// A row's numbers stand TILE apart in a record: written one by one they take longer than reading the
// file. So 16 bytes of each of eight rows become four words, a vector each, which has that word of
// every row; they are taken apart like this, and a vector is one store:
//
//   row 0   a0 a1 a2 a3        words[0]   a0 b0 c0 ... h0
//   row 1   b0 b1 b2 b3        words[1]   a1 b1 c1 ... h1
//   ...                        ...
//
// A format FMT that has this defines HAS_LANES_FMT as 1, and lanes_FMT(to, rows, row_bytes), which
// writes all that a record has of eight rows. What its block holds: pack_formats.cl.

#if LOCAL == 1 && !defined(FLOATS)
typedef uint8 Lanes;
typedef struct { uchar *record; int lane; } Room;  // of eight rows, from `lane` on

static void words_of_rows(Lanes words[4], Block p, long row_bytes) {
  Lanes a = (Lanes)(load16(p), load16(p + 4 * row_bytes));
  Lanes b = (Lanes)(load16(p + row_bytes), load16(p + 5 * row_bytes));
  Lanes c = (Lanes)(load16(p + 2 * row_bytes), load16(p + 6 * row_bytes));
  Lanes d = (Lanes)(load16(p + 3 * row_bytes), load16(p + 7 * row_bytes));
  Lanes ab = (Lanes)(a.s0, b.s0, a.s1, b.s1, a.s4, b.s4, a.s5, b.s5);
  Lanes cd = (Lanes)(c.s0, d.s0, c.s1, d.s1, c.s4, d.s4, c.s5, d.s5);
  words[0] = (Lanes)(ab.s01, cd.s01, ab.s45, cd.s45);
  words[1] = (Lanes)(ab.s23, cd.s23, ab.s67, cd.s67);
  ab = (Lanes)(a.s2, b.s2, a.s3, b.s3, a.s6, b.s6, a.s7, b.s7);
  cd = (Lanes)(c.s2, d.s2, c.s3, d.s3, c.s6, d.s6, c.s7, d.s7);
  words[2] = (Lanes)(ab.s01, cd.s01, ab.s45, cd.s45);
  words[3] = (Lanes)(ab.s23, cd.s23, ab.s67, cd.s67);
}
static void words_of_32(Lanes words[8], Block p, long row_bytes) {
  words_of_rows(words, p, row_bytes);
  words_of_rows(words + 4, p + 16, row_bytes);
}
#define OF_EACH(load, p, row_bytes)                                                               \
  (Lanes)(load(p), load((p) + (row_bytes)), load((p) + 2 * (row_bytes)),                          \
          load((p) + 3 * (row_bytes)), load((p) + 4 * (row_bytes)), load((p) + 5 * (row_bytes)),  \
          load((p) + 6 * (row_bytes)), load((p) + 7 * (row_bytes)))

// The low half of each word to half i at the head; byte `at` of each to scale i of a part; words.
static void put_half(Room to, int i, Lanes v) {
  vstore8(convert_ushort8(v), 0, (ushort *)to.record + i * TILE + to.lane);
}
static void put_scale(Room to, int part, int i, Lanes v, int at) {
  uchar *block = to.record + HEAD + part * BLOCK;
  vstore8(convert_uchar8(v >> 8 * at), 0, block + i * TILE + to.lane);
}
static void put_word(Room to, int part, int i, Lanes v) {
  uchar *block = to.record + HEAD + part * BLOCK;
  vstore8(v, 0, (uint *)(block + SCALES * TILE) + i * TILE + to.lane);
}

// 32 codes of four bits: of 16 bytes as they are; of 32 bytes, of which all have one in the same half.
static void put_nibbles(Room to, Block p, long row_bytes) {
  Lanes w[4];
  words_of_rows(w, p, row_bytes);
  for (int i = 0; i < 4; i++) put_word(to, 0, HIGH + i, w[i]);
}
static void put_low(Room to, int part, const Lanes w[8]) {
  for (int i = 0; i < 4; i++)
    put_word(to, part, HIGH + i, (w[i] & NIBBLES) | (w[i + 4] & NIBBLES) << 4);
}
static void put_high(Room to, int part, const Lanes w[8]) {
  for (int i = 0; i < 4; i++)
    put_word(to, part, HIGH + i, (w[i] >> 4 & NIBBLES) | (w[i + 4] & ~NIBBLES));
}

// Further bits of codes: bit `at` (bits `at` and `at` + 1) of 32 bytes.
static Lanes lanes_above(Lanes first, Lanes second) {
  return first << 4 | (second >> 8 & 0x00ff00ffu) | (second & 0x00ff00ffu) << 8;
}
static Lanes ones_of_four(const Lanes w[4], int at) {
  Lanes v = w[0] >> at & EACH_BYTE;
  for (int i = 1; i < 4; i++) v |= (w[i] >> at & EACH_BYTE) << i;
  return v;
}
static void put_ones(Room to, int part, const Lanes w[8], int at) {
  put_word(to, part, 0, lanes_above(ones_of_four(w, at), ones_of_four(w + 4, at)));
}
static void put_twos(Room to, int part, const Lanes w[8], int at) {
  Lanes fours[4];
  for (int i = 0; i < 4; i++)
    fours[i] = (w[2 * i] >> at & 3 * EACH_BYTE) | (w[2 * i + 1] >> at & 3 * EACH_BYTE) << 2;
  put_word(to, part, 0, lanes_above(fours[0], fours[2]));
  put_word(to, part, 1, lanes_above(fours[1], fours[3]));
}
static void put_fifths(Room to, Lanes bits) {
  Lanes w[8];
  for (int i = 0; i < 8; i++) w[i] = (bits >> 4 * i & 15) * 0x00204081u;
  put_ones(to, 0, w, 0);
}

// Of 32 elements.

  #define HAS_LANES_q4_0 1
static void lanes_q4_0(Room to, Block b, long row_bytes) {
  put_half(to, 0, OF_EACH(ushort_at, b, row_bytes));
  put_nibbles(to, b + 2, row_bytes);
}
  #define HAS_LANES_iq4_nl 1
  #define lanes_iq4_nl lanes_q4_0

static void put_two_halves(Room to, Block b, long row_bytes) {
  Lanes both = OF_EACH(uint_at, b, row_bytes);
  put_half(to, 0, both);
  put_half(to, 1, both >> 16);
}
  #define HAS_LANES_q4_1 1
static void lanes_q4_1(Room to, Block b, long row_bytes) {
  put_two_halves(to, b, row_bytes);
  put_nibbles(to, b + 4, row_bytes);
}

  #define HAS_LANES_q5_0 1
static void lanes_q5_0(Room to, Block b, long row_bytes) {
  put_half(to, 0, OF_EACH(ushort_at, b, row_bytes));
  put_fifths(to, OF_EACH(uint_at, b + 2, row_bytes));
  put_nibbles(to, b + 6, row_bytes);
}
  #define HAS_LANES_q5_1 1
static void lanes_q5_1(Room to, Block b, long row_bytes) {
  put_two_halves(to, b, row_bytes);
  put_fifths(to, OF_EACH(uint_at, b + 4, row_bytes));
  put_nibbles(to, b + 8, row_bytes);
}

  #define HAS_LANES_q8_0 1
static void lanes_q8_0(Room to, Block b, long row_bytes) {
  Lanes w[8];
  put_half(to, 0, OF_EACH(ushort_at, b, row_bytes));
  words_of_32(w, b + 2, row_bytes);
  for (int i = 0; i < 8; i++) put_word(to, 0, i, w[i]);
}

  #define HAS_LANES_mxfp4 1
static void lanes_mxfp4(Room to, Block b, long row_bytes) {
  #define EXPONENT(p) (p)[0]
  Lanes e = OF_EACH(EXPONENT, b, row_bytes);
  #undef EXPONENT
  put_half(to, 0, e < 2 ? (Lanes)0x20 << e : (e - 1) << 7);
  put_nibbles(to, b + 1, row_bytes);
}

// Of 256 elements.

// Both halves, and eight scales and minima of six bits: 16 bytes.
static void put_head_of_k(Room to, Block b, long row_bytes) {
  Lanes w[4];
  words_of_rows(w, b, row_bytes);
  put_half(to, 0, w[0]);
  put_half(to, 1, w[0] >> 16);
  Lanes scales = (w[3] & NIBBLES) | (w[1] >> 2 & 0x30303030u);
  Lanes minima = (w[3] >> 4 & NIBBLES) | (w[2] >> 2 & 0x30303030u);
  for (int k = 0; k < 4; k++) {
    put_scale(to, k, 0, w[1] & 0x3f3f3f3fu, k);
    put_scale(to, k, 1, w[2] & 0x3f3f3f3fu, k);
    put_scale(to, k + 4, 0, scales, k);
    put_scale(to, k + 4, 1, minima, k);
  }
}
  #define HAS_LANES_q4_k 1
static void lanes_q4_k(Room to, Block b, long row_bytes) {
  put_head_of_k(to, b, row_bytes);
  for (int k = 0; k < 8; k += 2) {
    Lanes w[8];
    words_of_32(w, b + 16 + k * 16, row_bytes);
    put_low(to, k, w);
    put_high(to, k + 1, w);
  }
}

  #define HAS_LANES_q5_k 1
static void lanes_q5_k(Room to, Block b, long row_bytes) {
  Lanes w[8];
  put_head_of_k(to, b, row_bytes);
  words_of_32(w, b + 16, row_bytes);
  for (int k = 0; k < 8; k++) put_ones(to, k, w, k);
  for (int k = 0; k < 8; k += 2) {
    words_of_32(w, b + 48 + k * 16, row_bytes);
    put_low(to, k, w);
    put_high(to, k + 1, w);
  }
}

  #define HAS_LANES_q6_k 1
static void lanes_q6_k(Room to, Block b, long row_bytes) {
  Lanes w[8];
  put_half(to, 0, OF_EACH(ushort_at, b + 208, row_bytes));
  words_of_rows(w, b + 192, row_bytes);
  for (int k = 0; k < 8; k++)
    for (int i = 0; i < 2; i++) put_scale(to, k, i, w[k / 2], k % 2 * 2 + i);
  for (int half_of = 0; half_of < 2; half_of++) {
    words_of_32(w, b + 128 + half_of * 32, row_bytes);
    for (int k = 0; k < 4; k++) put_twos(to, half_of * 4 + k, w, k * 2);
    for (int k = 0; k < 2; k++) {
      words_of_32(w, b + half_of * 64 + k * 32, row_bytes);
      put_low(to, half_of * 4 + k, w);
      put_high(to, half_of * 4 + k + 2, w);
    }
  }
}

  #define HAS_LANES_iq4_xs 1
static void lanes_iq4_xs(Room to, Block b, long row_bytes) {
  Lanes head = OF_EACH(uint_at, b, row_bytes), low = OF_EACH(uint_at, b + 4, row_bytes);
  put_half(to, 0, head);
  for (int k = 0; k < 8; k++) {
    put_scale(to, k, 0, ((low >> k * 4 & 15) | (head >> (16 + k * 2) & 3) << 4) - 32, 0);
    Lanes w[4];
    words_of_rows(w, b + 8 + k * 16, row_bytes);
    for (int i = 0; i < 4; i++) put_word(to, k, i, w[i]);
  }
}

  #if CAT(HAS_LANES_, FORMAT)
    #define IN_LANES CAT(lanes_, FORMAT)

// Written past the caches where a compiler can: else each line would be read before it is written.
static void stream(__global uchar *out, const uint8 *record) {
  __global uint8 *to = (__global uint8 *)out;
  for (int i = 0; i < RECORD / 32; i++) {
    #ifdef __clang__
    __builtin_nontemporal_store(record[i], to + i);
    #else
    to[i] = record[i];
    #endif
  }
}

// Records of a whole tile.
static void pack_tile(__global uchar *out, Block rows, int record, int end, long row_bytes) {
  uint8 made[RECORD / 32];
  for (; record < end; record++) {
    Block b = rows + (long)(record * BLOCKS / PARTS) * BYTES;
    for (int lane = 0; lane < TILE; lane += 8)
      IN_LANES((Room){(uchar *)made, lane}, b + lane * row_bytes, row_bytes);
    stream(out + (long)record * RECORD, made);
  }
  mem_fence(CLK_GLOBAL_MEM_FENCE);
}
  #endif
#endif
