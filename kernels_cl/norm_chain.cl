// norm_chain: what stands between two products row by row, in one go.
//
//   first       h[i, row] = norm1(x[:, row])[i] * w1[i] + b1[i] + r[i, row]     else h is x
//   quantizes   q[:, row] = 12 bits of norm2(h[:, row])[i] * w2[i] + b2[i]       (quantize.cl)
//
// norm1 and norm2 are NONE, RMS: v / sqrt(mean(v^2) + eps), or LAYER: the same of v - mean(v). A
// group of LOCAL items makes `per_group` rows, one after the other. f32, n0 a multiple of 32,
// dimension 0 contiguous, h packed.

#define RMS 1
#define LAYER 2

typedef struct {
  float shift, factor;
} Norm;

static Norm norm_of(const __global float *v, int n0, int kind, float eps, __local float *part) {
  const __global char *x = (const __global char *)v;
  Norm norm;
  norm.shift = 0.0f;
  norm.factor = 1.0f;
  if (kind == LAYER) {  // the second sum is what rounding left of the first
    norm.shift = row_sum(x, 4, n0, 0.0f, part) / n0;
    norm.shift += row_sum(x, 4, n0, norm.shift, part) / n0;
  }
  if (kind) norm.factor = 1.0f / sqrt(row_squares(x, 4, n0, norm.shift, part) / n0 + eps);
  return norm;
}

__kernel __attribute__((reqd_work_group_size(LOCAL, 1, 1))) void norm_chain(
    __global char *h_buf, long h_off, __global char *q_buf, long q_off,
    const __global char *x_buf, long x_off, const __global char *w1_buf, long w1_off,
    const __global char *b1_buf, long b1_off, const __global char *r_buf, long r_off,
    const __global char *w2_buf, long w2_off, const __global char *b2_buf, long b2_off, int n0,
    int n1, int n2, int rows, long x1, long x2, long x3, long r1, long r2, long r3, int first,
    int quantizes, int norm1, int norm2, int has_w1, int has_b1, int adds, int has_w2, int has_b2,
    int panel, int per_group, float eps1, float eps2) {
  __local float part[LOCAL];
  const __global float *w1 = (const __global float *)(w1_buf + w1_off);
  const __global float *b1 = (const __global float *)(b1_buf + b1_off);
  const __global float *w2 = (const __global float *)(w2_buf + w2_off);
  const __global float *b2 = (const __global float *)(b2_buf + b2_off);
  int first_row = get_group_id(0) * per_group, me = get_local_id(0);
  for (int row = first_row; row < min(first_row + per_group, rows); row++) {
    int i1 = row % n1, i2 = row / n1 % n2, i3 = row / n1 / n2;
    const __global float *x =
        (const __global float *)(x_buf + x_off + i1 * x1 + i2 * x2 + i3 * x3);
    if (first) {
      const __global float *r =
          (const __global float *)(r_buf + r_off + i1 * r1 + i2 * r2 + i3 * r3);
      __global float *h = (__global float *)(h_buf + h_off) + (long)row * n0;
      Norm norm = norm_of(x, n0, norm1, eps1, part);
      for (int i = me; i < n0 / W; i += LOCAL) {
        floatW v = (CAT(vload, W)(i, x) - norm.shift) * norm.factor;
        if (has_w1) v *= CAT(vload, W)(i, w1);
        if (has_b1) v += CAT(vload, W)(i, b1);
        if (adds) v += CAT(vload, W)(i, r);
        CAT(vstore, W)(v, i, h);
      }
      x = h;
#if LOCAL > 1
      barrier(CLK_GLOBAL_MEM_FENCE);  // items read below what others wrote to h
#endif
    }
    if (quantizes) {
      Norm norm = norm_of(x, n0, norm2, eps2, part);
      for (int b = me; b < n0 / 32; b += LOCAL) {
        float16 low = (vload16(2 * b, x) - norm.shift) * norm.factor;
        float16 high = (vload16(2 * b + 1, x) - norm.shift) * norm.factor;
        if (has_w2) {
          low *= vload16(2 * b, w2);
          high *= vload16(2 * b + 1, w2);
        }
        if (has_b2) {
          low += vload16(2 * b, b2);
          high += vload16(2 * b + 1, b2);
        }
        quantize_into(q_buf + q_off, n0 / 32, panel, rows, row, b, low, high);
      }
    }
  }
}
