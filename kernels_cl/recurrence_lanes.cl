// recurrence_lanes: recurrence (parts/recurrence.cl) by items that are lanes.
//
// A group carries COLUMNS = LOCAL / PARTS columns of a head's state through all tokens of a sequence,
// in registers: an item has every PARTS-th element of its column, and sums are made of all PARTS.

#ifndef PARTS
  #define PARTS 4
#endif

#define COLUMNS (LOCAL / PARTS)
#define ELEMENTS ((KEY + PARTS - 1) / PARTS)
// Its elements of the column: r counts them, i is their place.
#define EACH_ELEMENT                                                                              \
  for (int r = 0, i = part; r < ELEMENTS; r++, i += PARTS)                                        \
    if (i < KEY)

__kernel TEAM_SIZE void recurrence(RECURRENCE) {
  int blocks = (DIM + COLUMNS - 1) / COLUMNS, each = heads * blocks;
  const Heads all = HEADS_GIVEN(get_group_id(0) / each);
  __local float query[KEY], key[KEY], sums[LOCAL];
#ifdef DELTA
  __local float4 shares[LOCAL];
#endif
#ifdef BY_CHANNEL
  __local float decays[KEY];
#endif
#ifdef ERASES
  __local float4 shares[LOCAL];
  __local float erased[KEY];
#endif
#if defined(ERASES) || defined(BONUS)
  __local float rates[KEY];
#endif
  int me = get_local_id(0), part = me / COLUMNS, head = get_group_id(0) % each / blocks;
  int column = get_group_id(0) % blocks * COLUMNS + me % COLUMNS, real = column < DIM;
  const __global float *from = state_of(&all, head) + column;
  __global float *into = kept_of(&all, head) + column;
  float s[ELEMENTS];
  EACH_ELEMENT s[r] = real && all.slot >= 0 ? from[i * DIM] : 0.0f;
  for (int t = all.begin; t < all.end; t++) {
    for (int i = me; i < KEY; i += LOCAL) {
      query[i] = q_of(&all, head, t)[i];
      key[i] = k_of(&all, head, t)[i];
#ifdef BY_CHANNEL
      decays[i] = channel_decay(&all, head, t, i);
#endif
#ifdef ERASES
      erased[i] = row_of(all.a, &all, head, t)[i];
      rates[i] = row_of(all.d, &all, head, t)[i];
#endif
#ifdef BONUS
      rates[i] = row_of(all.d, &all, head, 0)[i];
#endif
    }
    barrier(CLK_LOCAL_MEM_FENCE);
    float v = real ? v_of(&all, head, t)[column] : 0.0f, scale = 1.0f;
#ifdef WKV
    float u = v;
#else
    float step = step_of(&all, head, t), decay = decay_of(&all, head, t, step), u = v * step;
#endif
#ifdef DELTA
    // What S k, k k and q q are in its elements, then in all.
    float4 share = 0.0f;
    EACH_ELEMENT share += (float4)(s[r] * SEEN(key[i], i), key[i] * key[i], query[i] * query[i], 0.0f);
    shares[me] = share;
    barrier(CLK_LOCAL_MEM_FENCE);
    share = 0.0f;
    for (int p = 0; p < PARTS; p++) share += shares[p * COLUMNS + me % COLUMNS];
    float unit = 1.0f / sqrt(share.y + all.eps);
    scale = 1.0f / sqrt(KEY * (share.z + all.eps));
    u = (v - decay * unit * share.x) * (step * unit);
#endif
#ifdef ERASES
    float4 share = 0.0f;
    EACH_ELEMENT share += (float4)(s[r] * erased[i], erased[i] * erased[i], 0.0f, 0.0f);
    shares[me] = share;
    barrier(CLK_LOCAL_MEM_FENCE);
    share = 0.0f;
    for (int p = 0; p < PARTS; p++) share += shares[p * COLUMNS + me % COLUMNS];
    float unit = 1.0f / sqrt(share.y + all.eps), gone = share.x * unit;
#endif
    float sum = 0.0f;
    EACH_ELEMENT {
#ifdef BONUS
      sum += query[i] * (s[r] + rates[i] * key[i] * u);
      s[r] = DECAY(i) * s[r] + key[i] * u;
#else
      s[r] = DECAY(i) * s[r] + key[i] * u;
  #ifdef ERASES
      s[r] -= erased[i] * unit * rates[i] * gone;
  #endif
      sum += query[i] * s[r];
#endif
    }
    sums[me] = sum;
    barrier(CLK_LOCAL_MEM_FENCE);
    if (part == 0 && real) {
      for (int p = 1; p < PARTS; p++) sum += sums[p * COLUMNS + me];
      out_of(&all, head, t)[column] = sum * scale + skip_of(&all, head) * v;
    }
  }
  if (!real) return;
  for (int t = all.end + part; t < all.padded; t += PARTS) out_of(&all, head, t)[column] = 0.0f;
  if (all.keeps) EACH_ELEMENT into[i * DIM] = s[r];
}
