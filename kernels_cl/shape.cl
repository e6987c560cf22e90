// shape: what makes elements of its own; joining, repeating and setting are copies (copy.cl).
//
//   pad     out[i0, i1, i2, i3] = x[i0, i1, i2, i3], 0 where that is outside of x's m0 .. m3
//   arange  out[i] = first + i * step                                                        f32
//
// Items as in arithmetic.cl; out is packed. T is an unsigned type of x's size: bits pass unchanged.

#ifndef T
  #define T uint
#endif

__kernel TEAM_SIZE void pad(__global char *out_buf, long out_off, const __global char *x_buf,
                            long x_off, int n0, int n1, int n2, int rows, int m0, int m1, int m2,
                            int m3, long x0, long x1, long x2, long x3, int per_item) {
  EACH_ROW_OF_ITEM(n0, rows, per_item) {
    int i1 = row % n1, i2 = row / n1 % n2, i3 = row / n1 / n2, i = begin;
    __global T *out = (__global T *)(out_buf + out_off) + (long)row * n0;
    const __global char *x = x_buf + x_off + i1 * x1 + i2 * x2 + i3 * x3;
    int x_end = i1 < m1 && i2 < m2 && i3 < m3 ? min(m0, end) : 0;
    if (x0 == sizeof(T)) {
      for (; i + W <= x_end; i += W)
        CAT(vstore, W)(CAT(vload, W)(0, (const __global T *)x + i), 0, out + i);
    }
    for (; i < x_end; i++) out[i] = *(const __global T *)(x + i * x0);
    for (; i < end; i++) out[i] = 0;
  }
}

__kernel TEAM_SIZE void arange(__global char *out_buf, long out_off, int n0, int per_item,
                               float first, float step) {
  EACH_ROW_OF_ITEM(n0, 1, per_item) {
    for (int i = begin; i < end; i++) store_f32(out_buf + out_off + i * 4L, first + i * step);
  }
}
