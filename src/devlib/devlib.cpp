// devlib.cpp: exports the routines of exports.def for QD_DEVLIB_LANES lanes
//
// Begin reading at vector.h, which explains the style of all headers here. Each header contains one family of functions.
#include "devlib/doubles.h"
#include "devlib/error_function.h"
#include "devlib/exponential.h"
#include "devlib/integer.h"
#include "devlib/inverse_hyperbolic.h"
#include "devlib/inverse_trigonometric.h"
#include "devlib/logarithm.h"
#include "devlib/marks.h"
#include "devlib/random.h"
#include "devlib/rounding.h"
#include "devlib/sites.h"
#include "devlib/trigonometric.h"

using namespace qd::devlib;

#define QD_PASTE(name, type, lanes) qd_##name##_##type##x##lanes
#define QD_EXPORTED(name, type, lanes) QD_PASTE(name, type, lanes)
#define QD_EXPORT extern "C" __attribute__((always_inline))

#define QD_DEFINE(name, type, scalar, routine, parameters, arguments)                                                                      \
  QD_EXPORT Lanes<scalar> QD_EXPORTED(name, type, QD_DEVLIB_LANES) parameters {                                                            \
    using T [[maybe_unused]] = scalar;                                                                                                     \
    return routine arguments;                                                                                                              \
  }
#define QD_DEFINE_UNARY(name, type, scalar, routine) QD_DEFINE(name, type, scalar, routine, (Lanes<scalar> x), (x))
#define QD_DEFINE_BOTH(name, type, scalar, routine)                                                                                        \
  QD_EXPORT Both<Lanes<scalar>> QD_EXPORTED(name, type, QD_DEVLIB_LANES)(Lanes<scalar> x) { return routine(x); }
#define QD_DEFINE_BINARY(name, type, scalar, routine) QD_DEFINE(name, type, scalar, routine, (Lanes<scalar> x, Lanes<scalar> y), (x, y))
#define QD_DEFINE_BY(name, type, scalar, routine)                                                                                          \
  QD_DEFINE(name, type, scalar, routine, (Lanes<scalar> x, scalar y, Wider<scalar> reciprocal), (x, y, reciprocal))
#pragma clang diagnostic ignored "-Wunknown-assumption" // the compiler's passes read it, not clang
#define QD_DEFINE_EXACT(name, type, scalar, routine)                                                                                       \
  extern "C" [[omp::assume(QD_EXACT)]] Lanes<scalar> QD_EXPORTED(name, type, QD_DEVLIB_LANES)(Lanes<scalar>, Lanes<scalar>);               \
  QD_DEFINE_BINARY(name, type, scalar, routine)
#define QD_DEFINE_POWI(name, type, scalar, routine) QD_DEFINE(name, type, scalar, routine, (Lanes<scalar> x, I32 n), (x, n))
#define QD_DEFINE_RANDOM(name, type, to)                                                                                                   \
  QD_EXPORT decltype(to(Block())) QD_EXPORTED(name, type, QD_DEVLIB_LANES)(U64 iteration, U32 call, uint64_t seed, uint64_t launch,        \
                                                                           uint32_t task) {                                                \
    return to(drawBlock(iteration, call, seed, launch, task));                                                                             \
  }

#define QD_TYPES_FLOAT(define, name, routine) define(name, f32, float, routine) define(name, f64, double, routine)
#define QD_TYPES_SHORT(define, name, routine)                                                                                              \
  define(name, i8, int8_t, routine) define(name, i16, int16_t, routine) define(name, i32, int32_t, routine)                                \
      define(name, u8, uint8_t, routine) define(name, u16, uint16_t, routine) define(name, u32, uint32_t, routine)
#define QD_TYPES_INTEGER(define, name, routine)                                                                                            \
  QD_TYPES_SHORT(define, name, routine) define(name, i64, int64_t, routine) define(name, u64, uint64_t, routine)
#define QD_TYPES_RANDOM(define, name) define(name, u32, toU32) define(name, u64, toU64) define(name, f32, toF32) define(name, f64, toF64)

#define QD_DEVLIB_UNARY(name, types, routine) QD_TYPES_##types(QD_DEFINE_UNARY, name, routine)
#define QD_DEVLIB_BOTH(name, types, routine) QD_TYPES_##types(QD_DEFINE_BOTH, name, routine)
#define QD_DEVLIB_BINARY(name, types, routine) QD_TYPES_##types(QD_DEFINE_BINARY, name, routine)
#define QD_DEVLIB_BY(name, types, routine) QD_TYPES_##types(QD_DEFINE_BY, name, routine)
#define QD_DEVLIB_EXACT(name, types, routine) QD_TYPES_##types(QD_DEFINE_EXACT, name, routine)
#define QD_DEVLIB_POWI(name, types, routine) QD_TYPES_##types(QD_DEFINE_POWI, name, routine)
#define QD_DEVLIB_RANDOM(name, types) QD_TYPES_##types(QD_DEFINE_RANDOM, name)
#include "devlib/exports.def"

#if QD_DEVLIB_LANES == 1
// Instructions of f64 on devices without it (backends/structured/soften_doubles.cpp).
QD_EXPORT Bits qd_double_divide_x1(Bits a, Bits b) { return divideBits(a, b); }
QD_EXPORT Bits qd_double_fma_x1(Bits a, Bits b, Bits c) { return multiplyAddBits(a, b, c); }
QD_EXPORT uint32_t qd_double_relate_x1(Bits a, Bits b) { return relateBits(a, b); }
QD_EXPORT Bits qd_double_from_f32_x1(float value) { return widenFloat(value); }
QD_EXPORT float qd_double_to_f32_x1(Bits a) { return narrowBits(a); }
QD_EXPORT Bits qd_double_from_u64_x1(uint64_t a) { return convertUnsigned(a); }
QD_EXPORT Bits qd_double_from_i64_x1(int64_t a) { return convertSigned(a); }
QD_EXPORT uint64_t qd_double_to_i64_x1(Bits a) { return truncateBits(a); }

// Called from cold code only, which is not worth many copies of the routine.
#define QD_CALLED extern "C" __attribute__((noinline, cold))
QD_CALLED void qd_leave_failure_x1(const QdGpuLaunch *launch, int32_t site, const uint64_t *values, uint32_t count) {
  leaveFailure(launch, site, values, count);
}
QD_CALLED void qd_leave_print_x1(const QdGpuLaunch *launch, int32_t site, const uint64_t *values, uint32_t count) {
  leavePrint(launch, site, values, count);
}
#endif
