// best: the K largest of each row and their indices, the largest first; of equal ones the first
// index wins, and NaN stands before all.
//
//   MERGES 0  x f32 [n0, n1, n2, n3]     a group takes BLOCK elements of a row
//   MERGES 1  parts f32 [2 K, n0 / K]    a group takes BLOCK pairs of a row, n0 in all
//
//   a part  | K values | their indices as floats, exact below 2^24 |
//
// A group of LOCAL items puts its block in order in local memory (Batcher's bitonic network) and
// writes the front as a part; `n0` that fill no block are padded with what comes last.

#ifndef MERGES
#define MERGES 0
#endif
#ifndef K
#define K 64
#endif
#define BLOCK 1024

// Rising keys are falling numbers; -0 is 0.
static int key_of(float x) {
  int bits = as_int(x), size = bits & 0x7fffffff;
  return size > 0x7f800000 ? INT_MIN : (bits < 0 ? size : -size);
}

static float value_of(int key) {
  return key == INT_MIN ? NAN : as_float(key > 0 ? key | INT_MIN : -key);
}

__kernel TEAM_SIZE void best(__global char *out_buf, long out_off, const __global char *x_buf,
                             long x_off, int n0, int n1, int n2, long x0, long x1, long x2,
                             long x3) {
  __local int keys[BLOCK], ids[BLOCK];
  int blocks = (n0 + BLOCK - 1) / BLOCK, me = get_local_id(0);
  int row = get_group_id(0) / blocks, start = get_group_id(0) % blocks * BLOCK;
  int i1 = row % n1, i2 = row / n1 % n2, i3 = row / n1 / n2;
  const __global char *x = x_buf + x_off + i1 * x1 + i2 * x2 + i3 * x3;
  for (int i = me; i < BLOCK; i += LOCAL) {
    int at = start + i, key = INT_MAX, id = INT_MAX;
    if (at < n0) {
#if MERGES
      const __global float *part = (const __global float *)x + at / K * (2 * K) + at % K;
      key = part[K] < 0 ? INT_MAX : key_of(part[0]);
      id = part[K] < 0 ? INT_MAX : (int)part[K];
#else
      key = key_of(*(const __global float *)(x + at * x0));
      id = at;
#endif
    }
    keys[i] = key, ids[i] = id;
  }
  for (int size = 2; size <= BLOCK; size *= 2)
    for (int gap = size / 2; gap > 0; gap /= 2) {
      barrier(CLK_LOCAL_MEM_FENCE);
      for (int i = me; i < BLOCK / 2; i += LOCAL) {
        int a = i / gap * gap * 2 + i % gap, b = a + gap;
        int ka = keys[a], kb = keys[b], ia = ids[a], ib = ids[b];
        int falls = kb < ka || (kb == ka && ib < ia);
        if (falls == ((a & size) == 0)) keys[a] = kb, keys[b] = ka, ids[a] = ib, ids[b] = ia;
      }
    }
  barrier(CLK_LOCAL_MEM_FENCE);
  __global float *out = (__global float *)(out_buf + out_off) + get_group_id(0) * (long)(2 * K);
  for (int i = me; i < K; i += LOCAL) {
    out[i] = value_of(keys[i]);
    out[K + i] = ids[i] == INT_MAX ? -1 : (float)ids[i];
  }
}
