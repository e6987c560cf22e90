// activation: out = act(gate), or act(gate) * up.
//
// Items as in arithmetic.cl. f32, out packed. SILU and GELU: common.cl.

#define ACTIVATION(name, ACT)                                                                     \
  __kernel TEAM_SIZE void name(                                                                   \
      __global char *out_buf, long out_off, const __global char *x_buf, long x_off,               \
      const __global char *up_buf, long up_off, int n0, int n1, int n2, int rows, long x0, long x1,\
      long x2, long x3, int has_up, long u0, long u1, long u2, long u3, int per_item) {           \
    EACH_ROW_OF_ITEM(n0, rows, per_item) {                                                        \
      int i1 = row % n1, i2 = row / n1 % n2, i3 = row / n1 / n2, i = begin;                       \
      __global char *out = out_buf + out_off + (long)row * n0 * 4;                                \
      const __global char *x = x_buf + x_off + i1 * x1 + i2 * x2 + i3 * x3;                       \
      const __global char *up = up_buf + up_off + i1 * u1 + i2 * u2 + i3 * u3;                    \
      if (x0 == 4 && (u0 == 4 || !has_up)) {                                                      \
        for (; i < vectors_end; i += W) {                                                         \
          floatW v = loadw_f32(x + i * 4), y = ACT(v);                                            \
          if (has_up) y *= loadw_f32(up + i * 4);                                                 \
          storew_f32(out + i * 4, y);                                                             \
        }                                                                                         \
      }                                                                                           \
      for (; i < end; i++) {                                                                      \
        float v = load_f32(x + i * x0), y = ACT(v);                                               \
        store_f32(out + i * 4, has_up ? y * load_f32(up + i * u0) : y);                           \
      }                                                                                           \
    }                                                                                             \
  }

ACTIVATION(silu, SILU)
ACTIVATION(gelu, GELU)
