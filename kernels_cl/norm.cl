// norm: rows normalised over dimension 0.
//
//   out[i, row] = x[i, row] / sqrt(mean_i(x[i, row]^2) + eps) * weight[i]
//
// A group of LOCAL items makes `per_group` rows, one after the other; items stride over a row by
// vectors of W, so that LOCAL = 1 is a plain vector loop. f32, dimension 0 contiguous, out packed.

__kernel __attribute__((reqd_work_group_size(LOCAL, 1, 1))) void rms_norm(
    __global char *out_buf, long out_off, const __global char *x_buf, long x_off,
    const __global char *w_buf, long w_off, int n0, int n1, int n2, int rows, long x1, long x2,
    long x3, int has_weight, int per_group, float eps) {
  __local float part[LOCAL];
  const __global char *weight = w_buf + w_off;
  int first = get_group_id(0) * per_group, vectors = n0 / W, me = get_local_id(0);
  for (int row = first; row < min(first + per_group, rows); row++) {
    int i1 = row % n1, i2 = row / n1 % n2, i3 = row / n1 / n2;
    const __global char *x = x_buf + x_off + i1 * x1 + i2 * x2 + i3 * x3;
    __global char *out = out_buf + out_off + (long)row * n0 * 4;
    floatW squares = 0.0f;
    for (int i = me; i < vectors; i += LOCAL) {
      floatW v = loadw_f32(x + i * W * 4);
      squares += v * v;
    }
    float sum = sumW(squares);
    for (int i = vectors * W + me; i < n0; i += LOCAL) {
      float v = load_f32(x + i * 4);
      sum += v * v;
    }
    float factor = 1.0f / sqrt(group_sum(sum, part) / n0 + eps);
    for (int i = me; i < vectors; i += LOCAL) {
      floatW v = loadw_f32(x + i * W * 4) * factor;
      if (has_weight) v *= loadw_f32(weight + i * W * 4);
      storew_f32(out + i * W * 4, v);
    }
    for (int i = vectors * W + me; i < n0; i += LOCAL) {
      float v = load_f32(x + i * 4) * factor;
      store_f32(out + i * 4, has_weight ? v * load_f32(weight + i * 4) : v);
    }
  }
}
