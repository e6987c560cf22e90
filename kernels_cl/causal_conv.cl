// causal_conv: y[c, t] = bias[c] + sum over j < TAPS of w[j, c] in[c, t + j], `in` being the state's
// columns, then x's; through silu where wanted.
//
//   in   | state: TAPS - 1 columns | x: n real tokens |
//   out  | y of T tokens, zeros from n on | the last TAPS - 1 columns of `in` |
//
// `at` has the row of the state that is read, -1 for zeros, and n. With `has_to` the last part of out
// goes into row `to` of `kept` instead. An item takes RUN * W channels, whose weights it turns over
// once, of `per_item` columns of out.

#ifndef TAPS
  #define TAPS 4
#endif

#define ITEM (RUN * W)

// y of one token: the columns from `first_tap` on that taps weigh.
static void convolve(__global char *out, const __global char *in[TAPS], int first_tap,
                     const float *taps, const float *bias, int width, int silu) {
  int i = 0;
  for (; i + W <= width; i += W) {
    floatW y = CAT(vload, W)(0, bias + i);
    for (int j = first_tap; j < TAPS; j++)
      y += CAT(vload, W)(0, taps + j * ITEM + i) * loadw_f32(in[j] + i * 4);
    storew_f32(out + i * 4, silu ? SILU(y) : y);
  }
  for (; i < width; i++) {
    float y = bias[i];
    for (int j = first_tap; j < TAPS; j++) y += taps[j * ITEM + i] * load_f32(in[j] + i * 4);
    store_f32(out + i * 4, silu ? SILU(y) : y);
  }
}

// A column as it is; zeros without one.
static void pass_on(__global char *out, const __global char *in, int width) {
  int i = 0;
  for (; i + W <= width; i += W) storew_f32(out + i * 4, in ? loadw_f32(in + i * 4) : (floatW)0.0f);
  for (; i < width; i++) store_f32(out + i * 4, in ? load_f32(in + i * 4) : 0.0f);
}

__kernel TEAM_SIZE void causal_conv(
    __global char *out_buf, long out_off, __global char *kept_buf, long kept_off,
    const __global char *x_buf, long x_off, const __global char *w_buf, long w_off,
    const __global char *bias_buf, long bias_off, const __global char *state_buf, long state_off,
    const __global char *at_buf, long at_off, const __global char *to_buf, long to_off, int n0,
    int tokens, long x1, long state1, long kept1, int per_item, int has_bias, int has_to,
    int silu) {
  const __global int *at = (const __global int *)(at_buf + at_off);
  int slot = at[0], n = at[1], runs = (n0 + ITEM - 1) / ITEM;
  int start = get_global_id(0) % runs * ITEM, width = min(ITEM, n0 - start);
  const __global char *x = x_buf + x_off + start * 4;
  const __global char *state = state_buf + state_off + slot * state1 + start * 4;
  __global char *out = out_buf + out_off + start * 4, *kept = out + (long)tokens * n0 * 4;
  if (has_to)
    kept = kept_buf + kept_off + *(const __global int *)(to_buf + to_off) * kept1 + start * 4;
  float taps[TAPS * ITEM], bias[ITEM];
  for (int j = 0; j < TAPS; j++)
    for (int i = 0; i < width; i++)
      taps[j * ITEM + i] = load_f32(w_buf + w_off + ((start + i) * TAPS + j) * 4L);
  for (int i = 0; i < width; i++)
    bias[i] = has_bias ? load_f32(bias_buf + bias_off + (start + i) * 4) : 0.0f;
  int first = get_global_id(0) / runs * per_item;
  for (int row = first; row < min(first + per_item, tokens + TAPS - 1); row++) {
    if (row >= tokens) {  // of the new state: column `past` of in, counted from the first token
      int past = n - (TAPS - 1) + row - tokens;
      const __global char *in = past >= 0 ? x + past * x1 : state + (past + TAPS - 1) * n0 * 4L;
      pass_on(kept + (row - tokens) * n0 * 4L, past < 0 && slot < 0 ? 0 : in, width);
    } else if (row >= n) {
      pass_on(out + (long)row * n0 * 4, 0, width);
    } else {
      const __global char *in[TAPS];
      for (int j = 0; j < TAPS; j++) {
        int past = row + j - (TAPS - 1);
        in[j] = past >= 0 ? x + past * x1 : state + (past + TAPS - 1) * n0 * 4L;
      }
      int first_tap = slot < 0 ? max(TAPS - 1 - row, 0) : 0;
      convolve(out + (long)row * n0 * 4, in, first_tap, taps, bias, width, silu);
    }
  }
}
