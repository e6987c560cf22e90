// tiled_normed: x is one row of NORMED elements that each item, or each group of lanes, normalises and
// puts into 12 bits for itself. That costs less than a launch that does it once. Compiled before
// matmul_tiled.cl; the formula is norm_chain.cl's with norms that are rms:
//
//   FIRST   h = rms(x) * w1 + r          else h is x
//           q = 12 bits of rms(h) * w2
//
// An item with vectors has `own_bytes` of its own: q, then h. A group of lanes has q in local memory.
// The first item, or group, writes h to where others read it.
#ifdef NORMED
  #ifndef FIRST
    #define FIRST 0
  #endif

  #define NORMED_ROW                                                                              \
    const __global char *x_buf, const __global char *w1_buf, const __global char *r_buf,          \
        const __global char *w2_buf, __global char *h_buf, __global char *own_buf
  #define NUMBERS_OF_ROW                                                                          \
    long x_off, w1_off, r_off, w2_off, h_off, own_off, own_bytes;                                 \
    float eps1, eps2
  #define FLOATS_AT(name) (const __global float *)(name##_buf ? name##_buf + given.name##_off : 0)

  #if LANES == 1
// The group's row lies in `row` then; `part` has TEAM rows of TILE floats.
  #define NORMED_GIVEN(row, part)                                                                 \
    normed(row, part, FLOATS_AT(x), FLOATS_AT(w1), FLOATS_AT(r), FLOATS_AT(w2),                   \
           (__global float *)(h_buf && get_group_id(0) == 0 ? h_buf + given.h_off : 0),           \
           given.eps1, given.eps2)

// The sum of what all items of a group have, for each of them.
WITH_LOCAL float sum_of_items(__local float (*part)[TILE], float v) {
  int lane = get_local_id(0), t = get_local_id(1);
  part[t][lane] = v;
  barrier(CLK_LOCAL_MEM_FENCE);
  float sum = 0;
  for (int k = 0; k < TEAM; k++) sum += part[k][lane];
  barrier(CLK_LOCAL_MEM_FENCE);
  part[t][lane] = sum;
  barrier(CLK_LOCAL_MEM_FENCE);
  sum = 0;
  for (int k = 0; k < TILE; k++) sum += part[t][k];
  barrier(CLK_LOCAL_MEM_FENCE);  // the next one may begin
  return sum;
}

static float squares(float16 v) { return sum16(v * v); }

// Number i of the row's runs of 16.
static float16 run_of(const __global float *x, const __global float *w1, const __global float *r,
                      float first, int i) {
  float16 v = VLOAD16(i, x);
    #if FIRST
  v *= first;
  if (w1) v *= VLOAD16(i, w1);
  v += VLOAD16(i, r);
    #endif
  return v;
}

WITH_LOCAL void normed(__local uint4 *row, __local float (*part)[TILE], const __global float *x,
                       const __global float *w1, const __global float *r, const __global float *w2,
                       __global float *total, float eps1, float eps2) {
  int me = get_local_id(1) * TILE + get_local_id(0);
  float first = 1.0f, sum = 0;
    #if FIRST
  for (int i = me; i < NORMED / 16; i += TILE * TEAM) sum += squares(VLOAD16(i, x));
  first = 1.0f / sqrt(sum_of_items(part, sum) / NORMED + eps1);
  sum = 0;
    #endif
  for (int i = me; i < NORMED / 16; i += TILE * TEAM) {
    float16 v = run_of(x, w1, r, first, i);
    sum += squares(v);
    if (total) vstore16(v, i, total);
  }
  float factor = 1.0f / sqrt(sum_of_items(part, sum) / NORMED + eps2);
  for (int b = me; b < NORMED / 32; b += TILE * TEAM) {
    float16 low = run_of(x, w1, r, first, 2 * b) * factor;
    float16 high = run_of(x, w1, r, first, 2 * b + 1) * factor;
    if (w2) {
      low *= VLOAD16(2 * b, w2);
      high *= VLOAD16(2 * b + 1, w2);
    }
    quantize_block((__local char *)(row + 5 * b), low, high);
  }
  barrier(CLK_LOCAL_MEM_FENCE);
}
  #else
  #define NORMED_GIVEN                                                                            \
    normed(own_buf + given.own_off + get_global_id(0) * given.own_bytes, FLOATS_AT(x),            \
           FLOATS_AT(w1), FLOATS_AT(r), FLOATS_AT(w2),                                            \
           (__global float *)(h_buf && get_global_id(0) == 0 ? h_buf + given.h_off : 0),          \
           given.eps1, given.eps2)

static float rms_factor(const __global float *x, float eps) {
  floatW squares = 0.0f;
  for (int i = 0; i < NORMED / W; i++) {
    floatW v = CAT(vload, W)(i, x);
    squares += v * v;
  }
  return 1.0f / sqrt(sumW(squares) / NORMED + eps);
}

// Where the item's panel lies.
static const __global char *normed(__global char *own, const __global float *x,
                                   const __global float *w1, const __global float *r,
                                   const __global float *w2, __global float *total, float eps1,
                                   float eps2) {
#if FIRST
  __global float *h = (__global float *)(own + NORMED / 32 * X_BYTES);
  float first = rms_factor(x, eps1);
  for (int i = 0; i < NORMED / W; i++) {
    floatW v = CAT(vload, W)(i, x) * first;
    if (w1) v *= CAT(vload, W)(i, w1);
    v += CAT(vload, W)(i, r);
    CAT(vstore, W)(v, i, h);
    if (total) CAT(vstore, W)(v, i, total);
  }
  x = h;
#endif
  float factor = rms_factor(x, eps2);
  for (int b = 0; b < NORMED / 32; b++) {
    float16 low = vload16(2 * b, x) * factor, high = vload16(2 * b + 1, x) * factor;
    if (w2) {
      low *= vload16(2 * b, w2);
      high *= vload16(2 * b + 1, w2);
    }
    quantize_block(own + b * X_BYTES, low, high);
  }
  return own;
}
  #endif
#endif

// CHAINED: stages of one launch, one behind the other, whose runs items claim.
//
// An item takes run after run of a stage, long ones first, until none is left; then it waits for
// those who are at work on one. They have begun, so nobody waits for an item that has not: a device
// may run its items in any order, one after the other too. Of the counters, which are 0 before and
// behind each launch, a stage has two, what is taken and what is made; the last one counts items.
#ifdef CHAINED
typedef volatile __global int *Counters;

typedef struct {
  int first, last;
} Run;

// The next run of `all`, of `most` at most; 0 where nothing is left. At first the run is empty.
static int claim(Run *run, Counters stage, int all, int most) {
  int wanted = clamp((all - run->last) / (2 * (int)get_global_size(0)), 1, most);
  run->first = atomic_add(stage, wanted);
  run->last = min(run->first + wanted, all);
  return run->first < all;
}

static void made(Run run, Counters stage) {
  mem_fence(CLK_GLOBAL_MEM_FENCE);
  atomic_add(stage + 1, run.last - run.first);
}

static void await(Counters stage, int all) {
  while (stage[1] < all) {
  #if defined(__clang__) && defined(__x86_64__)
    __builtin_ia32_pause();
  #endif
  }
  atomic_or(stage + 1, 0);
  mem_fence(CLK_GLOBAL_MEM_FENCE);
}

// Called once by each item; the last one sets all counters back.
static void leave(Counters counters, int stages) {
  if (atomic_inc(counters + 2 * stages) < (int)get_global_size(0) - 1) return;
  for (int i = 0; i <= 2 * stages; i++) atomic_xchg(counters + i, 0);
}
#endif
