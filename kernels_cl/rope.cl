// rope: pairs of channels turned by the angles of a table.
//
//   x     | D channels | of head h, token t         pair p of `half_rot` pairs is channels
//   table | cos half_rot | sin half_rot | of t      (2p, 2p + 1), or with NEOX (p, p + half_rot)
//
//   out[first]  = x[first] cos - x[second] sin
//   out[second] = x[first] sin + x[second] cos      channels from 2 half_rot on are copied
//
// An item takes `per_item` heads, of one token or several, and of each `pairs` pairs (a multiple of
// W) and its share of the rest. f32, dimension 0 of x contiguous, out packed.

__kernel TEAM_SIZE void rope(__global char *out_buf, long out_off, const __global char *x_buf,
                             long x_off, const __global char *table_buf, long table_off, int dim,
                             int heads, int rows, int half_rot, int pairs, int per_item, long x1,
                             long x2, long t1, int neox) {
  int parts = (half_rot + pairs - 1) / pairs, part = get_global_id(0) % parts;
  int first_row = get_global_id(0) / parts * per_item, end = min(part * pairs + pairs, half_rot);
  for (int row = first_row; row < min(first_row + per_item, rows); row++) {
    int token = row / heads, i = part * pairs;
    const __global float *x =
        (const __global float *)(x_buf + x_off + row % heads * x1 + token * x2);
    const __global float *cosines = (const __global float *)(table_buf + table_off + token * t1);
    const __global float *sines = cosines + half_rot;
    __global float *out = (__global float *)(out_buf + out_off) + (long)row * dim;
    if (neox) {
      for (; i + W <= end; i += W) {
        floatW a = CAT(vload, W)(0, x + i), b = CAT(vload, W)(0, x + half_rot + i);
        floatW c = CAT(vload, W)(0, cosines + i), s = CAT(vload, W)(0, sines + i);
        CAT(vstore, W)(a * c - b * s, 0, out + i);
        CAT(vstore, W)(a * s + b * c, 0, out + half_rot + i);
      }
      for (; i < end; i++) {
        float a = x[i], b = x[half_rot + i];
        out[i] = a * cosines[i] - b * sines[i];
        out[half_rot + i] = a * sines[i] + b * cosines[i];
      }
    } else {
      for (; i + W <= end; i += W) {
        floatW low = CAT(vload, W)(0, x + 2 * i), high = CAT(vload, W)(1, x + 2 * i), turned;
        floatW a = (floatW)(low.even, high.even), b = (floatW)(low.odd, high.odd);
        floatW c = CAT(vload, W)(0, cosines + i), s = CAT(vload, W)(0, sines + i);
        floatW first = a * c - b * s, second = a * s + b * c;
        turned.even = first.lo;
        turned.odd = second.lo;
        CAT(vstore, W)(turned, 0, out + 2 * i);
        turned.even = first.hi;
        turned.odd = second.hi;
        CAT(vstore, W)(turned, 1, out + 2 * i);
      }
      for (; i < end; i++) {
        float a = x[2 * i], b = x[2 * i + 1];
        out[2 * i] = a * cosines[i] - b * sines[i];
        out[2 * i + 1] = a * sines[i] + b * cosines[i];
      }
    }
    for (int d = 2 * half_rot + part; d < dim; d += parts) out[d] = x[d];
  }
}
