// error_function.h: erf and erfc
//
// Near 0, erf(x) = x + x P(x^2). For larger x, erfc(x) = e^(-x^2) G(q) / (1 + 2 x) with q = (x - 4) / (x + 4), where G is nearly constant
// (M. M. Shepherd, J. G. Laframboise, "Chebyshev approximation of (1 + 2x) exp(x^2) erfc x in 0 <= x < infinity", Math. Comp. 36, 1981).
// The polynomials are our own Chebyshev fits. In f64 the square, the exponential and the quotient are pairs. erfc of an f32 is computed in
// f64, because e^(-x^2) would amplify the rounding error of the square.
#pragma once

#include "devlib/exponential.h"

namespace qd::devlib {

/// erf(x) / x - 1 for |x| <= 1. f64 expands around z = 1/2, because the terms cancel less there.
QD_INLINE F32 erfRatio(F32 x) {
  return polynomial(x * x, 0x1.06eba8p-3f, -0x1.81273ep-2f, 0x1.ce2d1p-4f, -0x1.b7fabap-6f, 0x1.54127p-8f, -0x1.a45088p-11f,
                    0x1.4a569p-14f);
}
QD_INLINE F64 erfRatio(F64 x) {
  return polynomial(fma(x, x, F64(-0.5)), -0x1.1ae14dc34815bp-5, -0x1.1fd16292151fdp-2, 0x1.454368017b0d5p-4, -0x1.2b902b7b2f2cep-6,
                    0x1.c82aa249a98b3p-9, -0x1.263991b7f7bdfp-11, 0x1.4866392f3bae4p-14, -0x1.429e93fffc20dp-17, 0x1.1ad510e966d33p-20,
                    -0x1.bf8cf94c62975p-24, 0x1.4417932629788p-27, -0x1.acdff00728806p-31);
}
/// erf(x) for |x| <= 1.
template <class F> QD_INLINE F erfSmall(F x) { return fma(x, erfRatio(x), x); }

/// erfc(x) for x >= 0.5; for x > 28 it is 0 in both formats.
QD_INLINE F64 erfcLarge(F64 x) {
  x = select(x > F64(28.0), F64(28.0), x);
  Pair<F64> square = multiplyExactly(x, x);
  ExponentialParts<F64> parts = splitExp(-square.high);
  Pair<F64> power = expPair(parts);
  F64 q = (x - 4) / (x + 4);
  F64 slope =
      polynomial(q, -0x1.1df1ad154a28ep-3, 0x1.f7f5df66fd7bdp-7, 0x1.16ecefcfa538fp-4, -0x1.9ddb23c3e9102p-4, 0x1.7fee004e12699p-4,
                 -0x1.0fb06dfe48b83p-4, 0x1.3079edf67eac9p-5, -0x1.09623885458bep-6, 0x1.49c67287cd6bfp-8, -0x1.8d4a99978ed3cp-11,
                 -0x1.a1df2700afd1cp-13, 0x1.3be033d992e2dp-13, -0x1.995908b23ed69p-16, -0x1.7881e1b6cf4f1p-17, 0x1.7f25fab6d64b8p-18,
                 0x1.3882c9249bf24p-22, -0x1.baebd2a350359p-21, 0x1.519dc1ca036edp-24, 0x1.d801e20deaa97p-24, -0x1.703f9db324477p-26,
                 -0x1.e908c9c2a1a03p-27, 0x1.e71e03f98d911p-29, 0x1.7a2118b1ff936p-30, -0x1.6d274501184bp-32);
  Pair<F64> top = addOrdered(F64(0x1.3ba5916e9fd7fp+0), q * slope), bottom = addOrdered(2 * x, F64(1.0));
  F64 ratio = top.high / bottom.high;
  F64 rest = (fma(-ratio, bottom.high, top.high) - ratio * bottom.low + (top.low - 0x1.aa89e25522592p-55)) / bottom.high;
  Pair<F64> product = multiplyExactly(ratio, power.high);
  F64 low = product.low + (ratio * power.low + rest * power.high) - product.high * square.low;
  return scale(product.high + low, parts.shifted - toBits(F64(Format<F64>::kRound)));
}

/// The same with the precision that an f32 needs, for x up to 11.
QD_INLINE F64 erfcForSingle(F64 x) {
  F64 q = (x - 4) / (x + 4);
  F64 top = polynomial(q, 0x1.3ba5916e7e262p+0, -0x1.1df1ad0fe078fp-3, 0x1.f7f5ea59439a2p-7, 0x1.16eced24917edp-4, -0x1.9ddb49030dfd5p-4,
                       0x1.7fee2fd1f04adp-4, -0x1.0faef0cf8c294p-4, 0x1.307711080a85ep-5, -0x1.097f562079b6fp-6, 0x1.4a1ff3e881495p-8,
                       -0x1.841e11fa7706fp-11, -0x1.b923a1becd5b3p-13, 0x1.0d9de5d96c3a5p-13, -0x1.a32aabcd3b9fp-17);
  return joinNormal(splitExp(-x * x)) * top / (1 + 2 * x);
}

/// erf(x) for x >= 1: 1 - erfc(x) by a polynomial around 2.45 in f32; from 3.95 on the result is 1.
QD_INLINE F32 erfLarge(F32 x) {
  F32 u = (select(x > F32(3.95f), F32(3.95f), x) - 2.45f) * (1 / 1.5f);
  return 1 + polynomial(u, -0x1.162d3cp-11f, 0x1.124458p-8f, -0x1.f7f766p-7f, 0x1.1af7c4p-5f, -0x1.a97438p-5f, 0x1.b263fcp-5f,
                        -0x1.14e89cp-5f, 0x1.d1f508p-8f, 0x1.40e666p-7f, -0x1.6f3b88p-7f, 0x1.16ee26p-8f, 0x1.885a82p-10f, -0x1.2bdfeap-9f,
                        0x1.26ed18p-11f, 0x1.5c321cp-12f, -0x1.510058p-13f);
}
QD_INLINE F64 erfLarge(F64 x) { return 1 - erfcLarge(x); }

template <class F> QD_INLINE F erf(F x) {
  F magnitude = abs(x);
  return copysign(select(magnitude < 1, erfSmall(magnitude), erfLarge(magnitude)), x);
}

QD_INLINE F64 erfc(F64 x) {
  F64 magnitude = abs(x), large = erfcLarge(magnitude);
  Pair<F64> rest = addOrdered(F64(1), -x);
  return select(magnitude < 0.75, rest.high + fma(-x, erfRatio(x), rest.low), select(x < 0, 2 - large, large));
}
QD_INLINE F32 erfc(F32 x) {
  F32 magnitude = abs(x);
  F32 large = convert<F32>(erfcForSingle(convert<F64>(select(magnitude > F32(11.0f), F32(11.0f), magnitude))));
  return select(magnitude < 0.5f, 1 - erfSmall(x), select(x < 0, 2 - large, large));
}

} // namespace qd::devlib
