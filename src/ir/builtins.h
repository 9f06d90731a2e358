// builtins.h: the op table as enums and lookups.
#pragma once

#include <cstdint>
#include <optional>
#include <string_view>

namespace qd::ir {

enum class UnaryKind : uint32_t {
#define QD_UNARY(name, operand, result, numpy, doc) name,
#include "ir/builtins.def"
};

enum class BinaryKind : uint32_t {
#define QD_BINARY(name, operand, result, numpy, doc) name,
#include "ir/builtins.def"
};

enum class AtomicKind : uint32_t {
#define QD_ATOMIC(name, operand, numpy, doc) name,
#include "ir/builtins.def"
};

enum class OperandClass : uint8_t { Any, Real, Integer, Numeric };
enum class UnaryResult : uint8_t { Same, U1, I32 };
enum class BinaryResult : uint8_t { Promoted, Left, Compare, RealPromoted, Power };

/// The columns of a row that the compiler asks for.
struct UnaryRow {
  std::string_view name;
  OperandClass operand;
  UnaryResult result;
};
struct BinaryRow {
  std::string_view name;
  OperandClass operand;
  BinaryResult result;
};
struct AtomicRow {
  std::string_view name;
  OperandClass operand;
};

const UnaryRow &getRow(UnaryKind kind);
const BinaryRow &getRow(BinaryKind kind);
const AtomicRow &getRow(AtomicKind kind);

std::optional<UnaryKind> findUnary(std::string_view name);
std::optional<BinaryKind> findBinary(std::string_view name);
std::optional<AtomicKind> findAtomic(std::string_view name);

} // namespace qd::ir
