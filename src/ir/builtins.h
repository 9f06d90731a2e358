// builtins.h: the table of ops as enums and lookups
#pragma once

#include <cstdint>
#include <iterator>
#include <optional>
#include <string_view>

namespace qd::ir {

enum class OperandClass : uint8_t { Any, Real, Integer, Numeric };
enum class UnaryResult : uint8_t { Same, U1, I32 };
enum class BinaryResult : uint8_t { Promoted, Left, Compare, RealPromoted, Power };

enum class UnaryKind : uint32_t {
#define QD_UNARY(name, operand, result, numpy, cost, doc) name,
#include "ir/builtins.def"
};
enum class BinaryKind : uint32_t {
#define QD_BINARY(name, operand, result, numpy, cost, doc) name,
#include "ir/builtins.def"
};
enum class AtomicKind : uint32_t {
#define QD_ATOMIC(name, operand, numpy, doc) name,
#include "ir/builtins.def"
};

/// The columns of the table that the compiler reads. The result of an atomic operation has the type of its place.
template <typename Result> struct OpInfo {
  std::string_view name;
  OperandClass operand;
  Result result{};
  int cost = 1;
};

/// All ops of a kind, in the order of its enum.
template <typename Kind> inline constexpr std::nullptr_t kOpInfos = nullptr;
template <>
inline constexpr OpInfo<UnaryResult> kOpInfos<UnaryKind>[] = {
#define QD_UNARY(name, operand, result, numpy, cost, doc) {#name, OperandClass::operand, UnaryResult::result, cost},
#include "ir/builtins.def"
};
template <>
inline constexpr OpInfo<BinaryResult> kOpInfos<BinaryKind>[] = {
#define QD_BINARY(name, operand, result, numpy, cost, doc) {#name, OperandClass::operand, BinaryResult::result, cost},
#include "ir/builtins.def"
};
template <>
inline constexpr OpInfo<std::nullptr_t> kOpInfos<AtomicKind>[] = {
#define QD_ATOMIC(name, operand, numpy, doc) {#name, OperandClass::operand},
#include "ir/builtins.def"
};

template <typename Kind> constexpr const auto &getOpInfo(Kind kind) { return kOpInfos<Kind>[size_t(kind)]; }

template <typename Kind> std::optional<Kind> findKind(std::string_view name) {
  for (const auto &info : kOpInfos<Kind>)
    if (info.name == name) return Kind(&info - kOpInfos<Kind>);
  return std::nullopt;
}

} // namespace qd::ir
