// lane_kind.h: how a value differs between the lanes of a vector
//
// A scalar component is uniform (one value for all active lanes), linear (integers only: base + lane * stride) or varying. Uniform and
// linear components are one LLVM scalar. The analysis (uniformity.h) and the emitter both use the rules below: a component in the emitter
// may be more regular than the analysis found, never less.
#pragma once

#include "ir/builtins.h"

#include <cstdint>
#include <optional>

namespace qd::codegen {

class LaneKind {
public:
  /// Nothing is known yet: the bottom of the lattice.
  static constexpr LaneKind unset() { return LaneKind(INT64_MIN); }
  static constexpr LaneKind uniform() { return LaneKind(0); }
  static constexpr LaneKind linear(int64_t stride) { return LaneKind(stride); }
  static constexpr LaneKind varying() { return LaneKind(INT64_MAX); }

  bool isUnset() const { return value == INT64_MIN; }
  bool isUniform() const { return value == 0; }
  bool isVarying() const { return value == INT64_MAX; }
  /// Uniform or linear: one scalar represents all lanes.
  bool isScalar() const { return !isVarying(); }
  int64_t getStride() const { return value; }
  bool operator==(const LaneKind &) const = default;

  /// The kind of a place that may hold a value of this kind or of kind `other`.
  LaneKind join(LaneKind other) const {
    if (isUnset()) return other;
    return other.isUnset() || other == *this ? *this : varying();
  }

private:
  constexpr explicit LaneKind(int64_t value) : value(value) {}
  int64_t value;
};

/// An operand as the rules below see it.
struct OperandKind {
  LaneKind kind;
  std::optional<int64_t> constant;
};

/// The kind of the result of an operation that is computed per lane.
inline LaneKind getPlainKind(LaneKind lhs, LaneKind rhs) {
  return lhs.isUniform() && rhs.isUniform() ? LaneKind::uniform() : LaneKind::varying();
}

/// The kind of an integer `lhs op rhs`. Strides of 2^31 and more have no use and count as varying.
inline LaneKind getIntegerKind(ir::BinaryKind op, const OperandKind &lhs, const OperandKind &rhs) {
  auto linear = [](int64_t stride) { return stride == int64_t(int32_t(stride)) ? LaneKind::linear(stride) : LaneKind::varying(); };
  if (lhs.kind.isVarying() || rhs.kind.isVarying()) return LaneKind::varying();
  int64_t left = lhs.kind.getStride(), right = rhs.kind.getStride();
  switch (op) {
  case ir::BinaryKind::add: return linear(left + right);
  case ir::BinaryKind::sub: return linear(left - right);
  case ir::BinaryKind::mul:
    if (rhs.constant && *rhs.constant == int32_t(*rhs.constant)) return linear(left * *rhs.constant);
    if (lhs.constant && *lhs.constant == int32_t(*lhs.constant)) return linear(right * *lhs.constant);
    return getPlainKind(lhs.kind, rhs.kind);
  default: return getPlainKind(lhs.kind, rhs.kind);
  }
}

/// The kind of a conversion. Narrowing keeps a linear value linear; widening does not, because the narrow value may wrap between two lanes.
inline LaneKind getCastKind(LaneKind operand, bool integersOnly, unsigned fromBits, unsigned toBits) {
  if (operand.isVarying() || operand.isUniform()) return operand;
  // In fewer than 32 bits the stride changes: it counts modulo the width.
  return integersOnly && toBits <= fromBits && toBits >= 32 ? operand : LaneKind::varying();
}

/// The kind of the index of a loop that begins at `lower`. The index stays linear only if lane 0 reaches its end last: a lane past its own
/// end continues to count with the others, and nothing is known about such lanes once the base wraps around.
inline LaneKind getIndexKind(LaneKind lower, LaneKind step, std::optional<int64_t> constantStep) {
  if (!step.isUniform()) return LaneKind::varying();
  if (lower.isUniform() || lower.isVarying()) return lower;
  return constantStep && *constantStep != 0 && (*constantStep > 0) == (lower.getStride() > 0) ? lower : LaneKind::varying();
}

} // namespace qd::codegen
