// tiled_parts: what kernels of row tiles are given: up to three products of the same x, or gate and
// up.
#if !defined(ACT) || defined(CHAINED)

// One launch makes up to three products of the same x: q, k and v, or gate and up. Their tiles are
// numbered one product after the other; what is absent has m = 0. Each may have a bias [m]; then it
// is multiplied by `factor`, and to the first one something may be added: columns `step` bytes apart
// (0 where all are the same).
typedef struct {
  __global char *y;
  const __global char *a;
  const __global float *bias;
  const __global char *added;
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

#ifndef CHAINED
#define PARTS                                                                                     \
  __global char *y0_buf, const __global char *a0_buf, __global char *y1_buf,                      \
      const __global char *a1_buf, __global char *y2_buf, const __global char *a2_buf,            \
      const __global char *b0_buf, const __global char *b1_buf, const __global char *b2_buf,      \
      const __global char *added_buf
#define OFFSETS_OF_PARTS                                                                          \
  long y0_off, a0_off, y1_off, a1_off, y2_off, a2_off, b0_off, b1_off, b2_off, added_off
#define PART(i, added)                                                                            \
  (Part){y##i##_buf + given.y##i##_off, a##i##_buf + given.a##i##_off,                            \
         (const __global float *)(b##i##_buf ? b##i##_buf + given.b##i##_off : 0), added,         \
         given.m##i, 0}
#define ADDED (added_buf ? added_buf + given.added_off : 0)

#ifdef NORMED
typedef struct {
  OFFSETS_OF_PARTS;
  NUMBERS_OF_ROW;
  int m0, m1, m2, records, each;
} Numbers;
#else
typedef struct {
  OFFSETS_OF_PARTS;
  long x_off;
  int m0, m1, m2, records, n, panels;
  long step;
  float factor;
} Numbers;
#endif

#endif

#endif

#ifdef ACT

// gated: 12 bits of ACT(gate x) * (up x), for the next product. A tile is a block of 32 there, and a
// panel one of x; m is a multiple of 32.
#define GATED                                                                                     \
  __global char *out_buf, const __global char *gate_buf, const __global char *up_buf

#ifdef CHAINED
#elif defined(NORMED)
typedef struct {
  long out_off, gate_off, up_off;
  NUMBERS_OF_ROW;
  int m, records, each;
} Numbers;
#else
typedef struct {
  long out_off, gate_off, up_off, x_off;
  int m, records, n, panels;
} Numbers;
#endif

#endif
