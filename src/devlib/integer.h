// integer.h: integer division and powers that wrap and never trap
//
// Vector units do not divide integers, and LLVM would divide lane by lane. Up to 32 bits, the truncated quotient of two floats of twice the
// precision is the exact integer quotient: two distinct quotients differ by more than the rounding error.
#pragma once

#include "devlib/vector.h"

namespace qd::devlib {

template <class T> constexpr bool kSigned = T(-1) < T(0);

/// a / b for b != 0 and (a, b) != (MIN, -1), truncated.
template <class T> QD_INLINE Lanes<T> divideSafely(Lanes<T> a, Lanes<T> b) {
  using V = Lanes<T>;
  if constexpr (kLanes == 1 || sizeof(T) == 8)
    return a / b;
  else if constexpr (sizeof(T) == 4)
    return convert<V>(convert<F64>(a) / convert<F64>(b));
  else
    return convert<V>(convert<I32>(convert<F32>(a) / convert<F32>(b)));
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
