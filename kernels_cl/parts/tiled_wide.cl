// tiled_wide: put before tiled_lanes.cl in programs of matmul_wide, whose items are lanes, and whose x
// is two digits where it is not halves.
#ifndef LANES
  #define LANES 1
  #define ROWS 1
#endif
#if X_BITS == 12 && !defined(X_DIGITS)
  #define X_DIGITS 1
#endif
