// devlib.cpp: exports the routines of exports.def for QD_DEVLIB_LANES lanes
//
// Where to begin: vector.h says how everything here is written. One header holds one family of functions.
#include "devlib/exponential.h"
#include "devlib/integer.h"
#include "devlib/inverse_trigonometric.h"
#include "devlib/logarithm.h"
#include "devlib/random.h"
#include "devlib/rounding.h"
#include "devlib/trigonometric.h"

namespace qd::devlib {

// One overload per row and type, by the name that exports.def uses.
#define QD_NAME_UNARY(name, call)                                                                                                          \
  template <class T> QD_INLINE Lanes<T> call_##name(Lanes<T> x) { return call(x); }
#define QD_NAME_BINARY(name, call)                                                                                                         \
  template <class T> QD_INLINE Lanes<T> call_##name(Lanes<T> x, Lanes<T> y) { return call(x, y); }
#define QD_NAME_DIVISION(name, callFloat, callInteger)                                                                                     \
  template <class T> QD_INLINE Lanes<T> call_##name(Lanes<T> x, Lanes<T> y) {                                                              \
    if constexpr (T(0.5) != T(0))                                                                                                          \
      return callFloat(x, y);                                                                                                              \
    else                                                                                                                                   \
      return callInteger<T>(x, y);                                                                                                         \
  }

QD_NAME_UNARY(sin, sin)
QD_NAME_UNARY(cos, cos)
QD_NAME_UNARY(tan, tan)
QD_NAME_UNARY(asin, asin)
QD_NAME_UNARY(acos, acos)
QD_NAME_UNARY(atan, atan)
QD_NAME_UNARY(sinh, sinh)
QD_NAME_UNARY(cosh, cosh)
QD_NAME_UNARY(tanh, tanh)
QD_NAME_UNARY(exp, exp)
QD_NAME_UNARY(exp2, exp2)
QD_NAME_UNARY(log, log)
QD_NAME_UNARY(log2, log2)
QD_NAME_UNARY(rsqrt, rsqrt)
QD_NAME_UNARY(round, round)
QD_NAME_UNARY(fast_sin, fastSin)
QD_NAME_UNARY(fast_cos, fastCos)
QD_NAME_BINARY(atan2, atan2)
QD_NAME_DIVISION(pow, pow, power)
QD_NAME_DIVISION(raw_mod, remainder, rawModulo)
QD_NAME_DIVISION(floor_div, floorDivide, floorDivide)
QD_NAME_DIVISION(mod, modulo, modulo)
template <class T> QD_INLINE Lanes<T> call_raw_div(Lanes<T> x, Lanes<T> y) { return rawDivide<T>(x, y); }
template <class T> QD_INLINE Lanes<T> call_powi(Lanes<T> x, I32 n) { return powi(x, n); }

} // namespace qd::devlib

using namespace qd::devlib;

#define QD_PASTE(name, type, lanes) qd_##name##_##type##x##lanes
#define QD_EXPORTED(name, type, lanes) QD_PASTE(name, type, lanes)
#define QD_EXPORT extern "C" __attribute__((always_inline))

#define QD_DEFINE_UNARY(name, type, T)                                                                                                     \
  QD_EXPORT Lanes<T> QD_EXPORTED(name, type, QD_DEVLIB_LANES)(Lanes<T> x) { return call_##name<T>(x); }
#define QD_DEFINE_BINARY(name, type, T)                                                                                                    \
  QD_EXPORT Lanes<T> QD_EXPORTED(name, type, QD_DEVLIB_LANES)(Lanes<T> x, Lanes<T> y) { return call_##name<T>(x, y); }
#define QD_DEFINE_POWI(name, type, T)                                                                                                      \
  QD_EXPORT Lanes<T> QD_EXPORTED(name, type, QD_DEVLIB_LANES)(Lanes<T> x, I32 n) { return call_##name<T>(x, n); }
#define QD_DEFINE_RANDOM(name, type, to)                                                                                                   \
  QD_EXPORT decltype(to(Block())) QD_EXPORTED(name, type, QD_DEVLIB_LANES)(U64 iteration, U32 call, uint64_t seed, uint64_t launch,        \
                                                                           uint32_t task) {                                                \
    return to(drawBlock(iteration, call, seed, launch, task));                                                                             \
  }

#define QD_TYPES_FLOAT(define, name) define(name, f32, float) define(name, f64, double)
#define QD_TYPES_INTEGER(define, name)                                                                                                     \
  define(name, i8, int8_t) define(name, i16, int16_t) define(name, i32, int32_t) define(name, i64, int64_t) define(name, u8, uint8_t)      \
      define(name, u16, uint16_t) define(name, u32, uint32_t) define(name, u64, uint64_t)
#define QD_TYPES_RANDOM(define, name) define(name, u32, toU32) define(name, u64, toU64) define(name, f32, toF32) define(name, f64, toF64)

#define QD_DEVLIB_UNARY(name, types) QD_TYPES_##types(QD_DEFINE_UNARY, name)
#define QD_DEVLIB_BINARY(name, types) QD_TYPES_##types(QD_DEFINE_BINARY, name)
#define QD_DEVLIB_POWI(name, types) QD_TYPES_##types(QD_DEFINE_POWI, name)
#define QD_DEVLIB_RANDOM(name, types) QD_TYPES_##types(QD_DEFINE_RANDOM, name)
#include "devlib/exports.def"
