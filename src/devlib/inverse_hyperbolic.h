// inverse_hyperbolic.h: log1p, asinh, acosh, atanh
//
// log1p(w) is the logarithm of 1 + w as a pair, whose low part is the rounding error of the sum. The others are log1p of an argument that
// is exact to some roundings near their zeros; of large x, asinh and acosh are log(2 x).
#pragma once

#include "devlib/logarithm.h"

namespace qd::devlib {

/// Far above what makes 1 small beside the square of x, and below what makes the square infinite.
template <class F> inline constexpr auto kLarge = pick<F>(0x1p30f, 0x1p60);

/// log(u) + more * ln 2, where u.high is normal and positive.
QD_INLINE F32 logOfPair(Pair<F32> u, F32 more) {
  LogParts<F32> parts = splitLog(u.high);
  F32 f = parts.fraction, tail = fma(f * f, logSeries(f), u.low / u.high);
  return fma(parts.exponent + more, F32(Exponent<F32>::kLn2[0]), f + tail);
}
QD_INLINE F64 logOfPair(Pair<F64> u, F64 more) {
  LogParts<F64> parts = splitLog(u.high);
  F64 n = parts.exponent + more;
  Pair<F64> sum = addOrdered(n * kLn2High, parts.fraction);
  return sum.high + (sum.low + (fma(n, F64(kLn2Low), logTail(parts.fraction)) + u.low / u.high));
}

/// 1 + w
template <class F> QD_INLINE Pair<F> addOne(F w) { return addOrdered(select(w > 1, w, F(1)), select(w > 1, F(1), w)); }

template <class F> QD_COLD F log1pOutside(F x) {
  F sum = 1 + x;
  return copysign(select(isNormalPositive(sum), logOfPair(addOne(x), F(0)), fixLog(sum, sum)), x);
}
template <class F> QD_INLINE F log1p(F x) {
  if (any(!isNormalPositive(1 + x))) return log1pOutside(x);
  return copysign(logOfPair(addOne(x), F(0)), x);
}

/// The logarithm of 1 + w, or of 2 x for large x: the square of x is not representable there, or 1 is small beside it.
template <class F> QD_INLINE F logOfRoots(F x, Pair<F> w) {
  auto isLarge = x > kLarge<F>;
  Pair<F> sum = addOne(w.high);
  sum.low += w.low;
  F value = logOfPair(Pair<F>{select(isLarge, x, sum.high), select(isLarge, F(0), sum.low)}, select(isLarge, F(1), F(0)));
  return select(x < Format<F>::kInfinity, value, x);
}

template <class F> QD_INLINE F asinh(F x) {
  F a = abs(x), near = select(a > kLarge<F>, F(0), a);
  return copysign(logOfRoots(a, addOrdered(near, near * near / (1 + sqrt(fma(near, near, F(1)))))), x);
}

template <class F> QD_INLINE F acosh(F x) {
  F t = select(x > kLarge<F>, F(0), x - 1);
  return select(x >= 1, logOfRoots(x, addOrdered(sqrt(fma(t, t, 2 * t)), t)), F(Format<F>::kNan));
}

template <class F> QD_INLINE F atanh(F x) {
  F a = abs(x), value = F(0.5) * logOfPair(addOne(2 * a / (1 - a)), F(0));
  return copysign(select(a < 1, value, select(a == 1, F(Format<F>::kInfinity), F(Format<F>::kNan))), x);
}

} // namespace qd::devlib
