// rope: pairs of channels turned by the angles of a table.
//
//   x     | D channels | of head h, token t         pair p of `half_rot` pairs is channels
//   table | cos half_rot | sin half_rot | of t      (2p, 2p + 1), or with NEOX (p, p + half_rot)
//
//   out[first]  = x[first] cos - x[second] sin
//   out[second] = x[first] sin + x[second] cos      channels from 2 half_rot on are copied
//
// An item turns `per_item` pairs of one head of one token (a multiple of W) and copies its share
// of the rest. f32, dimension 0 of x contiguous, out packed.

__kernel void rope(__global char *out_buf, long out_off, const __global char *x_buf, long x_off,
                   const __global char *table_buf, long table_off, int dim, int heads, int rows,
                   int half_rot, int per_item, long x1, long x2, long t1, int neox) {
  int chunks = (half_rot + per_item - 1) / per_item;
  int row = get_global_id(0) / chunks, chunk = get_global_id(0) % chunks;
  if (row >= rows) return;
  int token = row / heads;
  const __global float *x =
      (const __global float *)(x_buf + x_off + row % heads * x1 + token * x2);
  const __global float *cosines = (const __global float *)(table_buf + table_off + token * t1);
  const __global float *sines = cosines + half_rot;
  __global float *out = (__global float *)(out_buf + out_off) + (long)row * dim;
  int pair = chunk * per_item, end = min(pair + per_item, half_rot);
  if (neox) {
    for (; pair + W <= end; pair += W) {
      floatW a = CAT(vload, W)(0, x + pair), b = CAT(vload, W)(0, x + half_rot + pair);
      floatW c = CAT(vload, W)(0, cosines + pair), s = CAT(vload, W)(0, sines + pair);
      CAT(vstore, W)(a * c - b * s, 0, out + pair);
      CAT(vstore, W)(a * s + b * c, 0, out + half_rot + pair);
    }
  }
  int step = neox ? 1 : 2, apart = neox ? half_rot : 1;
  for (; pair < end; pair++) {
    float a = x[pair * step], b = x[pair * step + apart], c = cosines[pair], s = sines[pair];
    out[pair * step] = a * c - b * s;
    out[pair * step + apart] = a * s + b * c;
  }
  for (int i = 2 * half_rot + chunk; i < dim; i += chunks) out[i] = x[i];
}
