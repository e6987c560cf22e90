// quantize: rows of activations as integers of 12 bits, the form in which tiled weights meet them.
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
//   64  float scale, float scale * sum of q
//   72  short sum of the first 16 q, short sum of the others, int sum of q[0] q[1], q[2] q[3] ...
//
// In digits (X_DIGITS), q = 64 h + l (parts/tiled_dots.cl), the same 80 bytes begin at 16 bytes:
//
//   0   32 chars l in order
//   32  32 chars h in order
//   64  as above, but for the last int
//
// In 8 bits (X_BITS 8), |q| <= 127, they take 44:
//
//   0   32 chars in order
//   32  float scale, float scale * sum of q
//   40  short sum of the first 16 q, short sum of the others
//
// As halves (X_BITS 16), divided by their scale, a power of two, they take 80 from 16 bytes on:
//
//   0   32 halves in order
//   64  float scale, 12 bytes of nothing
//
// For weights that are floats (X_F32) they stay 32 floats in order, which take 128 bytes.

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
                   VLOAD16(2 * b, (const __global float *)x),
                   VLOAD16(2 * b + 1, (const __global float *)x));
}
