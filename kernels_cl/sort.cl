// sort: the indices that put a row in order; equal values keep theirs, NaN comes last.
//
//   sort_blocks  every `block` indices of a row in order of their values
//   merge        every two runs of `run` sorted indices become one
//
// A number is compared as an integer that is ordered as it is; of equal ones the first index wins,
// so an element's place is the count of those before it: in its block, or in its run and the other.
//
//   run A | . . a . |  run B | . b b . . |    a goes to 2 + the b's before it
//
// x is f32; indices are i32 [n0, rows], packed, counted from the row's start.

#define LONGEST 256  // elements of a block

// -0 is 0; as everywhere, the sign turns the order round.
static int key_of(const __global char *x, int sign) {
  int bits = *(const __global int *)x, size = bits & 0x7fffffff;
  return size > 0x7f800000 ? INT_MAX : (bits < 0 ? -size : size) * sign;
}

__constant int counting[16] = {0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15};

static int count_of(intW v) {
  int each[W], sum = 0;
  CAT(vstore, W)(v, 0, each);
  for (int i = 0; i < W; i++) sum += each[i];
  return sum;
}

// A group of LOCAL items makes a block.
__kernel TEAM_SIZE void sort_blocks(__global char *out_buf, long out_off,
                                    const __global char *x_buf, long x_off, int n0, int n1, int n2,
                                    long x0, long x1, long x2, long x3, int block, int sign) {
  __local int keys[LONGEST + W];
  int blocks = (n0 + block - 1) / block, me = get_local_id(0);
  int row = get_group_id(0) / blocks, start = get_group_id(0) % blocks * block;
  int i1 = row % n1, i2 = row / n1 % n2, i3 = row / n1 / n2, n = min(block, n0 - start);
  const __global char *x = x_buf + x_off + i1 * x1 + i2 * x2 + i3 * x3 + start * x0;
  __global int *out = (__global int *)(out_buf + out_off) + (long)row * n0 + start;
  for (int i = me; i < n + W; i += LOCAL) keys[i] = i < n ? key_of(x + i * x0, sign) : INT_MAX;
  barrier(CLK_LOCAL_MEM_FENCE);
  for (int i = me; i < n; i += LOCAL) {
    intW before = 0, index = CAT(vload, W)(0, counting);
    for (int j = 0; j < n; j += W, index += W) {
      intW other = CAT(vload, W)(0, keys + j);
      intW first = (other < keys[i]) | ((other == keys[i]) & (index < i));
      before += select((intW)(0), (intW)(1), first);
    }
    out[count_of(before)] = start + i;
  }
}

// Whether index a, with its key, stands before index b.
static int is_before(int a_key, int a, int b_key, int b) {
  return a_key < b_key || (a_key == b_key && a < b);
}

// An item places `each` indices of one run.
__kernel TEAM_SIZE void merge(__global char *out_buf, long out_off, const __global char *in_buf,
                              long in_off, const __global char *x_buf, long x_off, int n0, int n1,
                              int n2, int rows, long x0, long x1, long x2, long x3, int run,
                              int each, int sign) {
  int parts = (n0 + each - 1) / each, row = get_global_id(0) / parts;
  if (row >= rows) return;
  int i1 = row % n1, i2 = row / n1 % n2, i3 = row / n1 / n2;
  const __global char *x = x_buf + x_off + i1 * x1 + i2 * x2 + i3 * x3;
  const __global int *in = (const __global int *)(in_buf + in_off) + (long)row * n0;
  __global int *out = (__global int *)(out_buf + out_off) + (long)row * n0;
  int i = get_global_id(0) % parts * each, end = min(i + each, n0), own = i / run * run;
  int other = own / run % 2 ? own - run : own + run;
  int low = min(other, n0), high = min(other + run, n0), other_end = high;
  int index = in[i], key = key_of(x + index * x0, sign);
  while (low < high) {  // the first of the other run that does not stand before index
    int middle = low + (high - low) / 2, at = in[middle];
    if (is_before(key_of(x + at * x0, sign), at, key, index)) low = middle + 1;
    else high = middle;
  }
  for (;;) {
    out[min(own, other) + (i - own) + (low - min(other, n0))] = index;
    if (++i == end) return;
    index = in[i], key = key_of(x + index * x0, sign);
    while (low < other_end && is_before(key_of(x + in[low] * x0, sign), in[low], key, index)) low++;
  }
}
