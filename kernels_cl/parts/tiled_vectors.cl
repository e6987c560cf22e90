// tiled_vectors: vectors of pairs of shorts and of fours of bytes, one of each row (LANES), and what
// their instructions do; for quantised weights.
//
// Codes are not negative where OFFSET is added to them, which BIAS takes off again: instructions for
// bytes need that.
#ifndef FLOATS

#ifndef OFFSET
  #define OFFSET 0
#endif
#ifndef GROUP
  #define GROUP 8  // fours of products of bytes that 16 bits hold, less than two if not even those
#endif

#if LANES == 16
typedef ushort bits __attribute__((ext_vector_type(32)));
typedef short pairs __attribute__((ext_vector_type(32)));
typedef int products __attribute__((ext_vector_type(32)));
  #define AS_PAIRS(v) __builtin_astype(v, pairs)
  #define WIDEN(v) __builtin_convertvector(v, products)
#else
  #define BY_PAIR(name) CAT(name, PAIRED)
  #define PAIRED CAT(twice, LANES)
  #define twice1 2
  #define twice8 16
typedef BY_PAIR(ushort) bits;
typedef BY_PAIR(short) pairs;
typedef BY_PAIR(int) products;
  #define AS_PAIRS(v) BY_PAIR(as_short)(v)
  #define WIDEN(v) BY_PAIR(convert_int)(v)
#endif

// Of every lane: a.x b.x + a.y b.y. Compilers for x86 see multiply-add-pairs in the last shape, but
// Clang only while the sum stays alone: it reorders the additions of a longer one.
static ints madd(pairs a, pairs b) {
#if LANES == 16 && defined(__AVX512BW__)
  return __builtin_astype(__builtin_ia32_pmaddwd512(a, b), ints);
#elif LANES == 8 && defined(__AVX2__)
  return __builtin_astype(__builtin_ia32_pmaddwd256(a, b), ints);
#else
  products each = WIDEN(a) * WIDEN(b);
  return each.even + each.odd;
#endif
}

// Fours of bytes. Intel's runtime for CPUs has instructions by LLVM's names alone, and no macros for a
// processor: bytes and VNNI are chosen only where it has them. LLVM 22 calls bytes bytes.
#if LANES > 1
  #ifdef cl_intel_vec_len_hint
    #define HAS_AVX2
    #define HAS_AVX512
    #define HAS_VNNI
  #endif
  #ifdef __AVX2__
    #define HAS_AVX2
  #endif
  #ifdef __AVX512BW__
    #define HAS_AVX512
  #endif
  #if defined(__AVX512VNNI__) && defined(__AVX512VL__)
    #define HAS_VNNI
  #endif
  #if LANES == 16
typedef char chars __attribute__((ext_vector_type(64)));
    #define BY_WIDTH(narrow, wide) wide
  #else
typedef char chars __attribute__((ext_vector_type(32)));
    #define BY_WIDTH(narrow, wide) narrow
  #endif
  #define AS_CHARS(v) __builtin_astype(v, chars)
  #define AS_INTS(v) __builtin_astype(v, ints)
#endif

// The numbers that codes stand for, OFFSET being added: of pairs, and of bytes. Of a shuffle whose mask
// is a variable Clang makes one instruction where there is one for shorts. AVX2 has it for bytes alone,
// where a code of more than 127 chooses zero.
#ifdef TABLE
  #if LANES == 1
__constant short table[16] = {TABLE};
static pairs number_of(pairs code) { return (pairs)(table[code.x], table[code.y]); }
  #else
    #if LANES == 16
      #define REPEATED(type) (type)(TABLE, TABLE)
      #define REPEATED_BYTES (chars)(TABLE, TABLE, TABLE, TABLE)
    #else
      #define REPEATED(type) (type)(TABLE)
      #define REPEATED_BYTES (chars)(TABLE, TABLE)
    #endif
    #if LANES == 16 && defined(HAS_AVX512) || LANES == 8 && defined(HAS_AVX2)
chars shuffled(chars table, chars at)
    __asm(BY_WIDTH("llvm.x86.avx2.pshuf.b", "llvm.x86.avx512.pshuf.b.512"));
    #else
      #define shuffled(table, at) __builtin_shufflevector(table, at)
    #endif
static chars bytes_of(chars codes) { return shuffled(REPEATED_BYTES + (chars)OFFSET, codes); }
    #if LANES == 8 && OFFSET > 0 && defined(HAS_AVX2)
static pairs number_of(pairs code) {
  return AS_PAIRS(bytes_of(AS_CHARS(code | (pairs)(short)0x8000)));
}
    #else
static pairs number_of(pairs code) {
  return __builtin_shufflevector(REPEATED(pairs) + (pairs)OFFSET, code);
}
    #endif
  #endif
#endif

#if LANES > 1 && (X_BITS == 8 || defined(X_DIGITS))

  #define FOURS 8  // of a block's 32 elements

// Sums of fours of products under way, and how many of a block's fours they take.
  #if defined(VNNI) && defined(HAS_VNNI)
    #define VNNI_NAME BY_WIDTH("llvm.x86.avx512.vpdpbusd.256", "llvm.x86.avx512.vpdpbusd.512")
    #if __clang_major__ >= 22
ints dot_of_fours(ints sum, chars a, chars x) __asm(VNNI_NAME);
    #define ADD_FOUR(sum, a, x) dot_of_fours(sum, AS_CHARS(a), AS_CHARS(x))
    #else
ints dot_of_fours(ints sum, ints a, ints x) __asm(VNNI_NAME);
    #define ADD_FOUR(sum, a, x) dot_of_fours(sum, AS_INTS(a), x)
    #endif
typedef ints Sum;
    #define SPAN (FOURS / SUMS)
  #elif GROUP < 2
typedef ints Sum;
    #define SPAN (FOURS / SUMS)
static Sum ADD_FOUR(Sum sum, pairs a, ints x) {
  sum += madd(a & (pairs)255, AS_PAIRS(x) << (pairs)8 >> (pairs)8);
  return sum + madd(AS_PAIRS(__builtin_astype(a, bits) >> (bits)8), AS_PAIRS(x) >> (pairs)8);
}
  #else
typedef pairs Sum;
    #define SPAN GROUP
    #if LANES == 16 && defined(HAS_AVX512) || LANES == 8 && defined(HAS_AVX2)
pairs products_of_two(chars a, chars x)
    __asm(BY_WIDTH("llvm.x86.avx2.pmadd.ub.sw", "llvm.x86.avx512.pmaddubs.w.512"));
    #define ADD_FOUR(sum, a, x) ((sum) + products_of_two(AS_CHARS(a), AS_CHARS(x)))
    #else
static Sum ADD_FOUR(Sum sum, pairs a, ints x) {
  pairs high = AS_PAIRS(__builtin_astype(a, bits) >> (bits)8) * (AS_PAIRS(x) >> (pairs)8);
  return sum + (a & (pairs)255) * (AS_PAIRS(x) << (pairs)8 >> (pairs)8) + high;
}
    #endif
    #define SUM_IS_PAIRS
  #endif

#endif

#endif
