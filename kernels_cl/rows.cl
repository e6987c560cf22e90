// rows: gather and scatter along dimension 1.
//
//   rows      out[:, i] = x[:, ids[i]]         id -1: zeros
//   set_rows  out[:, ids[i]] = values[:, i]    id -1, or outside the table: nothing
//
// An item takes W neighbours of one row. X is the table's type: f32, f16 or bf16; rows of i32 are
// gathered as f32, whose bits pass unchanged. Dimension 0 is contiguous.

#ifndef X
  #define X f32
#endif

__kernel void rows(__global char *out_buf, long out_off, const __global char *x_buf, long x_off,
                   const __global char *ids_buf, long ids_off, int n0, int n_ids, int n_rows,
                   long x1) {
  int chunks = (n0 + W - 1) / W;
  int row = get_global_id(0) / chunks;
  if (row >= n_ids) return;
  int start = get_global_id(0) % chunks * W, n = min(W, n0 - start);
  int id = ((const __global int *)(ids_buf + ids_off))[row];
  __global char *out = out_buf + out_off + ((long)row * n0 + start) * 4;
  const __global char *x = x_buf + x_off + id * x1 + start * SIZE(X);
  if (id < 0 || id >= n_rows) {
    for (int i = 0; i < n; i++) store_f32(out + i * 4, 0.0f);
  } else if (n == W) {
    storew_f32(out, LOADW(X, x));
  } else {
    for (int i = 0; i < n; i++) store_f32(out + i * 4, LOAD(X, x + i * SIZE(X)));
  }
}

__kernel void set_rows(__global char *out_buf, long out_off, const __global char *v_buf,
                       long v_off, const __global char *ids_buf, long ids_off, int n0, int n_ids,
                       int n_rows, long out1, long v1) {
  int chunks = (n0 + W - 1) / W;
  int row = get_global_id(0) / chunks;
  if (row >= n_ids) return;
  int start = get_global_id(0) % chunks * W, n = min(W, n0 - start);
  int id = ((const __global int *)(ids_buf + ids_off))[row];
  if (id < 0 || id >= n_rows) return;
  __global char *out = out_buf + out_off + id * out1 + start * SIZE(X);
  const __global char *values = v_buf + v_off + row * v1 + start * 4;
  if (n == W) {
    STOREW(X, out, loadw_f32(values));
  } else {
    for (int i = 0; i < n; i++) STORE(X, out + i * SIZE(X), load_f32(values + i * 4));
  }
}
