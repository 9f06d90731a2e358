// inverse_trigonometric.h: asin, acos, atan, atan2
//
// asin(x) = pi/2 - 2 asin(sqrt((1 - x) / 2)) brings |x| > 0.5 below 0.5; atan takes the smaller of |x| and 1/|x|. Minimax polynomials do
// the rest. In f64 the rounding errors of the root and of the quotient are carried along.
#pragma once

#include "devlib/vector.h"

namespace qd::devlib {

template <class F> struct HalfPi;
template <> struct HalfPi<F32> {
  static constexpr float kHigh = 0x1.921fb6p+0f, kLow = -0x1.777a5cp-25f;
};
template <> struct HalfPi<F64> {
  static constexpr double kHigh = 0x1.921fb54442d18p+0, kLow = 0x1.1a62633145c07p-54;
};

/// asin(sqrt(z)) / sqrt(z) - 1 for 0 <= z <= 0.25.
QD_INLINE F32 asinTail(F32 z) { return z * polynomial(z, 0x1.5555c8p-3f, 0x1.3301d4p-4f, 0x1.748056p-5f, 0x1.8c1090p-6f, 0x1.5983e4p-5f); }
QD_INLINE F64 asinTail(F64 z) {
  return z * polynomial(z, 0x1.555555555538ep-3, 0x1.333333336ecadp-4, 0x1.6db6db4247f1fp-5, 0x1.f1c72c49f2accp-6, 0x1.6e89f299ee7cbp-6,
                        0x1.1c6bfb51c31eep-6, 0x1.c6fbb84ebe71bp-7, 0x1.8ed0b1dd1e964p-7, 0x1.ab56153ec8f7ap-8, 0x1.404961f64df50p-6,
                        -0x1.0a5ab35ac1aa1p-6, 0x1.059cbab562ef6p-5);
}

/// atan(t) / t - 1 for z = t^2 <= 1. The terms alternate and hardly shrink: only nested they do not cancel.
QD_INLINE F32 atanTail(F32 z) {
  return z * horner(z, -0x1.55553ep-2f, 0x1.9991fcp-3f, -0x1.2421aap-3f, 0x1.c09974p-4f, -0x1.5832cep-4f, 0x1.dac340p-5f, -0x1.fec302p-6f,
                    0x1.6595c4p-7f, -0x1.d6103ep-10f);
}
QD_INLINE F64 atanTail(F64 z) {
  return z * horner(z, -0x1.5555555555525p-2, 0x1.9999999995533p-3, -0x1.249249237dd8cp-3, 0x1.c71c717f82aafp-4, -0x1.745d11a9a95ebp-4,
                    0x1.3b13666653904p-4, -0x1.110e4f976aa49p-4, 0x1.e1bb94a6876e7p-5, -0x1.ae5e2630a0795p-5, 0x1.82d9d9dba99efp-5,
                    -0x1.59a17160ca66ap-5, 0x1.2c29387aabc54p-5, -0x1.e9e9de325421ap-6, 0x1.6828f94786babp-6, -0x1.c76a7fd757915p-7,
                    0x1.d7843b0520553p-8, -0x1.7a02e70e1f710p-9, 0x1.b3ad17af2da55p-11, -0x1.3ef28410a26d6p-13, 0x1.bb80251ce96b9p-17);
}

/// asin(root) of the reduced argument as a pair; `big` where it stands for half of pi/2 - asin(|x|).
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
  if constexpr (Format<F>::kFractionBits == 52) {
    // What rounding took from the root; there is none to correct at 0.
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
  // big: 2a or pi - 2a; else pi/2 - a, with a of the sign of x.
  F turns = select(parts.big, select(negative, F(2), F(0)), F(1));
  F factor = select(parts.big, select(negative, F(-2), F(2)), select(negative, F(1), F(-1)));
  Pair<F> sum = addOrdered(turns * HalfPi<F>::kHigh, factor * parts.high);
  return sum.high + (sum.low + fma(factor, parts.low, turns * HalfPi<F>::kLow));
}

/// turns * pi/2 + sign * atan(t + low)
template <class F> QD_INLINE F joinAtan(F turns, F sign, F t, F low) {
  F z = t * t;
  // 1 - z/2 stands for the slope 1 / (1 + z).
  F tail = fma(t, atanTail(z), fma(F(-0.5) * z, low, low));
  Pair<F> sum = addOrdered(turns * HalfPi<F>::kHigh, sign * t);
  return sum.high + (sum.low + fma(sign, tail, turns * HalfPi<F>::kLow));
}

template <class F> QD_INLINE F atan(F x) {
  F magnitude = abs(x);
  auto big = magnitude > 1;
  F t = select(big, 1 / magnitude, magnitude);
  return copysign(joinAtan(select(big, F(1), F(0)), select(big, F(-1), F(1)), t, F(0)), x);
}

template <class F> QD_INLINE F atan2(F y, F x) {
  F up = abs(y), across = abs(x);
  auto steep = up > across, left = toBits(x) < 0;
  F over = select(steep, across, up), under = select(steep, up, across);
  F t = over / under, low = F(0);
  if constexpr (Format<F>::kFractionBits == 52) {
    low = fma(-t, under, over) / under;
    low = select(abs(low) < 1, low, F(0)); // infinite or zero operands leave NaN
  }
  t = select(over == under, F(1), t);
  t = select(under == 0, F(0), t);
  // Right of the y axis atan(y/x); beyond the diagonals pi/2 minus the other angle; on the left pi minus, pi/2 plus.
  F turns = select(steep, F(1), select(left, F(2), F(0)));
  F sign = select(steep, F(-1), F(1)), value = joinAtan(turns, select(left, -sign, sign), t, low);
  return select((x != x) | (y != y), F(Format<F>::kNan), copysign(value, y));
}

} // namespace qd::devlib
