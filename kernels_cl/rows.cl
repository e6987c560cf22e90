// rows: gather and scatter along dimension 1, for every i2 and i3 of the other dimensions.
//
//   rows        out[:, i] = x[:, ids[i]]         id -1: zeros
//   set_rows    out[:, ids[i]] = values[:, i]    id -1, or outside the table: nothing
//   set_blocks  set_rows into rows of blocks (blocks.cl)
//
// ids [n1, m2, m3] repeat along dimensions 2 and 3; ID is their type. Items as in arithmetic.cl.
// The table's type is FROM where it is read: f32, f16, bf16 or blocks (block_formats.cl); rows of i32
// are gathered as f32, whose bits pass unchanged. Where it is written it is X: f32, f16 or bf16, or
// B, blocks. Dimension 0 is contiguous.

#ifndef FROM
  #define FROM f32
#endif
#ifndef X
  #define X f32
#endif
#ifndef B
  #define B q8_0
#endif
#ifndef ID
  #define ID int
#endif

#define IDS const __global char *ids_buf, long ids_off, int m2, int m3, long id1, long id2, long id3
// Where row `row` of n1 x n2 x ... lies, and its id.
#define PLACE_OF_ROW                                                                              \
  int i1 = row % n1, i2 = row / n1 % n2, i3 = row / n1 / n2, i = begin;                           \
  const __global char *id_at = ids_buf + ids_off + i1 * id1 + i2 % m2 * id2 + i3 % m3 * id3;      \
  long id = *(const __global ID *)id_at;

__kernel TEAM_SIZE void rows(__global char *out_buf, long out_off, const __global char *x_buf,
                             long x_off, IDS, int n0, int n1, int n2, int rows, int n_rows, long x1,
                             long x2, long x3, int per_item) {
  EACH_ROW_OF_ITEM(n0, rows, per_item) {
    PLACE_OF_ROW
    __global char *out = out_buf + out_off + (long)row * n0 * 4;
    if (id < 0 || id >= n_rows) {
      for (; i < end; i++) store_f32(out + i * 4, 0.0f);
    } else {
      const __global char *x = x_buf + x_off + id * x1 + i2 * x2 + i3 * x3;
      for (; i < vectors_end; i += W) storew_f32(out + i * 4, FETCHW(FROM, x, i));
      for (; i < end; i++) store_f32(out + i * 4, FETCH(FROM, x, i));
    }
  }
}

#define SET_ARGUMENTS                                                                             \
  __global char *out_buf, long out_off, const __global char *v_buf, long v_off, IDS, int n0,      \
      int n1, int n2, int rows, int n_rows, long out1, long out2, long out3, long v1, long v2,    \
      long v3, int per_item
#define SET_PLACES                                                                                \
  PLACE_OF_ROW                                                                                    \
  if (id < 0 || id >= n_rows) continue;                                                           \
  __global char *out = out_buf + out_off + id * out1 + i2 * out2 + i3 * out3;                     \
  const __global char *values = v_buf + v_off + i1 * v1 + i2 * v2 + i3 * v3;

__kernel TEAM_SIZE void set_rows(SET_ARGUMENTS) {
  EACH_ROW_OF_ITEM(n0, rows, per_item) {
    SET_PLACES
    for (; i < vectors_end; i += W) STOREW(X, out + i * SIZE(X), loadw_f32(values + i * 4));
    for (; i < end; i++) STORE(X, out + i * SIZE(X), load_f32(values + i * 4));
  }
}

// n0 counts blocks.
__kernel TEAM_SIZE void set_blocks(SET_ARGUMENTS) {
  EACH_ROW_OF_ITEM(n0, rows, per_item) {
    SET_PLACES
    const __global float *x = (const __global float *)values;
    for (; i < end; i++)
      PUT(B, out + i * SIZE(B), vload16(2 * i, x), vload16(2 * i + 1, x));
  }
}
