// recurrence_vectors: recurrence (parts/recurrence.cl) by items that take vectors.
//
// An item carries VECTORS * W columns of a head's state through all tokens of a sequence: from memory
// to memory, of which the first level of the cache holds all. DIM is a multiple of that.

#ifndef VECTORS
  #define VECTORS 1
#endif

#define COLUMNS (VECTORS * W)
#define AHEAD 4
#define EACH_VECTOR for (int j = 0; j < VECTORS; j++)

static float squares(const __global float *x) {
  float4 sum = 0.0f;
  for (int i = 0; i + 4 <= KEY; i += 4) sum += vload4(0, x + i) * vload4(0, x + i);
  float rest = 0.0f;
  for (int i = KEY / 4 * 4; i < KEY; i++) rest += x[i] * x[i];
  return sum4(sum) + rest;
}

__kernel TEAM_SIZE void recurrence(RECURRENCE) {
  int blocks = DIM / COLUMNS, each = heads * blocks, head = get_global_id(0) % each / blocks;
  const Heads all = HEADS_GIVEN(get_global_id(0) / each);
  int column = get_global_id(0) % blocks * COLUMNS;
  const __global float *from = state_of(&all, head) + column;
  __global float *into = kept_of(&all, head) + column;
  if (all.keeps && (all.slot < 0 || all.begin == all.end)) {
    for (int i = 0; i < KEY; i++)
      for (int c = 0; c < COLUMNS; c++) into[i * DIM + c] = all.slot < 0 ? 0.0f : from[i * DIM + c];
    from = into;
  }
  for (int t = all.begin; t < all.padded; t++) {
    __global float *out = out_of(&all, head, t) + column;
    floatW o[VECTORS], u[VECTORS];
    EACH_VECTOR o[j] = u[j] = 0.0f;
    if (t < all.end) {
      // A token's rows lie too far from the last one's for a processor to guess where.
      if (t + AHEAD < all.end) {
        fetch((const __global char *)q_of(&all, head, t + AHEAD), KEY * 4);
        fetch((const __global char *)k_of(&all, head, t + AHEAD), KEY * 4);
        fetch((const __global char *)(v_of(&all, head, t + AHEAD) + column), COLUMNS * 4);
      }
      const __global float *q = q_of(&all, head, t), *k = k_of(&all, head, t);
      const __global float *v = v_of(&all, head, t) + column;
      float scale = 1.0f;
#ifdef WKV
      EACH_VECTOR u[j] = CAT(vload, W)(j, v);
#else
      float step = step_of(&all, head, t), decay = decay_of(&all, head, t, step);
#endif
#ifdef BY_CHANNEL
      float decays[KEY];
      for (int i = 0; i < KEY; i++) decays[i] = channel_decay(&all, head, t, i);
#endif
#ifdef DELTA
      float unit = 1.0f / sqrt(squares(k) + all.eps);
      scale = 1.0f / sqrt(KEY * (squares(q) + all.eps));
      for (int i = 0; i < KEY; i++)
        EACH_VECTOR u[j] += SEEN(k[i], i) * CAT(vload, W)(j, from + i * DIM);
      EACH_VECTOR u[j] = (CAT(vload, W)(j, v) - decay * unit * u[j]) * (step * unit);
#elif !defined(WKV)
      EACH_VECTOR u[j] = CAT(vload, W)(j, v) * step;
#endif
#ifdef ERASES
      const __global float *erased = row_of(all.a, &all, head, t);
      const __global float *rates = row_of(all.d, &all, head, t);
      float unit = 1.0f / sqrt(squares(erased) + all.eps);
      floatW gone[VECTORS];
      EACH_VECTOR gone[j] = 0.0f;
      for (int i = 0; i < KEY; i++)
        EACH_VECTOR gone[j] += erased[i] * CAT(vload, W)(j, from + i * DIM);
      EACH_VECTOR gone[j] *= unit;
#endif
#ifdef BONUS
      const __global float *rates = row_of(all.d, &all, head, 0);
#endif
      for (int i = 0; i < KEY; i++) {
        EACH_VECTOR {
          floatW before = CAT(vload, W)(j, from + i * DIM), s = DECAY(i) * before + k[i] * u[j];
#ifdef ERASES
          s -= erased[i] * unit * rates[i] * gone[j];
#endif
          CAT(vstore, W)(s, j, into + i * DIM);
#ifdef BONUS
          o[j] += q[i] * (before + rates[i] * k[i] * u[j]);
#else
          o[j] += q[i] * s;
#endif
        }
      }
      from = into;
      float skip = skip_of(&all, head);
      EACH_VECTOR o[j] = o[j] * scale;
      if (skip != 0.0f) EACH_VECTOR o[j] += skip * CAT(vload, W)(j, v);
    }
    EACH_VECTOR CAT(vstore, W)(o[j], j, out);
  }
}
