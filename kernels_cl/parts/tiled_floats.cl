// tiled_floats: the arithmetic of products of row tiles whose weights are FLOATS (f32, f16 or bf16)
// and whose x stays f32. A record is 32 elements of K one after the other, each of all rows.
#ifdef FLOATS

  #define LANES_AT(p, i, lane) CAT(lanes_, FLOATS)(p, i, lane)
  #define lanes_f32(p, i, lane) LOAD_LANES((const RECORDS_IN float *)(p) + (i) * TILE + (lane))
  #define lanes_f16(p, i, lane) HALF_AT(p, i, lane)
  #define lanes_bf16(p, i, lane) BF16_AT(p, i, lane)

// Add one record: `a` is its start, x its rows from block b on.
WITH_SHARED void add_record(floats acc[PANEL][VECTORS], const RECORDS_IN char *a, int lane,
                                Columns x, int b) {
#if LANES == 1
  #pragma unroll 1
#endif
  for (int from = 0; from < 32; from += 4) {
#if LANES > 1  // not even an empty call for GPUs: with one Intel's compiler needs scratch memory
    fetch_ahead(a, from / 4, 8);
#endif
#pragma unroll
    for (int k = from; k < from + 4; k++) {
      floats from_a[VECTORS];
#pragma unroll
      for (int v = 0; v < VECTORS; v++) from_a[v] = LANES_AT(a, k, lane + v * LANES);
#pragma unroll
      for (int i = 0; i < PANEL; i++) {
        float from_x = ((const __global float *)X_AT(x, i, b))[k];
#pragma unroll
        for (int v = 0; v < VECTORS; v++) acc[i][v] += from_a[v] * from_x;
      }
    }
  }
}

#endif
