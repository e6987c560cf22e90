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

// Adds what a tap makes of a column.
static void add_tap(float *sum, const float *tap, const __global char *column, int width) {
  int i = 0;
  for (; i + W <= width; i += W) {
    floatW y = CAT(vload, W)(0, sum + i) + CAT(vload, W)(0, tap + i) * loadw_f32(column + i * 4);
    CAT(vstore, W)(y, 0, sum + i);
  }
  for (; i < width; i++) sum[i] += tap[i] * load_f32(column + i * 4);
}

static void store_columns(__global char *out, const float *sum, int width, int silu) {
  int i = 0;
  for (; i + W <= width; i += W) {
    floatW y = CAT(vload, W)(0, sum + i);
    storew_f32(out + i * 4, silu ? SILU(y) : y);
  }
  for (; i < width; i++) store_f32(out + i * 4, silu ? SILU(sum[i]) : sum[i]);
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
  float taps[TAPS * ITEM], bias[ITEM], sum[ITEM];
  for (int i = 0; i < width; i++) {
    for (int j = 0; j < TAPS; j++)
      taps[j * ITEM + i] = load_f32(w_buf + w_off + ((start + i) * TAPS + j) * 4L);
    bias[i] = has_bias ? load_f32(bias_buf + bias_off + (start + i) * 4) : 0.0f;
  }
  int first = get_global_id(0) / runs * per_item;
  for (int row = first; row < min(first + per_item, tokens + TAPS - 1); row++) {
    for (int i = 0; i < width; i++) sum[i] = row < n ? bias[i] : 0.0f;
    // Behind the tokens a column of `in` passes as it is.
    int as_is = row >= tokens, column = (as_is ? n - tokens : 0) + row - (TAPS - 1);
    int count = as_is ? 1 : row < n ? TAPS : 0;
    for (int j = 0; j < count; j++, column++) {
      const __global char *in = column < 0 ? state + (column + TAPS - 1) * n0 * 4L : x + column * x1;
      if (column < 0 && slot < 0) continue;
      if (as_is)
        for (int i = 0; i < width; i++) sum[i] = load_f32(in + i * 4);
      else
        add_tap(sum, taps + j * ITEM, in, width);
    }
    __global char *to = as_is ? kept + (row - tokens) * n0 * 4L : out + (long)row * n0 * 4;
    store_columns(to, sum, width, silu && !as_is);
  }
}
