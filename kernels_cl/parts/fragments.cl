// fragments: products of 8-bit or 16-bit numbers that the lanes of a wave make together, with the
// matrix units of those that have some. MATRIX names the way, of which a trial (matrix_trial.cl) gave
// what numbers by themselves give; nothing but the one that is named is compiled.
//
//   sum[row, column] += a[row, k] x[k, column]     of FRAGMENT_ROWS x FRAGMENT_COLUMNS sums
//
// Rows of a, and columns of x, lie in local memory, A_STRIDE and X_STRIDE words of 32 bits apart. A
// word is four bytes, two halves that are neighbours in k, or a float (FRAGMENT_BITS 8, 16 or 32); a
// step takes STEP words of each. A lane brings A_WORDS and X_WORDS of them and keeps LANE_SUMS sums: macros say which, by the
// lane's number in its wave of WAVE. Waves of a group share 64 x 64 sums: each makes WAVE_ROWS x
// WAVE_COLUMNS. tests/kernels/test_fragments.py holds the macros against the vendors' manuals.

#ifndef MATRIX
  #define MATRIX PLAIN
#endif
#define matrix_PLAIN 0
#define matrix_IMMA 1    // NVIDIA from sm_80 on, bytes
#define matrix_HMMA 2    // NVIDIA from sm_80 on, halves
#define matrix_WMMA 3    // RDNA 3
#define matrix_MFMA 4    // CDNA
#define matrix_DPAS8 5   // Arc: 8 lanes
#define matrix_DPAS16 6  // Xe-HPC: 16 lanes
#define MATRIX_IS(name) (CAT(matrix_, MATRIX) == CAT(matrix_, name))

// Statements for 0 to n - 1, as Intel's compiler leaves loops in a kernel of this size rolled, and
// arrays then lie in memory.
#define REPEAT(n, make) CAT(REPEAT_, n)(make)
#define REPEAT_1(make) make(0)
#define REPEAT_2(make) make(0) make(1)
#define REPEAT_3(make) REPEAT_2(make) make(2)
#define REPEAT_4(make) REPEAT_3(make) make(3)
#define REPEAT_8(make) REPEAT_4(make) make(4) make(5) make(6) make(7)
#define REPEAT_32(make) _Pragma("unroll") for (int n = 0; n < 32; n++) { make(n) }

#ifndef FRAGMENT_BITS
  #if X_BITS == 16
    #define FRAGMENT_BITS 16
  #else
    #define FRAGMENT_BITS 8
  #endif
#endif
#ifndef X_STRIDE
  #define X_STRIDE 20  // a block of x and what follows it: 80 bytes
  #if FRAGMENT_BITS == 16
    #define A_STRIDE 20  // 32 halves, and so much more that no two lanes want the same bank
  #else
    #define A_STRIDE 12  // 32 bytes, likewise
  #endif
#endif
#if FRAGMENT_BITS == 8
typedef int Sum;
#else
typedef float Sum;
#endif

#if MATRIX_IS(PLAIN)
  // A group is one wave. Lanes bring words of their own rows and columns.
  #define WAVE 128
  #define FRAGMENT_ROWS 64
  #define FRAGMENT_COLUMNS 64
  #define WAVE_ROWS 64
  #define WAVE_COLUMNS 64
  #define STEP 1
  #define A_WORDS 8
  #define X_WORDS 4
  #define A_ROW(lane, i) ((i) * 8 + (lane) % 8)
  #define A_WORD(lane, i) 0
  #define X_COLUMN(lane, i) ((i) * 16 + (lane) / 8)
  #define X_WORD(lane, i) 0
  #define LANE_SUMS 32
  #define SUM_ROW(lane, i) ((i) % 8 * 8 + (lane) % 8)
  #define SUM_COLUMN(lane, i) ((i) / 8 * 16 + (lane) / 8)

static void multiply(Sum sum[LANE_SUMS], const uint a[A_WORDS], const uint x[X_WORDS]) {
  #if FRAGMENT_BITS == 32
    #pragma unroll
  for (int i = 0; i < LANE_SUMS; i++)
    sum[i] += as_float(a[i % A_WORDS]) * as_float(x[i / A_WORDS]);
  #elif FRAGMENT_BITS == 16
  float2 of_a[A_WORDS];
    #pragma unroll
  for (int i = 0; i < A_WORDS; i++) of_a[i] = vload_half2(0, (const half *)&a[i]);
    #pragma unroll
  for (int c = 0; c < X_WORDS; c++) {
    float2 of_x = vload_half2(0, (const half *)&x[c]);
    #pragma unroll
    for (int i = 0; i < A_WORDS; i++)
      sum[c * A_WORDS + i] += of_a[i].x * of_x.x + of_a[i].y * of_x.y;
  }
  #else
    #pragma unroll
  for (int i = 0; i < LANE_SUMS; i++)
    sum[i] = dot4(a[i % A_WORDS], x[i / A_WORDS], sum[i]);
  #endif
}

#elif MATRIX_IS(IMMA) || MATRIX_IS(HMMA)
  // mma.sync.m16n8k32 of bytes and .m16n8k16 of halves have the same words; of bytes .m16n8k16 takes
  // half as many, where 16 products have a scale of their own.
  #define WAVE 32
  #define FRAGMENT_ROWS 16
  #define FRAGMENT_COLUMNS 8
  #define WAVE_ROWS 32
  #define WAVE_COLUMNS 32
  #if MATRIX_IS(IMMA) && SUMS == 2
    #define STEP 4
    #define A_WORDS 2
    #define X_WORDS 1
  #else
    #define STEP 8
    #define A_WORDS 4
    #define X_WORDS 2
  #endif
  #define A_ROW(lane, i) ((lane) / 4 + (i) % 2 * 8)
  #define A_WORD(lane, i) ((lane) % 4 + (i) / 2 * 4)
  #define X_COLUMN(lane, i) ((lane) / 4)
  #define X_WORD(lane, i) ((lane) % 4 + (i) * 4)
  #define LANE_SUMS 4
  #define SUM_ROW(lane, i) ((lane) / 4 + (i) / 2 * 8)
  #define SUM_COLUMN(lane, i) ((lane) % 4 * 2 + (i) % 2)

static void multiply(Sum sum[LANE_SUMS], const uint a[A_WORDS], const uint x[X_WORDS]) {
  #if MATRIX_IS(HMMA)
  __asm__("mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 "
          "{%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, {%0, %1, %2, %3};"
          : "+f"(sum[0]), "+f"(sum[1]), "+f"(sum[2]), "+f"(sum[3])
          : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(x[0]), "r"(x[1]));
  #elif STEP == 8
  __asm__("mma.sync.aligned.m16n8k32.row.col.s32.s8.s8.s32 "
          "{%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, {%0, %1, %2, %3};"
          : "+r"(sum[0]), "+r"(sum[1]), "+r"(sum[2]), "+r"(sum[3])
          : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(x[0]), "r"(x[1]));
  #else
  __asm__("mma.sync.aligned.m16n8k16.row.col.s32.s8.s8.s32 "
          "{%0, %1, %2, %3}, {%4, %5}, {%6}, {%0, %1, %2, %3};"
          : "+r"(sum[0]), "+r"(sum[1]), "+r"(sum[2]), "+r"(sum[3])
          : "r"(a[0]), "r"(a[1]), "r"(x[0]));
  #endif
}

#elif MATRIX_IS(WMMA)
  // Lanes 16 to 31 bring what lanes 0 to 15 do.
  #pragma OPENCL EXTENSION cl_khr_fp16 : enable
  #define WAVE 32
  #define FRAGMENT_ROWS 16
  #define FRAGMENT_COLUMNS 16
  #define WAVE_ROWS 32
  #define WAVE_COLUMNS 32
  #define STEP 8
  #define A_WORDS 8
  #define X_WORDS 8
  #define A_ROW(lane, i) ((lane) % 16)
  #define A_WORD(lane, i) (i)
  #define X_COLUMN(lane, i) ((lane) % 16)
  #define X_WORD(lane, i) (i)
  #define LANE_SUMS 8
  #define SUM_ROW(lane, i) ((i) * 2 + (lane) / 16)
  #define SUM_COLUMN(lane, i) ((lane) % 16)

static void multiply(Sum sum[LANE_SUMS], const uint a[A_WORDS], const uint x[X_WORDS]) {
  vstore8(__builtin_amdgcn_wmma_f32_16x16x16_f16_w32(
              __builtin_astype(vload8(0, a), half16), __builtin_astype(vload8(0, x), half16),
              vload8(0, sum)),
          0, sum);
}

#elif MATRIX_IS(MFMA)
  #pragma OPENCL EXTENSION cl_khr_fp16 : enable
  #define WAVE 64
  #define FRAGMENT_ROWS 16
  #define FRAGMENT_COLUMNS 16
  #define WAVE_ROWS 32
  #define WAVE_COLUMNS 64
  #define STEP 8
  #define A_WORDS 2
  #define X_WORDS 2
  #define A_ROW(lane, i) ((lane) % 16)
  #define A_WORD(lane, i) ((lane) / 16 * 2 + (i))
  #define X_COLUMN(lane, i) ((lane) % 16)
  #define X_WORD(lane, i) ((lane) / 16 * 2 + (i))
  #define LANE_SUMS 4
  #define SUM_ROW(lane, i) ((lane) / 16 * 4 + (i))
  #define SUM_COLUMN(lane, i) ((lane) % 16)

static void multiply(Sum sum[LANE_SUMS], const uint a[A_WORDS], const uint x[X_WORDS]) {
  vstore4(__builtin_amdgcn_mfma_f32_16x16x16f16(__builtin_astype(vload2(0, a), half4),
                                                __builtin_astype(vload2(0, x), half4),
                                                vload4(0, sum), 0, 0, 0),
          0, sum);
}

#elif MATRIX_IS(DPAS8) || MATRIX_IS(DPAS16)
  // A lane is a column; of a it brings one word of each row, or with 16 lanes one half.
  #define WAVE_COLUMNS 32
  #if MATRIX_IS(DPAS8)
    #define WAVE 8
    #define WAVE_ROWS 8
    #define A_WORD(lane, i) (lane)
  #else
    #define WAVE 16
    #define WAVE_ROWS 16
    #define A_WORD(lane, i) ((lane) / 2)
    #define A_HALF(lane) ((lane) % 2)
  #endif
  #define FRAGMENT_ROWS 8
  #define FRAGMENT_COLUMNS WAVE
  #define STEP 8
  #define A_WORDS 8
  #define X_WORDS 8
  #define A_ROW(lane, i) (i)
  #define X_COLUMN(lane, i) (lane)
  #define X_WORD(lane, i) (i)
  #define LANE_SUMS 8
  #define SUM_ROW(lane, i) (i)
  #define SUM_COLUMN(lane, i) (lane)

  #if MATRIX_IS(DPAS8)
float8 __attribute__((overloadable))
intel_sub_group_f16_f16_matrix_mad_k16(int8 a, int8 x, float8 sum);
  #else
float8 __attribute__((overloadable))
intel_sub_group_f16_f16_matrix_mad_k16(short8 a, int8 x, float8 sum);
  #endif

static void multiply(Sum sum[LANE_SUMS], const uint a[A_WORDS], const uint x[X_WORDS]) {
  #if MATRIX_IS(DPAS8)
  int8 rows = as_int8(vload8(0, a));
  #else
  short8 rows = convert_short8(
      as_int8(vload8(0, a)) >> (int8)(16 * A_HALF((int)get_local_id(0) % WAVE)));
  #endif
  vstore8(intel_sub_group_f16_f16_matrix_mad_k16(rows, as_int8(vload8(0, x)), vload8(0, sum)), 0,
          sum);
}
#endif

// One step of products: words of FRAGMENT_ROWS rows from `a` on and of as many columns from `x` on.
WITH_LOCAL void add_fragment(Sum sum[LANE_SUMS], const __local uint *a, const __local uint *x,
                         uint lane) {
  uint of_a[A_WORDS], of_x[X_WORDS];
#define BRING_A(i) of_a[i] = a[A_ROW(lane, i) * A_STRIDE + A_WORD(lane, i)];
#define BRING_X(i) of_x[i] = x[X_COLUMN(lane, i) * X_STRIDE + X_WORD(lane, i)];
  REPEAT(A_WORDS, BRING_A)
  REPEAT(X_WORDS, BRING_X)
  multiply(sum, of_a, of_x);
}

#define SIDE 64    // rows, and columns, of a group
#define ITEMS 128
#define WIDE_ITEMS __attribute__((reqd_work_group_size(ITEMS, 1, 1)))

// Each fragment of a wave, and an item's place among the group's sums.
#if WAVE_ROWS == FRAGMENT_ROWS && WAVE_COLUMNS == FRAGMENT_COLUMNS
  #define EACH_FRAGMENT(make) make(0, 0)
#elif WAVE_ROWS == FRAGMENT_ROWS
  #define EACH_FRAGMENT(make) make(0, 0) make(0, 1) make(0, 2) make(0, 3)
#elif WAVE_COLUMNS == 2 * FRAGMENT_COLUMNS
  #define EACH_FRAGMENT(make) make(0, 0) make(1, 0) make(0, 1) make(1, 1)
#else
  #define EACH_FRAGMENT(make) \
    make(0, 0) make(1, 0) make(0, 1) make(1, 1) make(0, 2) make(1, 2) make(0, 3) make(1, 3)
#endif
#define FRAGMENTS_DOWN (WAVE_ROWS / FRAGMENT_ROWS)
#define FRAGMENTS_ACROSS (WAVE_COLUMNS / FRAGMENT_COLUMNS)
#define ITEM ((uint)get_local_id(0))
#define LANE (ITEM % WAVE)
#define WAVE_ROW (ITEM / WAVE % (SIDE / WAVE_ROWS) * WAVE_ROWS)
#define WAVE_COLUMN (ITEM / WAVE / (SIDE / WAVE_ROWS) * WAVE_COLUMNS)
#define ROW_AT(down, i) (WAVE_ROW + (down) * FRAGMENT_ROWS + SUM_ROW(LANE, i))
#define COLUMN_AT(across, i) (WAVE_COLUMN + (across) * FRAGMENT_COLUMNS + SUM_COLUMN(LANE, i))
