// matmul_plain: y[m, n, i2, i3] = sum_k a[k, m, i2 / group2, i3 / group3] b[k, n, i2, i3] where
// rows of both operands lie along K as in the file: f32, f16 or bf16 times f32, in f32.
//
// An item makes ROWS x COLUMNS products, so that each vector it loads is used several times:
//
//            b: column n | n + 1 | ...
//   a: row m       .         .
//      row m + 1   .         .        each a vector of W partial sums, joined at the end
//
// LOCAL items share a product on GPUs (they take turns along K); on CPUs LOCAL is 1. Rows and
// columns past the end are computed from the last ones and not written.

#ifndef A
  #define A f16       // element type of a
#endif
#ifndef ROWS
  #define ROWS 4
#endif
#ifndef COLUMNS
  #define COLUMNS 1
#endif

__kernel __attribute__((vec_type_hint(floatW)))
void matmul(__global char *y_buf, long y_off, const __global char *a_buf, long a_off,
            const __global char *b_buf, long b_off, int k, int m, int n, int n2, int group2,
            int group3, long a1, long a2, long a3, long b1, long b2, long b3) {
  __local float part[LOCAL];
  int me = LOCAL == 1 ? 0 : get_local_id(0);
  int row = get_global_id(0) / LOCAL * ROWS, column = get_global_id(1) * COLUMNS;
  int i2 = get_global_id(2) % n2, i3 = get_global_id(2) / n2;
  if (row >= m) return;
  const __global char *a[ROWS], *b[COLUMNS];
  floatW sums[ROWS][COLUMNS];
#pragma unroll
  for (int r = 0; r < ROWS; r++)
    a[r] = a_buf + a_off + min(row + r, m - 1) * a1 + i2 / group2 * a2 + i3 / group3 * a3;
#pragma unroll
  for (int c = 0; c < COLUMNS; c++) {
    b[c] = b_buf + b_off + min(column + c, n - 1) * b1 + i2 * b2 + i3 * b3;
#pragma unroll
    for (int r = 0; r < ROWS; r++) sums[r][c] = (floatW)0;
  }
  int whole = k / W * W;
  for (int i = me * W; i < whole; i += LOCAL * W) {
    floatW from_b[COLUMNS];
#pragma unroll
    for (int c = 0; c < COLUMNS; c++) from_b[c] = loadw_f32(b[c] + (long)i * 4);
#pragma unroll
    for (int r = 0; r < ROWS; r++) {
      floatW from_a = LOADW(A, a[r] + (long)i * SIZE(A));
#pragma unroll
      for (int c = 0; c < COLUMNS; c++) sums[r][c] += from_a * from_b[c];
    }
  }
#pragma unroll
  for (int r = 0; r < ROWS; r++) {
#pragma unroll
    for (int c = 0; c < COLUMNS; c++) {
      float sum = sumW(sums[r][c]);
      for (int i = whole + me; i < k; i += LOCAL)
        sum += LOAD(A, a[r] + (long)i * SIZE(A)) * load_f32(b[c] + (long)i * 4);
      sum = group_sum(sum, part);
      if (me == 0 && row + r < m && column + c < n)
        store_f32(y_buf + y_off + (((long)get_global_id(2) * n + column + c) * m + row + r) * 4,
                  sum);
    }
  }
}
