// integer.h: integer division and powers that wrap and never trap
//
// Vector units do not divide integers, and LLVM would divide lane by lane. Up to 32 bits, the truncated quotient of two floats of twice the
// precision is the exact integer quotient: two distinct quotients differ by more than the rounding error.
#pragma once

#include "devlib/vector.h"

namespace qd::devlib {

template <class T> constexpr bool kSigned = T(-1) < T(0);

template <class T> QD_INLINE auto toFloat(Lanes<T> x) {
  if constexpr (sizeof(T) == 4)
    return convert<F64>(x);
  else
    return convert<F32>(x);
}

template <class T, class F> QD_INLINE Lanes<T> truncateTo(F x) {
  if constexpr (sizeof(T) == 4)
    return convert<Lanes<T>>(x);
  else
    return convert<Lanes<T>>(convert<I32>(x));
}

/// a / b for b != 0 and (a, b) != (MIN, -1), truncated.
template <class T> QD_INLINE Lanes<T> divideSafely(Lanes<T> a, Lanes<T> b) {
  if constexpr (kLanes == 1 || sizeof(T) == 8)
    return a / b;
  else
    return truncateTo<T>(toFloat<T>(a) / toFloat<T>(b));
}

template <class T> QD_INLINE Lanes<T> rawDivide(Lanes<T> a, Lanes<T> b) {
  using V = Lanes<T>;
  auto special = b == 0;
  if constexpr (kSigned<T>) special = special | (b == V(T(-1)));
  V quotient = divideSafely<T>(a, select(special, V(1), b));
  if constexpr (kSigned<T>) quotient = select(b == V(T(-1)), V(-a), quotient);
  return select(b == 0, V(0), quotient);
}

template <class T> QD_INLINE Lanes<T> rawModulo(Lanes<T> a, Lanes<T> b) {
  using V = Lanes<T>;
  return select(b == 0, V(0), V(a - rawDivide<T>(a, b) * b));
}

template <class T> QD_INLINE Lanes<T> floorDivide(Lanes<T> a, Lanes<T> b) {
  using V = Lanes<T>;
  V quotient = rawDivide<T>(a, b);
  if constexpr (kSigned<T>) {
    V rest = a - quotient * b;
    quotient = select((rest != 0) & ((rest ^ b) < 0) & (b != 0), V(quotient - 1), quotient);
  }
  return quotient;
}

template <class T> QD_INLINE Lanes<T> modulo(Lanes<T> a, Lanes<T> b) {
  using V = Lanes<T>;
  V rest = rawModulo<T>(a, b);
  if constexpr (kSigned<T>) rest = select((rest != 0) & ((rest ^ b) < 0), V(rest + b), rest);
  return rest;
}

/// The scalar that a quotient of T is computed in.
template <class T> using Wider = decltype(getLane(toFloat<T>(Lanes<T>()), 0));

/// The quotient by a divisor that the lanes share, rounded down or truncated, from the divisor's reciprocal. With half a unit added to `a`,
/// the exact quotient is farther from the next integers than the errors of the reciprocal and of the product.
template <class T, bool kIsFloor> QD_INLINE Lanes<T> divideBy(Lanes<T> a, T b, Wider<T> reciprocal) {
  using V = Lanes<T>;
  auto numerator = toFloat<T>(a);
  using F = decltype(numerator);
  F half = copysign(F(0.5f), kIsFloor ? F(b) : numerator), scaled = (numerator + half) * F(reciprocal);
  V quotient = truncateTo<T>(kIsFloor ? floor(scaled) : scaled);
  if constexpr (kSigned<T>) quotient = b == T(-1) ? V(-a) : quotient;
  return b == 0 ? V(0) : quotient;
}

template <class T, bool kIsFloor> QD_INLINE Lanes<T> moduloBy(Lanes<T> a, T b, Wider<T> reciprocal) {
  return b == 0 ? Lanes<T>(0) : Lanes<T>(a - divideBy<T, kIsFloor>(a, b, reciprocal) * Lanes<T>(b));
}

/// Squares as often as the largest exponent of the lanes requires.
template <class T> QD_INLINE Lanes<T> power(Lanes<T> base, Lanes<T> exponent) {
  using V = Lanes<T>;
  V left = exponent, square = base, value = V(1);
  if constexpr (kSigned<T>) {
    left = select(exponent < 0, V(0), exponent);
    V reciprocal = select((base == V(T(-1))) & ((exponent & 1) == 0), V(1), base);
    auto unit = (base == 1) | (base == V(T(-1)));
    value = select(exponent < 0, select(unit, reciprocal, V(0)), V(1));
  }
  while (any(left != 0)) {
    value = select((left & 1) != 0, V(value * square), value);
    square = square * square;
    left = left >> 1;
  }
  return value;
}

} // namespace qd::devlib
