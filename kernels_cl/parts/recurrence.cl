// recurrence: put before the families that carry a state S [DIM, KEY] of each head from token to
// token, its columns' elements side by side.
//
//   S = e^r S;   S += u k^T;   o = S q
//
//   ssm_scan           r = step a, u = step v, and d v is added to o
//   delta_net (DELTA)  r = g, u = step (v - S k), q and k over sqrt(sum of squares + eps),
//                      and o over sqrt(KEY)
//
//   wkv (WKV)          r = g, u = v; with ERASES S -= (S n) (d n)^T is counted before it decays, n
//                      being a over sqrt(sum of squares + eps); with BONUS o = (S + u (d k)^T) q
//                      of S before all of it
//
// BY_CHANNEL: g is [KEY, heads, T], row i of a state decays by e^g[i], which `decays` have.
//
//   q, k [KEY, key heads, T]   v [DIM, heads, T]   step, g [heads, T]   a, d [heads]
//   of wkv a, d [KEY, heads, T] packed, or with BONUS d [KEY, heads]
//   state [DIM KEY heads, slots]   out [DIM heads, T + P KEY]: o, zeros behind the last part, then
//                                  the new states
//
// With `dt` [heads] numbers come as products left them: steps of ssm_scan are softplus(step + dt), at
// least `least`; delta_net's are sigmoid(step), and its g softplus(g + dt) a.
//
// The tokens are of P sequences, one part of each after the other: `at` [2, P] has the row of the
// state that each reads, -1 for zeros, and where its part ends. With `has_to` the new states go into
// rows `to` [P] of `kept` instead; -1 stands for a part without tokens, of which nothing is kept.

#ifndef KEY
  #define KEY 128
#endif
#ifndef DIM
  #define DIM 64
#endif

#define RECURRENCE                                                                                \
  __global char *out_buf, long out_off, __global char *kept_buf, long kept_off,                   \
      const __global char *q_buf, long q_off, const __global char *k_buf, long k_off,             \
      const __global char *v_buf, long v_off, const __global char *step_buf, long step_off,       \
      const __global char *g_buf, long g_off, const __global char *a_buf, long a_off,             \
      const __global char *d_buf, long d_off, const __global char *dt_buf, long dt_off,           \
      const __global char *state_buf, long state_off,                                             \
      const __global char *at_buf, long at_off, const __global char *to_buf, long to_off,         \
      int heads, int key_heads, int tokens, int parts, long q1, long q2, long k1, long k2, long v1, long v2, \
      long step0, long step1, long g0, long g1, long state1, long kept1, int tiled, int has_d,    \
      int has_dt, int has_to, float eps, float least

typedef struct {
  __global char *out, *kept;
  const __global char *q, *k, *v, *step, *g, *a, *d, *dt, *state;
  int heads, key_heads, slot, begin, end, padded, keeps, tiled, has_d, has_dt;
  long q1, q2, k1, k2, v1, v2, step0, step1, g0, g1;
  float eps, least;
} Heads;

// Of part p, [begin, end) of the tokens; up to `padded` it has zeros to write behind them.
#define HEADS_GIVEN(p)                                                                            \
  {                                                                                               \
    out_buf + out_off,                                                                            \
        has_to ? kept_buf + kept_off + INTS(to)[p] * kept1                                        \
               : out_buf + out_off + ((long)tokens + (long)(p) * KEY) * heads * DIM * 4,          \
        q_buf + q_off, k_buf + k_off, v_buf + v_off, step_buf + step_off, g_buf + g_off,          \
        a_buf + a_off, d_buf + d_off, dt_buf + dt_off,                                            \
        state_buf + state_off + INTS(at)[2 * (p)] * state1, heads, key_heads,                     \
        INTS(at)[2 * (p)], (p) ? INTS(at)[2 * (p)-1] : 0, INTS(at)[2 * (p) + 1],                  \
        (p) + 1 == parts ? tokens : INTS(at)[2 * (p) + 1], !has_to || INTS(to)[p] >= 0, tiled,    \
        has_d, has_dt, q1, q2, k1, k2, v1, v2, step0, step1, g0, g1, eps, least                   \
  }
#define INTS(name) ((const __global int *)(name##_buf + name##_off))

static int key_head(const Heads *all, int head) {
  return all->tiled ? head % all->key_heads : head / (all->heads / all->key_heads);
}
static const __global float *q_of(const Heads *all, int head, int t) {
  return (const __global float *)(all->q + key_head(all, head) * all->q1 + t * all->q2);
}
static const __global float *k_of(const Heads *all, int head, int t) {
  return (const __global float *)(all->k + key_head(all, head) * all->k1 + t * all->k2);
}
static const __global float *v_of(const Heads *all, int head, int t) {
  return (const __global float *)(all->v + head * all->v1 + t * all->v2);
}
static __global float *out_of(const Heads *all, int head, int t) {
  return (__global float *)all->out + ((long)t * all->heads + head) * DIM;
}
static const __global float *state_of(const Heads *all, int head) {
  return (const __global float *)all->state + (long)head * DIM * KEY;
}
static __global float *kept_of(const Heads *all, int head) {
  return (__global float *)all->kept + (long)head * DIM * KEY;
}
// Above 0, from any number.
static float softened(float x) { return x > 20.0f ? x : log1p(exp(x)); }

#ifdef WKV
// Rows [KEY] of a and d.
static const __global float *row_of(const __global char *rows, const Heads *all, int head, int t) {
  return (const __global float *)rows + ((long)t * all->heads + head) * KEY;
}
#endif

static float step_of(const Heads *all, int head, int t) {
  float step = load_f32(all->step + head * all->step0 + t * all->step1);
  if (!all->has_dt) return step;
#ifdef DELTA
  return 1.0f / (1.0f + exp(-step));
#else
  return fmax(softened(step + load_f32(all->dt + head * 4)), all->least);
#endif
}
#ifdef BY_CHANNEL
  #define DECAY(i) decays[i]
  #define SEEN(key, i) ((key)*decays[i])
static float channel_decay(const Heads *all, int head, int t, int i) {
  return exp(((const __global float *)(all->g + head * all->g0 + t * all->g1))[i]);
}
#else
  #define DECAY(i) decay
  #define SEEN(key, i) (key)
#endif
static float decay_of(const Heads *all, int head, int t, float step) {
#if defined(BY_CHANNEL)
  return 1.0f;  // keys saw decayed rows
#elif defined(DELTA)
  float g = load_f32(all->g + head * all->g0 + t * all->g1);
  if (!all->has_dt) return exp(g);
  return exp(softened(g + load_f32(all->dt + head * 4)) * load_f32(all->a + head * 4));
#else
  return exp(step * load_f32(all->a + head * 4));
#endif
}
static float skip_of(const Heads *all, int head) {
  return all->has_d ? load_f32(all->d + head * 4) : 0.0f;
}
