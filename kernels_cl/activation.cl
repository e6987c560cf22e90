// activation: out = act(gate), or act(gate) * up.
//
//   silu(x) = x / (1 + exp(-x))
//   gelu(x) = x / (1 + exp(-2u)),  u = sqrt(2/pi) (x + 0.044715 x^3)
//
// The second is 0.5 x (1 + tanh(u)) without a tanh; exp runs to infinity or 0 at the ends, where
// the quotient is -0 and x. Items as in arithmetic.cl: W neighbours of one row. f32, out packed.

#define SILU(x) (x / (1.0f + exp(-x)))
// 2 sqrt(2/pi) = 1.5957691216
#define GELU(x) (x / (1.0f + exp(-1.5957691216f * x * (1.0f + 0.044715f * x * x))))

#define ACTIVATION(name, ACT)                                                                     \
  __kernel void name(__global char *out_buf, long out_off, const __global char *x_buf, long x_off,\
                     const __global char *up_buf, long up_off, int n0, int n1, int n2, int rows,  \
                     long x0, long x1, long x2, long x3, int has_up, long u0, long u1, long u2,   \
                     long u3) {                                                                   \
    int chunks = (n0 + W - 1) / W;                                                                \
    int row = get_global_id(0) / chunks;                                                          \
    if (row >= rows) return;                                                                      \
    int start = get_global_id(0) % chunks * W;                                                    \
    int i1 = row % n1, i2 = row / n1 % n2, i3 = row / n1 / n2;                                    \
    __global char *out = out_buf + out_off + ((long)row * n0 + start) * 4;                        \
    const __global char *x = x_buf + x_off + i1 * x1 + i2 * x2 + i3 * x3 + start * x0;            \
    const __global char *up = up_buf + up_off + i1 * u1 + i2 * u2 + i3 * u3 + start * u0;         \
    if (start + W <= n0 && x0 == 4 && (u0 == 4 || !has_up)) {                                     \
      floatW v = loadw_f32(x), y = ACT(v);                                                        \
      if (has_up) y *= loadw_f32(up);                                                             \
      storew_f32(out, y);                                                                         \
    } else {                                                                                      \
      for (int i = 0; i < min(W, n0 - start); i++) {                                              \
        float v = load_f32(x + i * x0), y = ACT(v);                                               \
        store_f32(out + i * 4, has_up ? y * load_f32(up + i * u0) : y);                           \
      }                                                                                           \
    }                                                                                             \
  }

ACTIVATION(silu, SILU)
ACTIVATION(gelu, GELU)
