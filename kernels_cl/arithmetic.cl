// arithmetic: elementwise operations; the second operand tiles into the first.
//
//   out[i0, i1, i2, i3] = a[i0, i1, i2, i3] OP b[i0 % m0, i1 % m1, i2 % m2, i3 % m3]
//
// Items number the runs of RUN vectors of W elements, in blocks of `per_item` rows:
//
//   row 0 | run 0 | run 1 | the rest |
//   row 1 |       |       |          |    per_item = 2: item 1 takes run 1 of rows 0 and 1
//
// out is packed and of a's type. A is a's type, B is b's: f32, f16 or bf16.

#ifndef A
  #define A f32
#endif
#ifndef B
  #define B f32
#endif

#define BINARY(name, OP)                                                                          \
  __kernel TEAM_SIZE void name(                                                                   \
      __global char *out_buf, long out_off, const __global char *a_buf, long a_off,               \
      const __global char *b_buf, long b_off, int n0, int n1, int n2, int rows, long a0, long a1, \
      long a2, long a3, int m0, int m1, int m2, int m3, long b0, long b1, long b2, long b3,       \
      int per_item) {                                                                             \
    EACH_ROW_OF_ITEM(n0, rows, per_item) {                                                        \
      int i1 = row % n1, i2 = row / n1 % n2, i3 = row / n1 / n2, i = begin;                       \
      __global char *out = out_buf + out_off + (long)row * n0 * SIZE(A);                          \
      const __global char *a = a_buf + a_off + i1 * a1 + i2 * a2 + i3 * a3;                       \
      const __global char *b = b_buf + b_off + i1 % m1 * b1 + i2 % m2 * b2 + i3 % m3 * b3;        \
      if (a0 == SIZE(A) && b0 == SIZE(B) && m0 == n0) {                                           \
        for (; i < vectors_end; i += W)                                                           \
          STOREW(A, out + i * SIZE(A), LOADW(A, a + i * SIZE(A)) OP LOADW(B, b + i * SIZE(B)));   \
      }                                                                                           \
      for (; i < end; i++)                                                                        \
        STORE(A, out + i * SIZE(A), LOAD(A, a + i * a0) OP LOAD(B, b + i % m0 * b0));             \
    }                                                                                             \
  }

BINARY(add, +)
BINARY(sub, -)
BINARY(mul, *)
BINARY(div, /)

// out = f(a), one operand and two scalars.
#define UNARY(name, EXPRESSION)                                                                   \
  __kernel TEAM_SIZE void name(                                                                   \
      __global char *out_buf, long out_off, const __global char *a_buf, long a_off, int n0, int n1,\
      int n2, int rows, long a0, long a1, long a2, long a3, int per_item, float s, float t) {     \
    EACH_ROW_OF_ITEM(n0, rows, per_item) {                                                        \
      int i1 = row % n1, i2 = row / n1 % n2, i3 = row / n1 / n2, i = begin;                       \
      __global char *out = out_buf + out_off + (long)row * n0 * SIZE(A);                          \
      const __global char *a = a_buf + a_off + i1 * a1 + i2 * a2 + i3 * a3;                       \
      if (a0 == SIZE(A)) {                                                                        \
        for (; i < vectors_end; i += W) {                                                         \
          floatW x = LOADW(A, a + i * SIZE(A));                                                   \
          STOREW(A, out + i * SIZE(A), EXPRESSION);                                               \
        }                                                                                         \
      }                                                                                           \
      for (; i < end; i++) {                                                                      \
        float x = LOAD(A, a + i * a0);                                                            \
        STORE(A, out + i * SIZE(A), EXPRESSION);                                                  \
      }                                                                                           \
    }                                                                                             \
  }

UNARY(scale, x * s)
UNARY(softcap, s * tanh(x / s))
UNARY(clamp_, x < s ? s : x > t ? t : x)
UNARY(sqr, x * x)
UNARY(sqrt_, sqrt(x))
UNARY(sin_, sin(x))
UNARY(cos_, cos(x))

// out[:, u, t] = a[:, u, t] + b[:, ids[u, t]]; an id outside of b's `m1` rows adds nothing. f32.
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
