// inverse_hyperbolic.h: log1p, asinh, acosh, atanh
//
// Each is the logarithm of a number near 1 or above, as a pair whose low part is its rounding error: 1 + x, x + sqrt(x^2 + 1),
// x + sqrt(x^2 - 1), and half of that of (1 + x) / (1 - x). Of large x, asinh and acosh are log(2 x).
#pragma once

#include "devlib/logarithm.h"

namespace qd::devlib {

/// Far above what makes 1 small beside the square of x, and below what makes the square infinite.
template <class F> inline constexpr auto kLarge = pick<F>(0x1p30f, 0x1p60);
/// asinh and atanh of numbers below are the numbers; what is computed in f64 would be one unit off, which f32 can afford.
template <class F> inline constexpr auto kTiny = pick<F>(0.0f, 0x1p-27);

/// log(1 + f + low) + n * ln 2. f64 adds low to f first, because they may cancel.
QD_INLINE F32 joinLog(F32 n, F32 f, F32 low) {
  return fma(n, F32(Exponent<F32>::kLn2[0]), f + fma(f * f, logSeries(f), fma(-f, low, low)));
}
QD_INLINE F64 joinLog(F64 n, F64 f, F64 low) {
  Pair<F64> fraction = addOrdered(f, low), sum = addOrdered(n * kLn2High, fraction.high);
  F64 correction = fma(f * polynomial(f, -1.0057, 1.0934, -0.9329), low, fraction.low); // f * p = 1 / (1 + f) - 1
  return sum.high + (sum.low + fma(n, F64(kLn2Low), logTail(f) + correction));
}

/// log(u) + more * ln 2, where u.high is normal, positive and below 2^1023 (f32: 2^127).
template <class F> QD_INLINE F logOfPair(Pair<F> u, F more) {
  LogParts<F> parts = splitLog(u.high);
  return joinLog(parts.exponent + more, parts.fraction, u.low * powerOfTwo<F>(-parts.power));
}

/// log(sum), or log(2^more * x) for large x.
template <class F> QD_INLINE F logUnlessLarge(Pair<F> sum, F x, F more) {
  auto isLarge = x > kLarge<F>;
  Pair<F> u = {select(isLarge, F(0.5) * x, sum.high), select(isLarge, F(0), sum.low)};
  return select(x == Format<F>::kInfinity, x, logOfPair(u, select(isLarge, more + 1, F(0))));
}

/// 1 + w
template <class F> QD_INLINE Pair<F> addOne(F w) { return addOrdered(select(w > 1, w, F(1)), select(w > 1, F(1), w)); }

template <class F> QD_COLD F log1pOutside(F x) { return copysign(select(x > -1, logUnlessLarge(addOne(x), x, F(0)), fixLog(1 + x, x)), x); }
template <class F> QD_INLINE F log1p(F x) {
  if (any(!((x > -1) & (x <= kLarge<F>)))) return log1pOutside(x);
  return copysign(logOfPair(addOne(x), F(0)), x);
}

/// The rounding error of the root of a pair.
template <class F> QD_INLINE F rootError(F root, Pair<F> square) {
  return (fma(-root, root, square.high) + square.low) * (F(0.5) / (root + Format<F>::kSmallestNormal)); // 0 of the root 0
}

template <class F> QD_INLINE F asinh(F x) {
  F a = abs(x), near = select(a > kLarge<F>, F(0), a), square = fma(near, near, F(1)), root = sqrt(square);
  Pair<F> sum = addOrdered(root, near);
  sum.low += rootError(root, Pair<F>{square, fma(near, near, 1 - square)});
  return copysign(select(a < kTiny<F>, a, logUnlessLarge(sum, a, F(1))), x);
}

template <class F> QD_INLINE F acosh(F x) {
  F near = select(x > kLarge<F>, F(1), x), t = near - 1, square = fma(t, t, 2 * t), root = sqrt(square);
  Pair<F> sum = addOrdered(near, root);
  sum.low += rootError(root, Pair<F>{square, fma(t, t, 2 * t - square)});
  return select(x >= 1, logUnlessLarge(sum, x, F(1)), F(Format<F>::kNan));
}

template <class F> QD_INLINE F atanh(F x) {
  F a = abs(x);
  Pair<F> over = addOrdered(F(1), a), under = addOrdered(F(1), -a);
  F reciprocal = 1 / under.high, ratio = over.high * reciprocal;
  F error = (fma(-ratio, under.high, over.high) + fma(-ratio, under.low, over.low)) * reciprocal;
  F value = F(0.5) * logOfPair(Pair<F>{ratio, error}, F(0));
  value = select(a < kTiny<F>, a, value);
  return copysign(select(a < 1, value, select(a == 1, F(Format<F>::kInfinity), F(Format<F>::kNan))), x);
}

} // namespace qd::devlib
