// dot4_trial: y = dot4(a, b, c) item by item, for instructions that are tried before they are used.

__kernel void dot4_trial(__global int *y, const __global uint *a, const __global uint *b,
                         const __global int *c) {
  int i = get_global_id(0);
  y[i] = dot4(a[i], b[i], c[i]);
}
