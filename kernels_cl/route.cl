// route: which experts a token meets, and what each of them counts.
//
//   s = softmax(l), sigmoid(l), l itself, or sqrt(ln(1 + e^l))       l: the logits of all experts
//   ids = the `used` largest s + bias, or l where that is the same order
//   weights = s of those (softmax over them where s is l), over their sum where normalised, times
//             scale and what `gains` has of each expert; SPARSE_MIXER: of each the softmax over it
//             and those whose l are within 2 % of its own, but for those chosen before it
//
// With several groups, runs of experts, only the best `groups_used` are open: a group counts as
// much as its best expert, or as its two best together (`sum_two`).
//
//   experts 0 1 2 | 3 4 5 | 6 7 8        two groups of three, by their best one:
//   s       1 9 2 | 3 3 3 | 0 8 7        the first and the last are open; of four: 1 7 8 2
//
// A group of LOCAL items makes `per_group` rows, one after the other. Numbers are compared as
// integers that are ordered as they are; equal ones count by their place, NaN comes last. f32, packed
// results; MOST experts.

#ifndef MOST
  #define MOST 1024
#endif

#ifndef SCORE
  #define SCORE SOFTMAX  // what s is
#endif
#ifndef GROUPED
  #define GROUPED 0      // 1 with several groups
#endif
#define SOFTMAX 0
#define SIGMOID 1
#define LATE_SOFTMAX 2
#define SQRT_SOFTPLUS 3
#define SPARSE_MIXER 4

#define NOT_OPEN INT_MIN
#define NAN_KEY (INT_MIN + 1)
#define LEAST_SUM 6.103515625e-5f
#define NEAR 0.02f

// -0 is 0.
static int key_of(float v) {
  int bits = as_int(v);
  return isnan(v) ? NAN_KEY : bits < 0 ? -(bits & 0x7fffffff) : bits;
}
static float of_key(int key) {
  return key == NAN_KEY ? NAN : as_float(key < 0 ? -key | (int)0x80000000 : key);
}

// `whole` is of the row that l stands in: below.
static float score_of(float l, float2 whole) {
#if SCORE == SOFTMAX
  return exp(l - whole.x) / whole.y;
#elif SCORE == SIGMOID
  return 1.0f / (1.0f + exp(-l));
#elif SCORE == SQRT_SOFTPLUS
  return sqrt(l > 20.0f ? l : log1p(exp(l)));
#else
  return l;
#endif
}

// What a softmax over n0 logits needs, by all items: the largest, and the sum of powers.
WITH_LOCAL float2 whole_of(const __global char *l, long l0, int n0, __local float *part) {
#if SCORE != SOFTMAX
  return (float2)(0.0f);
#else
  float top = -INFINITY, sum = 0.0f;
  for (int i = get_local_id(0); i < n0; i += LOCAL) top = fmax(top, load_f32(l + i * l0));
  top = group_max(top, part);
  for (int i = get_local_id(0); i < n0; i += LOCAL) sum += exp(load_f32(l + i * l0) - top);
  return (float2)(top, group_sum(sum, part));
#endif
}

#define CHOSEN(u) *(const __global int *)(ids + (u) * id0)

// The u-th expert's part of a softmax over it and those near it, but for those chosen before.
static float mixed_part(const __global char *ids, long id0, const __global char *l, long l0,
                        int n0, int u) {
  float own = load_f32(l + CHOSEN(u) * l0), sum = 0.0f;
  for (int i = 0; i < n0; i++) {
    float v = load_f32(l + i * l0);
    int counts = own - v <= NEAR * fmax(fabs(v), own);
    for (int before = 0; before < u; before++) counts &= CHOSEN(before) != i;
    if (counts) sum += exp(v - own);
  }
  return 1.0f / sum;
}

// Weights of one row's chosen experts of n0, by one item.
static void weigh(__global float *out, const __global char *ids, long id0, const __global char *l,
                  long l0, int n0, const __global float *gains, int used, float2 whole,
                  int normalised, float scale) {
  float sum = 0.0f, top = -INFINITY;
  for (int u = 0; u < used; u++) top = fmax(top, load_f32(l + CHOSEN(u) * l0));
  for (int u = 0; u < used; u++) {
    float v = load_f32(l + CHOSEN(u) * l0);
#if SCORE == SPARSE_MIXER
    out[u] = mixed_part(ids, id0, l, l0, n0, u);
#else
    out[u] = SCORE == LATE_SOFTMAX ? exp(v - top) : score_of(v, whole);
#endif
    sum += out[u];
  }
  if (SCORE == LATE_SOFTMAX || normalised) scale /= sum < LEAST_SUM ? LEAST_SUM : sum;
  for (int u = 0; u < used; u++) out[u] *= scale * (gains ? gains[CHOSEN(u)] : 1.0f);
}

__constant int counting[16] = {0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15};

static int most4(int4 v) {
  int2 more = max(v.lo, v.hi);
  return max(more.x, more.y);
}
static int most8(int8 v) { return most4(max(v.lo, v.hi)); }
static int most16(int16 v) { return most8(max(v.lo, v.hi)); }
#define mostW CAT(most, W)

// The place of the first largest key, told to all items; `end` is a multiple of W. `best` and
// `place` hold LOCAL numbers.
WITH_LOCAL int first_best(const __local int *keys, int end, __local int *best, __local int *place) {
  int me = get_local_id(0);
  intW top = NOT_OPEN, at = 0, steps = CAT(vload, W)(0, counting);
  for (int i = me * W; i < end; i += LOCAL * W) {
    intW key = CAT(vload, W)(0, keys + i), more = key > top;
    top = select(top, key, more);
    at = select(at, steps + i, more);
  }
  int most = mostW(top), found = -mostW(select((intW)(-INT_MAX), -at, top == most));
#if LOCAL > 1
  best[me] = most;
  place[me] = found;
  for (int half_way = LOCAL / 2; half_way > 0; half_way /= 2) {
    barrier(CLK_LOCAL_MEM_FENCE);
    int other = me + half_way;
    if (me < half_way &&
        (best[other] > best[me] || (best[other] == best[me] && place[other] < place[me])))
      best[me] = best[other], place[me] = place[other];
  }
  barrier(CLK_LOCAL_MEM_FENCE);
  found = place[0];
  barrier(CLK_LOCAL_MEM_FENCE);  // the next search may begin
#endif
  return found;
}

// Close the experts of all but the best groups, by all items; `scores` holds a key a group.
WITH_LOCAL void close_groups(__local int *keys, __local int *scores, int n0, int groups,
                             int groups_used, int sum_two) {
  int me = get_local_id(0), run = n0 / groups;
  for (int g = me; g < groups; g += LOCAL) {
    int first = NOT_OPEN, second = NOT_OPEN;
    for (int i = g * run; i < (g + 1) * run; i++) {
      second = max(second, min(first, keys[i]));
      first = max(first, keys[i]);
    }
    scores[g] = sum_two && run > 1 ? key_of(of_key(first) + of_key(second)) : first;
  }
  barrier(CLK_LOCAL_MEM_FENCE);
  for (int i = me; i < n0; i += LOCAL) {
    int own = i / run, better = 0;
    for (int g = 0; g < groups; g++)
      better += scores[g] > scores[own] || (scores[g] == scores[own] && g < own);
    if (better >= groups_used) keys[i] = NOT_OPEN;
  }
  barrier(CLK_LOCAL_MEM_FENCE);
}

__kernel TEAM_SIZE void route(__global char *out_buf, long out_off, __global char *weights_buf,
                              long weights_off, const __global char *l_buf, long l_off,
                              const __global char *bias_buf, long bias_off,
                              const __global char *gains_buf, long gains_off, int n0, int rows,
                              long l0, long l1, int used, int by_score, int groups,
                              int groups_used, int sum_two, int normalised, int has_weights,
                              int has_bias, int has_gains, int per_group, float scale) {
  __local int keys[MOST + W], best[LOCAL], place[LOCAL];
  __local float part[LOCAL];
#if GROUPED
  __local int scores[MOST];
#endif
  const __global float *bias = has_bias ? (const __global float *)(bias_buf + bias_off) : 0;
  const __global float *gains = has_gains ? (const __global float *)(gains_buf + gains_off) : 0;
  int first = get_group_id(0) * per_group, me = get_local_id(0), end = (n0 + W - 1) / W * W;
  for (int row = first; row < min(first + per_group, rows); row++) {
    const __global char *l = l_buf + l_off + row * l1;
    __global int *out = (__global int *)(out_buf + out_off) + (long)row * used;
    float2 whole = whole_of(l, l0, n0, part);
    for (int i = me; i < end; i += LOCAL) {
      float v = i < n0 ? load_f32(l + i * l0) : 0.0f;
      if (by_score) v = score_of(v, whole);
      if (bias && i < n0) v += bias[i];
      keys[i] = i < n0 ? key_of(v) : NOT_OPEN;
    }
    barrier(CLK_LOCAL_MEM_FENCE);
#if GROUPED
    close_groups(keys, scores, n0, groups, groups_used, sum_two);
#endif
    for (int u = 0; u < used; u++) {
      int found = first_best(keys, end, best, place);
      if (me == 0) {
        out[u] = found;
        keys[found] = NOT_OPEN;
      }
      barrier(CLK_LOCAL_MEM_FENCE);
    }
    if (has_weights && me == 0)
      weigh((__global float *)(weights_buf + weights_off) + (long)row * used,
            (const __global char *)out, 4, l, l0, n0, gains, used, whole, normalised, scale);
  }
}

__kernel TEAM_SIZE void route_weights(__global char *out_buf, long out_off,
                                      const __global char *l_buf, long l_off,
                                      const __global char *ids_buf, long ids_off,
                                      const __global char *gains_buf, long gains_off, int n0,
                                      int rows, long l0, long l1, long id0, long id1, int used,
                                      int normalised, int has_gains, int per_group,
                                      float scale) {
  __local float part[LOCAL];
  const __global float *gains = has_gains ? (const __global float *)(gains_buf + gains_off) : 0;
  int first = get_group_id(0) * per_group;
  for (int row = first; row < min(first + per_group, rows); row++) {
    const __global char *l = l_buf + l_off + row * l1;
    float2 whole = whole_of(l, l0, n0, part);
    if (get_local_id(0) == 0)
      weigh((__global float *)(out_buf + out_off) + (long)row * used, ids_buf + ids_off + row * id1,
            id0, l, l0, n0, gains, used, whole, normalised, scale);
  }
}
