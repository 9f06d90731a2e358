// doubles.h: f64 in integers, for devices without it
//
// Some functions of this library compute parts of an f32 result in f64. All operations are rounded once, to nearest even, also denormal
// ones; NaN are one NaN. A sum is a fused product with 1, a product one to which a zero of its sign is added. `join` rounds a number of
// 128 bits, times a power of two.
#pragma once

#include "devlib/vector.h"

namespace qd::devlib {

using Bits = uint64_t; ///< of an f64

constexpr Bits kSign = Bits(1) << 63, kInfinity = Bits(0x7ff) << 52, kNan = Bits(0xfff) << 51, kOne = Bits(0x3ff) << 52;

QD_INLINE bool isNan(Bits a) { return (a & ~kSign) > kInfinity; }

QD_INLINE Bits join(uint64_t high, uint64_t low, int exponent, int fractionBits, int most) {
  if (high == 0) {
    high = low;
    low = 0;
    exponent -= 64;
  }
  if (high == 0) return 0;
  int zeros = __builtin_clzll(high);
  if (zeros) {
    high = high << zeros | low >> (64 - zeros);
    low <<= zeros;
  }
  int biased = exponent - zeros + 127 + (most >> 1);
  if (biased >= most) return Bits(most) << fractionBits;
  int drop = 63 - fractionBits + (biased < 1 ? 1 - biased : 0);
  uint64_t kept = drop < 64 ? high >> drop : 0;
  uint64_t rest = drop < 64 ? high << (64 - drop) : drop == 64 ? high : 1;
  if (rest > kSign || (rest == kSign && (low != 0 || (kept & 1)))) ++kept;
  return biased < 1 ? kept : (Bits(biased - 1) << fractionBits) + kept;
}

QD_INLINE int getExponent(Bits a) {
  int own = int(a >> 52) & 2047;
  return own ? own : 1;
}
QD_INLINE uint64_t getFraction(Bits a) { return (a & 0xfffffffffffff) | (a & kInfinity ? uint64_t(1) << 52 : 0); }

/// A number of 128 bits, times a power of two, with a sign.
struct Term {
  uint64_t high, low;
  int exponent;
  Bits sign;
};

/// The sum of two terms below 2^127: the one with the smaller exponent moves right, and its lost bits stay as the last one.
QD_INLINE Bits addTerms(Term a, Term b) {
  if (a.exponent < b.exponent) {
    Term kept = a;
    a = b;
    b = kept;
  }
  int distance = a.exponent - b.exponent;
  if (distance > 127) distance = 127;
  if (distance >= 64) {
    b.low = b.high | (b.low ? 1 : 0);
    b.high = 0;
    distance -= 64;
  }
  if (distance) {
    uint64_t lost = b.low << (64 - distance);
    b.low = b.low >> distance | b.high << (64 - distance) | (lost ? 1 : 0);
    b.high >>= distance;
  }
  if (a.sign == b.sign) {
    a.low += b.low;
    a.high += b.high + (a.low < b.low ? 1 : 0);
  } else {
    if (a.high < b.high || (a.high == b.high && a.low < b.low)) {
      Term kept = a;
      a.high = b.high, a.low = b.low, a.sign = b.sign;
      b.high = kept.high, b.low = kept.low;
    }
    a.high -= b.high + (a.low < b.low ? 1 : 0);
    a.low -= b.low;
    if (a.high == 0 && a.low == 0) return 0;
  }
  return a.sign | join(a.high, a.low, a.exponent, 52, 2047);
}

QD_INLINE Bits multiplyAddBits(Bits a, Bits b, Bits c) {
  Bits sign = (a ^ b) & kSign, sizeA = a & ~kSign, sizeB = b & ~kSign, sizeC = c & ~kSign;
  if (isNan(a) || isNan(b) || isNan(c)) return kNan;
  if (sizeA == kInfinity || sizeB == kInfinity) {
    bool hasNoValue = sizeA == 0 || sizeB == 0 || (sizeC == kInfinity && (c & kSign) != sign);
    return hasNoValue ? kNan : sign | kInfinity;
  }
  if (sizeC == kInfinity) return c;
  if (sizeA == 0 || sizeB == 0) return sizeC ? c : c & sign;
  uint64_t x = getFraction(a), y = getFraction(b), lowX = x & 0xffffffff, lowY = y & 0xffffffff;
  uint64_t low = lowX * lowY, cross = (x >> 32) * lowY + (low >> 32), middle = lowX * (y >> 32) + (cross & 0xffffffff);
  uint64_t high = (x >> 32) * (y >> 32) + (cross >> 32) + (middle >> 32);
  low = middle << 32 | (low & 0xffffffff);
  int exponent = getExponent(a) + getExponent(b) - 2150;
  if (sizeC == 0) return sign | join(high, low, exponent, 52, 2047);
  return addTerms({high << 20 | low >> 44, low << 20, exponent - 20, sign}, {getFraction(c) << 9, 0, getExponent(c) - 1148, c & kSign});
}

QD_INLINE Bits divideBits(Bits a, Bits b) {
  Bits sign = (a ^ b) & kSign, sizeA = a & ~kSign, sizeB = b & ~kSign;
  if (isNan(a) || isNan(b) || (sizeA == kInfinity && sizeB == kInfinity) || (sizeA == 0 && sizeB == 0)) return kNan;
  if (sizeA == kInfinity || sizeB == 0) return sign | kInfinity;
  if (sizeB == kInfinity || sizeA == 0) return sign;
  uint64_t x = getFraction(a), y = getFraction(b), quotient = 0;
  int zerosX = __builtin_clzll(x), zerosY = __builtin_clzll(y);
  x <<= zerosX - 11;
  y <<= zerosY - 11;
  for (int i = 0; i < 63; ++i) {
    quotient <<= 1;
    if (x >= y) {
      x -= y;
      quotient |= 1;
    }
    x <<= 1;
  }
  int exponent = getExponent(a) - zerosX - getExponent(b) + zerosY;
  return sign | join(quotient, x ? 1 : 0, exponent - 126, 52, 2047);
}

/// LLVM's predicates are sets of relations: 1: equal, 2: greater, 4: less, 8: with NaN.
QD_INLINE uint32_t relateBits(Bits a, Bits b) {
  if (isNan(a) || isNan(b)) return 8;
  int64_t x = a & kSign ? -int64_t(a & ~kSign) : int64_t(a), y = b & kSign ? -int64_t(b & ~kSign) : int64_t(b);
  return x < y ? 4 : x > y ? 2 : 1;
}

QD_INLINE Bits widenFloat(float value) {
  uint32_t bits = __builtin_bit_cast(uint32_t, value), exponent = bits >> 23 & 255, fraction = bits & 0x7fffff;
  Bits sign = Bits(bits >> 31) << 63;
  if (exponent == 255) return fraction ? kNan : sign | kInfinity;
  return sign | join(0, exponent ? fraction | 0x800000 : fraction, int(exponent ? exponent : 1) - 150, 52, 2047);
}
QD_INLINE float narrowBits(Bits a) {
  uint32_t sign = uint32_t(a >> 63) << 31;
  if (isNan(a)) return __builtin_bit_cast(float, 0x7fc00000);
  if ((a & ~kSign) == kInfinity) return __builtin_bit_cast(float, sign | 0x7f800000);
  return __builtin_bit_cast(float, sign | uint32_t(join(0, getFraction(a), getExponent(a) - 1075, 23, 255)));
}
QD_INLINE Bits convertUnsigned(uint64_t a) { return join(0, a, 0, 52, 2047); }
QD_INLINE Bits convertSigned(int64_t a) { return a < 0 ? kSign | convertUnsigned(-uint64_t(a)) : convertUnsigned(uint64_t(a)); }
QD_INLINE uint64_t truncateBits(Bits a) {
  int shift = getExponent(a) - 1075;
  uint64_t size = shift > 11 ? 0 : shift >= 0 ? getFraction(a) << shift : shift > -64 ? getFraction(a) >> -shift : 0;
  return a & kSign ? -size : size;
}

} // namespace qd::devlib
