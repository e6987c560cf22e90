// arithmetic: elementwise operations; the second operand tiles into the first.
//
//   out[i0, i1, i2, i3] = a[i0, i1, i2, i3] OP b[i0 % m0, i1 % m1, i2 % m2, i3 % m3]
//
// An item takes W neighbours of dimension 0 of one row; items number the chunks of all rows:
//
//   row 0 | chunk 0 | chunk 1 | chunk 2, the rest |
//   row 1 | chunk 3 | ...
//
// out is packed and of a's type. A is a's type, B is b's: f32 or f16.

#ifndef A
  #define A f32
#endif
#ifndef B
  #define B f32
#endif

#define BINARY(name, OP)                                                                          \
  __kernel void name(__global char *out_buf, long out_off, const __global char *a_buf, long a_off,\
                     const __global char *b_buf, long b_off, int n0, int n1, int n2, int rows,    \
                     long a0, long a1, long a2, long a3, int m0, int m1, int m2, int m3, long b0, \
                     long b1, long b2, long b3) {                                                 \
    int chunks = (n0 + W - 1) / W;                                                                \
    int row = get_global_id(0) / chunks;                                                          \
    if (row >= rows) return;                                                                      \
    int start = get_global_id(0) % chunks * W;                                                    \
    int i1 = row % n1, i2 = row / n1 % n2, i3 = row / n1 / n2;                                    \
    __global char *out = out_buf + out_off + ((long)row * n0 + start) * SIZE(A);                  \
    const __global char *a = a_buf + a_off + i1 * a1 + i2 * a2 + i3 * a3 + start * a0;            \
    const __global char *b = b_buf + b_off + i1 % m1 * b1 + i2 % m2 * b2 + i3 % m3 * b3;          \
    if (start + W <= n0 && a0 == SIZE(A) && m0 == n0 && b0 == SIZE(B)) {                          \
      STOREW(A, out, LOADW(A, a) OP LOADW(B, b + start * b0));                                    \
    } else {                                                                                      \
      for (int i = 0; i < min(W, n0 - start); i++)                                                \
        STORE(A, out + i * SIZE(A), LOAD(A, a + i * a0) OP LOAD(B, b + (start + i) % m0 * b0));   \
    }                                                                                             \
  }

BINARY(add, +)
BINARY(sub, -)
BINARY(mul, *)
BINARY(div, /)

// out = f(a), one operand and a scalar.
#define UNARY(name, EXPRESSION)                                                                   \
  __kernel void name(__global char *out_buf, long out_off, const __global char *a_buf, long a_off,\
                     int n0, int n1, int n2, int rows, long a0, long a1, long a2, long a3,        \
                     float s) {                                                                   \
    int chunks = (n0 + W - 1) / W;                                                                \
    int row = get_global_id(0) / chunks;                                                          \
    if (row >= rows) return;                                                                      \
    int start = get_global_id(0) % chunks * W;                                                    \
    int i1 = row % n1, i2 = row / n1 % n2, i3 = row / n1 / n2;                                    \
    __global char *out = out_buf + out_off + ((long)row * n0 + start) * SIZE(A);                  \
    const __global char *a = a_buf + a_off + i1 * a1 + i2 * a2 + i3 * a3 + start * a0;            \
    if (start + W <= n0 && a0 == SIZE(A)) {                                                       \
      floatW x = LOADW(A, a);                                                                     \
      STOREW(A, out, EXPRESSION);                                                                 \
    } else {                                                                                      \
      for (int i = 0; i < min(W, n0 - start); i++) {                                              \
        float x = LOAD(A, a + i * a0);                                                            \
        STORE(A, out + i * SIZE(A), EXPRESSION);                                                  \
      }                                                                                           \
    }                                                                                             \
  }

UNARY(scale, x * s)
UNARY(softcap, s * tanh(x / s))
