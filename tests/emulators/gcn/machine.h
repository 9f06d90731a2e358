// machine.h: a wave of 64 threads of an AMD GPU, its instructions as records, and what AMD's pseudocode calls
//
// gcn_decode.py makes the records. gcn_semantics.py makes functions of the pseudocode, which include this file; machine.cpp has the others.
#pragma once

#include <cmath>
#include <cstdint>
#include <cstring>
#include <limits>
#include <type_traits>

using i8 = int8_t;
using i16 = int16_t;
using i32 = int32_t;
using i64 = int64_t;
using u8 = uint8_t;
using u16 = uint16_t;
using u32 = uint32_t;
using u64 = uint64_t;
using f16 = _Float16;
using f32 = float;
using f64 = double;
constexpr int kLanes = 64;

/// A register or an operand, read as the type that the pseudocode names.
struct R {
  union {
    ::u64 u64, b64, u3, u1;
    ::i64 i64;
    ::f64 f64;
    ::u32 u32, b32;
    ::i32 i32;
    ::f32 f32;
    ::u16 u16, b16;
    ::i16 i16;
    ::f16 f16;
    ::u8 u8, b8;
    ::i8 i8;
  };
  R() : u64(0) {}
  template <class T> R &operator=(T value) {
    if constexpr (std::is_same_v<T, ::f32>)
      u64 = 0, f32 = value;
    else if constexpr (std::is_same_v<T, ::f64>)
      f64 = value;
    else if constexpr (std::is_same_v<T, ::f16>)
      u64 = 0, f16 = value;
    else
      i64 = ::i64(value);
    return *this;
  }
  operator ::i64() const { return i64; }
};

enum Kind : u8 { kNone, kVector, kScalar, kConstant, kScc };
/// An operand: where it is, which part of it is meant, and its modifiers.
struct Operand {
  u64 value, keep, flip; ///< of a constant; masks for absolute values and negation
  u16 index;
  u8 kind, words, part; ///< part: 0 all, 1 low half, 2 high half, 3 to 6 bytes (SDWA)
  u8 isSigned;          ///< the part is extended with its sign
  u8 low, high;         ///< packed operations: the half that each half of the result takes; 2: none, not packed
  u8 width;             ///< packed: bits of a half
  u8 pad[5];
};
struct Wave;
struct Op {
  int (*run)(Wave *, const Op *);
  u32 at, bytes;
  Operand d, mask, s[4]; ///< result, result of one bit per lane, sources (the last one: carry of one bit per lane)
  i64 number[4];         ///< of each kind of instruction
  u32 lane, rows, banks; ///< DPP: 0 or the kind of movement; masks of rows and banks
  i32 distance;
  u8 isBound, clamp, scale, zeroes; ///< DPP's missing lanes read 0; clamp; 1: *2, 2: *4, 3: /2; a 16-bit result clears the other half
  u8 resultBits, isFloat;
  u8 isOfDevice; ///< an access that passes by the caches of the block
  u8 pad;
};

struct Block;
struct Wave {
  u32 v[512][kLanes], s[132];
  u64 exec() const { return s[126] | u64(s[127]) << 32; }
  u64 vcc() const { return s[106] | u64(s[107]) << 32; }
  u64 pc;
  u32 scc, done;
  Block *block;
  char *scratch;
  u32 scratchBytes;
  u32 indexing; ///< registers are counted from this number on, 0 to 255; bits 8 to 10 and 11: those of the sources and the result
};
/// What an instruction returns: go on, stop at a barrier, end, a jump was taken, illegal address, unknown instruction, a value that another
/// block has written and that the device need not show (scopes.h).
enum { kNext, kBarrier, kEnd, kJump, kFault, kUnknown, kStale };

static inline u64 bits(u64 x, int high, int low) { return x >> low & (high - low >= 63 ? ~0ull : (1ull << (high - low + 1)) - 1); }

//--- Operands ---

static inline u64 readScalar(const Wave *w, int index, int words) {
  return words > 1 ? w->s[index] | u64(w->s[index + 1]) << 32 : w->s[index];
}
static inline u64 shape(const Operand &o, u64 x) {
  if (o.part) {
    int low = o.part == 2 ? 16 : o.part < 3 ? 0 : 8 * (o.part - 3), size = o.part < 3 ? 16 : 8;
    x = bits(x, low + size - 1, low);
    if (o.isSigned) x = u64(i64(x << (64 - size)) >> (64 - size));
  }
  if (o.low < 2) {
    u64 mask = (1ull << o.width) - 1, a = x >> (o.low ? o.width : 0) & mask, b = x >> (o.high ? o.width : 0) & mask;
    x = a | b << o.width;
  }
  return (x & o.keep) ^ o.flip;
}
static inline u64 read(const Wave *w, const Operand &o, int l) {
  switch (o.kind) {
  case kVector: return shape(o, o.words > 1 ? w->v[o.index][l] | u64(w->v[o.index + 1][l]) << 32 : w->v[o.index][l]);
  case kScalar: return shape(o, readScalar(w, o.index, o.words));
  case kConstant: return shape(o, o.value);
  case kScc: return w->scc;
  }
  return 0;
}
static inline void writeScalar(Wave *w, const Operand &o, u64 x) {
  if (o.kind != kScalar) return;
  w->s[o.index] = u32(x);
  if (o.words > 1) w->s[o.index + 1] = u32(x >> 32);
}
static inline void write(Wave *w, const Op *op, int l, u64 x) {
  const Operand &o = op->d;
  if (o.kind != kVector) return;
  u32 *place = &w->v[o.index][l];
  if (o.part == 1 || o.part == 2) {
    int shift = o.part == 2 ? 16 : 0;
    u32 other = op->zeroes ? 0 : *place & ~(0xffffu << shift);
    *place = other | u32(x & 0xffff) << shift;
  } else if (o.part) {
    int shift = 8 * (o.part - 3);
    *place = (op->zeroes ? 0 : *place & ~(0xffu << shift)) | u32(x & 0xff) << shift;
  } else if (op->resultBits == 16) {
    *place = (op->zeroes ? 0 : *place & 0xffff0000u) | u32(x & 0xffff);
  } else {
    *place = u32(x);
    if (o.words > 1) w->v[o.index + 1][l] = u32(x >> 32);
  }
}
/// The lane that DPP makes lane l read, or -1.
static inline int movedFrom(const Op *op, int l) {
  int n = op->distance, row = l & ~15, in = l & 15;
  switch (op->lane) {
  case 1: return (l & ~3) | (n >> (l & 3) * 4 & 3);
  case 2: return in >= n ? l - n : -1;
  case 3: return in + n < 16 ? l + n : -1;
  case 4: return row | ((in - n) & 15);
  case 5: return l ^ 15;
  case 6: return l ^ 7;
  case 7: return l ^ n;
  case 8: return row | n;
  case 9: return l < 16 ? -1 : row - 1;
  case 10: return l < 32 ? -1 : 31;
  case 11: return l >= 1 ? l - 1 : -1;
  case 12: return (l + 1) & 63;
  case 13: return l < 63 ? l + 1 : -1;
  case 14: return (l - 1) & 63;
  }
  return l;
}
/// Reads a source of all lanes; DPP removes lanes from `exec` that get nothing.
static inline void gather(const Wave *w, const Op *op, int source, u64 *out, u64 &exec) {
  const Operand &o = op->s[source];
  if (source != 0 || !op->lane) {
    for (int l = 0; l < kLanes; ++l) out[l] = read(w, o, l);
    return;
  }
  u64 active = exec;
  for (int l = 0; l < kLanes; ++l) {
    int from = movedFrom(op, l);
    bool isThere = from >= 0 && (active >> from & 1);
    out[l] = isThere ? read(w, o, from) : 0;
    bool isKept = (op->rows >> (l >> 4 & 3) & 1) && (op->banks >> (l >> 2 & 3) & 1) && (isThere || op->isBound);
    if (!isKept) exec &= ~(1ull << l);
  }
}
static inline u64 finish(const Op *op, R d) {
  if (op->scale) {
    double by = op->scale == 1 ? 2 : op->scale == 2 ? 4 : 0.5;
    if (op->resultBits == 64)
      d.f64 *= by;
    else if (op->resultBits == 16)
      d.f16 = f16(d.f16 * by);
    else
      d.f32 *= f32(by);
  }
  if (op->clamp && op->isFloat) {
    auto limit = [](auto x) { return x > 0 ? x < 1 ? x : decltype(x)(1) : decltype(x)(0); };
    if (op->resultBits == 64)
      d.f64 = limit(d.f64);
    else if (op->resultBits == 16)
      d.f16 = limit(d.f16);
    else
      d.f32 = limit(d.f32);
  }
  return d.u64;
}

//--- Functions of the pseudocode ---

using std::ceil, std::floor, std::fabs, std::fma, std::frexp, std::ldexp, std::log2, std::exp2, std::rint, std::sqrt, std::trunc, std::fmod,
    std::signbit, std::isfinite;
#define HALF(name)                                                                                                                         \
  static inline f16 name(f16 x) { return f16(name(f32(x))); }
HALF(ceil) HALF(floor) HALF(fabs) HALF(log2) HALF(exp2) HALF(rint) HALF(sqrt) HALF(trunc) static inline f16 fma(f16 a, f16 b, f16 c) {
  return f16(fma(f64(a), f64(b), f64(c)));
} // exact before it is rounded
static inline i32 signext_from_bit(i32 x, u64 bits) { return bits == 0 ? 0 : x << (32 - bits) >> (32 - bits); }
static inline f16 asF16(u64 x) {
  R r;
  r.u64 = x;
  return r.f16;
}
static inline f32 asF32(u64 x) {
  R r;
  r.u64 = x;
  return r.f32;
}
static inline u64 bitsOf(f16 x) {
  R r;
  r.u64 = 0;
  r.f16 = x;
  return r.u64;
}
static inline u64 bitsOf(f32 x) {
  R r;
  r.u64 = 0;
  r.f32 = x;
  return r.u64;
}
template <class T> static inline void put(T &to, int high, int low, u64 x) {
  u64 mask = (high - low >= 63 ? ~0ull : (1ull << (high - low + 1)) - 1) << low;
  to.u64 = (to.u64 & ~mask) | (x << low & mask);
}
template <class T> static inline f64 toF64(T x) {
  if constexpr (std::is_integral_v<T>) {
    R r;
    r.u64 = u64(x);
    return r.f64;
  } else
    return f64(x);
}
template <class T> static inline f32 toF32(T x) {
  if constexpr (std::is_integral_v<T>) {
    R r;
    r.u64 = u64(x);
    return r.f32;
  } else
    return f32(x);
}
template <class T> static inline bool isNAN(T x) { return x != x; }
static inline bool isSignalNAN(double) { return false; } // conversions make them quiet before
static inline bool isQuietNAN(double x) { return x != x; }
template <class T> static inline T cvtToQuietNAN(T x) { return x; }
static inline int sign(double x) { return std::signbit(x); }
static inline int exponent(f64 x) {
  R r;
  r.f64 = x;
  return r.u64 >> 52 & 2047;
}
static inline int exponent(f32 x) {
  R r;
  r.f32 = x;
  return r.u32 >> 23 & 255;
}
static inline int exponent(f16 x) {
  R r;
  r.u64 = 0;
  r.f16 = x;
  return r.u16 >> 10 & 31;
}
template <class T> static inline T mantissa(T x) {
  int e;
  return T(frexp(x, &e));
}
static inline bool isEven(double x) { return fmod(x, 2) == 0; }
template <class T> static inline T signext(T x) { return x; }
template <class T> static inline T fract(T x) {
  T y = T(x - floor(x));
  return y < 1 ? y : T(1 - std::numeric_limits<f32>::epsilon() / 2);
}
template <class T> static inline bool isDenorm(T x) { return std::fpclassify(x) == FP_SUBNORMAL; }
template <class I, class F> static inline I saturate(F x) {
  if (x != x) return 0;
  F most = F(std::ldexp(F(1), sizeof(I) * 8 - std::is_signed_v<I>)), least = std::is_signed_v<I> ? -most : 0;
  I high = I(~I(std::is_signed_v<I> ? u64(1) << (sizeof(I) * 8 - 1) : 0));
  return x <= least ? I(std::is_signed_v<I> ? I(~high) : 0) : x >= most ? high : I(x);
}
// clang-format off
#define CONVERT(name, from, to, e) static inline to name(from x) { return e; }
CONVERT(f32_to_f64, f32, f64, x) CONVERT(f64_to_f32, f64, f32, f32(x)) CONVERT(f64_to_i32, f64, i32, saturate<i32>(x))
CONVERT(f64_to_u32, f64, u32, saturate<u32>(x)) CONVERT(f32_to_i32, f32, i32, saturate<i32>(x)) CONVERT(f32_to_u32, f32, u32, saturate<u32>(x))
CONVERT(i32_to_f64, i32, f64, x) CONVERT(u32_to_f64, u32, f64, x) CONVERT(i32_to_f32, i32, f32, f32(x)) CONVERT(u32_to_f32, u32, f32, f32(x))
CONVERT(f32_to_f16, f32, f16, f16(x)) CONVERT(f16_to_f32, f16, f32, f32(x)) CONVERT(u16_to_f16, u16, f16, f16(x)) CONVERT(i16_to_f16, i16, f16, f16(x))
CONVERT(f16_to_u16, f16, u16, saturate<u16>(f32(x))) CONVERT(f16_to_i16, f16, i16, saturate<i16>(f32(x)))
CONVERT(u32_to_u16, u32, u32, x > 65535 ? 65535 : x) CONVERT(i32_to_i16, i32, i32, x > 32767 ? 32767 : x < -32768 ? -32768 : x)
CONVERT(u8_to_u32, u32, u32, x & 255)
// clang-format on
#define MINMAX(f, t)                                                                                                                       \
  static inline t v_min_##f(t a, t b) { return a != a ? b : b != b ? a : a < b || (a == b && sign(f64(a))) ? a : b; }                      \
  static inline t v_max_##f(t a, t b) { return a != a ? b : b != b ? a : a > b || (a == b && !sign(f64(a))) ? a : b; }                     \
  static inline t v_min_num_##f(t a, t b) { return v_min_##f(a, b); }                                                                      \
  static inline t v_max_num_##f(t a, t b) { return v_max_##f(a, b); }                                                                      \
  static inline t v_min3_##f(t a, t b, t c) { return v_min_##f(v_min_##f(a, b), c); }                                                      \
  static inline t v_max3_##f(t a, t b, t c) { return v_max_##f(v_max_##f(a, b), c); }                                                      \
  static inline t v_min3_num_##f(t a, t b, t c) { return v_min3_##f(a, b, c); }                                                            \
  static inline t v_max3_num_##f(t a, t b, t c) { return v_max3_##f(a, b, c); }
                        MINMAX(f16, f16) MINMAX(f32, f32) MINMAX(f64, f64)
#define INTEGERS(f, t)                                                                                                                     \
  static inline t v_min_##f(t a, t b) { return a < b ? a : b; }                                                                            \
  static inline t v_max_##f(t a, t b) { return a > b ? a : b; }                                                                            \
  static inline t v_min3_##f(t a, t b, t c) { return v_min_##f(v_min_##f(a, b), c); }                                                      \
  static inline t v_max3_##f(t a, t b, t c) { return v_max_##f(v_max_##f(a, b), c); }
                            INTEGERS(i16, i16) INTEGERS(u16, u16) INTEGERS(i32, i32) INTEGERS(u32, u32)
    /// As the pseudocode of V_DIV_SCALE.
    template <class T>
    static inline u64 divScale(T s0, T s1, T s2, T &d, int big, int tiny, int by) {
  d = s0;
  if (s2 == 0 || s1 == 0) {
    d = NAN;
    return 0;
  }
  bool vcc = false;
  if (exponent(s2) - exponent(s1) >= big) {
    vcc = true;
    if (s0 == s1) d = ldexp(s0, by);
  } else if (isDenorm(s1))
    d = ldexp(s0, by);
  else if (isDenorm(1 / s1) && isDenorm(s2 / s1)) {
    vcc = true;
    if (s0 == s1) d = ldexp(s0, by);
  } else if (isDenorm(1 / s1))
    d = ldexp(s0, -by);
  else if (isDenorm(s2 / s1)) {
    vcc = true;
    if (s0 == s2) d = ldexp(s0, by);
  } else if (exponent(s2) <= tiny)
    d = ldexp(s0, by);
  return vcc;
}
static inline u64 bfeu(u64 x, int at, int n, int) { return n == 0 ? 0 : n >= 64 ? x >> at : x >> at & ((1ull << n) - 1); }
static inline u64 bfei(i64 x, int at, int n, int width) {
  if (n == 0) return 0;
  if (at + n >= width) return width == 32 ? u32(i32(x) >> at) : u64(x >> at);
  i64 y = i64(u64(x) << (64 - at - n)) >> (64 - n);
  return width == 32 ? u32(y) : u64(y);
}
/// The sum of products of parts of words, `size` bits each; bits 0 and 1 of `signs`: those of a and b have signs.
static inline u32 dot(u32 a, u32 b, u32 sum, int size, i64 signs) {
  auto part = [&](u32 x, int at, bool isSigned) {
    x = x << (32 - size - at);
    return isSigned ? u32(i32(x) >> (32 - size)) : x >> (32 - size);
  };
  for (int at = 0; at < 32; at += size) sum += part(a, at, signs & 1) * part(b, at, signs & 2);
  return sum;
}
