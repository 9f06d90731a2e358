// launch_expr.cpp: evaluates launch expressions on the host
//
// In:   the steps of an expression and the argument block of a launch.
// Out:  a 64-bit integer that sizes the launch; compiled code computes its bounds again.
#include "artifact/artifact.h"

#include <algorithm>
#include <cstring>

namespace qd::artifact {

using support::ScalarType;

namespace {

template <typename T> int64_t read(const uint8_t *from) {
  T value;
  memcpy(&value, from, sizeof value);
  return int64_t(value);
}

int64_t readArgument(ScalarType type, const uint8_t *from) {
  switch (type) {
  case ScalarType::I8: return read<int8_t>(from);
  case ScalarType::I16: return read<int16_t>(from);
  case ScalarType::I32: return read<int32_t>(from);
  case ScalarType::U1:
  case ScalarType::U8: return read<uint8_t>(from);
  case ScalarType::U16: return read<uint16_t>(from);
  case ScalarType::U32: return read<uint32_t>(from);
  case ScalarType::I64:
  case ScalarType::U64: return read<int64_t>(from);
  case ScalarType::F16:
  case ScalarType::BF16:
  case ScalarType::F32:
  case ScalarType::F64: return 0; // bounds are integers
  }
  return 0;
}

int64_t divideDown(int64_t a, int64_t b) {
  if (b == 0) return 0;
  if (b == -1) return int64_t(-uint64_t(a));
  return a / b - (a % b != 0 && (a < 0) != (b < 0));
}

int64_t multiply(int64_t a, int64_t b) {
  int64_t product = 0;
  if (!__builtin_mul_overflow(a, b, &product)) return product;
  return (a < 0) != (b < 0) ? INT64_MIN : INT64_MAX;
}

int64_t combine(LaunchExpr::Step::Kind kind, int64_t a, int64_t b) {
  switch (kind) {
  case LaunchExpr::Step::Kind::Add: return int64_t(uint64_t(a) + uint64_t(b));
  case LaunchExpr::Step::Kind::Sub: return int64_t(uint64_t(a) - uint64_t(b));
  case LaunchExpr::Step::Kind::Mul: return multiply(a, b);
  case LaunchExpr::Step::Kind::Div: return divideDown(a, b);
  case LaunchExpr::Step::Kind::Min: return std::min(a, b);
  default: return std::max(a, b);
  }
}

} // namespace

int64_t LaunchExpr::evaluate(const uint8_t *arguments) const {
  int64_t stack[kMaxDepth] = {};
  size_t count = 0;
  for (const Step &step : steps) {
    if (step.kind == Step::Kind::Constant) {
      stack[count++] = step.value;
    } else if (step.kind == Step::Kind::Argument) {
      stack[count++] = readArgument(step.type, arguments + step.value);
    } else {
      --count;
      stack[count - 1] = combine(step.kind, stack[count - 1], stack[count]);
    }
  }
  return stack[0];
}

int64_t placeTemporary(const Temporary &temporary, uint8_t *arguments) {
  int64_t bytes = temporary.elementBytes;
  size_t at = sizeof(void *); // extents follow the address
  for (int64_t extent : temporary.extents) {
    if (extent == layout::kDynamic) {
      memcpy(&extent, arguments + temporary.like + at, sizeof extent);
      memcpy(arguments + temporary.offset + at, &extent, sizeof extent);
      at += sizeof extent;
    }
    bytes = multiply(bytes, extent);
  }
  return bytes;
}

} // namespace qd::artifact
