// copy: a packed copy of any view, in the same or another type.
//
//   out[i0, i1, i2, i3] = x[i0, i1, i2, i3]
//
// Items as in arithmetic.cl. X is x's type, Y out's:
// f32, f16, bf16, i32, or u16 for halves that pass unchanged (f32 does that for 4 bytes). Floats
// become i32 by truncation; 16-bit floats round to nearest even.

#ifndef X
  #define X f32
#endif
#ifndef Y
  #define Y f32
#endif

#define size_i32 4
#define size_u16 2

static float load_i32(const __global char *p) { return *(const __global int *)p; }
static floatW loadw_i32(const __global char *p) {
  return CAT(convert_float, W)(CAT(vload, W)(0, (const __global int *)p));
}
static void store_i32(__global char *p, float v) { *(__global int *)p = v; }
static void storew_i32(__global char *p, floatW v) {
  CAT(vstore, W)(CAT3(convert_int, W, _rtz)(v), 0, (__global int *)p);
}

// A ushort is exact as a float.
static float load_u16(const __global char *p) { return *(const __global ushort *)p; }
static floatW loadw_u16(const __global char *p) {
  return CAT(convert_float, W)(CAT(vload, W)(0, (const __global ushort *)p));
}
static void store_u16(__global char *p, float v) { *(__global ushort *)p = v; }
static void storew_u16(__global char *p, floatW v) {
  CAT(vstore, W)(CAT3(convert_ushort, W, _rtz)(v), 0, (__global ushort *)p);
}

__kernel TEAM_SIZE void copy(__global char *out_buf, long out_off, const __global char *x_buf,
                             long x_off, int n0, int n1, int n2, int rows, long x0, long x1,
                             long x2, long x3, int per_item) {
  EACH_ROW_OF_ITEM(n0, rows, per_item) {
    int i1 = row % n1, i2 = row / n1 % n2, i3 = row / n1 / n2, i = begin;
    __global char *out = out_buf + out_off + (long)row * n0 * SIZE(Y);
    const __global char *x = x_buf + x_off + i1 * x1 + i2 * x2 + i3 * x3;
    if (x0 == SIZE(X)) {
      for (; i < vectors_end; i += W) STOREW(Y, out + i * SIZE(Y), LOADW(X, x + i * SIZE(X)));
    }
    for (; i < end; i++) STORE(Y, out + i * SIZE(Y), LOAD(X, x + i * x0));
  }
}
