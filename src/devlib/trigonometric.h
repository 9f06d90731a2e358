// trigonometric.h: sin, cos, both at once, tan
//
// |x| is reduced to r = |x| - k * pi/2 by a product with pi/2 in three parts (W. J. Cody, W. Waite, Software Manual for the Elementary
// Functions, 1980): with fma the first step is exact, and the rounding error of the second step goes into a low part. From 2^20 (f32) or
// 2^26 (f64) on, a cold path multiplies by as many bits of 2/pi as the exponent requires, in integers (M. Payne, R. Hanek, Radian reduction
// for trigonometric functions, SIGNUM Newsletter 18, 1983). Polynomials are minimax on [-pi/4, pi/4], extended by the 3 % that rounding of
// k can add.
#pragma once

#include "devlib/vector.h"

namespace qd::devlib {

/// An angle as quadrant * pi/2 + high + low. Only the two lowest bits of `quadrant` are used.
template <class F> struct Angle {
  F high, low;
  BitsOf<F> quadrant;
};

template <class F> struct Circle {
  static constexpr auto kTwoOverPi = pick<F>(0x1.45f306p-1f, 0x1.45f306dc9c883p-1);
  static constexpr decltype(kTwoOverPi) kHalfPi[3] = {pick<F>(0x1.921fb6p+0f, 0x1.921fb54442d18p+0),
                                                      pick<F>(-0x1.777a5cp-25f, 0x1.1a62633145c07p-54),
                                                      pick<F>(-0x1.ee59dap-50f, -0x1.f1976b7ed8fbcp-110)};
  static constexpr auto kLarge = pick<F>(0x1p20f, 0x1p26);
};

/// Reduces 0 <= x < kLarge.
template <class F> QD_INLINE Angle<F> reduceAngle(F x) {
  F shifted = fma(x, F(Circle<F>::kTwoOverPi), F(Format<F>::kRound));
  F k = Format<F>::kRound - shifted; // minus the number of quadrants
  F first = fma(k, F(Circle<F>::kHalfPi[0]), x);
  // Near a multiple of pi/2 the two cancel: the difference is exact only if the product is.
  Pair<F> second = multiplyExactly(k, F(Circle<F>::kHalfPi[1]));
  F high = first + second.high;
  F low = ((first - high) + second.high) + fma(k, F(Circle<F>::kHalfPi[2]), second.low);
  return {high, low, toBits(shifted)};
}

template <class T> struct LargeAngle {
  T high, low;
  int quadrant;
};

/// Reduces any finite x >= 2^20 by products of 32 bits, which devices without f64 have, too. The fraction of a quadrant has 64 bits; that
/// of a float is never below 2^-31, so 33 of them count.
QD_COLD LargeAngle<float> reduceLargeAngle(float x) {
  // 32 zero bits, then 2/pi.
  static constexpr uint32_t kTwoOverPi[8] = {0x00000000, 0xa2f9836e, 0x4e441529, 0xfc2757d1,
                                             0xf534ddc0, 0xdb629599, 0x3c439041, 0xfe5163ab};
  constexpr uint64_t kHalfPi[2] = {0xc90fdaa2, 0x2168c234}; // times 2^-31 and 2^-63
  uint32_t bits = __builtin_bit_cast(uint32_t, x), fraction = (bits & 0x007fffff) | 0x00800000;
  // Bits of 2/pi that give whole turns are skipped: the 96 bits that are used begin with weight 2.
  uint32_t start = (bits >> 23) - 127 - 23 - 2 + 32, word = start >> 5, shift = start & 31;
  uint64_t window[3];
#pragma clang loop unroll(full) // otherwise the window takes a GPU's memory for locals
  for (uint32_t i = 0; i < 3; ++i)
    window[i] = (static_cast<uint64_t>(kTwoOverPi[word + i]) << 32 | kTwoOverPi[word + i + 1]) << shift >> 32;
  // fraction * window modulo 2^96: two bits of quadrant, then 94 of its fraction.
  uint64_t middle = fraction * window[1] + (fraction * window[2] >> 32);
  uint64_t rest = (fraction * window[0] << 32) + middle; // without the last 32 bits
  int quadrant = static_cast<int>(rest >> 62);
  rest = rest << 2 | (fraction * window[2] >> 30 & 3);
  uint32_t sign = rest >> 63;
  if (sign) {
    ++quadrant;
    rest = ~rest; // off by one unit of 2^-64
  }
  int zeros = __builtin_clzll(rest);
  uint64_t size = rest << zeros, sizeHigh = size >> 32, sizeLow = size & 0xffffffff;
  uint64_t product = sizeHigh * kHalfPi[0] + (sizeHigh * kHalfPi[1] >> 32) + (sizeLow * kHalfPi[0] >> 32);
  // Two parts of 24 bits, converted without rounding.
  auto convertPart = [&](uint64_t part, int exponent) {
    uint32_t unit = sign << 31 | static_cast<uint32_t>(exponent - zeros) << 23;
    return static_cast<float>(static_cast<int32_t>(part)) * __builtin_bit_cast(float, unit);
  };
  float high = convertPart(product >> 40, 127 - 23), low = convertPart(product >> 16 & 0xffffff, 127 - 47), sum = high + low;
  return {sum, (high - sum) + low, quadrant};
}

/// Reduces any finite x >= 2^-8 by integer arithmetic.
QD_COLD LargeAngle<double> reduceLargeAngle(double x) {
  // 64 zero bits, then 2/pi.
  static constexpr uint64_t kTwoOverPi[21] = {
      0x0000000000000000, 0xa2f9836e4e441529, 0xfc2757d1f534ddc0, 0xdb6295993c439041, 0xfe5163abdebbc561, 0xb7246e3a424dd2e0,
      0x06492eea09d1921c, 0xfe1deb1cb129a73e, 0xe88235f52ebb4484, 0xe99c7026b45f7e41, 0x3991d639835339f4, 0x9c845f8bbdf9283b,
      0x1ff897ffde05980f, 0xef2f118b5a0a6d1f, 0x6d367ecf27cb09b7, 0x4f463f669e5fea2d, 0x7527bac7ebe5f17b, 0x3d0739f78a5292ea,
      0x6bfb5fb11f8d5d08, 0x56033046fc7b6bab, 0xf0cfbc209af4361d};
  uint64_t bits = __builtin_bit_cast(uint64_t, x);
  int exponent = static_cast<int>(bits >> 52) - 1023 - 52;
  uint64_t fraction = (bits & 0x000fffffffffffff) | 0x0010000000000000;
  // Bits of 2/pi that give whole turns are skipped: the 192 bits that are used begin with weight 2.
  int start = exponent - 2 + 64, word = start >> 6, shift = start & 63;
  uint64_t window[3];
#pragma clang loop unroll(full) // otherwise the window takes a GPU's memory for locals
  for (int i = 0; i < 3; ++i) window[i] = kTwoOverPi[word + i] << shift | (shift ? kTwoOverPi[word + i + 1] >> (64 - shift) : 0);
  // product = fraction * window modulo 2^192: two bits of quadrant, then 190 bits of fraction.
  __uint128_t low = static_cast<__uint128_t>(fraction) * window[2];
  __uint128_t middle = static_cast<__uint128_t>(fraction) * window[1] + static_cast<uint64_t>(low >> 64);
  uint64_t top = fraction * window[0] + static_cast<uint64_t>(middle >> 64);
  uint64_t words[3] = {top, static_cast<uint64_t>(middle), static_cast<uint64_t>(low)};
  int quadrant = static_cast<int>(words[0] >> 62);
  words[0] = words[0] << 2 | words[1] >> 62;
  words[1] = words[1] << 2 | words[2] >> 62;
  words[2] <<= 2;
  bool negative = words[0] >> 63;
  if (negative) {
    ++quadrant;
#pragma clang loop unroll(full)
    for (uint64_t &part : words) part = ~part; // off by one unit of 2^-192, far below the result
  }
  int leading = 0;
  if (words[0] == 0) {
    leading = 64;
    words[0] = words[1];
    words[1] = words[2];
  }
  int zeros = words[0] ? __builtin_clzll(words[0]) : 63;
  if (zeros) {
    words[0] = words[0] << zeros | words[1] >> (64 - zeros);
    words[1] = words[1] << zeros | words[2] >> (64 - zeros);
  }
  leading += zeros;
  double unit = __builtin_bit_cast(double, static_cast<uint64_t>(1023 - 53 - leading) << 52);
  double high = static_cast<double>(words[0] >> 11) * unit;
  double rest = static_cast<double>(words[0] << 53 | words[1] >> 11) * (unit * 0x1p-64);
  double product = high * Circle<F64>::kHalfPi[0];
  double error = __builtin_elementwise_fma(high, Circle<F64>::kHalfPi[0], -product);
  error += high * Circle<F64>::kHalfPi[1] + rest * Circle<F64>::kHalfPi[0];
  double sum = product + error;
  error = (product - sum) + error;
  return {negative ? -sum : sum, negative ? -error : error, quadrant};
}

/// Reduces any x >= 0, lane by lane if a lane is large. Infinity and NaN become NaN.
template <class F> QD_INLINE Angle<F> reduceAnyAngle(F x) {
  Angle<F> angle = reduceAngle(x);
  for (int lane = 0; lane < kLanes; ++lane) {
    auto value = getLane(x, lane);
    using T = decltype(value);
    if (value < Circle<F>::kLarge) continue;
    if (!(value < Format<F>::kInfinity)) {
      setLane(angle.high, lane, T(Format<F>::kNan));
      continue;
    }
    LargeAngle<T> large = reduceLargeAngle(value);
    setLane(angle.high, lane, large.high);
    setLane(angle.low, lane, large.low);
    setLane(angle.quadrant, lane, large.quadrant);
  }
  return angle;
}

/// sin(r) = sum of the pair, for |r| <= pi/4.
QD_INLINE Pair<F32> sinParts(F32 r, F32 low, F32 z) {
  F32 p = polynomial(z, -0x1.555542p-3f, 0x1.1105fep-7f, -0x1.98d96ep-13f);
  return {r, fma(r * z, p, low)};
}
QD_INLINE Pair<F64> sinParts(F64 r, F64 low, F64 z) {
  F64 p = polynomial(z, -0x1.5555555555548p-3, 0x1.111111110f78fp-7, -0x1.a01a019bf57b5p-13, 0x1.71de35603c68ep-19, -0x1.ae5e546fbbc5dp-26,
                     0x1.5d8dfd583f910p-33);
  return {r, fma(r * z, p, fma(-0.5 * z, low, low))};
}

/// cos(r) = sum of the pair, for |r| <= pi/4.
QD_INLINE Pair<F32> cosParts(F32 r, F32 low, F32 z) {
  F32 p = polynomial(z, 0x1.555548p-5f, -0x1.6c0adcp-10f, 0x1.998a4ap-16f);
  F32 half = 0.5f * z, high = 1.0f - half;
  return {high, ((1.0f - high) - half) + fma(z * z, p, -r * low)};
}
QD_INLINE Pair<F64> cosParts(F64 r, F64 low, F64 z) {
  F64 p = polynomial(z, 0x1.555555555554bp-5, -0x1.6c16c16c14f4ap-10, 0x1.a01a019c7d075p-16, -0x1.27e4f7e5547b6p-22, 0x1.1ee9d3e653476p-29,
                     -0x1.8fa293f21d425p-37);
  F64 half = 0.5 * z, high = 1.0 - half;
  return {high, ((1.0 - high) - half) + fma(z * z, p, -r * low)};
}

/// Sine of the angle plus `quarters` right angles, negated where `sign` has its top bit set.
template <class F> QD_INLINE F sinOfAngle(Angle<F> angle, int quarters, BitsOf<F> sign) {
  F z = angle.high * angle.high;
  Pair<F> sine = sinParts(angle.high, angle.low, z), cosine = cosParts(angle.high, angle.low, z);
  BitsOf<F> quadrant = angle.quadrant + quarters;
  F value = select((quadrant & 1) != 0, cosine.high + cosine.low, sine.high + sine.low);
  return flipSign(value, (quadrant << (Format<F>::kTopBit - 1)) ^ sign);
}

template <class F> QD_INLINE F tanOfAngle(Angle<F> angle, BitsOf<F> sign) {
  F z = angle.high * angle.high;
  Pair<F> sine = sinParts(angle.high, angle.low, z), cosine = cosParts(angle.high, angle.low, z);
  sine = addOrdered(sine.high, sine.low);
  cosine = addOrdered(cosine.high, cosine.low);
  auto odd = (angle.quadrant & 1) != 0;
  Pair<F> over = {select(odd, cosine.high, sine.high), select(odd, cosine.low, sine.low)};
  Pair<F> under = {select(odd, sine.high, cosine.high), select(odd, sine.low, cosine.low)};
  F reciprocal = 1 / under.high, quotient = over.high * reciprocal;
  F rest = fma(-quotient, under.high, over.high) + fma(-quotient, under.low, over.low);
  F value = fma(rest, reciprocal, quotient);
  return flipSign(value, (angle.quadrant << Format<F>::kTopBit) ^ sign);
}

// A lane's result must not depend on other lanes: the cold path gives the same result for an ordinary lane as the usual path.
template <class F> QD_COLD F sineLarge(F x, int quarters) {
  return sinOfAngle(reduceAnyAngle(abs(x)), quarters, quarters ? BitsOf<F>(0) : toBits(x));
}
template <class F> QD_COLD F tanLarge(F x) { return tanOfAngle(reduceAnyAngle(abs(x)), toBits(x)); }

/// sin(x + quarters * pi/2) for 0 or 1 quarters. The usual path is computed before the branch, so that sine and cosine of one angle share
/// most of it.
template <class F> QD_INLINE F sine(F x, int quarters) {
  F magnitude = abs(x), value = sinOfAngle(reduceAngle(magnitude), quarters, quarters ? BitsOf<F>(0) : toBits(x));
  return any(magnitude >= Circle<F>::kLarge) ? sineLarge(x, quarters) : value;
}
template <class F> QD_INLINE F sin(F x) { return sine(x, 0); }
template <class F> QD_INLINE F cos(F x) { return sine(x, 1); }

/// The sine and the cosine of an angle: `lo` and `hi`. They have the bits of the separate routines.
template <class F> using Both = typename VectorOf<decltype(getLane(F(), 0)), 2 * kLanes>::Type;
template <class F> QD_INLINE Both<F> join(F sine, F cosine) {
  Both<F> both;
  both.lo = sine;
  both.hi = cosine;
  return both;
}
template <class F> QD_INLINE Both<F> bothOfAngle(Angle<F> angle, BitsOf<F> sign) {
  return join(sinOfAngle(angle, 0, sign), sinOfAngle(angle, 1, BitsOf<F>(0)));
}
template <class F> QD_COLD Both<F> bothLarge(F x) { return bothOfAngle(reduceAnyAngle(abs(x)), toBits(x)); }
template <class F> QD_INLINE Both<F> sinAndCos(F x) {
  F magnitude = abs(x);
  if (any(magnitude >= Circle<F>::kLarge)) return bothLarge(x);
  return bothOfAngle(reduceAngle(magnitude), toBits(x));
}

template <class F> QD_INLINE F tan(F x) {
  F magnitude = abs(x);
  if (any(magnitude >= Circle<F>::kLarge)) return tanLarge(x);
  return tanOfAngle(reduceAngle(magnitude), toBits(x));
}

/// sin(x + quarters * pi/2) for 0 or 1 quarters by one polynomial on [-pi/2, pi/2]: two thirds of the work of `sine`, 1.4 ulp.
QD_INLINE F32 sinByHalfTurns(F32 x, int quarters) {
  F32 magnitude = abs(x), offset = F32(0.5f * quarters);
  I32 sign = quarters ? I32(Format<F32>::kSign) : toBits(x);
  F32 shifted = fma(magnitude, F32(0x1.45f306p-2f), -offset) + Format<F32>::kRound;
  F32 k = (Format<F32>::kRound - shifted) - offset;
  F32 r = fma(k, F32(0x1.921fb6p+1f), magnitude);
  r = fma(k, F32(-0x1.777a5cp-24f), r);
  r = fma(k, F32(-0x1.ee59dap-49f), r);
  F32 z = r * r;
  // sin(r) = r + r * t: the two leading terms of t are summed with one rounding, because the error would otherwise reach 2 ulp at pi/2.
  F32 t = fma(z, F32(-0x1.555556p-3f), z * z * polynomial(z, 0x1.11110cp-7f, -0x1.a01794p-13f, 0x1.716768p-19f, -0x1.999aaap-26f));
  return flipSign(fma(r, t, r), (toBits(shifted) << 31) ^ sign);
}

QD_COLD F32 fastSineLarge(F32 x, int quarters) {
  return select(abs(x) < Circle<F32>::kLarge, sinByHalfTurns(x, quarters), sineLarge(x, quarters));
}
QD_INLINE F32 fastSine(F32 x, int quarters) {
  if (any(abs(x) >= Circle<F32>::kLarge)) return fastSineLarge(x, quarters);
  return sinByHalfTurns(x, quarters);
}
QD_INLINE F32 fastSin(F32 x) { return fastSine(x, 0); }
QD_INLINE F32 fastCos(F32 x) { return fastSine(x, 1); }
QD_COLD Both<F32> fastBothLarge(F32 x) {
  auto isUsual = abs(x) < Circle<F32>::kLarge;
  Both<F32> exact = bothLarge(x);
  return join(select(isUsual, sinByHalfTurns(x, 0), F32(exact.lo)), select(isUsual, sinByHalfTurns(x, 1), F32(exact.hi)));
}
QD_INLINE Both<F32> fastSinAndCos(F32 x) {
  if (any(abs(x) >= Circle<F32>::kLarge)) return fastBothLarge(x);
  return join(sinByHalfTurns(x, 0), sinByHalfTurns(x, 1));
}
// A single polynomial on the wider interval would cost f64 its last ulp.
QD_INLINE F64 fastSin(F64 x) { return sin(x); }
QD_INLINE F64 fastCos(F64 x) { return cos(x); }
QD_INLINE Both<F64> fastSinAndCos(F64 x) { return sinAndCos(x); }

} // namespace qd::devlib
