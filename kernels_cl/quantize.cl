// quantize: rows of activations as 12-bit integers, the form in which tiled weights meet them.
//
//   x[k] ~ scale * q[k],  |q| <= 2047, one scale for every 32 elements
//
// PANEL rows lie together, block by block; the last panel repeats the last row:
//
//   panel 0 | block 0: row 0, row 1 ... | block 1: row 0, row 1 ... | panel 1 | ...
//
// and a row's 32 elements take 80 bytes (X_BYTES):
//
//   0   16 pairs of shorts: (0, 2) (1, 3) (4, 6) (5, 7) ... (28, 30) (29, 31)
//   64  float scale, float scale * sum of q, int sum of the first 16 q, int sum of the others

#define X_BYTES 80
#define Q_MOST 2047.0f

static int sum_of(int16 v) {
  int8 a = v.lo + v.hi;
  int4 b = a.lo + a.hi;
  return b.x + b.y + b.z + b.w;
}

static void quantize_block(__global char *out, const __global float *x) {
  float16 first = vload16(0, x), last = vload16(1, x);
  float most = max_of16(fmax(fabs(first), fabs(last)));
  // Numbers so small that the quotient would overflow count as zeros.
  float inverse = most < 1e-30f ? 0.0f : Q_MOST / most, scale = most / Q_MOST;
  int16 a = convert_int16_rte(first * inverse), b = convert_int16_rte(last * inverse);
  int sum_a = sum_of(a), sum_b = sum_of(b);
  vstore16(convert_short16(a.s021346578a9bcedf), 0, (__global short *)out);
  vstore16(convert_short16(b.s021346578a9bcedf), 1, (__global short *)out);
  vstore2((float2)(scale, scale * (sum_a + sum_b)), 0, (__global float *)(out + 64));
  vstore2((int2)(sum_a, sum_b), 0, (__global int *)(out + 72));
}

// Item (i, row) takes `each` blocks of a row; rows are n1 x n2 x ..., `rows` in all.
__kernel void quantize(__global char *out_buf, long out_off, const __global char *x_buf, long x_off,
                       int blocks, int rows, int n1, int n2, long s1, long s2, long s3, int panel,
                       int each) {
  int row = min((int)get_global_id(1), rows - 1);
  int i1 = row % n1, i2 = row / n1 % n2, i3 = row / n1 / n2;
  const __global char *x = x_buf + x_off + i1 * s1 + i2 * s2 + i3 * s3;
  int to_panel = get_global_id(1) / panel, to_row = get_global_id(1) % panel;
  __global char *out = out_buf + out_off;
  int start = get_global_id(0) * each, end = min(start + each, blocks);
  for (int b = start; b < end; b++)
    quantize_block(out + (((long)to_panel * blocks + b) * panel + to_row) * X_BYTES,
                   (const __global float *)x + b * 32);
}
