// group_ids: pairs of token and expert, put together by expert.
//
//   out = where the pairs of expert 0, 1, ... start, those of no expert, and where all end;
//         then the pairs, used * t + u for ids[u, t]

// Item e makes group e.
__kernel void group_ids(__global char *out_buf, long out_off, const __global char *ids_buf,
                        long ids_off, int experts, int used, int pairs, long id0, long id1) {
  __global int *starts = (__global int *)(out_buf + out_off), *out = starts + experts + 2;
  const __global char *ids = ids_buf + ids_off;
  int group = get_global_id(0), start = 0;
  for (int turn = 0; turn < 2; turn++) {
    int place = start;
    for (int t = 0, pair = 0; pair < pairs; t++)
      for (int u = 0; u < used; u++, pair++) {
        int id = *(const __global int *)(ids + u * id0 + t * id1);
        if (id < 0 || id > experts) id = experts;
        if (turn == 0)
          start += id < group;
        else if (id == group)
          out[place++] = pair;
      }
  }
  starts[group] = start;
  if (group == experts) starts[experts + 1] = pairs;
}
