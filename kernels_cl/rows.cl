// rows: gather and scatter along dimension 1.
//
//   rows      out[:, i] = x[:, ids[i]]         id -1: zeros
//   set_rows  out[:, ids[i]] = values[:, i]    id -1, or outside the table: nothing
//
// Items as in arithmetic.cl. X is the table's type: f32, f16 or bf16; rows of i32 are
// gathered as f32, whose bits pass unchanged. Dimension 0 is contiguous.

#ifndef X
  #define X f32
#endif

__kernel TEAM_SIZE void rows(__global char *out_buf, long out_off, const __global char *x_buf,
                             long x_off, const __global char *ids_buf, long ids_off, int n0,
                             int n_ids, int n_rows, long x1, int per_item) {
  EACH_ROW_OF_ITEM(n0, n_ids, per_item) {
    int id = ((const __global int *)(ids_buf + ids_off))[row], i = begin;
    __global char *out = out_buf + out_off + (long)row * n0 * 4;
    if (id < 0 || id >= n_rows) {
      for (; i < end; i++) store_f32(out + i * 4, 0.0f);
    } else {
      const __global char *x = x_buf + x_off + id * x1;
      for (; i < vectors_end; i += W) storew_f32(out + i * 4, LOADW(X, x + i * SIZE(X)));
      for (; i < end; i++) store_f32(out + i * 4, LOAD(X, x + i * SIZE(X)));
    }
  }
}

__kernel TEAM_SIZE void set_rows(__global char *out_buf, long out_off,
                                 const __global char *v_buf, long v_off,
                                 const __global char *ids_buf, long ids_off, int n0, int n_ids,
                                 int n_rows, long out1, long v1, int per_item) {
  EACH_ROW_OF_ITEM(n0, n_ids, per_item) {
    int id = ((const __global int *)(ids_buf + ids_off))[row], i = begin;
    if (id < 0 || id >= n_rows) continue;
    __global char *out = out_buf + out_off + id * out1;
    const __global char *values = v_buf + v_off + row * v1;
    for (; i < vectors_end; i += W) STOREW(X, out + i * SIZE(X), loadw_f32(values + i * 4));
    for (; i < end; i++) STORE(X, out + i * SIZE(X), load_f32(values + i * 4));
  }
}
