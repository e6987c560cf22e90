// image: what convolution, pooling and scaling of planes are made of. Dimension 0 is the width.
//
//   im2col       out[(kx, ky, kz, c), ox, oy, (oz, n)] = x[ox sx - px + kx dx, ... y, ... z, c, n]
//   avg_pool_2d  out[ox, oy] = sum of k x k of x from (ox step - pad, oy step - pad) on / k^2
//   interpolate  out[i] = x[floor(i n / n')] in each dimension, n of x, n' of out; bilinear blends
//                the neighbours of (i + 1/2) n / n' - 1/2 in dimensions 0 and 1
//
// What lies outside of x is 0; bilinear repeats the edge. Items as in arithmetic.cl; f32, out packed.

// Strides of x by column, row, depth, channel and image.
__kernel TEAM_SIZE void im2col(__global char *out_buf, long out_off, const __global char *x_buf,
                               long x_off, int n0, int rows, int ow, int oh, int od, int width,
                               int height, int depth, int kw, int kh, int kd, int sx, int sy,
                               int sz, int px, int py, int pz, int dx, int dy, int dz, long to_x,
                               long to_y, long to_z, long to_channel, long to_image, int per_item) {
  EACH_ROW_OF_ITEM(n0, rows, per_item) {
    int x0 = row % ow * sx - px, y0 = row / ow % oh * sy - py, z0 = row / ow / oh % od * sz - pz;
    const __global char *image = x_buf + x_off + row / ow / oh / od * to_image;
    __global float *out = (__global float *)(out_buf + out_off) + (long)row * n0;
    int kx = begin % kw, ky = begin / kw % kh, kz = begin / kw / kh % kd, c = begin / kw / kh / kd;
    for (int i = begin; i < end; i++) {
      int x = x0 + kx * dx, y = y0 + ky * dy, z = z0 + kz * dz;
      int inside = x >= 0 && x < width && y >= 0 && y < height && z >= 0 && z < depth;
      out[i] = inside ? load_f32(image + c * to_channel + z * to_z + y * to_y + x * to_x) : 0.0f;
      if (++kx == kw) {
        kx = 0;
        if (++ky == kh) {
          ky = 0;
          if (++kz == kd) {
            kz = 0;
            c++;
          }
        }
      }
    }
  }
}

__kernel TEAM_SIZE void avg_pool_2d(__global char *out_buf, long out_off, const __global char *x_buf,
                                    long x_off, int n0, int n1, int n2, int rows, int width,
                                    int height, long x0, long x1, long x2, long x3, int size,
                                    int step, int pad, int per_item) {
  EACH_ROW_OF_ITEM(n0, rows, per_item) {
    int i1 = row % n1, i2 = row / n1 % n2, i3 = row / n1 / n2, y = i1 * step - pad;
    const __global char *plane = x_buf + x_off + i2 * x2 + i3 * x3;
    __global float *out = (__global float *)(out_buf + out_off) + (long)row * n0;
    for (int i = begin; i < end; i++) {
      int x = i * step - pad;
      float sum = 0.0f;
      for (int v = max(y, 0); v < min(y + size, height); v++)
        for (int u = max(x, 0); u < min(x + size, width); u++)
          sum += load_f32(plane + u * x0 + v * x1);
      out[i] = sum / (size * size);
    }
  }
}

typedef struct {
  int low, high;
  float part;  // of high
} Between;

// Where i among `to` lies between the centres of `from` elements; whole numbers, so without rounding.
static Between between(int i, int from, int to) {
  long twice = (2l * i + 1) * from - to, at = twice < 0 ? -1 : twice / (2l * to);
  Between b;
  b.part = (float)(twice - at * 2l * to) / (2.0f * to);
  b.low = max((int)at, 0);
  b.high = min((int)at + 1, from - 1);
  return b;
}
static int nearest(int i, int from, int to) { return (long)i * from / to; }

__kernel TEAM_SIZE void interpolate(__global char *out_buf, long out_off, const __global char *x_buf,
                                    long x_off, int n0, int n1, int n2, int n3, int from0, int from1,
                                    int from2, int from3, long x0, long x1, long x2, long x3,
                                    int bilinear, int per_item) {
  EACH_ROW_OF_ITEM(n0, n1 * n2 * n3, per_item) {
    int i1 = row % n1, i2 = row / n1 % n2, i3 = row / n1 / n2;
    const __global char *plane =
        x_buf + x_off + nearest(i2, from2, n2) * x2 + nearest(i3, from3, n3) * x3;
    __global float *out = (__global float *)(out_buf + out_off) + (long)row * n0;
    Between y = between(i1, from1, n1);
    for (int i = begin; i < end; i++) {
      if (bilinear) {
        Between x = between(i, from0, n0);
        const __global char *above = plane + y.low * x1, *below = plane + y.high * x1;
        float a = mix(load_f32(above + x.low * x0), load_f32(above + x.high * x0), x.part);
        float b = mix(load_f32(below + x.low * x0), load_f32(below + x.high * x0), x.part);
        out[i] = mix(a, b, y.part);
      } else {
        out[i] = load_f32(plane + nearest(i, from0, n0) * x0 + nearest(i1, from1, n1) * x1);
      }
    }
  }
}
