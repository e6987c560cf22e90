// norm_chain: what stands between two products row by row, in one go.
//
//   FIRST       h[i, row] = norm1(x[:, row])[i] * w1[i] + b1[i] + r[i, row]     else h is x
//   PANELS      q[:, row] = 12 bits of norm2(h[:, row])[i] * w2[i] + b2[i]       (quantize.cl)
//
// NORM1 and NORM2 are none, rms: v / sqrt(mean(v^2) + eps), or layer: the same of v - mean(v). Which
// parts there are is compiled in: PoCL crashes where a barrier stands under a condition. A group of
// LOCAL items makes `per_group` rows, one after the other. f32, n0 a multiple of 32, dimension 0
// contiguous, h packed.

#ifndef FIRST
  #define FIRST 1
#endif
#ifndef PANELS
  #define PANELS 1
#endif
#ifndef NORM1
  #define NORM1 none
#endif
#ifndef NORM2
  #define NORM2 rms
#endif

#define ROW(v) (const __global char *)(v), 4, n0  // as row_sums.cl takes it

// What is taken off, and what the rest is multiplied by.
#define none_shift(v) 0.0f
#define rms_shift(v) 0.0f
#define layer_shift(v) mean_of(v, n0, part)
#define none_factor(v, shift, eps) 1.0f
#define rms_factor(v, shift, eps) (1.0f / sqrt(row_squares(ROW(v), 0.0f, part) / n0 + eps))
#define layer_factor(v, shift, eps) (1.0f / sqrt(row_squares(ROW(v), shift, part) / n0 + eps))

// The second sum is what rounding left of the first.
WITH_LOCAL float mean_of(const __global float *v, int n0, __local float *part) {
  float mean = row_sum(ROW(v), 0.0f, part) / n0;
  return mean + row_sum(ROW(v), mean, part) / n0;
}

typedef struct {
  long h_off, q_off, x_off, w1_off, b1_off, r_off, w2_off, b2_off;
  int n0, n1, n2, rows;
  long x1, x2, x3, r1, r2, r3;
  int has_w1, has_b1, adds, has_w2, has_b2, panel, per_group;
  float eps1, eps2;
} Numbers;

__kernel __attribute__((reqd_work_group_size(LOCAL, 1, 1))) void norm_chain(
    __global char *h_buf, __global char *q_buf, const __global char *x_buf,
    const __global char *w1_buf, const __global char *b1_buf, const __global char *r_buf,
    const __global char *w2_buf, const __global char *b2_buf, NUMBERS_GIVEN) {
  int n0 = given.n0, n1 = given.n1, n2 = given.n2, rows = given.rows;
  __local float part[LOCAL];
  const __global float *w1 = (const __global float *)(w1_buf + given.w1_off);
  const __global float *b1 = (const __global float *)(b1_buf + given.b1_off);
  const __global float *w2 = (const __global float *)(w2_buf + given.w2_off);
  const __global float *b2 = (const __global float *)(b2_buf + given.b2_off);
  int first_row = get_group_id(0) * given.per_group, me = get_local_id(0);
  for (int row = first_row; row < min(first_row + given.per_group, rows); row++) {
    int i1 = row % n1, i2 = row / n1 % n2, i3 = row / n1 / n2;
    const __global float *x =
        (const __global float *)(x_buf + given.x_off + i1 * given.x1 + i2 * given.x2 +
                                 i3 * given.x3);
#if FIRST
    {
      const __global float *r =
          (const __global float *)(r_buf + given.r_off + i1 * given.r1 + i2 * given.r2 +
                                   i3 * given.r3);
      __global float *h = (__global float *)(h_buf + given.h_off) + (long)row * n0;
      float shift = CAT(NORM1, _shift)(x), factor = CAT(NORM1, _factor)(x, shift, given.eps1);
      for (int i = me; i < n0 / W; i += LOCAL) {
        floatW v = (VLOADW(i, x) - shift) * factor;
        if (given.has_w1) v *= VLOADW(i, w1);
        if (given.has_b1) v += VLOADW(i, b1);
        if (given.adds) v += VLOADW(i, r);
        CAT(vstore, W)(v, i, h);
      }
      x = h;
    }
  #if PANELS && LOCAL > 1
    barrier(CLK_GLOBAL_MEM_FENCE);  // items read below what others wrote to h
  #endif
#endif
#if PANELS
    {
      float shift = CAT(NORM2, _shift)(x), factor = CAT(NORM2, _factor)(x, shift, given.eps2);
      for (int b = me; b < n0 / 32; b += LOCAL) {
        float16 low = (VLOAD16(2 * b, x) - shift) * factor;
        float16 high = (VLOAD16(2 * b + 1, x) - shift) * factor;
        if (given.has_w2) {
          low *= VLOAD16(2 * b, w2);
          high *= VLOAD16(2 * b + 1, w2);
        }
        if (given.has_b2) {
          low += VLOAD16(2 * b, b2);
          high += VLOAD16(2 * b + 1, b2);
        }
        quantize_into(q_buf + given.q_off, n0 / 32, given.panel, rows, row, b, low, high);
      }
    }
#endif
  }
}
