// logarithm.h: log, log2, log10, pow
//
// x = 2^n * m with m in [sqrt(1/2), sqrt(2)), f = m - 1. f32 uses a polynomial in f, f64 the series of 2 atanh(s) with s = f / (2 + f). pow
// computes log2(x) to 2^-66 as a pair (f32: in f64 arithmetic), multiplies it by y exactly, and raises 2 to the result. Arguments that are
// not positive and normal take a cold path.
#pragma once

#include "devlib/exponential.h"

namespace qd::devlib {

/// x = 2^exponent * (1 + fraction); `power` is the exponent as an integer.
template <class F> struct LogParts {
  F exponent, fraction;
  BitsOf<F> power;
};

template <class F> QD_INLINE LogParts<F> splitLog(F x) {
  constexpr auto kSqrtHalf = pick<F>(0x3f3504f3, 0x3fe6a09e667f3bcd);
  BitsOf<F> bits = toBits(x), n = (bits - kSqrtHalf) >> Format<F>::kFractionBits;
  return {convert<F>(n), fromBits(bits - (n << Format<F>::kFractionBits)) - 1, n};
}

/// (log(1 + f) - f) / f^2
QD_INLINE F32 logSeries(F32 f) {
  return polynomial(f, -0.5f, 0x1.555554p-2f, -0x1.000228p-2f, 0x1.99a010p-3f, -0x1.5471f6p-3f, 0x1.22d90cp-3f, -0x1.0d8758p-3f,
                    0x1.056486p-3f, -0x1.38c188p-4f);
}
/// log(1 + f) - f
QD_INLINE F32 logTail(F32 f) { return f * f * logSeries(f); }
/// log(1 + f) - f + half, where half = f^2 / 2.
QD_INLINE F64 logRest(F64 f, F64 half) {
  F64 s = f / (2 + f), z = s * s;
  F64 p = polynomial(z, 0x1.5555555555593p-1, 0x1.999999997fa31p-2, 0x1.2492494226f47p-2, 0x1.c71c51daa37b0p-3, 0x1.74664913c5bf8p-3,
                     0x1.39a0a5f701c6ep-3, 0x1.2f10d2d2a700fp-3);
  return s * fma(z, p, half);
}
QD_INLINE F64 logTail(F64 f) {
  F64 half = 0.5 * f * f;
  return logRest(f, half) - half;
}

constexpr double kLn2High = 0x1.62e42fefa4p-1, kLn2Low = -0x1.8432a1b0e2634p-43; // n * kLn2High is exact: its last bits are 0

/// log(x) for normal positive x; `more` is added to the exponent. f32 needs neither the last bits of ln 2 nor the rounding error of the
/// sum.
QD_INLINE F32 logInside(F32 x, F32 more) {
  LogParts<F32> parts = splitLog(x);
  F32 f = parts.fraction;
  return fma(parts.exponent + more, F32(Exponent<F32>::kLn2[0]), fma(f * f, logSeries(f), f));
}
QD_INLINE F64 logInside(F64 x, F64 more) {
  LogParts<F64> parts = splitLog(x);
  F64 n = parts.exponent + more;
  Pair<F64> sum = addOrdered(n * kLn2High, parts.fraction);
  return sum.high + (sum.low + fma(n, F64(kLn2Low), logTail(parts.fraction)));
}

template <class F> struct Log2E {
  static constexpr auto kHigh = pick<F>(0x1.715476p+0f, 0x1.71547652b82fep+0), kLow = pick<F>(0x1.4ae0c0p-26f, 0x1.777d0ffda0d24p-56);
};

/// log(1 + f) as a pair. f64 includes the rounding error of f^2 / 2.
QD_INLINE Pair<F32> logPair(F32 f) { return addOrdered(f, logTail(f)); }
QD_INLINE Pair<F64> logPair(F64 f) {
  Pair<F64> square = multiplyExactly(f, f), sum = addOrdered(f, -0.5 * square.high);
  return {sum.high, sum.low + (logRest(f, 0.5 * square.high) - 0.5 * square.low)};
}

/// The logarithms of e and of 2 to a base. Products of an exponent and kTwoHigh are exact.
template <class F> struct Base2 : Log2E<F> {
  static constexpr auto kTwoHigh = pick<F>(1.0f, 1.0), kTwoLow = pick<F>(0.0f, 0.0);
};
template <class F> struct Base10 {
  static constexpr auto kHigh = pick<F>(0x1.bcb7b2p-2f, 0x1.bcb7b1526e50ep-2), kLow = pick<F>(-0x1.5b235ep-27f, 0x1.95355baaafad3p-57);
  static constexpr auto kTwoHigh = pick<F>(0x1.344p-2f, 0x1.34413509f7p-2), kTwoLow = pick<F>(0x1.3509f8p-18f, 0x1.3fde623e2566bp-43);
};

template <template <class> class Base, class F> QD_INLINE F logToBase(F x, F more) {
  using B = Base<F>;
  LogParts<F> parts = splitLog(x);
  F n = parts.exponent + more;
  Pair<F> logarithm = logPair(parts.fraction), linear = multiplyExactly(logarithm.high, F(B::kHigh));
  Pair<F> sum = addOrdered(n * B::kTwoHigh, linear.high);
  F tail = linear.low + fma(logarithm.high, F(B::kLow), logarithm.low * B::kHigh);
  if constexpr (B::kTwoLow != 0) tail = fma(n, F(B::kTwoLow), tail);
  return sum.high + (sum.low + tail);
}

template <class F> QD_INLINE auto isNormalPositive(F x) { return (x >= Format<F>::kSmallestNormal) & (x < Format<F>::kInfinity); }

/// x, scaled to a normal number if it is denormal, and the resulting change of its exponent.
template <class F> QD_INLINE Pair<F> scaleDenormal(F x) {
  auto denormal = x < Format<F>::kSmallestNormal;
  return {select(denormal, x * (pick<F>(F(0x1p24), F(0x1p54))), x), select(denormal, pick<F>(F(-24), F(-54)), F(0))};
}

/// Replaces `value` by the logarithm for 0, negative numbers, infinity and NaN.
template <class F> QD_INLINE F fixLog(F x, F value) {
  value = select(x == Format<F>::kInfinity, x, value);
  value = select(x == 0, F(-Format<F>::kInfinity), value);
  return select(x >= 0, value, F(Format<F>::kNan));
}
template <class F> QD_COLD F logOutside(F x) {
  Pair<F> scaled = scaleDenormal(x);
  return fixLog(x, logInside(scaled.high, scaled.low));
}
template <template <class> class Base, class F> QD_COLD F logToBaseOutside(F x) {
  Pair<F> scaled = scaleDenormal(x);
  return fixLog(x, logToBase<Base>(scaled.high, scaled.low));
}

template <class F> QD_INLINE F log(F x) {
  if (any(!isNormalPositive(x))) return logOutside(x);
  return logInside(x, F(0));
}

template <class F> QD_INLINE F log2(F x) {
  if (any(!isNormalPositive(x))) return logToBaseOutside<Base2>(x);
  return logToBase<Base2>(x, F(0));
}

template <class F> QD_INLINE F log10(F x) {
  if (any(!isNormalPositive(x))) return logToBaseOutside<Base10>(x);
  return logToBase<Base10>(x, F(0));
}

/// log2(x) for normal positive x, to about 2^-66 of its size.
QD_INLINE Pair<F64> log2Pair(F64 x, F64 more) {
  constexpr double kThird[2] = {0x1.5555555555555p-2, 0x1.5555555555555p-56};
  LogParts<F64> parts = splitLog(x);
  F64 f = parts.fraction;
  Pair<F64> under = addOrdered(F64(2), f);
  F64 reciprocal = 1 / under.high, s = f * reciprocal;
  F64 sLow = (fma(-s, under.high, f) - s * under.low) * reciprocal;
  Pair<F64> z = multiplyExactly(s, s);
  z.low = fma(2 * s, sLow, z.low);
  F64 p = z.high * polynomial(z.high, 0x1.9999999999996p-3, 0x1.2492492493052p-3, 0x1.c71c71c57cfa9p-4, 0x1.745d1833f7c92p-4,
                              0x1.3b136245c2ae1p-4, 0x1.1120c68460387p-4, 0x1.de30c29a94e43p-5, 0x1.eb2777d3cf254p-5);
  // atanh(s) / s = 1 + z * (1/3 + p)
  Pair<F64> factor = addOrdered(F64(kThird[0]), p);
  factor.low += kThird[1];
  Pair<F64> tail = multiplyExactly(z.high, factor.high);
  tail.low += fma(z.high, factor.low, z.low * factor.high);
  Pair<F64> ratio = addOrdered(F64(1), tail.high);
  ratio.low += tail.low;
  Pair<F64> base = multiplyExactly(s, F64(2 * Log2E<F64>::kHigh));
  base.low += fma(s, F64(2 * Log2E<F64>::kLow), sLow * (2 * Log2E<F64>::kHigh));
  Pair<F64> value = multiplyExactly(base.high, ratio.high);
  value.low += fma(base.high, ratio.low, base.low * ratio.high);
  Pair<F64> sum = addOrdered(parts.exponent + more, value.high);
  return addOrdered(sum.high, sum.low + value.low);
}

/// log2(x) for normal positive x, to about 2^-44.
QD_INLINE F64 log2Medium(F64 x) {
  LogParts<F64> parts = splitLog(x);
  F64 s = parts.fraction / (2 + parts.fraction), z = s * s;
  F64 p = polynomial(z, 0x1.555555561f9aep-2, 0x1.999996a54239cp-3, 0x1.249413c5cfbd5p-3, 0x1.c62a6d67a6fbcp-4, 0x1.911fa7e4fc94dp-4);
  return fma(s * (2 * Log2E<F64>::kHigh), fma(z, p, F64(1)), parts.exponent);
}

/// 2^x to about 2^-33 for |x| < 1000.
QD_INLINE F64 exp2Medium(F64 x) {
  F64 shifted = x + Format<F64>::kRound, r = x - (shifted - Format<F64>::kRound);
  F64 p = polynomial(r, 1.0, 0x1.62e42fefa39efp-1, 0x1.ebfbe07a37c1ep-3, 0x1.c6b08dca3ef92p-5, 0x1.3b29f0d2018d1p-7, 0x1.5d873f53f8afep-10,
                     0x1.445ede46224f3p-13, 0x1.00e5990cbdfffp-16);
  return fromBits(toBits(p) + (toBits(shifted) << 52));
}

/// Applies the sign and the special values of pow(x, y) (C99 F.9.4.4) to `value`, which is |x|^y where both are finite.
template <class F> QD_INLINE F fixPow(F x, F y, F value) {
  F magnitude = abs(x), half = y * F(0.5);
  auto whole = trunc(y) == y;
  auto odd = whole & (trunc(half) != half);
  auto grows = y > 0;
  F zeroOrInfinity = select(grows, F(0), F(Format<F>::kInfinity)), other = select(grows, F(Format<F>::kInfinity), F(0));
  value = select(magnitude == 0, zeroOrInfinity, value);
  value = select(magnitude == Format<F>::kInfinity, other, value);
  auto unlimited = abs(y) == Format<F>::kInfinity;
  value = select(unlimited & (magnitude > 1), other, value);
  value = select(unlimited & (magnitude < 1), zeroOrInfinity, value);
  value = select(unlimited & (magnitude == 1), F(1), value);
  value = select(odd, copysign(value, x), value);
  value = select((x < 0) & (magnitude < Format<F>::kInfinity) & !whole, F(Format<F>::kNan), value);
  value = select((x != x) | (y != y), F(Format<F>::kNan), value);
  return select((y == 0) | (x == 1), F(1), value);
}

QD_COLD F64 powOutside(F64 x, F64 y) {
  Pair<F64> scaled = scaleDenormal(abs(x));
  Pair<F64> logarithm = log2Pair(scaled.high, scaled.low);
  Pair<F64> product = multiplyExactly(y, logarithm.high);
  F64 low = fma(y, logarithm.low, product.low);
  auto inside = (product.high > Exponent<F64>::kUnderflow2) & (product.high < Exponent<F64>::kOverflow2);
  F64 limited = clamp(product.high, Exponent<F64>::kUnderflow2, Exponent<F64>::kOverflow2);
  return fixPow(x, y, join(splitExp2(limited, select(inside, low, F64(0)))));
}

QD_INLINE F64 pow(F64 x, F64 y) {
  Pair<F64> logarithm = log2Pair(x, F64(0));
  Pair<F64> product = multiplyExactly(y, logarithm.high);
  if (any(!(isNormalPositive(x) & (abs(product.high) < Exponent<F64>::kNormal2 - 1)))) return powOutside(x, y);
  return joinNormal(splitExp2(product.high, fma(y, logarithm.low, product.low)));
}

/// f32 pow with the exponent in f64, which can hold an i32 too. Denormals of f32 are normal in f64, and powers of f32 never overflow f64
/// here.
QD_INLINE F64 powerMedium(F64 magnitude, F64 y) { return exp2Medium(clamp(y * log2Medium(magnitude), -300.0, 300.0)); }

QD_COLD F32 powOutside(F32 x, F64 y) {
  F64 wide = convert<F64>(x);
  return convert<F32>(fixPow(wide, y, powerMedium(abs(wide), y)));
}

QD_INLINE F32 powMedium(F32 x, F64 y) {
  F64 wide = convert<F64>(x);
  if (any(!((wide > 0) & (wide < Format<F64>::kInfinity) & (abs(y) < Format<F64>::kInfinity)))) return powOutside(x, y);
  return convert<F32>(powerMedium(wide, y));
}
QD_INLINE F32 pow(F32 x, F32 y) { return powMedium(x, convert<F64>(y)); }

QD_INLINE F32 powi(F32 x, I32 n) { return powMedium(x, convert<F64>(n)); }
QD_INLINE F64 powi(F64 x, I32 n) { return pow(x, convert<F64>(n)); }

} // namespace qd::devlib
