// matmul_plain: products of rows that lie along K as in the file, in f32.
//
//   matmul      y[m, n, i2, i3] = sum_k a[k, m, i2 / group2, i3 / group3] b[k, n, i2, i3]
//   matmul_id   y[m, u, t]      = sum_k a[k, m, ids[u, t]] b[k, u mod b_used, t]    id -1: zeros
//
// A is the type of a: f32, f16, bf16 or blocks (block_formats.cl); B is f32, f16 or bf16.
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
#ifndef B
  #define B f32       // element type of b
#endif
#ifndef ROWS
  #define ROWS 4
#endif
#ifndef COLUMNS
  #define COLUMNS 1
#endif
#ifndef STEP
  #define STEP 1      // vectors an item takes in a turn; several need a k of whole turns
#endif

// y[r][c] = row r of a times row c of b, in all items of the team.
WITH_LOCAL void products(const __global char **a, const __global char **b, int k,
                         __local float *part, float y[ROWS][COLUMNS]) {
  int me = LOCAL == 1 ? 0 : get_local_id(0), turns = k / (W * STEP);
  floatW sums[ROWS][COLUMNS];
#pragma unroll
  for (int r = 0; r < ROWS; r++) {
#pragma unroll
    for (int c = 0; c < COLUMNS; c++) sums[r][c] = (floatW)0;
  }
  for (int turn = me; turn < turns; turn += LOCAL) {
    float4 scales[ROWS];
#pragma unroll
    for (int r = 0; r < ROWS; r++) scales[r] = SCALES(A, a[r], turn * STEP * W);
#pragma unroll
    for (int step = 0; step < STEP; step++) {
      int i = (turn * STEP + step) * W;
      floatW from_b[COLUMNS];
#pragma unroll
      for (int c = 0; c < COLUMNS; c++) from_b[c] = FETCHW(B, b[c], i);
#pragma unroll
      for (int r = 0; r < ROWS; r++) {
        floatW from_a = SCALEDW(A, a[r], i, scales[r]);
#pragma unroll
        for (int c = 0; c < COLUMNS; c++) sums[r][c] += from_a * from_b[c];
      }
    }
  }
#pragma unroll
  for (int r = 0; r < ROWS; r++) {
#pragma unroll
    for (int c = 0; c < COLUMNS; c++) {
      float sum = sumW(sums[r][c]);
#if STEP == 1
      for (int i = turns * W + me; i < k; i += LOCAL) sum += FETCH(A, a[r], i) * FETCH(B, b[c], i);
#endif
      y[r][c] = group_sum(sum, part);
    }
  }
}

// Item (g, h, i) makes rows g ROWS ... and columns h COLUMNS ... of batch i.
__kernel __attribute__((vec_type_hint(floatW)))
void matmul(__global char *y_buf, long y_off, const __global char *a_buf, long a_off,
            const __global char *b_buf, long b_off, int k, int m, int n, int n2, int group2,
            int group3, long a1, long a2, long a3, long b1, long b2, long b3) {
  __local float part[LOCAL];
  int row = get_global_id(0) / LOCAL * ROWS, column = get_global_id(1) * COLUMNS;
  int i2 = get_global_id(2) % n2, i3 = get_global_id(2) / n2;
  if (row >= m) return;
  const __global char *a[ROWS], *b[COLUMNS];
  float y[ROWS][COLUMNS];
#pragma unroll
  for (int r = 0; r < ROWS; r++)
    a[r] = a_buf + a_off + min(row + r, m - 1) * a1 + i2 / group2 * a2 + i3 / group3 * a3;
#pragma unroll
  for (int c = 0; c < COLUMNS; c++)
    b[c] = b_buf + b_off + min(column + c, n - 1) * b1 + i2 * b2 + i3 * b3;
  products(a, b, k, part, y);
  int rows = LOCAL > 1 && get_local_id(0) > 0 ? 0 : min(ROWS, m - row);
#pragma unroll
  for (int c = 0; c < COLUMNS; c++) {
    if (column + c >= n) break;
    long at = ((long)get_global_id(2) * n + column + c) * m + row;
    __global float *out = (__global float *)(y_buf + y_off) + at;
#pragma unroll
    for (int r = 0; r < ROWS; r++)
      if (r < rows) out[r] = y[r][c];
  }
}

// Where b's row of pair `p` of (u, t) lies, and p's expert: `experts` for ids that name none.
#define ROW_OF_PAIR(p) (b_buf + b_off + (p) % used % b_used * b1 + (p) / used * b2)
static int expert_of(const __global char *ids, int p, int used, long id0, long id1, int experts) {
  int id = *(const __global int *)(ids + p % used * id0 + p / used * id1);
  return id >= 0 && id < experts ? id : experts;
}
#define EXPERT_OF_PAIR(p) expert_of(ids_buf + ids_off, p, used, id0, id1, experts)

// Weights are decoded once for COLUMNS pairs of an expert. Item (g, h) makes rows g ROWS ... of all
// pairs of expert h; where there are no more pairs than experts, of pair h and those of the same
// expert, unless an earlier pair has that one.
__kernel __attribute__((vec_type_hint(floatW)))
void matmul_id(__global char *y_buf, long y_off, const __global char *a_buf, long a_off,
               const __global char *b_buf, long b_off, const __global char *ids_buf, long ids_off,
               int k, int m, int experts, int used, int pairs, int b_used, long a1, long a2,
               long b1, long b2, long id0, long id1) {
  __local float part[LOCAL];
  int row = get_global_id(0) / LOCAL * ROWS, expert = get_global_id(1), next = 0;
  if (row >= m) return;
  if (pairs <= experts) {
    next = expert, expert = EXPERT_OF_PAIR(next);
    for (int p = 0; p < next; p++)
      if (EXPERT_OF_PAIR(p) == expert) return;
  }
  const __global char *a[ROWS], *b[COLUMNS];
  float y[ROWS][COLUMNS];
#pragma unroll
  for (int r = 0; r < ROWS; r++)
    a[r] = a_buf + a_off + min(row + r, m - 1) * a1 + expert % experts * a2;
  while (next < pairs) {
    int found = 0, columns[COLUMNS];
    for (; next < pairs && found < COLUMNS; next++)
      if (EXPERT_OF_PAIR(next) == expert) columns[found++] = next;
    if (found == 0) break;
#pragma unroll
    for (int c = 0; c < COLUMNS; c++) b[c] = ROW_OF_PAIR(columns[min(c, found - 1)]);
    products(a, b, expert < experts ? k : 0, part, y);
    int rows = LOCAL > 1 && get_local_id(0) > 0 ? 0 : min(ROWS, m - row);
    for (int c = 0; c < found; c++) {
      __global float *out = (__global float *)(y_buf + y_off) + (long)columns[c] * m + row;
#pragma unroll
      for (int r = 0; r < ROWS; r++)
        if (r < rows) out[r] = y[r][c];
    }
  }
}
