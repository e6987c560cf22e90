// edit: rows of n0 numbers, each changed by instructions of its own, one on the result of the other.
//
//   z = beta + sum over S of u x        S: channels low to high of a row
//   g = z, or with `jump` z where z > theta and z > 0, else 0
//   y = alpha x + b v + (kappa g + gamma) w over S, y = x elsewhere
//
//   code   [8] of an instruction: low, high, u, v, w, jump, expert, -    u, v, w: rows of vectors
//   number [8]:                   alpha, b, kappa, beta, theta, gamma, -, -
//
// A row's instructions are `count` from `first` on; without any its bits are copied. Where there is
// `entered`, all this is done to x - entered. A group of LOCAL items makes `per_group` rows, one
// after the other; each item has the same channels in all instructions, so only sums are shared.

__kernel TEAM_SIZE void edit(__global char *out_buf, long out_off, const __global char *x_buf,
                             long x_off, const __global char *first_buf, long first_off,
                             const __global char *count_buf, long count_off,
                             const __global char *code_buf, long code_off,
                             const __global char *number_buf, long number_off,
                             const __global char *vectors_buf, long vectors_off,
                             const __global char *entered_buf, long entered_off,
                             const __global char *experts_buf, long experts_off, int n0, int rows,
                             int has_entered, int has_experts, int per_group) {
  __local float part[LOCAL];
  int me = get_local_id(0), begin = get_group_id(0) * per_group;
  const __global int *first = (const __global int *)(first_buf + first_off);
  const __global int *count = (const __global int *)(count_buf + count_off);
  const __global float *vectors = (const __global float *)(vectors_buf + vectors_off);
  for (int row = begin; row < min(begin + per_group, rows); row++) {
    __global float *out = (__global float *)(out_buf + out_off) + (long)row * n0;
    const __global float *x = (const __global float *)(x_buf + x_off) + (long)row * n0;
    const __global float *entered =
        (const __global float *)(entered_buf + entered_off) + (long)row * n0;
    int n = count[row], moves = has_entered && n > 0;
    int mine = has_experts ? ((const __global int *)(experts_buf + experts_off))[row] : -1;
    for (int i = me; i < n0; i += LOCAL) out[i] = moves ? x[i] - entered[i] : x[i];
    for (int k = first[row]; k < first[row] + n; k++) {
      const __global int *code = (const __global int *)(code_buf + code_off) + k * 8;
      const __global float *number = (const __global float *)(number_buf + number_off) + k * 8;
      if (has_experts && code[6] >= 0 && code[6] != mine) continue;
      int low = code[0], high = code[1];
      int start = low + (me + LOCAL - low % LOCAL) % LOCAL;  // this item's first channel of S
      const __global float *u = vectors + (long)code[2] * n0, *v = vectors + (long)code[3] * n0;
      const __global float *w = vectors + (long)code[4] * n0;
      float z = 0.0f;
      if (code[2] >= 0)
        for (int i = start; i < high; i += LOCAL) z += u[i] * out[i];
      z = number[3] + group_sum(z, part);
      if (code[5] && !(z > number[4] && z > 0.0f)) z = 0.0f;
      float alpha = number[0], b = number[1], along = number[2] * z + number[5];
      for (int i = start; i < high; i += LOCAL) {
        float y = alpha == 0.0f ? 0.0f : alpha * out[i];
        if (b != 0.0f) y += b * (code[3] >= 0 ? v[i] : 1.0f);
        if (code[4] >= 0) y += along * w[i];
        out[i] = y;
      }
    }
    if (moves)
      for (int i = me; i < n0; i += LOCAL) out[i] += entered[i];
  }
}
