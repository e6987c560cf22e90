// intrinsics: instructions that vendors have under names of their own. DOT4 names one whose trial
// (dot4_trial.cl) gave what PLAIN gives; nothing but the one that is named is compiled.
//
//   dot4(a, b, c) = c + a0 b0 + a1 b1 + a2 b2 + a3 b3 of the four signed bytes of a and of b

#ifndef DOT4
  #define DOT4 PLAIN
#endif
#define dot4(a, b, c) CAT(dot4_, DOT4)(a, b, c)

#define dot4_PLAIN(a, b, c) dot4_plain(as_char4(a), as_char4(b), c)
static int dot4_plain(char4 a, char4 b, int c) {
  return c + a.x * b.x + a.y * b.y + a.z * b.z + a.w * b.w;
}

// From sm_61 on.
#define dot4_NVIDIA(a, b, c) \
  ({ \
    int dotted; \
    __asm__("dp4a.s32.s32 %0, %1, %2, %3;" : "=r"(dotted) : "r"(a), "r"(b), "r"(c)); \
    dotted; \
  })

// Vega 20, CDNA and RDNA 1 and 2; and RDNA 3 and 4, where either may have a sign.
#define dot4_AMD(a, b, c) __builtin_amdgcn_sdot4(as_int(a), as_int(b), c, false)
#define dot4_RDNA3(a, b, c) __builtin_amdgcn_sudot4(true, as_int(a), true, as_int(b), c, false)

// Intel's compiler, by the name that its own library calls it.
#define dot4_INTEL(a, b, c) __builtin_IB_dp4a_ss(c, as_int(a), as_int(b))
#define dot4_is_INTEL 1  // for conditions
int __builtin_IB_dp4a_ss(int c, int a, int b) __attribute__((const));
