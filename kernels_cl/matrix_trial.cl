// matrix_trial: y[64 columns, 64 rows] = one step of products (parts/fragments.cl) of 64 rows of a and
// as many columns of x, STEP words of each, for instructions that are tried before they are used.

__kernel WIDE_ITEMS void matrix_trial(__global float *y, const __global uint *a,
                                      const __global uint *x) {
  __local uint rows[SIDE * A_STRIDE], columns[SIDE * X_STRIDE];
  for (uint i = ITEM; i < SIDE * STEP; i += ITEMS) {
    rows[i / STEP * A_STRIDE + i % STEP] = a[i];
    columns[i / STEP * X_STRIDE + i % STEP] = x[i];
  }
  barrier(CLK_LOCAL_MEM_FENCE);
#define NOTHING(i) sum[i] = 0;
#define STORE_SUM(i) y[COLUMN_AT(across, i) * SIDE + ROW_AT(down, i)] = sum[i];
#define TRY(d, c)                                                                                 \
  {                                                                                               \
    const int down = d, across = c;                                                               \
    Sum sum[LANE_SUMS];                                                                           \
    REPEAT(LANE_SUMS, NOTHING)                                                                    \
    add_fragment(sum, rows + (WAVE_ROW + down * FRAGMENT_ROWS) * A_STRIDE,                        \
                 columns + (WAVE_COLUMN + across * FRAGMENT_COLUMNS) * X_STRIDE, LANE);           \
    REPEAT(LANE_SUMS, STORE_SUM)                                                                  \
  }
  EACH_FRAGMENT(TRY)
}
