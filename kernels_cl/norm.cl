// norm: rows normalised over dimension 0.
//
//   out[i, row] = (x[i, row] - shift) * factor * weight[i] + bias[i]
//
//   rms_norm    factor = 1 / sqrt(mean(x^2) + eps)
//   layer_norm  factor = 1 / sqrt(mean((x - mean)^2) + eps), shift = mean
//   l2_norm     factor = 1 / max(sqrt(sum(x^2)), eps)
//
// A group of LOCAL items makes `per_group` rows, one after the other. f32, out packed. OP, one
// of these, has a program of its own.

#ifndef OP
  #define OP rms_norm
#endif

#define SUM(base) row_sum(x, x0, n0, base, part)
#define SQUARES(base) row_squares(x, x0, n0, base, part)
#define find_rms_norm factor = 1.0f / sqrt(SQUARES(0.0f) / n0 + eps);
#define find_l2_norm factor = 1.0f / fmax(sqrt(SQUARES(0.0f)), eps);
// The second sum is what rounding left of the first, so that a mean far from 0 costs no precision.
#define find_layer_norm                                                                           \
  shift = SUM(0.0f) / n0;                                                                         \
  shift += SUM(shift) / n0;                                                                       \
  factor = 1.0f / sqrt(SQUARES(shift) / n0 + eps);

__kernel TEAM_SIZE void OP(
    __global char *out_buf, long out_off, const __global char *x_buf, long x_off,
    const __global char *w_buf, long w_off, const __global char *b_buf, long b_off, int n0,
    int n1, int n2, int rows, long x0, long x1, long x2, long x3, int has_weight, int has_bias,
    int per_group, float eps) {
  __local float part[LOCAL];
  const __global char *weight = w_buf + w_off, *bias = b_buf + b_off;
  int first = get_group_id(0) * per_group, me = get_local_id(0);
  for (int row = first; row < min(first + per_group, rows); row++) {
    int i1 = row % n1, i2 = row / n1 % n2, i3 = row / n1 / n2;
    const __global char *x = x_buf + x_off + i1 * x1 + i2 * x2 + i3 * x3;
    __global char *out = out_buf + out_off + (long)row * n0 * 4;
    float shift = 0.0f, factor;
    CAT(find_, OP)
    int vectors = x0 == 4 ? n0 / W : 0;
    for (int i = me; i < vectors; i += LOCAL) {
      floatW v = (loadw_f32(x + i * W * 4) - shift) * factor;
      if (has_weight) v *= loadw_f32(weight + i * W * 4);
      if (has_bias) v += loadw_f32(bias + i * W * 4);
      storew_f32(out + i * W * 4, v);
    }
    for (int i = vectors * W + me; i < n0; i += LOCAL) {
      float v = (load_f32(x + i * x0) - shift) * factor;
      if (has_weight) v *= load_f32(weight + i * 4);
      if (has_bias) v += load_f32(bias + i * 4);
      store_f32(out + i * 4, v);
    }
  }
}
