// devlib_harness.cpp: the routines of exports.def over arrays, for the tests of this folder
//
// Each routine becomes `run_<name>_<type>(count, result, operands...)`; count is a multiple of the lanes. Second
// results follow behind `count` first ones. An operand that the lanes share is that of the first of them.
#include "devlib/devlib.cpp"

template <class V, class T> static V load(const T *from) {
  V value;
  __builtin_memcpy(&value, from, sizeof(T) * kLanes);
  return value;
}
template <class V, class T> static void store(T *to, V value) { __builtin_memcpy(to, &value, sizeof(T) * kLanes); }

#define QD_RUN_UNARY(name, type, T, routine)                                                                                               \
  extern "C" void run_##name##_##type(int64_t count, T *result, const T *x) {                                                              \
    for (int64_t i = 0; i < count; i += kLanes) store(result + i, QD_EXPORTED(name, type, QD_DEVLIB_LANES)(load<Lanes<T>>(x + i)));        \
  }
#define QD_RUN_BOTH(name, type, T, routine)                                                                                                \
  extern "C" void run_##name##_##type(int64_t count, T *result, const T *x) {                                                              \
    for (int64_t i = 0; i < count; i += kLanes) {                                                                                          \
      auto both = QD_EXPORTED(name, type, QD_DEVLIB_LANES)(load<Lanes<T>>(x + i));                                                         \
      store(result + i, Lanes<T>(both.lo));                                                                                                \
      store(result + count + i, Lanes<T>(both.hi));                                                                                        \
    }                                                                                                                                      \
  }
#define QD_RUN_BINARY(name, type, T, routine)                                                                                              \
  extern "C" void run_##name##_##type(int64_t count, T *result, const T *x, const T *y) {                                                  \
    for (int64_t i = 0; i < count; i += kLanes)                                                                                            \
      store(result + i, QD_EXPORTED(name, type, QD_DEVLIB_LANES)(load<Lanes<T>>(x + i), load<Lanes<T>>(y + i)));                           \
  }
#define QD_RUN_BY(name, type, T, routine)                                                                                                  \
  extern "C" void run_##name##_##type(int64_t count, T *result, const T *x, const T *y) {                                                  \
    for (int64_t i = 0; i < count; i += kLanes)                                                                                            \
      store(result + i, QD_EXPORTED(name, type, QD_DEVLIB_LANES)(load<Lanes<T>>(x + i), y[i], 1 / Wider<T>(y[i])));                        \
  }
#define QD_RUN_POWI(name, type, T, routine)                                                                                                \
  extern "C" void run_##name##_##type(int64_t count, T *result, const T *x, const int32_t *n) {                                            \
    for (int64_t i = 0; i < count; i += kLanes)                                                                                            \
      store(result + i, QD_EXPORTED(name, type, QD_DEVLIB_LANES)(load<Lanes<T>>(x + i), load<I32>(n + i)));                                \
  }
#define QD_RUN_RANDOM(name, type, T)                                                                                                       \
  extern "C" void run_##name##_##type(int64_t count, T *result, const uint64_t *iteration, const uint32_t *call, uint64_t seed,            \
                                      uint64_t launch, uint32_t task) {                                                                    \
    for (int64_t i = 0; i < count; i += kLanes)                                                                                            \
      store(result + i, QD_EXPORTED(name, type, QD_DEVLIB_LANES)(load<U64>(iteration + i), load<U32>(call + i), seed, launch, task));      \
  }

#define QD_RUN_TYPES_RANDOM(define, name)                                                                                                  \
  define(name, u32, uint32_t) define(name, u64, uint64_t) define(name, f32, float) define(name, f64, double)

#define QD_DEVLIB_UNARY(name, types, routine) QD_TYPES_##types(QD_RUN_UNARY, name, routine)
#define QD_DEVLIB_BOTH(name, types, routine) QD_TYPES_##types(QD_RUN_BOTH, name, routine)
#define QD_DEVLIB_BINARY(name, types, routine) QD_TYPES_##types(QD_RUN_BINARY, name, routine)
#define QD_DEVLIB_BY(name, types, routine) QD_TYPES_##types(QD_RUN_BY, name, routine)
#define QD_DEVLIB_EXACT QD_DEVLIB_BINARY
#define QD_DEVLIB_POWI(name, types, routine) QD_TYPES_##types(QD_RUN_POWI, name, routine)
#define QD_DEVLIB_RANDOM(name, types) QD_RUN_TYPES_RANDOM(QD_RUN_RANDOM, name)
#include "devlib/exports.def"
