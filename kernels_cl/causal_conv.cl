// causal_conv: y[c, t] = bias[c] + sum over j < TAPS of w[j, c] in[c, t + j], `in` being the state's
// columns, then x's; through silu where wanted. The tokens are of P sequences, a part of each:
//
//   in   | state: TAPS - 1 columns | x: the part's tokens |
//   out  | y of T tokens, zeros behind the last part | the last TAPS - 1 columns of each `in` |
//
// `at`, `kept` and `to` as in parts/recurrence.cl. An item takes RUN * W channels, whose weights it
// turns over once, of `per_item` columns of out.

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
    int tokens, int parts, long x1, long state1, long kept1, int per_item, int has_bias, int has_to,
    int silu) {
  const __global int *at = (const __global int *)(at_buf + at_off);
  const __global int *to = (const __global int *)(to_buf + to_off);
  int n = at[2 * parts - 1], runs = (n0 + ITEM - 1) / ITEM;
  int start = get_global_id(0) % runs * ITEM, width = min(ITEM, n0 - start);
  const __global char *x = x_buf + x_off + start * 4;
  const __global char *states = state_buf + state_off + start * 4;
  __global char *out = out_buf + out_off + start * 4;
  float taps[TAPS * ITEM], bias[ITEM];
  for (int j = 0; j < TAPS; j++)
    for (int i = 0; i < width; i++)
      taps[j * ITEM + i] = load_f32(w_buf + w_off + ((start + i) * TAPS + j) * 4L);
  for (int i = 0; i < width; i++)
    bias[i] = has_bias ? load_f32(bias_buf + bias_off + (start + i) * 4) : 0.0f;
  int first = get_global_id(0) / runs * per_item, part = 0;
  for (int row = first; row < min(first + per_item, tokens + parts * (TAPS - 1)); row++) {
    if (row >= n && row < tokens) {
      pass_on(out + (long)row * n0 * 4, 0, width);
      continue;
    }
    if (row >= tokens) part = (row - tokens) / (TAPS - 1);
    while (row < tokens && row >= at[2 * part + 1]) part++;
    int slot = at[2 * part], begin = part ? at[2 * part - 1] : 0;
    const __global char *state = states + slot * state1, *mine = x + begin * x1;
    if (row >= tokens) {  // of the new state: column `past` of in, counted from the first token
      int column = (row - tokens) % (TAPS - 1);
      int past = at[2 * part + 1] - begin - (TAPS - 1) + column;
      const __global char *in = past >= 0 ? mine + past * x1 : state + (past + TAPS - 1) * n0 * 4L;
      __global char *kept = out + (long)row * n0 * 4;
      if (has_to) kept = kept_buf + kept_off + to[part] * kept1 + (column * n0 + start) * 4L;
      if (!has_to || to[part] >= 0) pass_on(kept, past < 0 && slot < 0 ? 0 : in, width);
    } else {
      const __global char *in[TAPS];
      for (int j = 0; j < TAPS; j++) {
        int past = row - begin + j - (TAPS - 1);
        in[j] = past >= 0 ? mine + past * x1 : state + (past + TAPS - 1) * n0 * 4L;
      }
      int first_tap = slot < 0 ? max(TAPS - 1 - (row - begin), 0) : 0;
      convolve(out + (long)row * n0 * 4, in, first_tap, taps, bias, width, silu);
    }
  }
}
