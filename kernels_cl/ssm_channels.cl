// ssm_channels: ssm_scan where each channel is a head, with N rates of its own (Mamba 1).
//
//   m[i] = e^(delta a[i]) m[i] + delta x b[i];   y = sum over i of c[i] m[i] + d x
//
//   x [1, H, T]   delta [H, T]   b, c [N, G, T]   a [N, H]   d [H]   state [N H, slots]
//   out [H, T + N]: y, zeros from n on, then the new state
//
// `at`, `kept` and `to` as in parts/recurrence.cl. An item carries the states of `each` channels, N =
// VECTORS * W elements each, through all tokens.

#ifndef VECTORS
  #define VECTORS 1
#endif

#define N (VECTORS * W)
#define EACH_VECTOR for (int j = 0; j < VECTORS; j++)
#define VECTOR(p) CAT(vload, W)(j, (const __global float *)(p))

__kernel TEAM_SIZE void ssm_channels(
    __global char *out_buf, long out_off, __global char *kept_buf, long kept_off,
    const __global char *x_buf, long x_off, const __global char *delta_buf, long delta_off,
    const __global char *b_buf, long b_off, const __global char *c_buf, long c_off,
    const __global char *a_buf, long a_off, const __global char *d_buf, long d_off,
    const __global char *state_buf, long state_off, const __global char *at_buf, long at_off,
    const __global char *to_buf, long to_off, int heads, int groups, int tokens, long x1, long x2,
    long delta0, long delta1, long b1, long b2, long c1, long c2, long state1, long kept1, int each,
    int has_d, int has_to) {
  const __global int *at = (const __global int *)(at_buf + at_off);
  int slot = at[0], n = at[1], first = get_global_id(0) * each;
  __global float *out = (__global float *)(out_buf + out_off);
  __global char *kept = out_buf + out_off + (long)tokens * heads * 4;
  if (has_to) kept = kept_buf + kept_off + *(const __global int *)(to_buf + to_off) * kept1;
  for (int head = first; head < min(first + each, heads); head++) {
    const __global char *b = b_buf + b_off + head / (heads / groups) * b1;
    const __global char *c = c_buf + c_off + head / (heads / groups) * c1;
    const __global char *x = x_buf + x_off + head * x1;
    const __global char *delta = delta_buf + delta_off + head * delta0;
    float skip = has_d ? load_f32(d_buf + d_off + head * 4) : 0.0f;
    floatW m[VECTORS], a[VECTORS];
    EACH_VECTOR {
      a[j] = VECTOR(a_buf + a_off + head * N * 4L);
      m[j] = 0.0f;
      if (slot >= 0) m[j] = VECTOR(state_buf + state_off + slot * state1 + head * N * 4L);
    }
    for (int t = 0; t < n; t++) {
      float step = load_f32(delta + t * delta1), v = load_f32(x + t * x2);
      floatW sum = 0.0f;
      EACH_VECTOR {
        m[j] = exp(step * a[j]) * m[j] + step * v * VECTOR(b + t * b2);
        sum += VECTOR(c + t * c2) * m[j];
      }
      out[(long)t * heads + head] = sumW(sum) + skip * v;
    }
    for (int t = n; t < tokens; t++) out[(long)t * heads + head] = 0.0f;
    EACH_VECTOR storew_f32(kept + (head * N + j * W) * 4L, m[j]);
  }
}
