// add_id: out[:, u, t] = a[:, u, t] + b[:, ids[u, t]]
//
// Items as in arithmetic.cl. f32, out packed. An id outside of b's `m1` rows adds nothing.

__kernel TEAM_SIZE void add_id(__global char *out_buf, long out_off, const __global char *a_buf,
                               long a_off, const __global char *b_buf, long b_off,
                               const __global char *ids_buf, long ids_off, int n0, int n1, int rows,
                               int m1, long a0, long a1, long a2, long b0, long b1, long id0,
                               long id1, int per_item) {
  EACH_ROW_OF_ITEM(n0, rows, per_item) {
    int i1 = row % n1, i2 = row / n1, i = begin;
    int id = *(const __global int *)(ids_buf + ids_off + i1 * id0 + i2 * id1);
    int known = 0 <= id && id < m1;
    __global char *out = out_buf + out_off + (long)row * n0 * 4;
    const __global char *a = a_buf + a_off + i1 * a1 + i2 * a2;
    const __global char *b = b_buf + b_off + (known ? id * b1 : 0);
    if (known && a0 == 4 && b0 == 4) {
      for (; i < vectors_end; i += W)
        storew_f32(out + i * 4, loadw_f32(a + i * 4) + loadw_f32(b + i * 4));
    }
    for (; i < end; i++)
      store_f32(out + i * 4, load_f32(a + i * a0) + (known ? load_f32(b + i * b0) : 0.0f));
  }
}
