// rounding.h: rsqrt, hypot, cbrt, round, and the divisions of floats
#pragma once

#include "devlib/vector.h"

namespace qd::devlib {

QD_INLINE F32 rsqrt(F32 x) { return 1 / sqrt(x); }

/// One Newton step, which corrects the rounding errors of the root and of the division.
QD_INLINE F64 rsqrt(F64 x) {
  auto small = x < 0x1p-900;
  F64 scaled = select(small, x * 0x1p200, x), root = sqrt(scaled), y = 1 / root;
  F64 error = fma(-y, root, F64(1)), rootError = fma(-root, root, scaled);
  F64 better = fma(y, fma(-0.5 * rootError * y, y, error), y);
  // 0, infinity and NaN give NaN in the step.
  y = select((y > 0) & (y < Format<F64>::kInfinity), better, y);
  return select(small, y * 0x1p100, y);
}

/// a^2 + b^2 for a >= b; f64 rounds once.
QD_INLINE F32 sumSquares(F32 a, F32 b) { return fma(a, a, b * b); }
QD_INLINE F64 sumSquares(F64 a, F64 b) {
  Pair<F64> first = multiplyExactly(a, a), second = multiplyExactly(b, b), sum = addOrdered(first.high, second.high);
  return sum.high + (sum.low + (first.low + second.low));
}

/// The root of a sum of squares, scaled where a square would overflow or lose digits. An infinity prevails over NaN, as in C.
template <class F> QD_INLINE F hypot(F x, F y) {
  constexpr auto kUp = pick<F>(0x1p90f, 0x1p700), kDown = pick<F>(0x1p-90f, 0x1p-700);
  F a = select(abs(x) > abs(y), abs(x), abs(y)), b = select(abs(x) > abs(y), abs(y), abs(x));
  auto isBig = a > (pick<F>(F(0x1p60f), F(0x1p500))), isSmall = a < (pick<F>(F(0x1p-40f), F(0x1p-400)));
  F factor = select(isBig, F(kDown), select(isSmall, F(kUp), F(1))), back = select(isBig, F(kUp), select(isSmall, F(kDown), F(1)));
  F value = back * sqrt(sumSquares(a * factor, b * factor));
  return select((a == Format<F>::kInfinity) | (b == Format<F>::kInfinity), F(Format<F>::kInfinity), value);
}

/// The cube root to 4 %: a third of the logarithm, as which the bits of a positive number serve.
QD_INLINE F32 guessCbrt(F32 a) { return fromBits(convert<I32>(convert<F32>(toBits(a)) * 0x1.555556p-2f) + 0x2a5119f2); }
QD_INLINE F64 guessCbrt(F64 a) { return fromBits((((toBits(a) >> 32) * 0x55555556 >> 32) + 0x2a9f7893) << 32); }

/// Steps of Halley's method, each of which has a third of the error's logarithm, and one of Newton's, whose own errors are small.
template <class F> QD_INLINE F cbrt(F x) {
  F a = abs(x);
  auto isSmall = a < (pick<F>(F(0x1p-100f), F(0x1p-1000)));
  F scaled = select(isSmall, a * (pick<F>(F(0x1p24f), F(0x1p54))), a), y = guessCbrt(scaled);
  for (int step = 0; step < (kIsSingle<F> ? 1 : 2); ++step) {
    F cube = F(0.25) * y * y * y, quarter = F(0.25) * scaled;
    y = y * ((cube + 2 * quarter) / (2 * cube + quarter));
  }
  y += (scaled / (y * y) - y) * F(1.0 / 3);
  y = select(isSmall, y * (pick<F>(F(0x1p-8f), F(0x1p-18))), y);
  return copysign(select((a > 0) & (a < Format<F>::kInfinity), y, a), x);
}

/// Rounds halves away from zero. Adds the largest number below one half, because one half itself would carry 0.49999997 to 1.
template <class F> QD_INLINE F round(F x) { return trunc(x + copysign(pick<F>(F(0x1.fffffep-2f), F(0x1.fffffffffffffp-2)), x)); }

/// frexp: the mantissa in [0.5, 1), and the exponent as a float. Zero, infinities and NaN are their own mantissa, with exponent 0.
template <class F> QD_INLINE Pair<F> splitExponent(F x) {
  using M = Format<F>;
  constexpr BitsOf<F> mask = BitsOf<F>{} + (2 * M::kBias + 1), half = BitsOf<F>{} + (M::kBias - 1);
  constexpr int lift = M::kFractionBits + 2;
  auto isSmall = abs(x) < M::kSmallestNormal;
  BitsOf<F> bits = toBits(select(isSmall, x * powerOfTwo<F>(BitsOf<F>{} + lift), x));
  F mantissa = fromBits((bits & ~(mask << M::kFractionBits)) | (half << M::kFractionBits));
  F exponent = convert<F>((bits >> M::kFractionBits & mask) - half) - select(isSmall, F{} + lift, F{});
  auto ifPlain = [&](F part, F other) { return select(abs(x) > 0, select(abs(x) < M::kInfinity, part, other), other); };
  return {ifPlain(mantissa, x), ifPlain(exponent, F{})};
}
template <class F> QD_INLINE F mantissa(F x) { return splitExponent(x).high; }
template <class F> QD_INLINE F exponent(F x) { return splitExponent(x).low; }

/// ldexp: steps of a whole range of exponents, and the remainder. A step down stops above the denormal numbers, so that only the last step
/// rounds.
template <class F> QD_INLINE F scaleByPower(F x, F power) {
  constexpr int bias = Format<F>::kBias, most = 4 * bias, down = Format<F>::kFractionBits + 2 - bias;
  power = select(power > most, F{} + most, power);
  power = select(power < -most, F{} - most, power);
  BitsOf<F> left = convert<BitsOf<F>>(power);
  const BitsOf<F> none{};
  for (int round = 0; round < 3; ++round) {
    BitsOf<F> step = select(left > bias, none + bias, select(left < 1 - bias, none + down, none));
    x *= powerOfTwo<F>(step);
    left -= step;
  }
  left = select(left > bias, none + bias, select(left < 1 - bias, none + (1 - bias), left));
  return x * powerOfTwo<F>(left);
}

template <class F> QD_INLINE F floorDivide(F x, F y) { return floor(x / y); }
template <class F> QD_INLINE F modulo(F x, F y) { return x - y * floor(x / y); }

/// The remainder of finite x >= y > 0 by long division of the significands.
template <class T> QD_INLINE T divideLong(T x, T y) {
  constexpr bool kIsFloat = sizeof(T) == 4;
  constexpr int kWidth = kIsFloat ? 23 : 52;
  using Integer = decltype(__builtin_choose_expr(kIsFloat, uint32_t(), uint64_t()));
  uint64_t left = __builtin_bit_cast(Integer, x), right = __builtin_bit_cast(Integer, y);
  constexpr uint64_t kHidden = uint64_t(1) << kWidth;
  int exponent = static_cast<int>(left >> kWidth), target = static_cast<int>(right >> kWidth);
  left &= kHidden - 1;
  right &= kHidden - 1;
  // A denormal number has no hidden bit, and the exponent of the smallest normal number.
  exponent ? left |= kHidden : ++exponent;
  target ? right |= kHidden : ++target;
  left %= right;
  while (exponent > target && left) {
    int step = exponent - target < 63 - kWidth ? exponent - target : 63 - kWidth;
    left = (left << step) % right;
    exponent -= step;
  }
  if (left == 0) return 0;
  int shift = __builtin_clzll(left) - (63 - kWidth);
  if (shift >= target) return __builtin_bit_cast(T, static_cast<Integer>(left << (target - 1)));
  return __builtin_bit_cast(T, static_cast<Integer>(((left << shift) - kHidden) | static_cast<uint64_t>(target - shift) << kWidth));
}

template <class F> QD_COLD F remainderOutside(F x, F y) {
  F result = x;
  for (int lane = 0; lane < kLanes; ++lane) {
    auto left = getLane(x, lane), right = getLane(y, lane);
    using T = decltype(left);
    T size = __builtin_elementwise_abs(left), unit = __builtin_elementwise_abs(right), value = size;
    if (!(size < Format<F>::kInfinity) || !(unit > 0))
      value = T(Format<F>::kNan);
    else if (size >= unit)
      value = divideLong(size, unit);
    setLane(result, lane, unit != unit ? T(Format<F>::kNan) : __builtin_elementwise_copysign(value, left));
  }
  return result;
}

/// C's fmod. The remainder after one exact step is correct as long as the quotient is; otherwise long division.
template <class F> QD_INLINE F remainder(F x, F y) {
  F size = abs(x), unit = abs(y), quotient = size / unit;
  if (any(!(quotient < F(int64_t(1) << (Format<F>::kFractionBits - 1))))) return remainderOutside(x, y);
  F rest = fma(-trunc(quotient), unit, size);
  rest = select(rest < 0, rest + unit, rest);
  return copysign(select(size < unit, size, rest), x);
}

} // namespace qd::devlib
