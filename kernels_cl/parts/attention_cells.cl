// attention_cells: the cells that queries may see, put together in blocks. Compiled before
// attention_vectors.cl and attention_tiles.cl.

// The cells of a block: n of them, filled up with blind ones to a multiple of 16. `all` holds their
// bits, as far as they were asked for, and the first and last of their positions.
typedef struct {
  int n, list[BLOCK], bits[BLOCK], positions[BLOCK];
  int4 all;
} Cells;

// Whether a query of such a span may see some cell of the block.
static int touches(const Cells *block, int4 span) {
  return (span.x & block->all.x) != 0 && span.y <= block->all.z && block->all.y <= span.z;
}

// One number of all 16.
#define ALL_OF(name, OP)                                                                          \
  static int name(int16 v) {                                                                      \
    int8 a = OP(v.lo, v.hi);                                                                      \
    int4 b = OP(a.lo, a.hi);                                                                      \
    int2 c = OP(b.lo, b.hi);                                                                      \
    return OP(c.x, c.y);                                                                          \
  }
#define EITHER(a, b) ((a) | (b))
#define BOTH(a, b) ((a) + (b))
ALL_OF(bits_of_all, EITHER)
ALL_OF(sum_of_all, BOTH)
ALL_OF(least_of_all, min)
ALL_OF(most_of_all, max)

// Bits and positions of 16 cells from c on, and of which some query sees something.
#define SIXTEEN(cells, c)                                                                         \
  const int16 low = vload16(0, cells + 2 * (c)), high = vload16(1, cells + 2 * (c));              \
  const int16 bits = (int16)(low.even, high.even), positions = (int16)(low.odd, high.odd);        \
  const int16 seen = (bits & all.x) != 0 && positions >= all.y && positions <= all.z

// What of the cells from c up to `end`, at most BLOCK, is within `all`: their bits, the first and the
// last position, and how many there are.
static int4 summary_of(const __global int *cells, int c, int end, int4 all) {
  int4 sum = (int4)(0, INT_MAX, INT_MIN, 0);
  if (end - c < BLOCK) {
    for (; c < end; c++) {
      int2 cell = vload2(c, cells);
      if (sees(all, cell))
        sum = (int4)(sum.x | cell.x, min(sum.y, cell.y), max(sum.z, cell.y), sum.w + 1);
    }
  } else {
    int16 held = 0, first = INT_MAX, last = INT_MIN, count = 0;
    for (int i = 0; i < BLOCK; i += 16) {
      SIXTEEN(cells, c + i);
      held |= bits & seen;
      first = min(first, select((int16)INT_MAX, positions, seen));
      last = max(last, select((int16)INT_MIN, positions, seen));
      count -= seen;
    }
    sum.x = bits_of_all(held);
    if (sum.x)
      sum = (int4)(sum.x, least_of_all(first), most_of_all(last), sum_of_all(count));
  }
  sum.x &= all.x;
  return sum;
}

// A block of a page whose cells are all within `all`.
static void take_page(Cells *block, const __global int *cells, int c, int4 all) {
  const int16 each = (int16)(0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15);
  for (int i = 0; i < BLOCK; i += 16) {
    SIXTEEN(cells, c + i);
    vstore16(c + i + each, 0, block->list + i);
    vstore16(bits, 0, block->bits + i);
    vstore16(positions, 0, block->positions + i);
    (void)seen;
  }
}

// The next cells from c on that share a bit with `all`; returns where to go on.
//
// A page without any in its span is passed over; of another all are taken, as sums over blocks that
// begin elsewhere differ in their last bits. One whose cells are other sequences' begins a block, so that who
// sees none of them can pass over that.
static int take_cells(Cells *block, const __global int *cells, int c, int end, int4 all) {
  int n = 0;
  block->all = NO_SPAN;
  while (c < end && n < BLOCK) {
    int page_end = min(c / BLOCK * BLOCK + BLOCK, end);
    int4 page = summary_of(cells, c, page_end, all);
    if (page.w && n && page.x != block->all.x) break;
    if (!page.w) {
      c = page_end;
      continue;
    }
    block->all = joined(block->all, page);
    if (page.w == BLOCK && n == 0) {
      take_page(block, cells, c, all);
      n = BLOCK;
      c = page_end;
      break;
    }
    for (; c < page_end && n < BLOCK; c++) {
      int2 cell = vload2(c, cells);
      block->list[n] = c;
      block->bits[n] = cell.x;
      block->positions[n] = cell.y;
      if (cell.x & all.x) {
        block->all.y = min(block->all.y, cell.y);
        block->all.z = max(block->all.z, cell.y);
        n++;
      }
    }
  }
  for (int i = n; n && i % 16; i++) {
    block->list[i] = block->list[n - 1];
    block->bits[i] = 0;
    block->positions[i] = 0;
  }
  block->n = n;
  return c;
}
