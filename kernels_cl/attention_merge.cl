// attention_merge: what several chunks of `attention` left becomes its result.
//
//   shares [Dv + 2, H T, chunks]: what a chunk added up, its maximum, its sum     out [Dv, H T]
//
// With `panel` above 0 results are written to x too, in 12 bits for the next matmul (quantize.cl).

typedef struct {
  long out_off, x_off, shares_off, sinks_off;
  int dim_v, heads, rows, chunks, has_sinks, panel;
} Numbers;

// Channels that a lane makes at once: shares of ALIGNED results begin at eight bytes.
#ifdef ALIGNED
typedef float2 Channels;
  #define AT_ONCE 2
  #define LEFT_OF(p) (*(const __global float2 *)(p))
#else
typedef float Channels;
  #define AT_ONCE 1
  #define LEFT_OF(p) vload2(0, p)
#endif

// A group makes one row.
__kernel __attribute__((reqd_work_group_size(LOCAL, 1, 1))) void attention_merge(
    __global char *out_buf, __global char *x_buf, const __global char *shares_buf,
    const __global char *sinks_buf, NUMBERS_GIVEN) {
  int dim_v = given.dim_v, heads = given.heads, rows = given.rows, chunks = given.chunks;
  int row = get_group_id(0), width = dim_v + 2;
  long step = (long)rows * width;
  const __global float *shares =
      (const __global float *)(shares_buf + given.shares_off) + (long)row * width;
  const __global float *sinks = (const __global float *)(sinks_buf + given.sinks_off);
  __global float *out = (__global float *)(out_buf + given.out_off) + (long)row * dim_v;
  float sink = given.has_sinks ? sinks[row % heads] : -INFINITY, top = sink;
  for (int c = 0; c < chunks; c++) top = fmax(top, shares[c * step + dim_v]);
#if LOCAL > 1
  for (int d = get_local_id(0) * AT_ONCE; d < dim_v; d += LOCAL * AT_ONCE) {
    float total = given.has_sinks ? exp(sink - top) : 0.0f;
    Channels sum = 0.0f;
    for (int c = 0; c < chunks; c++) {
      const __global float *share = shares + c * step;
      float2 left = LEFT_OF(share + dim_v);
      if (left.y == 0.0f) continue;  // it saw nothing, and left nothing
      float factor = exp(left.x - top);
      total += factor * left.y;
      sum += factor * *(const __global Channels *)(share + d);
    }
    *(__global Channels *)(out + d) = sum * (total > 0.0f ? 1.0f / total : 0.0f);
  }
#else
  float total = given.has_sinks ? exp(sink - top) : 0.0f;
  for (int d = get_local_id(0); d < dim_v; d += LOCAL) out[d] = 0.0f;
  for (int c = 0; c < chunks; c++) {
    const __global float *share = shares + c * step;
    if (share[dim_v + 1] == 0.0f) continue;  // it saw nothing, and left nothing
    float factor = exp(share[dim_v] - top);
    total += factor * share[dim_v + 1];
    for (int d = get_local_id(0); d < dim_v; d += LOCAL) out[d] += factor * share[d];
  }
  float whole = total > 0.0f ? 1.0f / total : 0.0f;
  for (int d = get_local_id(0); d < dim_v; d += LOCAL) out[d] *= whole;
#endif
  if (given.panel) {
#if LOCAL > 1
    barrier(CLK_GLOBAL_MEM_FENCE);
#endif
    for (int b = get_local_id(0); b < dim_v / 32; b += LOCAL)
      quantize_head(x_buf + given.x_off, out, b, dim_v, heads, rows / heads, given.panel,
                    row / heads, row % heads);
  }
}
