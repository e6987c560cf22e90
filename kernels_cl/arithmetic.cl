// arithmetic: elementwise operations; the second operand tiles into the first.
//
//   out[i0, i1, i2, i3] = a[i0, i1, i2, i3] OP b[i0 % m0, i1 % m1, i2 % m2, i3 % m3]
//
// Items number the runs of RUN vectors of W elements, in blocks of `per_item` rows:
//
//   row 0 | run 0 | run 1 | the rest |
//   row 1 |       |       |          |    per_item = 2: item 1 takes run 1 of rows 0 and 1
//
// out is packed and of a's type. A is a's type, B is b's: f32, f16 or bf16. OP is add, sub, mul or
// div: a program of its own each, since few are used together and each takes time to build.

#ifndef A
  #define A f32
#endif
#ifndef B
  #define B f32
#endif
#ifndef OP
  #define OP add
#endif

#define add_of(a, b) ((a) + (b))
#define sub_of(a, b) ((a) - (b))
#define mul_of(a, b) ((a) * (b))
#define div_of(a, b) ((a) / (b))
#define RESULT(a, b) CAT(OP, _of)(a, b)

__kernel TEAM_SIZE void OP(
    __global char *out_buf, long out_off, const __global char *a_buf, long a_off,
    const __global char *b_buf, long b_off, int n0, int n1, int n2, int rows, long a0, long a1,
    long a2, long a3, int m0, int m1, int m2, int m3, long b0, long b1, long b2, long b3,
    int per_item) {
  EACH_ROW_OF_ITEM(n0, rows, per_item) {
    int i1 = row % n1, i2 = row / n1 % n2, i3 = row / n1 / n2, i = begin;
    __global char *out = out_buf + out_off + (long)row * n0 * SIZE(A);
    const __global char *a = a_buf + a_off + i1 * a1 + i2 * a2 + i3 * a3;
    const __global char *b = b_buf + b_off + i1 % m1 * b1 + i2 % m2 * b2 + i3 % m3 * b3;
    if (a0 == SIZE(A) && b0 == SIZE(B) && m0 == n0) {
      for (; i < vectors_end; i += W)
        STOREW(A, out + i * SIZE(A),
               RESULT(LOADW(A, a + i * SIZE(A)), LOADW(B, b + i * SIZE(B))));
    }
    for (; i < end; i++)
      STORE(A, out + i * SIZE(A), RESULT(LOAD(A, a + i * a0), LOAD(B, b + i % m0 * b0)));
  }
}
