// tiled_scattered: compiled before tiled_lanes.cl where rows of x that are taken together lie apart.
#define SCATTERED
