// norm_chain: what follows a matmul row by row, in one go.
//
//   adds        h[i, row] = x[i, row] / rms(x[:, row]) * w1[i] + r[i, row]      else h is x
//   quantizes   q[:, row] = 12 bits of h[i, row] / rms(h[:, row]) * w2[i]       (quantize.cl)
//
// with rms(v) = sqrt(mean(v^2) + eps). A group of LOCAL items makes `per_group` rows, one after the
// other. f32, n0 a multiple of 32, dimension 0 contiguous, h packed.

static float factor_of(float sum, int n0, float eps) { return 1.0f / sqrt(sum / n0 + eps); }

__kernel __attribute__((reqd_work_group_size(LOCAL, 1, 1))) void norm_chain(
    __global char *h_buf, long h_off, __global char *q_buf, long q_off,
    const __global char *x_buf, long x_off, const __global char *w1_buf, long w1_off,
    const __global char *r_buf, long r_off, const __global char *w2_buf, long w2_off, int n0, int n1,
    int n2, int rows, long x1, long x2, long x3, long r1, long r2, long r3, int adds, int quantizes,
    int has_w1, int has_w2, int panel, int per_group, float eps1, float eps2) {
  __local float part[LOCAL];
  const __global float *w1 = (const __global float *)(w1_buf + w1_off);
  const __global float *w2 = (const __global float *)(w2_buf + w2_off);
  int first_row = get_group_id(0) * per_group, me = get_local_id(0);
  for (int row = first_row; row < min(first_row + per_group, rows); row++) {
    int i1 = row % n1, i2 = row / n1 % n2, i3 = row / n1 / n2;
    const __global float *x =
        (const __global float *)(x_buf + x_off + i1 * x1 + i2 * x2 + i3 * x3);
    floatW squares = 0.0f;
    for (int i = me; i < n0 / W; i += LOCAL) {
      floatW v = CAT(vload, W)(i, x);
      squares += v * v;
    }
    float sum = group_sum(sumW(squares), part);
    if (adds) {
      const __global float *r =
          (const __global float *)(r_buf + r_off + i1 * r1 + i2 * r2 + i3 * r3);
      __global float *h = (__global float *)(h_buf + h_off) + (long)row * n0;
      float factor = factor_of(sum, n0, eps1);
      squares = 0.0f;
      for (int i = me; i < n0 / W; i += LOCAL) {
        floatW v = CAT(vload, W)(i, x) * factor;
        if (has_w1) v *= CAT(vload, W)(i, w1);
        v += CAT(vload, W)(i, r);
        CAT(vstore, W)(v, i, h);
        squares += v * v;
      }
      x = h;
      if (quantizes) {
        sum = group_sum(sumW(squares), part);
#if LOCAL > 1
        barrier(CLK_GLOBAL_MEM_FENCE);  // items read below what others wrote to h
#endif
      }
    }
    if (quantizes) {
      float factor = factor_of(sum, n0, eps2);
      for (int b = me; b < n0 / 32; b += LOCAL) {
        float16 first = vload16(2 * b, x) * factor, last = vload16(2 * b + 1, x) * factor;
        if (has_w2) {
          first *= vload16(2 * b, w2);
          last *= vload16(2 * b + 1, w2);
        }
        quantize_into(q_buf + q_off, n0 / 32, panel, rows, row, b, first, last);
      }
    }
  }
}
