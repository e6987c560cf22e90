// tiled_lanes: what products of row tiles share: the defines, vectors by rows of `a` (lanes), and
// where the rows of x lie. A program is, in this order,
//
//   tiled_scattered.cl  of matmul_experts only: rows of x that are taken together lie apart
//   tiled_lanes.cl      this
//   tiled_floats.cl     add_record for weights that are floats      (FLOATS is defined)
//   intrinsics.cl, tiled_vectors.cl  vectors by rows, and instructions for bytes
//   tiled_dots.cl       its integer sums where bytes are multiplied
//   tiled_sums.cl       add_record for quantised weights, with one block worked through by hand
//   tiled_bytes.cl      what is otherwise below where x is 8 bits
//   tiled_stage.cl      the same for several columns: weights are unpacked once (STAGED is defined)
//   matmul_tiled.cl     or matmul_experts.cl: kernels that call add_record and store the sums
//
// Each has kernels for vectors (LANES > 1: an item makes ROWS rows) and for lanes (LANES = 1: an
// item makes one row, TILE x TEAM items a group).

// How work is shared out: launches/matmul_tiled.py. AHEAD: bytes that weights are fetched before they
// are used, where that is defined.
#ifndef PANEL
  #define PANEL 1    // rows of x that an item makes at once: 1, 2, 4 or 8
#endif
#ifndef ROWS
  #define ROWS 32    // rows of `a` that an item makes: 8, 16 or 32; 1 where items are lanes
#endif
#ifndef LANES
  #define LANES 8    // rows of `a` in a vector: 8 or 16; 1 where items are lanes
#endif
#ifndef VECTORS
  #define VECTORS 1  // such vectors that meet PANEL rows of x at once, as registers hold the sums
#endif
#ifndef CHUNK
  #define CHUNK PANEL // most rows of x that an item makes, one panel after the other
#endif
#ifndef PANELS
  #define PANELS 1   // panels that an item makes where records are SHARED
#endif
#ifndef TILES
  #define TILES 1    // tiles that an item of `gated` makes, where items are not lanes
#endif
#ifndef TEAM
  #define TEAM 1     // items that share a row's records; where SHARED, that share them for more columns
#endif
// ACT: silu or one of the gelus, by its macro in common.cl; defined for `gated`, which stands alone then.

// What a record holds: tiles/schemes.py; picture: tiles/layouts.py. FLOATS is the type of weights
// that are floats, which need nothing else.
#ifndef BLOCKS
  #define BLOCKS 1   // blocks of 32 a record
  #define HALVES 2   // halves at a record's head: d, or d and m, or a d for each of two sums
  #define WORDS 4    // words a row and block: 2 of two bits an element, 4 of four, 8 of eight
  #define HIGH 0     // words of further bits: 1 of a bit, 2 of two bits an element
  #define SCALES 0   // bytes a row and block that scale d (and m)
  #define SUMS 1     // sums a block: 1, or 2 of 16 elements, each with a scale of its own
  #define BIAS 0     // what q is stored with too much
  #define FACTOR 1.0f
  #define BF16 0     // 1 where halves are of bf16
#endif
// TABLE: the sixteen numbers that q counts, where it does.

#define TILE 32  // rows whose numbers stand side by side

// Bytes of a record, of what stands at its start, and of a block.
#ifdef FLOATS
  #define RECORD (32 * TILE * SIZE(FLOATS))
#else
  #define HEAD (2 * TILE * HALVES)
  #define BLOCK (TILE * (4 * (WORDS + HIGH) + SCALES))
  #define RECORD (HEAD + BLOCKS * BLOCK)
#endif

#if LANES == 16 && !defined(__clang__)
  #undef LANES
  #define LANES 8    // sums take vectors of 32 shorts, which OpenCL C does not have
#endif

// BY_LANE(float) is a vector of rows: `floats`; `ints` likewise.
#if LANES == 1
  #define BY_LANE(name) name
  #define LOAD_LANES(p) (*(p))
  #define LOAD_HALVES(p) vload_half(0, p)
#elif LANES == 16
  #define BY_LANE(name) name##16
  #define LOAD_LANES(p) vload16(0, p)
  #define LOAD_HALVES(p) vload_half16(0, p)
#else
  #define BY_LANE(name) name##8
  #define LOAD_LANES(p) vload8(0, p)
  #define LOAD_HALVES(p) vload_half8(0, p)
#endif
typedef BY_LANE(int) ints;
typedef BY_LANE(float) floats;

// Where records are read: in memory, or where a group has brought them (SHARED, of lanes).
#ifdef SHARED
  #define RECORDS_IN __local
#else
  #define RECORDS_IN __global
#endif

// Where x is read: in memory, or where a group of lanes has normalised the one row (tiled_normed.cl).
#if defined(NORMED) && LANES == 1
  #define X_IN __local
#else
  #define X_IN __global
#endif

// Number i of every lane's row, in a run of them: a half, or the upper half of a float.
#define HALF_AT(p, i, lane) LOAD_HALVES((const RECORDS_IN half *)(p) + (i) * TILE + (lane))
#define UPPER(p) BY_LANE(as_float)(BY_LANE(convert_uint)(LOAD_LANES(p)) << 16)
#define BF16_AT(p, i, lane) UPPER((const RECORDS_IN ushort *)(p) + (i) * TILE + (lane))

// Block b of row i of x: PANEL rows lie together block by block; or each somewhere else, and x is
// where: to lanes the number of its first block, which takes fewer registers.
#if defined(SCATTERED) && LANES == 1
typedef struct {
  const __global char *x;
  int first[PANEL];
} Scattered;
typedef const Scattered *Columns;
  #define X_AT(x, i, b) ((x)->x + (long)((x)->first[i] + (b)) * X_BYTES)
#elif defined(SCATTERED)
typedef const __global char *const *Columns;
  #define X_AT(x, i, b) ((x)[i] + (long)(b) * X_BYTES)
#elif defined(NORMED) && LANES == 1
typedef const X_IN char *Columns;
  #define X_AT(x, i, b) ((x) + (b) * X_BYTES)
#else
typedef const X_IN char *Columns;
  #define X_AT(x, i, b) ((x) + ((long)(b) * PANEL + (i)) * X_BYTES)
#endif

// With few rows of x memory is the limit: fetch what is needed some microseconds later, a part of a
// block's bytes at a time. A core waits for some twelve lines of its cache at once, and further ones
// hold up what it computes. Unrolled, as Clang takes vectors of halves apart that are loaded before a
// loop and used behind it.
WITH_SHARED void fetch_ahead(const RECORDS_IN char *a, const int part, const int parts) {
#if defined(AHEAD) && !defined(SHARED)
  const int bytes = RECORD / BLOCKS / parts;
  #pragma unroll
  for (int i = 0; i < bytes; i += 64) fetch(a + AHEAD + part * bytes + i, 64);
#endif
}

static void clear(floats acc[PANEL][VECTORS]) {
#pragma unroll
  for (int i = 0; i < PANEL; i++)
#pragma unroll
    for (int v = 0; v < VECTORS; v++) acc[i][v] = (floats)0;
}

#if LANES > 1
// y[row ...] = (v + bias) * factor, and what is added there, if anything; y has m rows.
static void store(__global float *y, const __global float *bias, float factor,
                  const __global float *added, floats v, int row, int m) {
  if (row + LANES <= m) {
    if (bias) v += BY_LANE(vload)(0, bias + row);
    v *= factor;
    if (added) v += BY_LANE(vload)(0, added + row);
    BY_LANE(vstore)(v, 0, y + row);
  } else {
    float each[LANES];
    BY_LANE(vstore)(v, 0, each);
    for (int i = 0; row + i < m; i++)
      y[row + i] = (each[i] + (bias ? bias[row + i] : 0)) * factor + (added ? added[row + i] : 0);
  }
}
#endif
