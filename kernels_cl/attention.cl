// attention: softmax(scale k.q, masked) . v, a head and a query at a time; and softmax alone.
//
//   q [D, H, T]   k [D, K, C]   v [Dv, K, C]   out [Dv, H, T]   head h reads kv head h / (H/K)
//   cells [2, C]: a cell's sequence bits, its position
//   spans [4, T]: a query's sequence bit, first and last position it sees, 0
//
// A query sees the cells below n_kv that share its bit and lie in its span. Scores are s = scale k.q,
// or cap tanh(s / cap) where cap > 0. A sink is a score without a value. KV is the type of k and v.

#ifndef KV
  #define KV f16
#endif

static int sees(int4 span, int2 cell) {
  return (span.x & cell.x) != 0 && span.y <= cell.y && cell.y <= span.z;
}

static float bounded(float s, float cap) { return cap > 0 ? cap * tanh(s / cap) : s; }

__kernel void attention(__global char *out_buf, long out_off, const __global char *q_buf,
                        long q_off, const __global char *k_buf, long k_off,
                        const __global char *v_buf, long v_off, const __global char *spans_buf,
                        long spans_off, const __global char *cells_buf, long cells_off,
                        const __global char *n_kv_buf, long n_kv_off,
                        const __global char *sinks_buf, long sinks_off, int dim, int dim_v,
                        int heads, int group, int tokens, int capacity, long q1, long q2, long k1,
                        long k2, long v1, long v2, int has_sinks, float scale, float cap) {
  int row = get_global_id(0);
  if (row >= heads * tokens) return;
  int head = row % heads, token = row / heads;
  int n_kv = min(*(const __global int *)(n_kv_buf + n_kv_off), capacity);
  const __global char *q = q_buf + q_off + head * q1 + token * q2;
  const __global char *k = k_buf + k_off + head / group * k1;
  const __global char *v = v_buf + v_off + head / group * v1;
  const __global int *cells = (const __global int *)(cells_buf + cells_off);
  int4 span = vload4(token, (const __global int *)(spans_buf + spans_off));
  __global float *out = (__global float *)(out_buf + out_off) + (long)row * dim_v;

  float top = -INFINITY, sum = 0.0f;
  if (has_sinks) {
    top = ((const __global float *)(sinks_buf + sinks_off))[head];
    sum = 1.0f;
  }
  for (int i = 0; i < dim_v; i++) out[i] = 0.0f;
  for (int c = 0; c < n_kv; c++) {
    if (!sees(span, vload2(c, cells))) continue;
    float s = 0.0f;
    for (int i = 0; i < dim; i++)
      s += load_f32(q + i * 4) * LOAD(KV, k + c * k2 + i * SIZE(KV));
    s = bounded(s * scale, cap);
    if (s > top) {
      float shrink = exp(top - s);
      for (int i = 0; i < dim_v; i++) out[i] *= shrink;
      sum *= shrink;
      top = s;
    }
    float p = exp(s - top);
    sum += p;
    for (int i = 0; i < dim_v; i++) out[i] += p * LOAD(KV, v + c * v2 + i * SIZE(KV));
  }
  float whole = sum > 0.0f ? 1.0f / sum : 0.0f;
  for (int i = 0; i < dim_v; i++) out[i] *= whole;
}

// out[c, t, h] = exp(s - max) / sum over dimension 0, s = bounded(scale scores[c, t, h]) where seen.
// A group of LOCAL items makes `per_group` rows; the exponentials wait in out.
__kernel __attribute__((reqd_work_group_size(LOCAL, 1, 1))) void softmax(
    __global char *out_buf, long out_off, const __global char *x_buf, long x_off,
    const __global char *spans_buf, long spans_off, const __global char *cells_buf, long cells_off,
    const __global char *sinks_buf, long sinks_off, int n0, int n1, int n2, int rows, long x0,
    long x1, long x2, long x3, int masked, int has_sinks, int per_group, float scale, float cap) {
  __local float part[LOCAL];
  const __global int *cells = (const __global int *)(cells_buf + cells_off);
  const __global float *sinks = (const __global float *)(sinks_buf + sinks_off);
  int first = get_group_id(0) * per_group, me = get_local_id(0);
  for (int row = first; row < min(first + per_group, rows); row++) {
    int i1 = row % n1, i2 = row / n1 % n2, i3 = row / n1 / n2;
    const __global char *x = x_buf + x_off + i1 * x1 + i2 * x2 + i3 * x3;
    __global float *out = (__global float *)(out_buf + out_off) + (long)row * n0;
    int4 span = masked ? vload4(i1, (const __global int *)(spans_buf + spans_off)) : (int4)(0);
    float top = has_sinks ? sinks[i2] : -INFINITY;
    for (int i = me; i < n0; i += LOCAL) {
      int seen = !masked || sees(span, vload2(i, cells));
      float s = seen ? bounded(load_f32(x + i * x0) * scale, cap) : -INFINITY;
      out[i] = s;
      top = fmax(top, s);
    }
    top = group_max(top, part);
    float sum = 0.0f;
    for (int i = me; i < n0; i += LOCAL) {
      float p = top == -INFINITY ? 0.0f : exp(out[i] - top);
      out[i] = p;
      sum += p;
    }
    sum = group_sum(sum, part);
    if (has_sinks) sum += exp(sinks[i2] - top);
    float whole = sum > 0.0f ? 1.0f / sum : 0.0f;
    for (int i = me; i < n0; i += LOCAL) out[i] *= whole;
  }
}
