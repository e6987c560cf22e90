// move: elements from one strided tensor into another, in the same or another plain type.
//
//   move    out[i0, i1, i2, i3] = x[i0 % m0, i1 % m1, i2 % m2, i3 % m3]
//   linear  element k of out = element k of x, counted along dimension 0 first; the shapes differ
//
// Items as in arithmetic.cl. X is x's type, Y out's: f32, f16, bf16, i8 to i64; or u8 to u64, bits
// that pass unchanged. R is what an element is on its way: that of bits, long between integers, else
// float. Floats become integers by truncation; 16-bit floats round to nearest even.

#ifndef X
  #define X f32
#endif
#ifndef Y
  #define Y f32
#endif
#ifndef R
  #define R float
#endif
#define RW CAT(R, W)

#define INTEGER(name, C)                                                                          \
  static R load_##name(const __global char *p) { return (R) * (const __global C *)p; }            \
  static RW loadw_##name(const __global char *p) {                                                \
    return CAT(convert_, RW)(CAT(vload, W)(0, (const __global C *)p));                            \
  }                                                                                               \
  static void store_##name(__global char *p, R v) { *(__global C *)p = (C)v; }                    \
  static void storew_##name(__global char *p, RW v) {                                             \
    CAT(vstore, W)(CAT3(convert_##C, W, _rtz)(v), 0, (__global C *)p);                            \
  }

INTEGER(i8, char)
INTEGER(i16, short)
INTEGER(i32, int)
INTEGER(i64, long)
INTEGER(u8, uchar)
INTEGER(u16, ushort)
INTEGER(u32, uint)
INTEGER(u64, ulong)
#define size_i8 1
#define size_i16 2
#define size_i32 4
#define size_i64 8
#define size_u8 1
#define size_u16 2
#define size_u32 4
#define size_u64 8

__kernel TEAM_SIZE void move(__global char *out_buf, long out_off, const __global char *x_buf,
                             long x_off, int n0, int n1, int n2, int rows, long out0, long out1,
                             long out2, long out3, int m0, int m1, int m2, int m3, long x0, long x1,
                             long x2, long x3, int per_item) {
  EACH_ROW_OF_ITEM(n0, rows, per_item) {
    int i1 = row % n1, i2 = row / n1 % n2, i3 = row / n1 / n2, i = begin;
    __global char *out = out_buf + out_off + i1 * out1 + i2 * out2 + i3 * out3;
    const __global char *x = x_buf + x_off + i1 % m1 * x1 + i2 % m2 * x2 + i3 % m3 * x3;
    if (x0 == SIZE(X) && out0 == SIZE(Y) && m0 == n0) {
      for (; i < vectors_end; i += W) STOREW(Y, out + i * SIZE(Y), LOADW(X, x + i * SIZE(X)));
    }
    for (; i < end; i++) STORE(Y, out + i * out0, LOAD(X, x + (m0 == n0 ? i : i % m0) * x0));
  }
}

// Where element k of a tensor of n0 x n1 x n2 x ... lies.
static long place_of(long k, int n0, int n1, int n2, long s0, long s1, long s2, long s3) {
  long row = k / n0, plane = row / n1;
  return k % n0 * s0 + row % n1 * s1 + plane % n2 * s2 + plane / n2 * s3;
}

// An item takes `each` elements, one by one.
__kernel TEAM_SIZE void linear(__global char *out_buf, long out_off, const __global char *x_buf,
                               long x_off, long count, int n0, int n1, int n2, long out0, long out1,
                               long out2, long out3, int m0, int m1, int m2, long x0, long x1,
                               long x2, long x3, int each) {
  long begin = (long)get_global_id(0) * each, end = min(begin + each, count);
  for (long k = begin; k < end; k++) {
    const __global char *x = x_buf + x_off + place_of(k, m0, m1, m2, x0, x1, x2, x3);
    STORE(Y, out_buf + out_off + place_of(k, n0, n1, n2, out0, out1, out2, out3), LOAD(X, x));
  }
}
