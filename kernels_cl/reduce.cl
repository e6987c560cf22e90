// reduce: one number of every row.
//
//   out[row] = factor * (sum over i of x[i, row])
//
// A group of LOCAL items makes `per_group` rows, one after the other. out is f32, packed.

__kernel TEAM_SIZE void sum_rows(__global char *out_buf, long out_off, const __global char *x_buf,
                                 long x_off, int n0, int n1, int n2, int rows, long x0, long x1,
                                 long x2, long x3, int per_group, float factor) {
  __local float part[LOCAL];
  int first = get_group_id(0) * per_group;
  for (int row = first; row < min(first + per_group, rows); row++) {
    int i1 = row % n1, i2 = row / n1 % n2, i3 = row / n1 / n2;
    const __global char *x = x_buf + x_off + i1 * x1 + i2 * x2 + i3 * x3;
    float sum = row_sum(x, x0, n0, 0.0f, part);
    if (get_local_id(0) == 0) store_f32(out_buf + out_off + row * 4L, sum * factor);
  }
}
