// ssm_channels: ssm_scan where each channel is a head, with N rates of its own (Mamba 1).
//
//   m[i] = e^(delta a[i]) m[i] + delta x b[i];   y = sum over i of c[i] m[i] + d x
//
//   x [1, H, T]   delta [H, T]   b, c [N, G, T]   a [N, H]   d [H]   state [N H, slots]
//   out [H, T + P N]: y, zeros behind the last part, then the new states
//
// `at`, `kept` and `to` as in parts/recurrence.cl. An item carries the states of `each` neighbours,
// N = VECTORS * W elements each, through all tokens of a sequence.

#ifndef VECTORS
  #define VECTORS 1
#endif

#define N (VECTORS * W)
#define AHEAD 8
#define EACH_VECTOR for (int j = 0; j < VECTORS; j++)
#define VECTOR(p) CAT(vload, W)(j, (const __global float *)(p))

__kernel TEAM_SIZE void ssm_channels(
    __global char *out_buf, long out_off, __global char *kept_buf, long kept_off,
    const __global char *x_buf, long x_off, const __global char *delta_buf, long delta_off,
    const __global char *b_buf, long b_off, const __global char *c_buf, long c_off,
    const __global char *a_buf, long a_off, const __global char *d_buf, long d_off,
    const __global char *state_buf, long state_off, const __global char *at_buf, long at_off,
    const __global char *to_buf, long to_off, int heads, int groups, int tokens, int parts, long x1,
    long x2, long delta0, long delta1, long b1, long b2, long c1, long c2, long state1, long kept1, int each,
    int has_d, int has_to) {
  const __global int *at = (const __global int *)(at_buf + at_off);
  const int items = (heads + each - 1) / each, part = get_global_id(0) / items;
  if (part >= parts) return;
  int slot = at[2 * part], begin = part ? at[2 * part - 1] : 0, n = at[2 * part + 1];
  int first = get_global_id(0) % items * each, padded = part + 1 == parts ? tokens : n, keeps = 1;
  __global float *out = (__global float *)(out_buf + out_off);
  __global char *kept = out_buf + out_off + (tokens + (long)part * N) * heads * 4;
  if (has_to) {
    int to = ((const __global int *)(to_buf + to_off))[part];
    kept = kept_buf + kept_off + to * kept1;
    keeps = to >= 0;
  }
  const int last = min(first + each, heads), per_group = heads / groups;
  const __global char *before = state_buf + state_off + slot * state1;
  for (int i = first * N; keeps && i < last * N; i++) {
    float m = slot < 0 ? 0.0f : load_f32(before + i * 4L);
    store_f32(kept + i * 4L, m);
  }
  for (int t = begin; t < padded; t++) {
    if (t + AHEAD < n) {
      fetch(x_buf + x_off + first * x1 + (t + AHEAD) * x2, each * 4);
      fetch(delta_buf + delta_off + first * delta0 + (t + AHEAD) * delta1, each * 4);
      fetch((const __global char *)(out + (t + AHEAD) * (long)heads + first), each * 4);
    }
    for (int head = first; head < last; head++) {
      floatW sum = 0.0f;
      float rest = 0.0f;
      if (t < n) {
        const __global char *b = b_buf + b_off + head / per_group * b1 + t * b2;
        const __global char *c = c_buf + c_off + head / per_group * c1 + t * c2;
        float v = load_f32(x_buf + x_off + head * x1 + t * x2);
        float step = load_f32(delta_buf + delta_off + head * delta0 + t * delta1);
        EACH_VECTOR {
          long at_vector = (head * N + j * W) * 4L;
          floatW decay = exp(step * loadw_f32(a_buf + a_off + at_vector));
          floatW m = decay * loadw_f32(kept + at_vector) + step * v * VECTOR(b);
          storew_f32(kept + at_vector, m);
          sum += VECTOR(c) * m;
        }
        if (has_d) rest = v * load_f32(d_buf + d_off + head * 4);
      }
      out[(long)t * heads + head] = sumW(sum) + rest;
    }
  }
}
