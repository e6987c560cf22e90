// attention_fragments: put before fragments.cl in programs of attention_wide, whose fragments are of
// halves, or of floats (FRAGMENT_BITS 32). In local memory lines of the first side have 64 words, those
// of the other 16, and all so many more that no two lanes want the same bank.
#ifndef FRAGMENT_BITS
  #define FRAGMENT_BITS 32
#endif
#define A_STRIDE 68
#define X_STRIDE 20
