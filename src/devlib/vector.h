// vector.h: the values that the device library computes with, and the basic operations of all its functions
//
// A translation unit is compiled for one number of lanes, QD_DEVLIB_LANES. F32 is that many floats: a clang vector, or a plain float at one
// lane, so the same source serves a GPU. Operators work on both; comparisons give a mask for `select` and `any`.
// The usual path has no loops, tables or calls. Rare cases (huge angles, denormal results, infinities) are tested for all lanes at once:
// `if (any(rare))` calls a cold function that is not inlined (LLVM treats such a branch as unlikely), so that the code in a kernel stays
// short.
#pragma once

#include <stdint.h>

#ifndef QD_DEVLIB_LANES
#error "compile the device library with -DQD_DEVLIB_LANES=<lanes>"
#endif

#define QD_INLINE static inline __attribute__((always_inline))
#define QD_COLD static __attribute__((noinline, cold))

namespace qd::devlib {

constexpr int kLanes = QD_DEVLIB_LANES;

template <class T, int lanes> struct VectorOf {
  using Type = T __attribute__((ext_vector_type(lanes)));
};
template <class T> struct VectorOf<T, 1> {
  using Type = T;
};

/// One value of scalar type T in each lane.
template <class T> using Lanes = typename VectorOf<T, kLanes>::Type;

using F32 = Lanes<float>;
using F64 = Lanes<double>;
using I32 = Lanes<int32_t>;
using I64 = Lanes<int64_t>;
using U32 = Lanes<uint32_t>;
using U64 = Lanes<uint64_t>;
using Mask32 = decltype(F32{} < F32{});
using Mask64 = decltype(F64{} < F64{});

/// An unevaluated sum: `low` is the rounding error of `high`.
template <class F> struct Pair {
  F high, low;
};

template <class To, class From> QD_INLINE To convert(From value) {
  if constexpr (kLanes == 1)
    return static_cast<To>(value);
  else
    return __builtin_convertvector(value, To);
}

QD_INLINE I32 toBits(F32 x) { return __builtin_bit_cast(I32, x); }
QD_INLINE I64 toBits(F64 x) { return __builtin_bit_cast(I64, x); }
QD_INLINE F32 fromBits(I32 x) { return __builtin_bit_cast(F32, x); }
QD_INLINE F64 fromBits(I64 x) { return __builtin_bit_cast(F64, x); }

template <class Mask, class V> QD_INLINE V select(Mask mask, V yes, V no) { return mask ? yes : no; }

template <class Mask> QD_INLINE bool any(Mask mask) {
  if constexpr (kLanes == 1)
    return mask;
  else
    return __builtin_reduce_or(mask) != 0;
}

template <class V> QD_INLINE V fma(V a, V b, V c) { return __builtin_elementwise_fma(a, b, c); }
template <class V> QD_INLINE V abs(V x) { return __builtin_elementwise_abs(x); }
template <class V> QD_INLINE V sqrt(V x) { return __builtin_elementwise_sqrt(x); }
template <class V> QD_INLINE V trunc(V x) { return __builtin_elementwise_trunc(x); }
template <class V> QD_INLINE V floor(V x) { return __builtin_elementwise_floor(x); }
template <class V> QD_INLINE V copysign(V magnitude, V sign) { return __builtin_elementwise_copysign(magnitude, sign); }

/// Lane `lane` of a value, for cold paths that work lane by lane.
template <class V> QD_INLINE auto getLane(const V &value, int lane) {
  if constexpr (kLanes == 1)
    return value;
  else
    return value[lane];
}
template <class V, class T> QD_INLINE void setLane(V &value, int lane, T scalar) {
  if constexpr (kLanes == 1)
    value = scalar;
  else
    value[lane] = scalar;
}

/// The one of two constants, or lists of constants, that belongs to the format of F.
template <class F> inline constexpr bool kIsSingle = false;
template <> inline constexpr bool kIsSingle<F32> = true;
template <class F, class Single, class Twice> constexpr auto pick(Single single, Twice twice) {
  if constexpr (kIsSingle<F>)
    return single;
  else
    return twice;
}

template <class F> using BitsOf = decltype(toBits(F()));

/// Constants of a floating-point format. Adding `kRound` puts the nearest integer into the low bits of the sum.
template <class F> struct Format {
  static constexpr int kFractionBits = pick<F>(23, 52);
  static constexpr int kTopBit = pick<F>(31, 63);
  static constexpr int kBias = pick<F>(127, 1023);
  static constexpr auto kRound = pick<F>(0x1.8p23f, 0x1.8p52);
  static constexpr auto kSmallestNormal = pick<F>(0x1p-126f, 0x1p-1022);
  static constexpr auto kInfinity = pick<F>(__builtin_inff(), __builtin_inf());
  static constexpr auto kNan = pick<F>(__builtin_nanf(""), __builtin_nan(""));
  static constexpr auto kSign = pick<F>(INT32_MIN, INT64_MIN);
};

/// 2^n for a normal result.
template <class F> QD_INLINE F powerOfTwo(BitsOf<F> n) { return fromBits((n + Format<F>::kBias) << Format<F>::kFractionBits); }

/// x * 2^n for any n within twice the normal range; rounds once, if the result is denormal.
template <class F> QD_INLINE F scale(F x, BitsOf<F> n) {
  BitsOf<F> half = n >> 1;
  return x * powerOfTwo<F>(half) * powerOfTwo<F>(n - half);
}

/// Flips the sign of x where the top bit of `sign` is set.
template <class F> QD_INLINE F flipSign(F x, BitsOf<F> sign) { return fromBits(toBits(x) ^ (sign & Format<F>::kSign)); }

/// a + b as an exact pair, if |a| >= |b| or a = 0.
template <class F> QD_INLINE Pair<F> addOrdered(F a, F b) {
  F sum = a + b;
  return {sum, (a - sum) + b};
}

/// a * b as an exact pair.
template <class F> QD_INLINE Pair<F> multiplyExactly(F a, F b) {
  F product = a * b;
  return {product, fma(a, b, -product)};
}

/// c0 + x * (c1 + x * (c2 + ...))
template <class F, class... Coefficients> QD_INLINE F horner(F x, Coefficients... coefficients) {
  constexpr int count = sizeof...(Coefficients);
  const F c[count] = {F(coefficients)...};
  F sum = c[count - 1];
#pragma unroll
  for (int i = count - 2; i >= 0; --i) sum = fma(sum, x, c[i]);
  return sum;
}

/// The same for small x: from nine coefficients on, the even and the odd ones form two chains, which halves the latency.
template <class F, class... Coefficients> QD_INLINE F polynomial(F x, Coefficients... coefficients) {
  constexpr int count = sizeof...(Coefficients);
  if constexpr (count < 9) {
    return horner(x, coefficients...);
  } else {
    const F c[count] = {F(coefficients)...}, square = x * x;
    F first = c[count - 1], second = c[count - 2];
#pragma unroll
    for (int i = count - 3; i >= 0; i -= 2) first = fma(first, square, c[i]);
#pragma unroll
    for (int i = count - 4; i >= 0; i -= 2) second = fma(second, square, c[i]);
    // `first` ends at c[0] when the count is odd, at c[1] when it is even.
    return count % 2 ? fma(second, x, first) : fma(first, x, second);
  }
}

} // namespace qd::devlib
