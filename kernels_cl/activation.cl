// activation: out = act(gate), or act(gate) * up.
//
// Items as in arithmetic.cl. out is packed and of gate's type. A is gate's type, B is up's: f32, f16
// or bf16. OP, one of those below, has a program of its own; SILU and what GELUs there are: common.cl.

#ifndef A
  #define A f32
#endif
#ifndef B
  #define B f32
#endif
#ifndef OP
  #define OP silu_of
#endif

#define silu_of(v, u) (SILU(v) * (u))
#define gelu_of(v, u) (GELU(v) * (u))
#define gelu_erf_of(v, u) (GELU_ERF(v) * (u))
#define quick_gelu_of(v, u) (QUICK_GELU(v) * (u))
#define relu_of(v, u) (((v) < 0.0f ? 0.0f : (v)) * (u))
#define tanh_of(v, u) (tanh(v) * (u))
#define sigmoid_of(v, u) ((u) / (1.0f + exp(-(v))))
// g sigmoid(alpha g) (u + 1) of bounded g and u
#define BELOW(x) ((x) > limit ? limit : (x))
#define swiglu_limit_of(v, u)                                                                     \
  (BELOW(v) / (1.0f + exp(-alpha * BELOW(v))) * (((u) < -limit ? -limit : BELOW(u)) + 1.0f))
// alpha x^2 + slope x above zero, limit (e^x - 1 - x) + slope x elsewhere
#define xielu_of(v, u)                                                                            \
  ((slope * (v) + ((v) > 0.0f ? alpha * (v) * (v) : limit * (exp(NEGATIVE(v)) - 1.0f - (v)))) * (u))
#define NEGATIVE(x) ((x) > 0.0f ? 0.0f : (x))

__kernel TEAM_SIZE void CAT(each_, OP)(
    __global char *out_buf, long out_off, const __global char *x_buf, long x_off,
    const __global char *up_buf, long up_off, int n0, int n1, int n2, int rows, long x0, long x1,
    long x2, long x3, int has_up, long u0, long u1, long u2, long u3, int per_item,
    float alpha, float limit, float slope) {
  EACH_ROW_OF_ITEM(n0, rows, per_item) {
    int i1 = row % n1, i2 = row / n1 % n2, i3 = row / n1 / n2, i = begin;
    __global char *out = out_buf + out_off + (long)row * n0 * SIZE(A);
    const __global char *x = x_buf + x_off + i1 * x1 + i2 * x2 + i3 * x3;
    const __global char *up = up_buf + up_off + i1 * u1 + i2 * u2 + i3 * u3;
    if (x0 == SIZE(A) && (u0 == SIZE(B) || !has_up)) {
      for (; i < vectors_end; i += W) {
        floatW v = LOADW(A, x + i * SIZE(A)), u = 1.0f;
        if (has_up) u = LOADW(B, up + i * SIZE(B));
        STOREW(A, out + i * SIZE(A), OP(v, u));
      }
    }
    for (; i < end; i++) {
      float v = LOAD(A, x + i * x0), u = has_up ? LOAD(B, up + i * u0) : 1.0f;
      STORE(A, out + i * SIZE(A), OP(v, u));
    }
  }
}
