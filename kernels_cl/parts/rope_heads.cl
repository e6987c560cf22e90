// rope_heads: heads normalised, turned, and put into a cache whose type is KV; with KV_BLOCK it is one
// of blocks.cl, and heads are whole blocks. Pairs and table are as in rope.cl.
#if !defined(ROWS) || defined(STORES)  // of attention only that which stores

#ifndef KV
  #define KV f16
#endif
#ifndef KV_BLOCK
  #define KV_BLOCK 1 // elements of KV's blocks: 1 or 32
#endif
#define floatH CAT(float, HALF)  // W / 2 neighbours
// Where rows are ALIGNED, heads and halves of them are whole vectors.
#ifdef ALIGNED
  #define HAS_REST 0
  #define VLOADH(p) (*(const __global floatH *)(p))
#else
  #define HAS_REST 1
  #define VLOADH(p) CAT(vload, HALF)(0, p)
#endif
#define ROW_BYTES(n) ((n) / KV_BLOCK * SIZE(KV))

typedef struct {
  const __global float *x, *cosines, *sines, *weight;  // weight: null where there is no norm
  float factor;
  int dim, half_rot, neox, chunk, chunks;
} Head;

// W elements of a head from i on, normalised, or one.
static floatW normedw(Head head, int i) {
  floatW v = VLOADW(0, head.x + i);
  return head.weight ? v * head.factor * VLOADW(0, head.weight + i) : v;
}
static float normed(Head head, int i) {
  return head.weight ? head.x[i] * head.factor * head.weight[i] : head.x[i];
}

// An item's share of the pairs of a head, turned, and of the channels behind them.
#define TURN(type, name)                                                                          \
  static void name(__global char *out, Head head) {                                               \
    int half_rot = head.half_rot, chunk = head.chunk, chunks = head.chunks;                       \
    int per_chunk = ((half_rot + chunks - 1) / chunks + W - 1) / W * W;                           \
    int pair = chunk * per_chunk, end = min(pair + per_chunk, half_rot);                          \
    if (head.neox) {                                                                              \
      for (; pair + W <= end; pair += W) {                                                        \
        floatW a = normedw(head, pair), b = normedw(head, half_rot + pair);                       \
        floatW c = VLOADW(0, head.cosines + pair);                                                \
        floatW s = VLOADW(0, head.sines + pair);                                                  \
        STOREW(type, out + pair * SIZE(type), a * c - b * s);                                     \
        STOREW(type, out + (half_rot + pair) * SIZE(type), a * s + b * c);                        \
      }                                                                                           \
    } else {                                                                                      \
      for (; pair + W / 2 <= end; pair += W / 2) {                                                \
        floatW v = normedw(head, 2 * pair), turned;                                               \
        floatH c = VLOADH(head.cosines + pair), s = VLOADH(head.sines + pair);                    \
        turned.even = v.even * c - v.odd * s;                                                     \
        turned.odd = v.even * s + v.odd * c;                                                      \
        STOREW(type, out + 2 * pair * SIZE(type), turned);                                        \
      }                                                                                           \
    }                                                                                             \
    int step = head.neox ? 1 : 2, apart = head.neox ? half_rot : 1;                               \
    for (; HAS_REST && pair < end; pair++) {                                                      \
      float a = normed(head, pair * step), b = normed(head, pair * step + apart);                 \
      float c = head.cosines[pair], s = head.sines[pair];                                         \
      STORE(type, out + pair * step * SIZE(type), a * c - b * s);                                 \
      STORE(type, out + (pair * step + apart) * SIZE(type), a * s + b * c);                       \
    }                                                                                             \
    for (int i = 2 * half_rot + chunk; i < head.dim; i += chunks)                                 \
      STORE(type, out + i * SIZE(type), normed(head, i));                                         \
  }

TURN(f32, turn)

#if KV_BLOCK == 1
TURN(KV, turn_into_cache)

static void store_values(__global char *out, const __global char *v, int n, int chunk, int chunks) {
  int i = chunk * W;
  for (; i + W <= n; i += chunks * W) STOREW(KV, out + i * SIZE(KV), loadw_f32(v + i * 4));
  for (int end = min(i + W, n); HAS_REST && i < end; i++) STORE(KV, out + i * SIZE(KV), load_f32(v + i * 4));
}
#else

static float16 normed16(Head head, int i) {
  float16 v = VLOAD16(0, head.x + i);
  return head.weight ? v * head.factor * VLOAD16(0, head.weight + i) : v;
}

// Channel i of a head, turned.
static float turned(Head head, int i) {
  int half_rot = head.half_rot;
  if (i >= 2 * half_rot) return normed(head, i);
  int second = head.neox ? i >= half_rot : i & 1;
  int pair = head.neox ? i - second * half_rot : i >> 1, apart = head.neox ? half_rot : 1;
  float self = normed(head, i), other = normed(head, second ? i - apart : i + apart);
  return self * head.cosines[pair] + (second ? other : -other) * head.sines[pair];
}

// 16 of them.
static float16 turned16(Head head, int i) {
  int half_rot = head.half_rot;
  if (i >= 2 * half_rot) return normed16(head, i);
  if (head.neox && half_rot % 16 == 0) {
    int second = i >= half_rot, pair = i - second * half_rot;
    float16 self = normed16(head, i), other = normed16(head, second ? pair : half_rot + pair);
    float16 c = VLOAD16(0, head.cosines + pair), s = VLOAD16(0, head.sines + pair);
    return self * c + (second ? other : -other) * s;
  }
  float16 v;
  if (!head.neox && i + 16 <= 2 * half_rot) {
    float16 x = normed16(head, i);
    float8 c = vload8(0, head.cosines + i / 2), s = vload8(0, head.sines + i / 2);
    v.even = x.even * c - x.odd * s;
    v.odd = x.even * s + x.odd * c;
    return v;
  }
  float each[16];
  for (int j = 0; j < 16; j++) each[j] = turned(head, i + j);
  return vload16(0, each);
}

static void turn_into_cache(__global char *out, Head head) {
  for (int b = head.chunk; b < head.dim / 32; b += head.chunks)
    PUT(KV, out + b * SIZE(KV), turned16(head, b * 32), turned16(head, b * 32 + 16));
}

static void store_values(__global char *out, const __global char *v, int n, int chunk, int chunks) {
  const __global float *x = (const __global float *)v;
  for (int b = chunk; b < n / 32; b += chunks)
    PUT(KV, out + b * SIZE(KV), VLOAD16(2 * b, x), VLOAD16(2 * b + 1, x));
}
#endif

// The whole head's, whichever part of it an item takes.
static float norm_factor(const __global float *x, int dim, float eps) {
  floatW squares = 0.0f;
  int i = 0;
  for (; i + W <= dim; i += W) {
    floatW v = VLOADW(0, x + i);
    squares += v * v;
  }
  float sum = sumW(squares);
  for (; HAS_REST && i < dim; i++) sum += x[i] * x[i];
  return 1.0f / sqrt(sum / dim + eps);
}

#endif
