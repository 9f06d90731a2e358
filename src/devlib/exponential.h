// exponential.h: exp, exp2, expm1, sinh, cosh, tanh
//
// x = n * ln 2 + r with |r| <= ln 2 / 2; e^r is a minimax polynomial, and 2^n is added to the exponent bits. If the result is not a normal
// number (or x is NaN), a cold path scales in two steps, so that a denormal result is rounded once. sinh, cosh and tanh use e^x as a pair
// in f64.
#pragma once

#include "devlib/vector.h"

namespace qd::devlib {

template <class F> struct Exponent {
  static constexpr auto kLog2E = pick<F>(0x1.715476p+0f, 0x1.71547652b82fep+0);
  static constexpr decltype(kLog2E) kLn2[2] = {pick<F>(0x1.62e430p-1f, 0x1.62e42fefa39efp-1),
                                               pick<F>(-0x1.05c610p-29f, 0x1.abc9e3b39803fp-56)};
  static constexpr auto kNormal = pick<F>(87.0f, 708.0);   // e^x and e^-x are normal below
  static constexpr auto kOverflow = pick<F>(90.0f, 712.0); // e^x is infinite from here on, and 0 below kUnderflow
  static constexpr auto kUnderflow = pick<F>(-110.0f, -746.0);
  static constexpr auto kNormal2 = pick<F>(126.0f, 1022.0);
  static constexpr auto kOverflow2 = pick<F>(130.0f, 1026.0);
  static constexpr auto kUnderflow2 = pick<F>(-160.0f, -1080.0);
  static constexpr auto kSinhSmall = pick<F>(1.0f, 0.5); // below this, sinh and tanh are polynomials
  static constexpr auto kTanhSmall = pick<F>(0.55f, 0.5);
  static constexpr auto kTanhOne = pick<F>(10.0f, 22.0); // from this on, tanh rounds to 1
};

/// e^x = 2^n * (1 + high + low); n is in the low bits of `shifted`.
template <class F> struct ExponentialParts {
  F high, low;
  BitsOf<F> shifted;
};

/// (e^r - 1 - r - r^2 / 2) / r^3 for |r| <= ln 2 / 2.
QD_INLINE F32 expRest(F32 r) { return polynomial(r, 0x1.55548ep-3f, 0x1.55545cp-5f, 0x1.123c78p-7f, 0x1.6db5b2p-10f); }
QD_INLINE F64 expRest(F64 r) {
  return polynomial(r, 0x1.555555555555bp-3, 0x1.5555555555559p-5, 0x1.111111110ebcap-7, 0x1.6c16c16c146d7p-10, 0x1.a01a01b3b441fp-13,
                    0x1.a01a01b05ddc5p-16, 0x1.71ddefa0e8cbdp-19, 0x1.27e4c6045925cp-22, 0x1.af6cbb2f5fc6dp-26, 0x1.1f9500b683ad3p-29);
}
/// (e^r - 1 - r) / r^2.
template <class F> QD_INLINE F expSeries(F r) { return fma(r, expRest(r), F(0.5)); }

/// x = n * ln 2 + high + low
template <class F> QD_INLINE ExponentialParts<F> reduceExp(F x) {
  F shifted = fma(x, F(Exponent<F>::kLog2E), F(Format<F>::kRound));
  F k = Format<F>::kRound - shifted;
  F first = fma(k, F(Exponent<F>::kLn2[0]), x);
  F r = fma(k, F(Exponent<F>::kLn2[1]), first);
  return {r, fma(k, F(Exponent<F>::kLn2[1]), first - r), toBits(shifted)};
}

template <class F> QD_INLINE ExponentialParts<F> splitExp(F x) {
  ExponentialParts<F> parts = reduceExp(x);
  F r = parts.high;
  return {r, fma(r * r, expSeries(r), parts.low), parts.shifted};
}

/// The same for 2^x.
QD_INLINE ExponentialParts<F32> splitExp2(F32 x) {
  F32 shifted = x + Format<F32>::kRound, r = x - (shifted - Format<F32>::kRound);
  F32 tail = polynomial(r, 0x1.ebfbe0p-3f, 0x1.c6aeccp-5f, 0x1.3b29a8p-7f, 0x1.5f498ap-10f, 0x1.4491cap-13f);
  return {F32(0.0f), r * fma(tail, r, F32(0x1.62e430p-1f)), toBits(shifted)};
}
/// 2^(x + low)
QD_INLINE ExponentialParts<F64> splitExp2(F64 x, F64 low) {
  F64 shifted = x + Format<F64>::kRound, r = x - (shifted - Format<F64>::kRound);
  F64 tail = polynomial(r, 0x1.ebfbdff82c5a5p-3, 0x1.c6b08d704a0cfp-5, 0x1.3b2ab6fb9fea4p-7, 0x1.5d87fe78a1ac4p-10, 0x1.4309130f5db4ap-13,
                        0x1.ffcbfc79d9411p-17, 0x1.62bfc6443c538p-20, 0x1.b524d16d9a36dp-24, 0x1.e61db0b08af33p-28, 0x1.ea146d7efece8p-32);
  Pair<F64> linear = multiplyExactly(r, F64(Exponent<F64>::kLn2[0]));
  F64 small = fma(r * r, tail, fma(r, F64(Exponent<F64>::kLn2[1]), linear.low));
  F64 power = 1 + (linear.high + small);
  return {linear.high, fma(power, low * Exponent<F64>::kLn2[0], small), toBits(shifted)};
}
QD_INLINE ExponentialParts<F64> splitExp2(F64 x) { return splitExp2(x, F64(0.0)); }

/// The value of the parts, if it is normal.
template <class F> QD_INLINE F joinNormal(ExponentialParts<F> parts) {
  F value = 1 + (parts.high + parts.low);
  return fromBits(toBits(value) + (parts.shifted << Format<F>::kFractionBits));
}
/// The value of the parts for any exponent.
template <class F> QD_INLINE F join(ExponentialParts<F> parts) {
  return scale(1 + (parts.high + parts.low), parts.shifted - toBits(F(Format<F>::kRound)));
}

/// Limits x to [low, high]; NaN stays NaN.
template <class F, class T> QD_INLINE F clamp(F x, T low, T high) {
  x = select(x > high, F(high), x);
  return select(x < low, F(low), x);
}

/// e^x where it is normal. f32 does without the rounding error of r, which costs 0.1 ulp.
QD_INLINE F32 expInside(F32 x) {
  F32 shifted = fma(x, F32(Exponent<F32>::kLog2E), F32(Format<F32>::kRound)), k = Format<F32>::kRound - shifted;
  F32 r = fma(k, F32(Exponent<F32>::kLn2[1]), fma(k, F32(Exponent<F32>::kLn2[0]), x));
  F32 value = 1 + fma(r * r, expSeries(r), r);
  return fromBits(toBits(value) + (toBits(shifted) << Format<F32>::kFractionBits));
}
QD_INLINE F64 expInside(F64 x) { return joinNormal(splitExp(x)); }

template <class F> QD_COLD F expOutside(F x) {
  F limited = clamp(x, Exponent<F>::kUnderflow, Exponent<F>::kOverflow);
  return select(abs(x) < Exponent<F>::kNormal, expInside(x), join(splitExp(limited)));
}
template <class F> QD_COLD F exp2Outside(F x) { return join(splitExp2(clamp(x, Exponent<F>::kUnderflow2, Exponent<F>::kOverflow2))); }

template <class F> QD_INLINE F exp(F x) {
  if (any(!(abs(x) < Exponent<F>::kNormal))) return expOutside(x);
  return expInside(x);
}

/// e^x - 1 where e^x is normal: the sum of 2^n - 1, 2^n * (r + r^2 / 2), and the rest of the series. f32 does without the rounding errors
/// of the first two.
QD_INLINE F32 expm1Inside(F32 x) {
  ExponentialParts<F32> parts = splitExp(x);
  F32 two = powerOfTwo<F32>(parts.shifted - toBits(F32(Format<F32>::kRound)));
  Pair<F32> sum = addOrdered(two - 1, two * parts.high);
  return copysign(sum.high + fma(two, parts.low, sum.low), x);
}
QD_INLINE F64 expm1Inside(F64 x) {
  ExponentialParts<F64> parts = reduceExp(x);
  F64 two = powerOfTwo<F64>(parts.shifted - toBits(F64(Format<F64>::kRound))), r = parts.high, square = r * r;
  Pair<F64> start = addOrdered(r, 0.5 * square), base = addOrdered(two, F64(-1));
  F64 sum = fma(two, start.high, base.high), error = fma(two, start.high, base.high - sum) + base.low;
  return copysign(sum + fma(two, start.low + fma(r * square, expRest(r), parts.low), error), x);
}
template <class F> QD_COLD F expm1Outside(F x) {
  F far = select(x < 0, F(-1), expOutside(x));
  return select(abs(x) < Exponent<F>::kNormal, expm1Inside(x), far);
}
template <class F> QD_INLINE F expm1(F x) {
  if (any(!(abs(x) < Exponent<F>::kNormal))) return expm1Outside(x);
  return expm1Inside(x);
}

template <class F> QD_INLINE F exp2(F x) {
  if (any(!(abs(x) < Exponent<F>::kNormal2))) return exp2Outside(x);
  return joinNormal(splitExp2(x));
}

/// e^x / 2^n as a pair, and n.
template <class F> QD_INLINE Pair<F> expPair(ExponentialParts<F> parts) {
  Pair<F> tail = addOrdered(parts.high, parts.low);
  Pair<F> sum = addOrdered(F(1), tail.high);
  return {sum.high, sum.low + tail.low};
}

/// (e^x + sign * e^-x) / 2 for 0 <= x < kNormal.
template <class F> QD_INLINE F halfSum(F x, int sign) {
  ExponentialParts<F> parts = splitExp(x);
  Pair<F> value = expPair(parts);
  F two = powerOfTwo<F>(parts.shifted - toBits(F(Format<F>::kRound)) - 1);
  F high = value.high * two, low = value.low * two;
  // A quarter of the reciprocal of e^x / 2, with the remainder of the division.
  F reciprocal = F(0.25) / high;
  F rest = fma(-reciprocal, high, F(0.25)) - reciprocal * low;
  Pair<F> sum = addOrdered(high, sign * reciprocal);
  return sum.high + (sum.low + (low + sign * (rest * 4 * reciprocal)));
}

/// sinh and cosh of x >= 0 where e^x may overflow and e^-x is negligible.
template <class F> QD_INLINE F halfExp(F x) {
  ExponentialParts<F> parts = splitExp(select(x > Exponent<F>::kOverflow, F(Exponent<F>::kOverflow), x));
  return scale(1 + (parts.high + parts.low), parts.shifted - toBits(F(Format<F>::kRound)) - 1);
}

/// sinh(x) for |x| <= 1 (f32), |x| <= 0.5 (f64).
QD_INLINE F32 sinhSmall(F32 x) {
  F32 z = x * x;
  return fma(x * z, polynomial(z, 0x1.555556p-3f, 0x1.111136p-7f, 0x1.9ffe84p-13f, 0x1.7a17cep-19f), x);
}
QD_INLINE F64 sinhSmall(F64 x) {
  F64 z = x * x;
  return fma(x * z,
             polynomial(z, 0x1.5555555555555p-3, 0x1.1111111111111p-7, 0x1.a01a01a01a056p-13, 0x1.71de3a555d32bp-19, 0x1.ae6456c230157p-26,
                        0x1.6123c03c8fb43p-33, 0x1.b010d53721c50p-41),
             x);
}

/// tanh(x) for |x| <= 0.55 (f32), |x| <= 0.5 (f64).
QD_INLINE F32 tanhSmall(F32 x) {
  F32 z = x * x;
  return fma(x * z, polynomial(z, -0x1.55554ap-2f, 0x1.110d24p-3f, -0x1.b92844p-5f, 0x1.593b1cp-6f, -0x1.9b24bep-8f), x);
}
QD_INLINE F64 tanhSmall(F64 x) {
  F64 z = x * x;
  return fma(x * z,
             polynomial(z, -0x1.5555555555537p-2, 0x1.111111110e27ap-3, -0x1.ba1ba1b707a8cp-5, 0x1.664f47b427bd9p-6, -0x1.226e162a04218p-7,
                        0x1.d6cdf6a111911p-9, -0x1.7d4906584b113p-10, 0x1.31d0b6e7f21d1p-11, -0x1.c8ce7c12239d3p-13, 0x1.dc6a2f9521077p-15),
             x);
}

template <class F> QD_INLINE F sinhInside(F magnitude) {
  return select(magnitude < Exponent<F>::kSinhSmall, sinhSmall(magnitude), halfSum(magnitude, -1));
}
template <class F> QD_COLD F sinhOutside(F x) {
  F magnitude = abs(x);
  return copysign(select(magnitude < Exponent<F>::kNormal, sinhInside(magnitude), halfExp(magnitude)), x);
}
template <class F> QD_COLD F coshOutside(F x) {
  F magnitude = abs(x);
  return select(magnitude < Exponent<F>::kNormal, halfSum(magnitude, 1), halfExp(magnitude));
}

template <class F> QD_INLINE F sinh(F x) {
  F magnitude = abs(x);
  if (any(!(magnitude < Exponent<F>::kNormal))) return sinhOutside(x);
  return copysign(sinhInside(magnitude), x);
}

template <class F> QD_INLINE F cosh(F x) {
  F magnitude = abs(x);
  if (any(!(magnitude < Exponent<F>::kNormal))) return coshOutside(x);
  return halfSum(magnitude, 1);
}

/// 1 - 2 / (e^2x + 1) for tanh(x) above kTanhSmall; f64 adds the remainder of the division.
QD_INLINE F32 tanhLarge(F32 x) {
  ExponentialParts<F32> parts = splitExp(2 * x);
  F32 two = powerOfTwo<F32>(parts.shifted); // uses only the bits of n
  return 1 - 2 / fma(1 + (parts.high + parts.low), two, F32(1));
}
QD_INLINE F64 tanhLarge(F64 x) {
  ExponentialParts<F64> parts = splitExp(2 * x);
  Pair<F64> power = expPair(parts);
  F64 two = powerOfTwo<F64>(parts.shifted - toBits(F64(Format<F64>::kRound)));
  Pair<F64> under = addOrdered(power.high * two, F64(1));
  under.low += power.low * two;
  F64 reciprocal = 1 / under.high, quotient = 2 * reciprocal;
  F64 rest = fma(-quotient, under.high, F64(2)) - quotient * under.low;
  Pair<F64> value = addOrdered(F64(1), -quotient);
  return value.high + (value.low - rest * reciprocal);
}

template <class F> QD_INLINE F tanh(F x) {
  F magnitude = abs(x);
  F limited = select(magnitude > Exponent<F>::kTanhOne, F(Exponent<F>::kTanhOne), magnitude);
  return copysign(select(magnitude < Exponent<F>::kTanhSmall, tanhSmall(magnitude), tanhLarge(limited)), x);
}

} // namespace qd::devlib
