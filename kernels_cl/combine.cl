// combine: out[:, t] = sum_u weights[u, t] y[:, u, t], plus `added` and `more` where they are.
//
// Items as in arithmetic.cl. f32, dimension 0 contiguous, out packed.

__kernel TEAM_SIZE void combine(__global char *out_buf, long out_off, const __global char *y_buf,
                                long y_off, const __global char *weights_buf, long weights_off,
                                const __global char *added_buf, long added_off,
                                const __global char *more_buf, long more_off, int n0, int rows,
                                int used, long y1, long y2, long w0, long w1, int has_added,
                                long a1, int has_more, long m1, int per_item) {
  EACH_ROW_OF_ITEM(n0, rows, per_item) {
    __global char *out = out_buf + out_off + (long)row * n0 * 4;
    const __global char *y = y_buf + y_off + row * y2;
    const __global char *weights = weights_buf + weights_off + row * w1;
    const __global char *added = added_buf + added_off + row * a1;
    const __global char *more = more_buf + more_off + row * m1;
    int i = begin;
    for (; i < vectors_end; i += W) {
      floatW sum = 0.0f;
      for (int u = 0; u < used; u++)
        sum += load_f32(weights + u * w0) * loadw_f32(y + u * y1 + i * 4);
      if (has_added) sum += loadw_f32(added + i * 4);
      if (has_more) sum += loadw_f32(more + i * 4);
      storew_f32(out + i * 4, sum);
    }
    for (; i < end; i++) {
      float sum = 0.0f;
      for (int u = 0; u < used; u++)
        sum += load_f32(weights + u * w0) * load_f32(y + u * y1 + i * 4);
      if (has_added) sum += load_f32(added + i * 4);
      if (has_more) sum += load_f32(more + i * 4);
      store_f32(out + i * 4, sum);
    }
  }
}
