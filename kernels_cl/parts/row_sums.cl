// row_sums: put before the families that reduce dimension 0: sums that the items of a group make
// together and are all given.
//
// Items stride over a row by vectors of W where its elements lie side by side, so that LOCAL = 1 is
// a plain vector loop; by elements elsewhere. X is x's type: f32, f16 or bf16.

#ifndef X
  #define X f32
#endif

#define ROW_SUM(name, TERM)                                                                       \
  WITH_LOCAL float name(const __global char *x, long x0, int n0, float base,                      \
                        __local float *part) {                                                    \
    int me = get_local_id(0), vectors = x0 == SIZE(X) ? n0 / W : 0;                               \
    floatW sums = 0.0f;                                                                           \
    for (int i = me; i < vectors; i += LOCAL) {                                                   \
      floatW v = LOADW(X, x + i * W * SIZE(X)) - base;                                            \
      sums += TERM;                                                                               \
    }                                                                                             \
    float sum = sumW(sums);                                                                       \
    for (int i = vectors * W + me; i < n0; i += LOCAL) {                                          \
      float v = LOAD(X, x + i * x0) - base;                                                       \
      sum += TERM;                                                                                \
    }                                                                                             \
    return group_sum(sum, part);                                                                  \
  }

ROW_SUM(row_sum, v)          // of x - base
ROW_SUM(row_squares, v * v)  // of (x - base)^2
