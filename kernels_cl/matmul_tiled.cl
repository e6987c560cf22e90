// matmul_tiled: y[m, n] = sum_k a[k, m] x[k, n] of quantised weights in row tiles (layouts.py has
// the picture) and 12-bit activations in panels (quantize.cl has it).
//
// An element of `a` is d q + m with integer q. For 32 elements of K (16 with two sums) the integer
// products are exact; then they are scaled and added in float:
//
//   y += d * scale_x * (sum(q x) - BIAS * sum(x)) + m * scale_x * sum(x)
//
// Lanes are rows of `a`. A word holds pairs of 16-bit halves, so that a product of vectors of pairs
// with one broadcast pair of x is a multiply-add-pairs instruction where the processor has one.

#ifndef BLOCKS
  #define BLOCKS 1   // blocks of 32 a record
  #define HALVES 2   // halves at a record's head: d, or d and m
  #define WORDS 4    // words a row and block: 4 of nibbles, 8 of bytes
  #define HIGH 0     // words of further bits: 1 of fifth bits, 2 of bits five and six
  #define SCALES 0   // bytes a row and block that scale d (and m)
  #define BIAS 0     // what q is stored with too much
#endif
#ifndef PANEL
  #define PANEL 1    // rows of x that an item makes at once: 1, 4 or 8
#endif
#ifndef ROWS
  #define ROWS 32    // rows of `a` that an item makes: 8, 16 or 32; 1 where items are lanes
#endif
#ifndef AHEAD
  #define AHEAD 8192 // bytes that weights are fetched before they are used
#endif
#ifndef TILES
  #define TILES 1    // tiles that an item of `gated` makes, where items are not lanes
#endif
#ifndef TEAM
  #define TEAM 1     // items that share a row's records
#endif

#define TILE 32
#define HEAD (2 * TILE * HALVES)
#define BLOCK (TILE * (4 * (WORDS + HIGH) + SCALES))
#define RECORD (HEAD + BLOCKS * BLOCK)
#define X_RECORD (BLOCKS * PANEL * X_BYTES)
#define SUMS (HIGH == 2 ? 2 : 1)

// Vectors, by rows of `a` in each: types by lane, and with a pair of 16-bit numbers in every lane.
// Compilers made of Clang also take vectors of 32 numbers, which OpenCL C does not have: 512 bits.
#if ROWS == 1
  #define LANES 1
  #define BY_LANE(name) name
  #define LOAD_LANES(p) (*(p))
  #define LOAD_HALVES(p) vload_half(0, p)
#elif ROWS > 8 && (defined(__INTEL_LLVM_COMPILER) || defined(__clang__) && defined(__AVX512BW__))
  #define LANES 16
  #define BY_LANE(name) name##16
  #define LOAD_LANES(p) vload16(0, p)
  #define LOAD_HALVES(p) vload_half16(0, p)
#else
  #define LANES 8
  #define BY_LANE(name) name##8
  #define LOAD_LANES(p) vload8(0, p)
  #define LOAD_HALVES(p) vload_half8(0, p)
#endif
typedef BY_LANE(int) ints;
typedef BY_LANE(float) floats;
#if LANES == 16
typedef ushort bits __attribute__((ext_vector_type(32)));
typedef short pairs __attribute__((ext_vector_type(32)));
typedef int products __attribute__((ext_vector_type(32)));
  #define AS_BITS(v) __builtin_astype(v, bits)
  #define AS_PAIRS(v) __builtin_astype(v, pairs)
  #define WIDEN(v) __builtin_convertvector(v, products)
#else
  #define BY_PAIR(name) CAT(name, PAIRED)
  #define PAIRED CAT(twice, LANES)
  #define twice1 2
  #define twice8 16
typedef BY_PAIR(ushort) bits;
typedef BY_PAIR(short) pairs;
typedef BY_PAIR(int) products;
  #define AS_BITS(v) BY_PAIR(as_ushort)(v)
  #define AS_PAIRS(v) BY_PAIR(as_short)(v)
  #define WIDEN(v) BY_PAIR(convert_int)(v)
#endif
// Vectors an item makes at once: with PANEL rows of x, at most as many sums as there are registers.
#define VECTORS (ROWS / LANES < 16 / PANEL ? ROWS / LANES : 16 / PANEL)

// Of every lane: a.x b.x + a.y b.y, where `apart` is zeros that the compiler does not know as such.
// x86 compilers make multiply-add-pairs of this shape, but only while the sum stays together: they
// reorder the additions of a longer sum. Intel's does not need to be kept from it.
static ints madd(pairs a, pairs b, ints apart) {
  products each = WIDEN(a) * WIDEN(b);
  ints sum = each.even + each.odd;
#ifndef __INTEL_LLVM_COMPILER
  sum |= apart;
#endif
  return sum;
}

// Number i of every lane's row in a part of the record.
#define HALF_AT(p, i, lane) LOAD_HALVES((const __global half *)(p) + (i) * TILE + (lane))
#define SCALE_AT(type, p, i, lane) \
  BY_LANE(convert_float)(LOAD_LANES((const __global type *)(p) + (i) * TILE + (lane)))
static bits word_at(const __global char *p, int i, int lane) {
  return AS_BITS(LOAD_LANES((const __global uint *)p + i * TILE + lane));
}

// Pair t of a word (layouts.py), its number among the block's 16, and its further bits.
#if WORDS == 8
  #define PAIRS 2
  #define PAIR_NUMBER(j, t) (2 * (j) + (t))
static pairs low_bits(bits word, int t) {
  return AS_PAIRS(t ? word : word << (bits)8) >> (pairs)8;
}
#else
  #define PAIRS 4
  #define PAIR_NUMBER(j, t) (2 * (j) + (t) / 2 + (t) % 2 * 8)
static pairs low_bits(bits word, int t) {
  return AS_PAIRS((word >> (bits)(4 * t)) & (bits)15);
}
#endif
static pairs high_bits(bits word, int p) {
  int from = HIGH == 2 ? p % 8 * 2 : p;
  bits moved = from < 4 ? word << (bits)(4 - from) : word >> (bits)(from - 4);
  return AS_PAIRS(moved & (bits)(HIGH == 2 ? 0x30 : 0x10));
}

// With one row of x memory is the limit: fetch what is needed some microseconds later. Processors do
// so too, but give up where the order of loads is not quite the order in memory.
static void fetch_ahead(const __global char *a) {
#if PANEL == 1 && LANES > 1 && defined(__clang__)
  #pragma unroll
  for (int i = 0; i < RECORD / BLOCKS; i += 64) __builtin_prefetch(a + AHEAD + i);
#endif
}

// Add one block of 32: `a` is its words, d and m its scales, x its PANEL rows.
static void add_block(floats acc[PANEL][VECTORS], const __global char *a, int lane,
                      const floats d[VECTORS][SUMS], const floats m[VECTORS],
                      const __global char *x, ints apart) {
  ints sums[PANEL][VECTORS][SUMS];
#pragma unroll
  for (int i = 0; i < PANEL; i++) {
    const __global int *sum_x = (const __global int *)(x + i * X_BYTES + 72);
#pragma unroll
    for (int v = 0; v < VECTORS; v++) {
#if SUMS == 2
      sums[i][v][0] = (ints)(-BIAS * sum_x[0]);
      sums[i][v][1] = (ints)(-BIAS * sum_x[1]);
#else
      sums[i][v][0] = (ints)(-BIAS * (sum_x[0] + sum_x[1]));
#endif
    }
  }
#pragma unroll
  for (int j = 0; j < WORDS; j++) {
#pragma unroll
    for (int t = 0; t < PAIRS; t++) {
      const int p = PAIR_NUMBER(j, t);
      pairs from_a[VECTORS];
#pragma unroll
      for (int v = 0; v < VECTORS; v++) {
        from_a[v] = low_bits(word_at(a, HIGH + j, lane + v * LANES), t);
#if HIGH
        from_a[v] |= high_bits(word_at(a, p * HIGH / 16, lane + v * LANES), p);
#endif
      }
#pragma unroll
      for (int i = 0; i < PANEL; i++) {
        int pair_x = ((const __global int *)(x + i * X_BYTES))[p];
#pragma unroll
        for (int v = 0; v < VECTORS; v++)
          sums[i][v][p * SUMS / 16] += madd(from_a[v], AS_PAIRS((ints)pair_x), apart);
      }
    }
  }
#pragma unroll
  for (int i = 0; i < PANEL; i++) {
    float2 scale_x = vload2(0, (const __global float *)(x + i * X_BYTES + 64));
#pragma unroll
    for (int v = 0; v < VECTORS; v++) {
#pragma unroll
      for (int s = 0; s < SUMS; s++)
        acc[i][v] += BY_LANE(convert_float)(sums[i][v][s]) * (scale_x.x * d[v][s]);
#if HALVES == 2
      acc[i][v] += scale_x.y * m[v];
#endif
    }
  }
}

static void clear(floats acc[PANEL][VECTORS]) {
#pragma unroll
  for (int i = 0; i < PANEL; i++)
#pragma unroll
    for (int v = 0; v < VECTORS; v++) acc[i][v] = (floats)0;
}

// Zeros, though a compiler cannot tell (offsets are not negative).
static ints unknown_zeros(long offset) {
#if LANES == 1
  return 0;
#else
  int8 different = (int8)(1, 2, 3, 4, 5, 6, 7, 8) * (int)(offset >> 63);
  #if LANES == 16
  return (ints)(different, different);
  #else
  return different;
  #endif
#endif
}

// Add one record: `a` is its start, x its PANEL rows of blocks.
static void add_record(floats acc[PANEL][VECTORS], const __global char *a, int lane,
                       const __global char *x, ints apart) {
  floats d[VECTORS], m[VECTORS];
#pragma unroll
  for (int v = 0; v < VECTORS; v++) {
    d[v] = HALF_AT(a, 0, lane + v * LANES);
    m[v] = HALVES == 2 ? HALF_AT(a, HALVES - 1, lane + v * LANES) : (floats)0;
  }
  for (int k = 0; k < BLOCKS; k++) {
    const __global char *block = a + HEAD + k * BLOCK;
    fetch_ahead(block);
    floats block_d[VECTORS][SUMS], block_m[VECTORS];
#pragma unroll
    for (int v = 0; v < VECTORS; v++) {
#if SCALES == 0
      block_d[v][0] = d[v];
      block_m[v] = m[v];
#else
      const __global char *scales = block;
  #if SUMS == 2
      block_d[v][0] = d[v] * SCALE_AT(char, scales, 0, lane + v * LANES);
      block_d[v][1] = d[v] * SCALE_AT(char, scales, 1, lane + v * LANES);
      block_m[v] = m[v];
  #else
      block_d[v][0] = d[v] * SCALE_AT(uchar, scales, 0, lane + v * LANES);
      block_m[v] = -m[v] * SCALE_AT(uchar, scales, 1, lane + v * LANES);
  #endif
#endif
    }
    add_block(acc, block + TILE * SCALES, lane, block_d, block_m, x + k * PANEL * X_BYTES, apart);
  }
}

#ifndef ACT

#if LANES > 1
// y[row ...] = v, and what is added there, if anything; y has m rows.
static void store(__global float *y, const __global float *added, floats v, int row, int m) {
  if (row + LANES <= m) {
    if (added) v += BY_LANE(vload)(0, added + row);
    BY_LANE(vstore)(v, 0, y + row);
  } else {
    float each[LANES];
    BY_LANE(vstore)(v, 0, each);
    for (int i = 0; row + i < m; i++) y[row + i] = added ? each[i] + added[row + i] : each[i];
  }
}

#endif

// One launch makes up to three products of the same x: q, k and v, or gate and up. Their tiles are
// numbered one product after the other; what is absent has m = 0. To the first one something may be
// added: columns `step` bytes apart (0 for a bias), or null.
typedef struct {
  __global char *y;
  const __global char *a, *added;
  int m, row;
} Part;

static const __global float *added_at(Part part, int column, long step) {
  return part.added ? (const __global float *)(part.added + column * step) : 0;
}

// The product that item or group `g` works on, and its first row there; each makes `rows` rows.
static Part part_of(int g, int rows, Part first, Part second, Part third) {
  Part part = first;
  int before = (first.m + rows - 1) / rows, with_second = before + (second.m + rows - 1) / rows;
  if (g >= before) {
    part = g < with_second ? second : third;
    g -= g < with_second ? before : with_second;
  }
  part.row = g * rows;
  return part;
}

#define PARTS                                                                                     \
  __global char *y0_buf, long y0_off, const __global char *a0_buf, long a0_off,                   \
      __global char *y1_buf, long y1_off, const __global char *a1_buf, long a1_off,               \
      __global char *y2_buf, long y2_off, const __global char *a2_buf, long a2_off,               \
      const __global char *added_buf, long added_off
#define PART(i, added) (Part){y##i##_buf + y##i##_off, a##i##_buf + a##i##_off, added, m##i, 0}
#define ADDED (added_buf ? added_buf + added_off : 0)

#if LANES > 1
// For vectors. Item (g, c) makes ROWS rows, which lie in one tile, of the columns in `panels`
// panels from c * panels on. The hint keeps compilers from making vectors of vectors.
__kernel __attribute__((vec_type_hint(int8)))
void matmul(PARTS, const __global char *x_buf, long x_off, int m0, int m1, int m2, int records,
            int n, int panels, long step) {
  Part part = part_of(get_global_id(0), ROWS, PART(0, ADDED), PART(1, 0), PART(2, 0));
  const __global char *a = part.a + (long)(part.row / TILE) * records * RECORD;
  ints apart = unknown_zeros(x_off);
  int start = get_global_id(1) * panels, end = min(start + panels, (n + PANEL - 1) / PANEL);
  for (int panel = start; panel < end; panel++) {
    const __global char *x = x_buf + x_off + (long)panel * records * X_RECORD;
    for (int row = part.row; row < part.row + ROWS; row += VECTORS * LANES) {
      floats acc[PANEL][VECTORS];
      clear(acc);
      for (int r = 0; r < records; r++)
        add_record(acc, a + (long)r * RECORD, row % TILE, x + (long)r * X_RECORD, apart);
#pragma unroll
      for (int i = 0; i < PANEL; i++) {
        int column = panel * PANEL + i;
        if (column < n) {
          __global float *y = (__global float *)part.y + (long)column * part.m;
          const __global float *added = added_at(part, column, step);
#pragma unroll
          for (int v = 0; v < VECTORS; v++) store(y, added, acc[i][v], row + v * LANES, part.m);
        }
      }
    }
  }
}
#else
// For lanes. A group is TILE x TEAM items and makes a tile's rows of one panel's columns: item
// (row, t) adds the records t, t + TEAM ...; then the sums meet in local memory.
__kernel void matmul(PARTS, const __global char *x_buf, long x_off, int m0, int m1, int m2,
                     int records, int n, int panels, long step) {
  __local float sums[TEAM][PANEL][TILE];
  Part part = part_of(get_group_id(0), TILE, PART(0, ADDED), PART(1, 0), PART(2, 0));
  int lane = get_local_id(0), t = get_local_id(1), panel = get_global_id(2);
  const __global char *a = part.a + (long)(part.row / TILE) * records * RECORD;
  const __global char *x = x_buf + x_off + (long)panel * records * X_RECORD;
  ints apart = unknown_zeros(x_off);
  floats acc[PANEL][VECTORS];
  clear(acc);
  for (int r = t; r < records; r += TEAM)
    add_record(acc, a + (long)r * RECORD, lane, x + (long)r * X_RECORD, apart);
#pragma unroll
  for (int i = 0; i < PANEL; i++) sums[t][i][lane] = acc[i][0];
  barrier(CLK_LOCAL_MEM_FENCE);
  for (int i = t; i < PANEL; i += TEAM) {
    int column = panel * PANEL + i, row = part.row + lane;
    float sum = 0;
    for (int k = 0; k < TEAM; k++) sum += sums[k][i][lane];
    if (row < part.m && column < n) {
      const __global float *added = added_at(part, column, step);
      ((__global float *)part.y)[(long)column * part.m + row] = added ? sum + added[row] : sum;
    }
  }
}
#endif

#else

// gated: 12 bits of ACT(gate x) * (up x), for the next product. A tile is a block of 32 there, and a
// panel one of x; m is a multiple of 32.
#define GATED                                                                                     \
  __global char *out_buf, long out_off, const __global char *gate_buf, long gate_off,             \
      const __global char *up_buf, long up_off, const __global char *x_buf, long x_off, int m,    \
      int records, int n, int panels

#if LANES > 1
// All rows of a tile, for one panel.
static void make_tile(float y[PANEL][TILE], const __global char *a, const __global char *x,
                      int records, ints apart) {
  for (int lane = 0; lane < TILE; lane += VECTORS * LANES) {
    floats acc[PANEL][VECTORS];
    clear(acc);
    for (int r = 0; r < records; r++)
      add_record(acc, a + (long)r * RECORD, lane, x + (long)r * X_RECORD, apart);
#pragma unroll
    for (int i = 0; i < PANEL; i++)
#pragma unroll
      for (int v = 0; v < VECTORS; v++) BY_LANE(vstore)(acc[i][v], 0, y[i] + lane + v * LANES);
  }
}

// For vectors. Item (g, c) makes TILES tiles of the columns that it makes in `matmul`, the gate's and
// then the other's: memory is read in long runs.
__kernel __attribute__((vec_type_hint(int8))) void gated(GATED) {
  int first = get_global_id(0) * TILES, tiles = min(TILES, m / TILE - first);
  const __global char *gate = gate_buf + gate_off, *up = up_buf + up_off;
  ints apart = unknown_zeros(x_off);
  int start = get_global_id(1) * panels, end = min(start + panels, (n + PANEL - 1) / PANEL);
  for (int panel = start; panel < end; panel++) {
    const __global char *x = x_buf + x_off + (long)panel * records * X_RECORD;
    float both[2][TILES][PANEL][TILE];
    for (int which = 0; which < 2; which++)
      for (int t = 0; t < tiles; t++)
        make_tile(both[which][t], (which ? up : gate) + (long)(first + t) * records * RECORD, x,
                  records, apart);
    for (int t = 0; t < tiles; t++) {
      __global char *out =
          out_buf + out_off + ((long)panel * (m / TILE) + first + t) * PANEL * X_BYTES;
      for (int i = 0; i < PANEL; i++) {
        float16 low = vload16(0, both[0][t][i]), high = vload16(1, both[0][t][i]);
        low = ACT(low) * vload16(0, both[1][t][i]);
        high = ACT(high) * vload16(1, both[1][t][i]);
        quantize_block(out + i * X_BYTES, low, high);
      }
    }
  }
}
#else
// For lanes, as `matmul`.
__kernel void gated(GATED) {
  __local float sums[2][TEAM][PANEL][TILE], both[PANEL][TILE];
  int tile = get_group_id(0), lane = get_local_id(0), t = get_local_id(1);
  int panel = get_global_id(2);
  const __global char *x = x_buf + x_off + (long)panel * records * X_RECORD;
  ints apart = unknown_zeros(x_off);
  for (int which = 0; which < 2; which++) {
    const __global char *a =
        (which ? up_buf + up_off : gate_buf + gate_off) + (long)tile * records * RECORD;
    floats acc[PANEL][VECTORS];
    clear(acc);
    for (int r = t; r < records; r += TEAM)
      add_record(acc, a + (long)r * RECORD, lane, x + (long)r * X_RECORD, apart);
#pragma unroll
    for (int i = 0; i < PANEL; i++) sums[which][t][i][lane] = acc[i][0];
  }
  barrier(CLK_LOCAL_MEM_FENCE);
  for (int i = t; i < PANEL; i += TEAM) {
    float gate = 0, up = 0;
    for (int k = 0; k < TEAM; k++) {
      gate += sums[0][k][i][lane];
      up += sums[1][k][i][lane];
    }
    both[i][lane] = ACT(gate) * up;
  }
  barrier(CLK_LOCAL_MEM_FENCE);
  __global char *out = out_buf + out_off + ((long)panel * (m / TILE) + tile) * PANEL * X_BYTES;
  for (int i = t; i < PANEL; i += TEAM)
    if (lane == 0) quantize_block(out + i * X_BYTES, vload16(0, both[i]), vload16(1, both[i]));
}
#endif
#endif
