// roof: the most a device reads and computes, which profiles are held against.
//
// read_all: y[item] = sum of `each` blocks of 16 words of x, the first one item * start, the others
// `step` further each: a CPU's item reads neighbours. SIDE_BY_SIDE, of `step` items each reads as many
// bytes, 16 at once, with those of its neighbours beside them.

__kernel void read_all(__global char *y_buf, long y_off, __global const char *x_buf, long x_off,
                       int each, int start, int step) {
  const int item = get_global_id(0);
#ifdef SIDE_BY_SIDE
  const __global uint4 *x = (const __global uint4 *)(x_buf + x_off) + item;
  uint4 a = 0, b = 0, c = 0, d = 0;
  for (int i = 0; i < each; i++, x += (long)step * 4) {
    a += x[0];
    b += x[step];
    c += x[2 * (long)step];
    d += x[3 * (long)step];
  }
  d += a + b + c;
#else
  const __global uint *x = (const __global uint *)(x_buf + x_off) + (long)item * start * 16;
  uint16 a = 0, b = 0;
  for (int i = 0; i < each / 2; i++, x += (long)step * 32) {
    a += vload16(0, x);
    b += vload16((long)step, x);
  }
  if (each % 2) a += vload16(0, x);
  a += b;
  uint8 c = a.lo + a.hi;
  uint4 d = c.lo + c.hi;
#endif
  ((__global uint *)(y_buf + y_off))[item] = d.x + d.y + d.z + d.w;
}

// multiply_add: 8 independent chains of W lanes, `rounds` steps of v = factor * v + 1 each.
// y[item] = the sum of all lanes.
#define STEP(v) v = mad(v, (floatW)factor, (floatW)1.0f)
__kernel void multiply_add(__global char *y_buf, long y_off, int rounds, float factor) {
  const int item = get_global_id(0);
  floatW a = 1, b = 2, c = 3, d = 4, e = 5, f = 6, g = 7, h = item;
  for (int i = 0; i < rounds; i++) {
    STEP(a), STEP(b), STEP(c), STEP(d), STEP(e), STEP(f), STEP(g), STEP(h);
  }
  ((__global float *)(y_buf + y_off))[item] = sumW(((a + b) + (c + d)) + ((e + f) + (g + h)));
}
