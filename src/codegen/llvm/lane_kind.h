// lane_kind.h: how a value differs between the lanes of a vector
//
// A scalar component is uniform (one value for all active lanes), linear (integers only: base + lane * stride) or varying. Uniform and
// linear components are one LLVM scalar. lane_rules.h has the rules by which operations propagate kinds.
#pragma once

#include <cstdint>

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

} // namespace qd::codegen
