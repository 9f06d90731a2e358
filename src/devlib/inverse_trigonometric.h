// inverse_trigonometric.h: asin, acos, atan, atan2
//
// asin(x) = pi/2 - 2 asin(sqrt((1 - x) / 2)) maps |x| > 0.5 below 0.5. atan uses the smaller of |x| and 1/|x| and, near 1, the angle to the
// diagonal. Minimax polynomials compute the rest. In f64 the rounding errors of the root and of the quotient are part of the result.
#pragma once

#include "devlib/vector.h"

namespace qd::devlib {

template <class F> struct HalfPi {
  static constexpr auto kHigh = pick<F>(0x1.921fb6p+0f, 0x1.921fb54442d18p+0), kLow = pick<F>(-0x1.777a5cp-25f, 0x1.1a62633145c07p-54);
};

/// asin(sqrt(z)) / sqrt(z) - 1 for 0 <= z <= 0.25.
QD_INLINE F32 asinTail(F32 z) { return z * polynomial(z, 0x1.5555c8p-3f, 0x1.3301d4p-4f, 0x1.748056p-5f, 0x1.8c1090p-6f, 0x1.5983e4p-5f); }
QD_INLINE F64 asinTail(F64 z) {
  return z * polynomial(z, 0x1.555555555538ep-3, 0x1.333333336ecadp-4, 0x1.6db6db4247f1fp-5, 0x1.f1c72c49f2accp-6, 0x1.6e89f299ee7cbp-6,
                        0x1.1c6bfb51c31eep-6, 0x1.c6fbb84ebe71bp-7, 0x1.8ed0b1dd1e964p-7, 0x1.ab56153ec8f7ap-8, 0x1.404961f64df50p-6,
                        -0x1.0a5ab35ac1aa1p-6, 0x1.059cbab562ef6p-5);
}

/// asin(root) of the reduced argument as a pair; `big` where it is half of pi/2 - asin(|x|).
template <class F> struct AsinParts {
  F high, low;
  decltype(F{} < F{}) big;
};
template <class F> QD_INLINE AsinParts<F> reduceAsin(F x) {
  F magnitude = abs(x);
  auto big = magnitude > F(0.5);
  F z = select(big, (1 - magnitude) * F(0.5), magnitude * magnitude);
  F root = sqrt(z);
  F low = F(0);
  if constexpr (!kIsSingle<F>) {
    // The rounding error of the root; nothing to correct at 0.
    F rest = fma(-root, root, z) / (root + root);
    low = select(big & (z > 0), rest, F(0));
  }
  F s = select(big, root, magnitude);
  return {s, fma(s, asinTail(z), low), big};
}

template <class F> QD_INLINE F asin(F x) {
  AsinParts<F> parts = reduceAsin(x);
  Pair<F> top = addOrdered(F(HalfPi<F>::kHigh), -2 * parts.high);
  F big = top.high + (top.low + (HalfPi<F>::kLow - 2 * parts.low));
  return copysign(select(parts.big, big, parts.high + parts.low), x);
}

template <class F> QD_INLINE F acos(F x) {
  AsinParts<F> parts = reduceAsin(x);
  auto negative = x < 0;
  // big: 2a or pi - 2a; otherwise pi/2 - a, where a has the sign of x.
  F turns = select(parts.big, select(negative, F(2), F(0)), F(1));
  F factor = select(parts.big, select(negative, F(-2), F(2)), select(negative, F(1), F(-1)));
  Pair<F> sum = addOrdered(turns * HalfPi<F>::kHigh, factor * parts.high);
  return sum.high + (sum.low + fma(factor, parts.low, turns * HalfPi<F>::kLow));
}

/// atan(over / under) for 0 <= over <= under, as a pair.
QD_INLINE Pair<F32> atanOfRatio(F32 over, F32 under) {
  F32 t = select(under == 0, F32(0), over / under), z = t * t;
  // The terms alternate and hardly decrease near 1, so they cancel unless nested.
  F32 tail = horner(z, -0x1.55553ep-2f, 0x1.9991fcp-3f, -0x1.2421aap-3f, 0x1.c09974p-4f, -0x1.5832cep-4f, 0x1.dac340p-5f, -0x1.fec302p-6f,
                    0x1.6595c4p-7f, -0x1.d6103ep-10f);
  return {t, t * (z * tail)};
}
QD_INLINE Pair<F64> atanOfRatio(F64 over, F64 under) {
  // Near the diagonal atan(t) = pi/4 + atan((t - 1) / (t + 1)).
  auto steep = over > 0.41421356 * under;
  Pair<F64> above = addOrdered(under, -over), below = addOrdered(under, over);
  Pair<F64> top = {select(steep, -above.high, over), select(steep, -above.low, F64(0))};
  Pair<F64> bottom = {select(steep, below.high, under), select(steep, below.low, F64(0))};
  F64 t = top.high / bottom.high;
  F64 low = (fma(-t, bottom.high, top.high) + fma(-t, bottom.low, top.low)) / bottom.high;
  low = select(abs(low) < 1, low, F64(0)); // NaN from infinite or zero operands becomes 0
  t = select(under == 0, F64(0), t);
  F64 z = t * t;
  F64 tail = z * polynomial(z, -0x1.555555555553cp-2, 0x1.9999999995733p-3, -0x1.24924922a6521p-3, 0x1.c71c70e36ebf1p-4,
                            -0x1.745cf893181b9p-4, 0x1.3b11141e0d456p-4, -0x1.10eb804ee257cp-4, 0x1.df0c24a175964p-5, -0x1.9cc4a2c03e8d7p-5,
                            0x1.37b1f81856710p-5, -0x1.251c6b201ec57p-6);
  Pair<F64> sum = addOrdered(select(steep, F64(0.5 * HalfPi<F64>::kHigh), F64(0)), t);
  return {sum.high, sum.low + (fma(t, tail, low) + select(steep, F64(0.5 * HalfPi<F64>::kLow), F64(0)))};
}

/// turns * pi/2 + sign * angle
template <class F> QD_INLINE F turn(F turns, F sign, Pair<F> angle) {
  Pair<F> sum = addOrdered(turns * HalfPi<F>::kHigh, sign * angle.high);
  return sum.high + (sum.low + fma(sign, angle.low, turns * HalfPi<F>::kLow));
}

template <class F> QD_INLINE F atan(F x) {
  F magnitude = abs(x);
  auto steep = magnitude > 1;
  Pair<F> angle = atanOfRatio(select(steep, F(1), magnitude), select(steep, magnitude, F(1)));
  return copysign(turn(select(steep, F(1), F(0)), select(steep, F(-1), F(1)), angle), x);
}

template <class F> QD_INLINE F atan2(F y, F x) {
  F up = abs(y), across = abs(x);
  auto steep = up > across, left = toBits(x) < 0;
  F over = select(steep, across, up), under = select(steep, up, across);
  // The sum of the two must not overflow, and two infinities can be treated as two ones.
  auto huge = under > (pick<F>(F(0x1p126), F(0x1p1022)));
  auto bothInfinite = over == Format<F>::kInfinity;
  over = select(bothInfinite, F(1), select(huge, over * F(0.25), over));
  under = select(bothInfinite, F(1), select(huge, under * F(0.25), under));
  Pair<F> angle = atanOfRatio(over, under);
  // Right of the y axis: atan(y/x); beyond the diagonals: pi/2 minus the other angle; on the left: pi minus, pi/2 plus.
  F turns = select(steep, F(1), select(left, F(2), F(0)));
  F sign = select(steep, F(-1), F(1)), value = turn(turns, select(left, -sign, sign), angle);
  return select((x != x) | (y != y), F(Format<F>::kNan), copysign(value, y));
}

} // namespace qd::devlib
