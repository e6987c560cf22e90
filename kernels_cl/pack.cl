// pack: rows of a file's blocks as row tiles (picture: tiles/layouts.py).
//
// `blocks` are m rows of `row_bytes` bytes; out has ceil(m / 32) tiles of `records` records each, the
// rows that the last one lacks being zeros. An item packs `per_item` records of a tile: of all its
// rows where items take vectors (LOCAL 1; eight rows at once of formats that pack_lanes.cl has), else
// of the rows that its group leaves it. Every byte of out is written once and read by nobody.
//
// FORMAT is the blocks' (pack_formats.cl), of `BYTES` bytes with PARTS x 32 elements. The other
// defines say what a record holds (tiles/schemes.py); or FLOATS, of how many bytes they are.

#ifdef FLOATS
  #if FLOATS == 4
typedef uint number;
  #else
typedef ushort number;
  #endif
  #define RECORD (TILE * 32 * FLOATS)

static void pack_row(__global uchar *out, Block row, uint record, int lane) {
  const __global number *from = (const __global number *)row + record * 32;
  for (int i = 0; i < 32; i++) ((__global number *)out)[i * TILE + lane] = from[i];
}
static void clear_row(__global uchar *out, int lane) {
  for (int i = 0; i < 32; i++) ((__global number *)out)[i * TILE + lane] = 0;
}

#else
  #define OF_FORMAT(name) CAT3(name, _, FORMAT)

// Two words of codes of two bits.
static uint2 words_of_twos(uint8 q) {
  uint4 quads = q.even | q.odd << 4;
  quads = (quads | quads >> 6) & 0x00ff00ffu;
  return quads.even | quads.odd << 8;
}
static void store_2(__global uint *words, uint2 v) { words[0] = v.x, words[TILE] = v.y; }
static void store_4(__global uint *words, uint4 v) {
  store_2(words, v.lo), store_2(words + 2 * TILE, v.hi);
}

// A row's numbers of 32 elements.
static void pack_block(__global uchar *out, Block b, uint part, int lane) {
  #if SCALES
  uchar2 scales = OF_FORMAT(scales)(b, part);
  out[lane] = scales.x;
  if (SCALES == 2) out[TILE + lane] = scales.y;
  #endif
  __global uint *words = (__global uint *)(out + SCALES * TILE) + lane;
  #if HIGH == 1
  words[0] = OF_FORMAT(high)(b, part);
  #elif HIGH == 2
  store_2(words, OF_FORMAT(high)(b, part));
  #endif
  words += HIGH * TILE;
  uint8 q = OF_FORMAT(codes)(b, part);
  #if WORDS == 8
  store_4(words, q.lo), store_4(words + 4 * TILE, q.hi);
  #elif WORDS == 4
  store_4(words, q.lo | q.hi << 4);
  #else
  store_2(words, words_of_twos(q));
  #endif
}

// A row's numbers of a record; a record may be a part of the file's block.
static void pack_row(__global uchar *out, Block row, uint record, int lane) {
  Block b = row + (ulong)(record * BLOCKS / PARTS) * BYTES;
  uint first = record * BLOCKS % PARTS;
  ushort2 halves = OF_FORMAT(halves)(b, first);
  ((__global ushort *)out)[lane] = halves.x;
  if (HALVES == 2) ((__global ushort *)out)[TILE + lane] = halves.y;
  #pragma unroll
  for (uint k = 0; k < BLOCKS; k++) pack_block(out + HEAD + k * BLOCK, b, first + k, lane);
}

static void clear_row(__global uchar *out, int lane) {
  for (int i = 0; i < HALVES; i++) ((__global ushort *)out)[i * TILE + lane] = 0;
  for (int k = 0; k < BLOCKS; k++) {
    __global uchar *block = out + HEAD + k * BLOCK;
    for (int i = 0; i < SCALES; i++) block[i * TILE + lane] = 0;
    __global uint *words = (__global uint *)(block + SCALES * TILE) + lane;
    for (int i = 0; i < WORDS + HIGH; i++) words[i * TILE] = 0;
  }
}
#endif

__kernel TEAM_SIZE void pack(__global char *out_buf, long out_off, const __global char *blocks_buf,
                             long blocks_off, int m, int records, long row_bytes, int per_item) {
  int tile = get_global_id(2), first = get_global_id(1) * per_item;
  __global uchar *out = (__global uchar *)out_buf + out_off + (long)tile * records * RECORD;
  Block rows = (Block)blocks_buf + blocks_off + (long)tile * TILE * row_bytes;
  int end = min(first + per_item, records);
#ifdef IN_LANES
  if (tile * TILE + TILE <= m) {
    pack_tile(out, rows, first, end, row_bytes);
    return;
  }
#endif
  for (int record = first; record < end; record++)
    for (int lane = get_local_id(0); lane < TILE; lane += LOCAL) {
      if (tile * TILE + lane < m)
        pack_row(out + (long)record * RECORD, rows + lane * row_bytes, record, lane);
      else
        clear_row(out + (long)record * RECORD, lane);
    }
}
