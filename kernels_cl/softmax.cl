// softmax: over dimension 0, the unfused half of attention.
//
//   s = scale x[c, t, h], or cap tanh(s / cap) where cap > 0; then -inf where query t does not see
//   cell c, or s + mask[c, t, h mod m2]
//   with ALIBI s falls with the distance (common.cl)
//   out[c, t, h] = exp(s - max) / sum over c          a sink joins maximum and sum; 0 / 0 gives 0
//
// A group of LOCAL items makes `per_group` rows, one after the other; the exponentials wait in out.
// spans, cells and who sees what are as in parts/attention_units.cl. f32, the mask M; out packed.

#ifndef M
  #define M f32
#endif

__kernel __attribute__((reqd_work_group_size(LOCAL, 1, 1))) void softmax(
    __global char *out_buf, long out_off, const __global char *x_buf, long x_off,
    const __global char *spans_buf, long spans_off, const __global char *cells_buf, long cells_off,
    const __global char *sinks_buf, long sinks_off, const __global char *mask_buf, long mask_off,
    int n0, int n1, int n2, int rows, long x0, long x1, long x2, long x3, int m2, int m3, long mask1,
    long mask2, long mask3, int has_spans, int has_sinks, int has_mask, int per_group, float scale,
    float cap, float alibi) {
  __local float part[LOCAL];
  const __global int *cells = (const __global int *)(cells_buf + cells_off);
  const __global float *sinks = (const __global float *)(sinks_buf + sinks_off);
  int first = get_group_id(0) * per_group, me = get_local_id(0);
  (void)alibi;
  for (int row = first; row < min(first + per_group, rows); row++) {
    int i1 = row % n1, i2 = row / n1 % n2, i3 = row / n1 / n2;
    const __global char *x = x_buf + x_off + i1 * x1 + i2 * x2 + i3 * x3;
    __global float *out = (__global float *)(out_buf + out_off) + (long)row * n0;
    const __global char *mask = mask_buf + mask_off + i1 * mask1 + i2 % m2 * mask2 + i3 % m3 * mask3;
    int4 span = has_spans ? vload4(i1, (const __global int *)(spans_buf + spans_off)) : (int4)(0);
    int vectors = x0 == 4 ? n0 / W : 0;
#ifdef ALIBI
    float slope = slope_of(i2, n2, alibi);
#endif
    floatW high = -INFINITY;
    for (int i = me * W; i < vectors * W; i += LOCAL * W) {
      floatW s = loadw_f32(x + i * 4) * scale;
      if (cap > 0) s = cap * tanh(s / cap);
      if (has_spans) {
        intW a = CAT(vload, W)(0, cells + 2 * i), b = CAT(vload, W)(1, cells + 2 * i);
#ifdef ALIBI
        s = fallen_w(s, (floatW)slope, (intW)(a.odd, b.odd), (intW)span.w);
#endif
        intW seen = seesw(span, (intW)(a.even, b.even), (intW)(a.odd, b.odd));
        s = select((floatW)(-INFINITY), s, seen);
      }
      if (has_mask) s += LOADW(M, mask + i * SIZE(M));
      CAT(vstore, W)(s, 0, out + i);
      high = fmax(high, s);
    }
    float top = fmax(maxW(high), has_sinks ? sinks[i2] : -INFINITY);
    for (int i = vectors * W + me; i < n0; i += LOCAL) {
      float s = load_f32(x + i * x0) * scale;
      if (cap > 0) s = cap * tanh(s / cap);
#ifdef ALIBI
      if (has_spans) s = fallen(s, slope, vload2(i, cells).y, span.w);
#endif
      if (has_spans && !sees(span, vload2(i, cells))) s = -INFINITY;
      if (has_mask) s += LOAD(M, mask + i * SIZE(M));
      out[i] = s;
      top = fmax(top, s);
    }
    top = group_max(top, part);
    float base = top == -INFINITY ? 0.0f : top;
    floatW sums = 0.0f;
    for (int i = me * W; i < vectors * W; i += LOCAL * W) {
      floatW e = exp(CAT(vload, W)(0, out + i) - base);
      CAT(vstore, W)(e, 0, out + i);
      sums += e;
    }
    float sum = sumW(sums);
    for (int i = vectors * W + me; i < n0; i += LOCAL) {
      out[i] = exp(out[i] - base);
      sum += out[i];
    }
    sum = group_sum(sum, part) + (has_sinks ? exp(sinks[i2] - base) : 0.0f);
    float whole = sum > 0.0f ? 1.0f / sum : 0.0f;
    for (int i = me * W; i < vectors * W; i += LOCAL * W)
      CAT(vstore, W)(CAT(vload, W)(0, out + i) * whole, 0, out + i);
    for (int i = vectors * W + me; i < n0; i += LOCAL) out[i] *= whole;
  }
}
