// matmul_experts: y[m, u, t] = sum_k a[k, m, ids[u, t]] x[k, u mod step, t] of experts in row tiles,
// one behind the other, and x in panels of one row; zeros for ids that no expert has. Defines, and
// which files stand before this one: parts/tiled_lanes.cl.
//
// PANEL 1: item or group (g, p) makes rows of pair p, whose id is read. Else (g, e) makes rows of
// all pairs of expert e, PANEL at once, as group_ids.cl has put them together. `bias`, if there is
// one, has a row of each expert, which is added.

// Pairs of one expert, the first of them, and its matrix; null for ids that no expert has.
typedef struct {
  const __global int *pairs;
  const __global char *a;
  const __global float *bias;
  int first, count;
} Group;

static void find_group(Group *group, int g, const __global char *a, const __global char *ids,
                       const __global char *bias, long bias_bytes, int experts, int used,
                       long expert_bytes, long id0, long id1) {
#if PANEL == 1
  int id = *(const __global int *)(ids + g % used * id0 + g / used * id1);
  *group = (Group){0, 0, 0, g, 1};
#else
  const __global int *starts = (const __global int *)ids;
  int id = g;
  *group = (Group){starts + experts + 2 + starts[g], 0, 0, 0, starts[g + 1] - starts[g]};
#endif
  if (id >= 0 && id < experts) {
    group->a = a + id * expert_bytes;
    if (bias_bytes) group->bias = (const __global float *)(bias + id * bias_bytes);
  }
}

// The last pair stands for those behind it.
static int pair_of(const Group *group, int i) {
  i = min(i, group->count - 1);
  return group->pairs ? group->pairs[i] : group->first;
}

// The row of x of pair `i`.
static int row_of(const Group *group, int i, int used, int step) {
  int pair = pair_of(group, i);
  return pair / used * step + pair % used % step;
}

#define ARGS                                                                                      \
  __global char *y_buf, long y_off, const __global char *a_buf, long a_off,                       \
      const __global char *x_buf, long x_off, const __global char *ids_buf, long ids_off,         \
      const __global char *bias_buf, long bias_off, int m, int records, int experts, int used,    \
      int step, long expert_bytes, long id0, long id1, long bias_bytes
#define FIND_GROUP(group, g)                                                                      \
  find_group(&group, g, a_buf + a_off, ids_buf + ids_off, bias_buf + bias_off, bias_bytes,        \
             experts, used, expert_bytes, id0, id1)

#if LANES > 1
__kernel __attribute__((vec_type_hint(int8))) void matmul_experts(ARGS) {
  Group group;
  FIND_GROUP(group, get_global_id(1));
  long x_row = (long)records * BLOCKS * X_BYTES;
  int first = get_global_id(0) * ROWS;
  const __global char *a = group.a + (long)(first / TILE) * records * RECORD;
  for (int i = 0; i < group.count; i += PANEL) {
    const __global char *x[PANEL];
#pragma unroll
    for (int c = 0; c < PANEL; c++)
      x[c] = x_buf + x_off + row_of(&group, i + c, used, step) * x_row;
    for (int row = first; row < first + ROWS; row += VECTORS * LANES) {
      floats acc[PANEL][VECTORS];
      clear(acc);
      for (int r = 0; r < (group.a ? records : 0); r++)
        add_record(acc, a + (long)r * RECORD, row % TILE, x, r * BLOCKS);
#pragma unroll
      for (int c = 0; c < PANEL; c++) {
        if (i + c < group.count) {
          __global float *y = (__global float *)(y_buf + y_off) + (long)pair_of(&group, i + c) * m;
#pragma unroll
          for (int v = 0; v < VECTORS; v++)
            store(y, group.bias, 1, 0, acc[c][v], row + v * LANES, m);
        }
      }
    }
  }
}
#else
__kernel void matmul_experts(ARGS) {
  __local float sums[TEAM][PANEL][TILE];
  Group group;
  FIND_GROUP(group, get_group_id(1));
  int lane = get_local_id(0), t = get_local_id(1), row = get_global_id(0);
  const __global char *a = group.a + (long)(row / TILE) * records * RECORD;
  for (int i = 0; i < group.count; i += PANEL) {
    Scattered x;
    x.x = x_buf + x_off;
#pragma unroll
    for (int c = 0; c < PANEL; c++)
      x.first[c] = row_of(&group, i + c, used, step) * records * BLOCKS;
    floats acc[PANEL][VECTORS];
    clear(acc);
    for (int r = t; r < (group.a ? records : 0); r += TEAM)
      add_record(acc, a + (long)r * RECORD, lane, &x, r * BLOCKS);
#pragma unroll
    for (int c = 0; c < PANEL; c++) sums[t][c][lane] = acc[c][0];
    barrier(CLK_LOCAL_MEM_FENCE);
    for (int c = t; c < PANEL; c += TEAM) {
      float sum = 0;
      for (int k = 0; k < TEAM; k++) sum += sums[k][c][lane];
      if (row < m && i + c < group.count)
        ((__global float *)(y_buf + y_off))[(long)pair_of(&group, i + c) * m + row] =
            group.bias ? sum + group.bias[row] : sum;
    }
    barrier(CLK_LOCAL_MEM_FENCE);  // the next turn may write
  }
}
#endif
