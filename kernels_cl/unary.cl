// unary: out = f(a), elementwise, of one operand and two scalars s and t.
//
// Items as in arithmetic.cl. out is packed and of a's type A: f32, f16 or bf16. OP, one of those
// below, has a program of its own. It is named whole, as PoCL makes macros of functions.

#ifndef A
  #define A f32
#endif
#ifndef OP
  #define OP scale_of
#endif

#define scale_of(x) ((x) * s)
#define softcap_of(x) (s * tanh((x) / s))
#define clamp_of(x) ((x) < s ? s : (x) > t ? t : (x))
#define sqr_of(x) ((x) * (x))
#define sqrt_of(x) sqrt(x)
// PoCL 3.0 takes the smallest numbers for 0.0099 where an infinity or a NaN is beside them.
#define sin_of(x) (fabs(x) < 1e-4f ? (x) : sin(x))
#define cos_of(x) (fabs(x) < 1e-4f ? 1.0f : cos(x))
#define exp_of(x) exp(x)
#define softplus_of(x) ((x) > 20.0f ? (x) : log1p(exp(x)))

__kernel TEAM_SIZE void CAT(each_, OP)(
    __global char *out_buf, long out_off, const __global char *a_buf, long a_off, int n0, int n1,
    int n2, int rows, long a0, long a1, long a2, long a3, int per_item, float s, float t) {
  EACH_ROW_OF_ITEM(n0, rows, per_item) {
    int i1 = row % n1, i2 = row / n1 % n2, i3 = row / n1 / n2, i = begin;
    __global char *out = out_buf + out_off + (long)row * n0 * SIZE(A);
    const __global char *a = a_buf + a_off + i1 * a1 + i2 * a2 + i3 * a3;
    if (a0 == SIZE(A)) {
      for (; i < vectors_end; i += W) {
        floatW x = LOADW(A, a + i * SIZE(A));
        STOREW(A, out + i * SIZE(A), OP(x));
      }
    }
    for (; i < end; i++) {
      float x = LOAD(A, a + i * a0);
      STORE(A, out + i * SIZE(A), OP(x));
    }
  }
}
