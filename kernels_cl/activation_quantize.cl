// activation_quantize: act(gate) * up as the next matmul wants it, in 12 bits (quantize.cl).
//
// Item (i, row) takes `each` blocks of a row; rows are n1 x n2 x ..., `rows` in all, dimension 0
// contiguous. ACT is the macro of an activation: common.cl.

#ifndef ACT
  #define ACT SILU
#endif

__kernel void activation_quantize(__global char *out_buf, long out_off,
                                  const __global char *x_buf, long x_off,
                                  const __global char *up_buf, long up_off, int blocks, int rows,
                                  int n1, int n2, long x1, long x2, long x3, int has_up, long u1,
                                  long u2, long u3, int panel, int each) {
  int row = get_global_id(1), i1 = row % n1, i2 = row / n1 % n2, i3 = row / n1 / n2;
  const __global float *x = (const __global float *)(x_buf + x_off + i1 * x1 + i2 * x2 + i3 * x3);
  const __global float *up =
      (const __global float *)(up_buf + up_off + i1 * u1 + i2 * u2 + i3 * u3);
  int start = get_global_id(0) * each, end = min(start + each, blocks);
  for (int b = start; b < end; b++) {
    float16 first = VLOAD16(2 * b, x), last = VLOAD16(2 * b + 1, x);
    first = ACT(first);
    last = ACT(last);
    if (has_up) {
      first *= VLOAD16(2 * b, up);
      last *= VLOAD16(2 * b + 1, up);
    }
    quantize_into(out_buf + out_off, blocks, panel, rows, row, b, first, last);
  }
}
