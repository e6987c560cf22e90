// token_shift: y[:, t] = x[:, t] + (x[:, t - 1] - x[:, t]) mix, for each of M mixes. The tokens are of
// P sequences, a part of each; before a part's first token stands what the state has:
//
//   mix  | [C, M], or [C, T, M]: each token by its own |
//   out  | y of T tokens by the first mix, zeros behind the last part | ... by mix M | P new states |
//
// `at`, `kept` and `to` as in parts/recurrence.cl. An item takes RUN * W channels of `per_item` columns
// of out.

#define ITEM (RUN * W)

__kernel TEAM_SIZE void token_shift(
    __global char *out_buf, long out_off, __global char *kept_buf, long kept_off,
    const __global char *x_buf, long x_off, const __global char *mix_buf, long mix_off,
    const __global char *state_buf, long state_off, const __global char *at_buf, long at_off,
    const __global char *to_buf, long to_off, int n0, int tokens, int mixes, int parts, long x1,
    long mix1, long mix2, long state1, long kept1, int per_item, int has_to) {
  const __global int *at = (const __global int *)(at_buf + at_off);
  const __global int *to = (const __global int *)(to_buf + to_off);
  int n = at[2 * parts - 1], runs = (n0 + ITEM - 1) / ITEM;
  int start = get_global_id(0) % runs * ITEM, width = min(ITEM, n0 - start);
  int first = get_global_id(0) / runs * per_item, behind = mixes * tokens;
  for (int row = first; row < min(first + per_item, behind + parts); row++) {
    int t = row % tokens, part = row >= behind ? row - behind : 0;
    while (row < behind && t < n && t >= at[2 * part + 1]) part++;
    int slot = at[2 * part], begin = part ? at[2 * part - 1] : 0, end = at[2 * part + 1];
    // What it is made of: its token and the one before, or of a new state the last alone.
    int last = row >= behind ? end - 1 : t - 1;
    const __global char *now = x_buf + x_off + t * x1 + start * 4;
    const __global char *past = last >= begin ? x_buf + x_off + last * x1 + start * 4
                                              : state_buf + state_off + slot * state1 + start * 4;
    const __global char *mix = mix_buf + mix_off + row / tokens * mix2 + t * mix1 + start * 4;
    int none = last < begin && slot < 0, zero = row < behind && t >= n;
    __global char *out = out_buf + out_off + ((long)row * n0 + start) * 4;
    if (row >= behind && has_to) {
      if (to[part] < 0) continue;
      out = kept_buf + kept_off + to[part] * kept1 + start * 4;
    }
    int i = 0;
    for (; i + W <= width; i += W) {
      floatW y = none || zero ? (floatW)0.0f : loadw_f32(past + i * 4);
      if (row < behind && !zero) {
        floatW x = loadw_f32(now + i * 4);
        y = x + (y - x) * loadw_f32(mix + i * 4);
      }
      storew_f32(out + i * 4, y);
    }
    for (; i < width; i++) {
      float y = none || zero ? 0.0f : load_f32(past + i * 4);
      if (row < behind && !zero) {
        float x = load_f32(now + i * 4);
        y = x + (y - x) * load_f32(mix + i * 4);
      }
      store_f32(out + i * 4, y);
    }
  }
}
