#include "ir/builtins.h"

#include <iterator>

namespace qd::ir {
namespace {

constexpr UnaryRow kUnaryRows[] = {
#define QD_UNARY(name, operand, result, numpy, doc) {#name, OperandClass::operand, UnaryResult::result},
#include "ir/builtins.def"
};

constexpr BinaryRow kBinaryRows[] = {
#define QD_BINARY(name, operand, result, numpy, doc) {#name, OperandClass::operand, BinaryResult::result},
#include "ir/builtins.def"
};

constexpr AtomicRow kAtomicRows[] = {
#define QD_ATOMIC(name, operand, numpy, doc) {#name, OperandClass::operand},
#include "ir/builtins.def"
};

template <typename Kind, typename Row, size_t N> std::optional<Kind> findRow(const Row (&rows)[N], std::string_view name) {
  for (size_t i = 0; i < N; ++i)
    if (rows[i].name == name) return static_cast<Kind>(i);
  return std::nullopt;
}

} // namespace

const UnaryRow &getRow(UnaryKind kind) { return kUnaryRows[size_t(kind)]; }
const BinaryRow &getRow(BinaryKind kind) { return kBinaryRows[size_t(kind)]; }
const AtomicRow &getRow(AtomicKind kind) { return kAtomicRows[size_t(kind)]; }

std::optional<UnaryKind> findUnary(std::string_view name) { return findRow<UnaryKind>(kUnaryRows, name); }
std::optional<BinaryKind> findBinary(std::string_view name) { return findRow<BinaryKind>(kBinaryRows, name); }
std::optional<AtomicKind> findAtomic(std::string_view name) { return findRow<AtomicKind>(kAtomicRows, name); }

} // namespace qd::ir
