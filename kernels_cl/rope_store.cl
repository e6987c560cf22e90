// rope_store: q turned, k turned into the cache, v into the cache; q and k normalised first or not.
// Where nothing turns (half_rot 0) there are no heads of q, and k goes into the cache as v does.
//
//   q [D, H, T] -> out, packed      k [D, K, T] -> cell ids[t] of the k cache [D K, C]
//   v [Dv, K, T] -> cell ids[t] of the v cache [Dv K, C]            id -1: nothing
//
// Pairs and table are as in rope.cl; a norm is x / sqrt(mean(x^2) + eps) * weight over a head.
// The heads of a token are numbered q's, k's, v's; an item takes `each` of them, or one of `chunks`
// parts of a head (parts/rope_heads.cl). Dimension 0 of everything is contiguous.

typedef struct {
  long out_off, kc_off, vc_off, q_off, k_off, v_off, table_off, ids_off, wq_off, wk_off;
  int dim, dim_v, heads, kv_heads, tokens, cells, half_rot, neox, each, chunks;
  long q1, q2, k1, k2, v1, v2, t1, kc1, vc1;
  int has_norms;
  float eps_q, eps_k;
} Numbers;

__kernel __attribute__((vec_type_hint(floatW))) void rope_store(
    __global char *out_buf, __global char *kc_buf, __global char *vc_buf,
    const __global char *q_buf, const __global char *k_buf, const __global char *v_buf,
    const __global char *table_buf, const __global char *ids_buf, const __global char *wq_buf,
    const __global char *wk_buf, NUMBERS_GIVEN) {
  int dim = given.dim, dim_v = given.dim_v, heads = given.heads, kv_heads = given.kv_heads;
  int chunks = given.chunks, all = heads + 2 * kv_heads;
  int first = get_global_id(0) / chunks * given.each;
  int end = min(first + given.each, all * given.tokens);
  Head head;
  head.dim = dim;
  head.half_rot = given.half_rot;
  head.neox = given.neox;
  head.chunk = get_global_id(0) % chunks;
  head.chunks = chunks;
  for (int u = first; u < end; u++) {
    int token = u / all, h = u % all;
    int id = ((const __global int *)(ids_buf + given.ids_off))[token];
    int is_cell = id >= 0 && id < given.cells;
    head.cosines = (const __global float *)(table_buf + given.table_off + token * given.t1);
    head.sines = head.cosines + given.half_rot;
    if (h < heads) {
      head.x = (const __global float *)(q_buf + given.q_off + h * given.q1 + token * given.q2);
      head.weight = given.has_norms ? (const __global float *)(wq_buf + given.wq_off) : 0;
      head.factor = given.has_norms ? norm_factor(head.x, dim, given.eps_q) : 1.0f;
      turn(out_buf + given.out_off + ((long)token * heads + h) * dim * 4, head);
    } else if (h < heads + kv_heads && is_cell) {
      h -= heads;
      head.x = (const __global float *)(k_buf + given.k_off + h * given.k1 + token * given.k2);
      head.weight = given.has_norms ? (const __global float *)(wk_buf + given.wk_off) : 0;
      head.factor = given.has_norms ? norm_factor(head.x, dim, given.eps_k) : 1.0f;
      __global char *cell = kc_buf + given.kc_off + id * given.kc1 + h * ROW_BYTES(dim);
      if (given.half_rot)
        turn_into_cache(cell, head);
      else
        store_values(cell, (const __global char *)head.x, dim, head.chunk, chunks);
    } else if (h >= heads + kv_heads && is_cell) {
      h -= heads + kv_heads;
      store_values(vc_buf + given.vc_off + id * given.vc1 + h * ROW_BYTES(dim_v),
                   v_buf + given.v_off + h * given.v1 + token * given.v2, dim_v, head.chunk,
                   chunks);
    }
  }
}
