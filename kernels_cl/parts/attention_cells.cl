// attention_cells: the cells that queries may see, put together in blocks. Compiled before
// attention_vectors.cl and attention_tiles.cl.

// The cells of a block: n of them, filled up with blind ones to a multiple of 16.
typedef struct {
  int n, list[BLOCK], bits[BLOCK], positions[BLOCK];
} Cells;

// The next cells from c on that share a bit with `all` and lie in its span; returns where to go on.
static int take_cells(Cells *block, const __global int *cells, int c, int end, int4 all) {
  int n = 0;
  for (; c < end && n < BLOCK; c++) {
    int2 cell = vload2(c, cells);
    block->list[n] = c;
    block->bits[n] = cell.x;
    block->positions[n] = cell.y;
    n += sees(all, cell);
  }
  for (int i = n; n && i % 16; i++) {
    block->list[i] = block->list[n - 1];
    block->bits[i] = 0;
    block->positions[i] = 0;
  }
  block->n = n;
  return c;
}
