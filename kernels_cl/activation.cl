// activation: out = act(gate), or act(gate) * up.
//
// Items as in arithmetic.cl. out is packed and of gate's type. A is gate's type, B is up's: f32, f16
// or bf16. SILU and GELU: common.cl. Only swiglu_limit reads the two scalars.

#ifndef A
  #define A f32
#endif
#ifndef B
  #define B f32
#endif

#define ACTIVATION(name, EXPRESSION)                                                              \
  __kernel TEAM_SIZE void name(                                                                   \
      __global char *out_buf, long out_off, const __global char *x_buf, long x_off,               \
      const __global char *up_buf, long up_off, int n0, int n1, int n2, int rows, long x0, long x1,\
      long x2, long x3, int has_up, long u0, long u1, long u2, long u3, int per_item,             \
      float alpha, float limit) {                                                                 \
    EACH_ROW_OF_ITEM(n0, rows, per_item) {                                                        \
      int i1 = row % n1, i2 = row / n1 % n2, i3 = row / n1 / n2, i = begin;                       \
      __global char *out = out_buf + out_off + (long)row * n0 * SIZE(A);                          \
      const __global char *x = x_buf + x_off + i1 * x1 + i2 * x2 + i3 * x3;                       \
      const __global char *up = up_buf + up_off + i1 * u1 + i2 * u2 + i3 * u3;                    \
      if (x0 == SIZE(A) && (u0 == SIZE(B) || !has_up)) {                                          \
        for (; i < vectors_end; i += W) {                                                         \
          floatW v = LOADW(A, x + i * SIZE(A)), u = 1.0f;                                         \
          if (has_up) u = LOADW(B, up + i * SIZE(B));                                             \
          STOREW(A, out + i * SIZE(A), EXPRESSION);                                               \
        }                                                                                         \
      }                                                                                           \
      for (; i < end; i++) {                                                                      \
        float v = LOAD(A, x + i * x0), u = has_up ? LOAD(B, up + i * u0) : 1.0f;                  \
        STORE(A, out + i * SIZE(A), EXPRESSION);                                                  \
      }                                                                                           \
    }                                                                                             \
  }

#define BELOW(x, most) ((x) > (most) ? (most) : (x))
#define WITHIN(x, most) ((x) < -(most) ? -(most) : BELOW(x, most))

ACTIVATION(silu, SILU(v) * u)
ACTIVATION(gelu, GELU(v) * u)
ACTIVATION(quick_gelu, v / (1.0f + exp(-1.702f * v)) * u)
ACTIVATION(relu, (v < 0.0f ? 0.0f : v) * u)
ACTIVATION(tanh_, tanh(v) * u)
ACTIVATION(sigmoid, u / (1.0f + exp(-v)))
// g sigmoid(alpha g) (u + 1) of bounded g and u
ACTIVATION(swiglu_limit, BELOW(v, limit) / (1.0f + exp(-alpha * BELOW(v, limit))) *
                             (WITHIN(u, limit) + 1.0f))
