// Put before every family: addresses, element types, vectors of the device's width, reductions.
//
// A tensor argument is a buffer and a byte offset, `__global char *x_buf, long x_off`; strides are
// bytes. Element types are spelled f32, f16, bf16, i32. Only the core of OpenCL C 1.2 is used: half
// is storage, read and written with vload_half and vstore_half.

#ifndef W
  #define W 4      // elements an item takes at once along a contiguous dimension
#endif
#ifndef LOCAL
  #define LOCAL 64 // items a work-group, a power of two; 1 where items do not work together
#endif

// Intel's compiler may give a thread so many lanes that registers do not hold what they compute with.
#ifdef SUB_GROUP
  #define __kernel __kernel __attribute__((intel_reqd_sub_group_size(SUB_GROUP)))
#endif

// Where items do not work together, Intel's compiler for CPUs need not try to vectorize over them:
// that takes half of its time.
#if LOCAL == 1 && defined(cl_intel_vec_len_hint)
  #define __kernel __kernel __attribute__((intel_vec_len_hint(1)))
#endif

// A function that gets a kernel's local memory. PoCL looks for that in the kernel alone, but its
// compiler puts the address itself into a function that is always called with the same one. Others
// inline in an order of their own, which takes fewer registers.
#ifdef POCL_DEVICE_ADDRESS_BITS
  #define WITH_LOCAL static __attribute__((always_inline))
#else
  #define WITH_LOCAL static
#endif
// One that gets it where groups of lanes share records, or a row of x.
#if defined(SHARED) || (defined(NORMED) && LANES == 1)
  #define WITH_SHARED WITH_LOCAL
#else
  #define WITH_SHARED static
#endif

// The numbers of a kernel of a decode step: a struct by value, or in memory where a driver refuses that.
#ifdef NUMBERS_IN_MEMORY
  #define NUMBERS_IN __global
  #define NUMBERS_GIVEN const __global Numbers *numbers
  #define given (*numbers)
#else
  #define NUMBERS_IN
  #define NUMBERS_GIVEN Numbers given
#endif

#ifndef RUN
  #define RUN 1    // vectors of a row that an item takes, one after the other
#endif

// ALIGNED: rows begin at 16 bytes, so that vectors of four floats are one load. Of vload a compiler
// knows no more than that an element is aligned: NVIDIA's makes a load of each.

#define CAT_(a, b) a##b
#define CAT(a, b) CAT_(a, b)
#define CAT3(a, b, c) CAT(CAT(a, b), c)

#define floatW CAT(float, W)
#define intW CAT(int, W)
#define uintW CAT(uint, W)

// Bytes of an element.
#define SIZE(type) CAT(size_, type)
#define size_f32 4
#define size_f16 2
#define size_bf16 2

// One element: LOAD(f16, p) gives a float, STORE(f16, p, v) rounds to nearest even.
#define LOAD(type, p) CAT(load_, type)(p)
#define STORE(type, p, v) CAT(store_, type)(p, v)
// W neighbours, aligned as one element.
#define LOADW(type, p) CAT(loadw_, type)(p)
#define STOREW(type, p, v) CAT(storew_, type)(p, v)

static float load_f32(const __global char *p) { return *(const __global float *)p; }
static float load_f16(const __global char *p) { return vload_half(0, (const __global half *)p); }
static float load_bf16(const __global char *p) {
  return as_float((uint) * (const __global ushort *)p << 16);
}

#ifdef ALIGNED
static floatW loadw_f32(const __global char *p) { return *(const __global floatW *)p; }
static float16 vector16(int i, const __global float *p) {
  const __global float4 *v = (const __global float4 *)p + 4 * i;
  return (float16)(v[0], v[1], v[2], v[3]);
}
  #define VLOAD16(i, p) vector16(i, p)
  #define VLOADW(i, p) ((const __global floatW *)(p))[i]
  #define INT2_AT(i, p) ((const __global int2 *)(p))[i]
  #define INT4_AT(i, p) ((const __global int4 *)(p))[i]
#else
static floatW loadw_f32(const __global char *p) {
  return CAT(vload, W)(0, (const __global float *)p);
}
  #define VLOAD16(i, p) vload16(i, p)
  #define VLOADW(i, p) CAT(vload, W)(i, p)
  #define INT2_AT(i, p) vload2(i, p)
  #define INT4_AT(i, p) vload4(i, p)
#endif
static floatW loadw_f16(const __global char *p) {
  return CAT(vload_half, W)(0, (const __global half *)p);
}
static floatW loadw_bf16(const __global char *p) {
  uintW bits = CAT(convert_uint, W)(CAT(vload, W)(0, (const __global ushort *)p));
  return CAT(as_float, W)(bits << 16);
}

// Prefetch to L2 what is read some microseconds later. Processors prefetch by themselves, but give up
// where loads do not quite follow the order in memory. Not to L1: it has too few miss slots, which
// the current loads need.
static void fetch(const __global char *first, long bytes) {
#if defined(__clang__) && !defined(NO_PREFETCH)
  for (long i = 0; i < bytes; i += 64) __builtin_prefetch(first + i, 0, 2);
#endif
}

// The upper half of a float, rounded to nearest even; a NaN keeps its top bits and stays quiet.
static ushort bf16_of(float v) {
  uint bits = as_uint(v);
  return isnan(v) ? (bits >> 16) | 0x40 : (bits + 0x7fff + ((bits >> 16) & 1)) >> 16;
}

static void store_f32(__global char *p, float v) { *(__global float *)p = v; }
static void store_f16(__global char *p, float v) { vstore_half_rte(v, 0, (__global half *)p); }
static void store_bf16(__global char *p, float v) { *(__global ushort *)p = bf16_of(v); }

static void storew_f32(__global char *p, floatW v) { CAT(vstore, W)(v, 0, (__global float *)p); }
static void storew_f16(__global char *p, floatW v) {
  CAT3(vstore_half, W, _rte)(v, 0, (__global half *)p);
}
static void storew_bf16(__global char *p, floatW v) {
  float each[W];
  CAT(vstore, W)(v, 0, each);
  for (int i = 0; i < W; i++) ((__global ushort *)p)[i] = bf16_of(each[i]);
}

// Sums of a vector's halves; the widths in between are reached through each other.
static float sum4(float4 v) { return (v.x + v.y) + (v.z + v.w); }
static float sum8(float8 v) { return sum4(v.lo + v.hi); }
static float sum16(float16 v) { return sum8(v.lo + v.hi); }
static float max_of4(float4 v) { return fmax(fmax(v.x, v.y), fmax(v.z, v.w)); }
static float max_of8(float8 v) { return max_of4(fmax(v.lo, v.hi)); }
static float max_of16(float16 v) { return max_of8(fmax(v.lo, v.hi)); }
#define sumW CAT(sum, W)
#define maxW CAT(max_of, W)

// silu(x) = x / (1 + exp(-x));  gelu(x) = x / (1 + exp(-2u)), u = sqrt(2/pi) (x + 0.044715 x^3)
//
// The second is 0.5 x (1 + tanh(u)) without a tanh; exp runs to infinity or 0 at the ends, where
// the quotient is -0 and x.
#define SILU(x) ((x) / (1.0f + exp(-(x))))
// 2 sqrt(2/pi) = 1.5957691216
#define GELU(x) ((x) / (1.0f + exp(-1.5957691216f * (x) * (1.0f + 0.044715f * (x) * (x)))))
#define QUICK_GELU(x) ((x) / (1.0f + exp(-1.702f * (x))))
// 1 / sqrt(2) = 0.7071067812
#define GELU_ERF(x) (0.5f * (x) * (1.0f + erf(0.7071067812f * (x))))

// Activations in panels, for products of row tiles: 32 elements in 12 bits, or in 8 (X_BITS 8), or as
// halves (X_BITS 16; quantize.cl has the picture), or as they are where weights are floats.
#ifndef X_BITS
  #define X_BITS 12
#endif
// Where they are put: in memory, but for groups of lanes that make a row of x themselves.
#if defined(NORMED) && LANES == 1
  #define PANELS_IN __local
#else
  #define PANELS_IN __global
#endif
#ifdef X_F32
  #define X_BYTES 128

static void quantize_block(__global char *out, float16 first, float16 last) {
  vstore16(first, 0, (__global float *)out);
  vstore16(last, 1, (__global float *)out);
}
#elif X_BITS == 16
  #define X_BYTES 80

// Divided by a power of two, which brings the largest to 1 or more, so that none is too large or too
// small for a half.
static void quantize_block(__global char *out, float16 first, float16 last) {
  float most = max_of16(fmax(fabs(first), fabs(last)));
  uint power = most < 1e-30f ? 0 : as_uint(most) & 0x7f800000;
  float inverse = power ? as_float(0x7f000000 - power) : 0.0f;
  vstore_half16_rte(first * inverse, 0, (__global half *)out);
  vstore_half16_rte(last * inverse, 1, (__global half *)out);
  ((__global float4 *)out)[4] = (float4)(as_float(power), 0.0f, 0.0f, 0.0f);
}
#else
  #if X_BITS == 8
    #define X_BYTES 44
    #define X_SCALES 32  // where a block's scales begin
    #define Q_MOST 127.0f
    #define STORE_QUANTA(v, i, out) vstore16(convert_char16(v), i, (__global char *)(out))
  #else
    #define X_BYTES 80
    #define X_SCALES 64
    #define Q_MOST 2047.0f
    #define STORE_QUANTA(v, i, out) \
      vstore16(convert_short16((v).s021346578a9bcedf), i, (__global short *)(out))
  #endif

static int sum_of8(int8 v) {
  int4 a = v.lo + v.hi;
  return a.x + a.y + a.z + a.w;
}
static int sum_of16(int16 v) { return sum_of8(v.lo + v.hi); }

// 16 numbers of 12 bits as two digits of a byte (tiled_dots.cl); `out` lies at 16 bytes.
#ifdef X_DIGITS
WITH_SHARED void store_digits(PANELS_IN char *out, int i, int16 q) {
  int16 high = (q + 32) >> 6;
  ((PANELS_IN uint4 *)out)[i] = as_uint4(convert_char16(q - 64 * high));
  ((PANELS_IN uint4 *)out)[2 + i] = as_uint4(convert_char16(high));
}
#endif

WITH_SHARED void quantize_block(PANELS_IN char *out, float16 first, float16 last) {
  float most = max_of16(fmax(fabs(first), fabs(last)));
  // Numbers so small that the quotient would overflow count as zeros.
  float inverse = most < 1e-30f ? 0.0f : Q_MOST / most, scale = most / Q_MOST;
  int16 a = convert_int16_rte(first * inverse), b = convert_int16_rte(last * inverse);
  int sum_a = sum_of16(a), sum_b = sum_of16(b);
#ifdef X_DIGITS
  store_digits(out, 0, a);
  store_digits(out, 1, b);
  ((PANELS_IN uint4 *)out)[4] =
      (uint4)(as_uint(scale), as_uint(scale * (sum_a + sum_b)),
              as_uint((short2)(sum_a, sum_b)), 0);
#else
  STORE_QUANTA(a, 0, out);
  STORE_QUANTA(b, 1, out);
  vstore2((float2)(scale, scale * (sum_a + sum_b)), 0, (__global float *)(out + X_SCALES));
  vstore2((short2)(sum_a, sum_b), 0, (__global short *)(out + X_SCALES + 8));
  #if X_BITS == 12
  *(__global int *)(out + X_SCALES + 12) = -sum_of8(a.even * a.odd + b.even * b.odd);
  #endif
#endif
}
#endif

// Block b of `blocks` of a row among `rows`; the last row fills what its panel has left, too.
WITH_SHARED void quantize_into(PANELS_IN char *out, int blocks, int panel, int rows, int row, int b,
                          float16 first, float16 last) {
  int end = row + 1 < rows ? row + 1 : (rows + panel - 1) / panel * panel;
  for (; row < end; row++)
    quantize_block(out + (((long)(row / panel) * blocks + b) * panel + row % panel) * X_BYTES,
                   first, last);
}

// Block b of a head's attention, as x has it.
WITH_SHARED void quantize_head(PANELS_IN char *x, const __global float *out, int b, int dim_v, int heads,
                          int tokens, int panel, int token, int head) {
  int blocks = dim_v / 32;
  quantize_into(x, heads * blocks, panel, tokens, token, head * blocks + b, VLOAD16(2 * b, out),
                VLOAD16(2 * b + 1, out));
}
// Elementwise kernels: an item takes columns `begin` to `end` of `per_item` rows. On CPUs that is
// thousands of elements, elsewhere one vector.
#define TEAM_SIZE __attribute__((reqd_work_group_size(LOCAL, 1, 1)))
#define EACH_ROW_OF_ITEM(n0, rows, per_item)                                                      \
  int runs = (n0 + RUN * W - 1) / (RUN * W), begin = get_global_id(0) % runs * RUN * W;           \
  int end = min(begin + RUN * W, n0), vectors_end = begin + (end - begin) / W * W;                \
  int first_row = get_global_id(0) / runs * per_item;                                             \
  (void)vectors_end; /* not everyone takes vectors */                                             \
  for (int row = first_row; row < min(first_row + per_item, rows); row++)

// Whether a query sees a cell: span is its sequence bit, first and last position it sees; a cell is
// the bits of its sequences and its position.
static int sees(int4 span, int2 cell) {
  return (span.x & cell.x) != 0 && span.y <= cell.y && cell.y <= span.z;
}
static intW seesw(int4 span, intW bits, intW positions) {
  return (bits & span.x) != 0 && positions >= span.y && positions <= span.z;
}

// ALiBi (Press et al. 2022): scores s of cells fall by a slope of the head times the distance between
// the cell and the query, whose position is the fourth of its span. Slopes are 2^(-most k / n), n the
// largest power of two that is not above the heads: k is 1 ... n, then 1/2, 3/2 ...
#ifdef ALIBI
static float slope_of(int head, int heads, float most) {
  int n = 1 << (31 - clz(heads));
  float k = head < n ? head + 1 : head - n + 0.5f;
  return exp2(-most * k / n);
}
static float fallen(float s, float slope, int position, int own) {
  return s - slope * (float)abs_diff(position, own);
}
static floatW fallen_w(floatW s, floatW slope, intW positions, intW own) {
  return s - slope * CAT(convert_float, W)(abs_diff(positions, own));
}
#endif

// One value from all items of a group, given to all; `part` holds LOCAL floats.
#if LOCAL == 1
WITH_LOCAL float group_sum(float v, __local float *part) { return v; }
WITH_LOCAL float group_max(float v, __local float *part) { return v; }
#else
WITH_LOCAL float group_sum(float v, __local float *part) {
  int me = get_local_id(0);
  part[me] = v;
  for (int half_way = LOCAL / 2; half_way > 0; half_way /= 2) {
    barrier(CLK_LOCAL_MEM_FENCE);
    if (me < half_way) part[me] += part[me + half_way];
  }
  barrier(CLK_LOCAL_MEM_FENCE);
  float sum = part[0];
  barrier(CLK_LOCAL_MEM_FENCE);  // the next reduction may begin
  return sum;
}
WITH_LOCAL float group_max(float v, __local float *part) {
  int me = get_local_id(0);
  part[me] = v;
  for (int half_way = LOCAL / 2; half_way > 0; half_way /= 2) {
    barrier(CLK_LOCAL_MEM_FENCE);
    if (me < half_way) part[me] = fmax(part[me], part[me + half_way]);
  }
  barrier(CLK_LOCAL_MEM_FENCE);
  float top = part[0];
  barrier(CLK_LOCAL_MEM_FENCE);
  return top;
}
#endif
