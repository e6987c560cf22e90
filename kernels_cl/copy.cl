// copy: rows that become blocks, or are blocks; between plain types they are moved (move.cl).
//
//   out[i0, i1, i2, i3] = x[i0, i1, i2, i3]
//
// Items as in arithmetic.cl. Rows have no gaps. FROM is a type of blocks that are read
// (block_formats.cl), Y what they become: f32, f16 or bf16; B is one of blocks that are written
// (blocks.cl).

#ifndef FROM
  #define FROM q8_0
#endif
#ifndef Y
  #define Y f32
#endif
#ifndef B
  #define B q8_0
#endif

#define COPY                                                                                      \
  __global char *out_buf, long out_off, const __global char *x_buf, long x_off, int n0, int n1,   \
      int n2, int rows, long out1, long out2, long out3, long x1, long x2, long x3, int per_item
#define PLACES                                                                                    \
  int i1 = row % n1, i2 = row / n1 % n2, i3 = row / n1 / n2;                                      \
  __global char *out = out_buf + out_off + i1 * out1 + i2 * out2 + i3 * out3;                     \
  const __global char *x = x_buf + x_off + i1 * x1 + i2 * x2 + i3 * x3;

// Blocks become Y.
__kernel TEAM_SIZE void from_blocks(COPY) {
  EACH_ROW_OF_ITEM(n0, rows, per_item) {
    PLACES
    for (int i = begin; i < vectors_end; i += W) STOREW(Y, out + i * SIZE(Y), FETCHW(FROM, x, i));
  }
}

// f32 becomes blocks; n0 counts these.
__kernel TEAM_SIZE void to_blocks(COPY) {
  EACH_ROW_OF_ITEM(n0, rows, per_item) {
    PLACES
    const __global float *numbers = (const __global float *)x;
    for (int i = begin; i < end; i++)
      PUT(B, out + i * SIZE(B), vload16(2 * i, numbers), vload16(2 * i + 1, numbers));
  }
}
