// variable_updates.h: assignments that are updates, such as `s = s + x` and `if x > s: s = x`
#pragma once

#include "ir/dialect.h"

namespace qd::frontend {

/// How an extremum is written. Where NaN is compared, or the variable is NaN, that decides which of both is kept.
struct Comparison {
  ir::BinaryKind kind = ir::BinaryKind::gt;
  bool isVariableFirst = false;
  bool storesWhereFalse = false; ///< the value is stored where the comparison fails, so NaN is stored and is replaced
  bool isGuarded = false;        ///< other conditions hold too, so the comparison stays in the code
};

/// An update that is written as a read, a computation and a write.
struct Update {
  mlir::Operation *store = nullptr;
  mlir::Operation *branches = nullptr; ///< the `if` that the update replaces as a whole, or null
  ir::AtomicKind kind = ir::AtomicKind::add;
  llvm::SmallVector<std::pair<mlir::Value, bool>> terms; ///< terms that are combined; true: subtracted
  llvm::SmallVector<ir::LoadOp, 2> reads;                ///< of the variable
  std::optional<Comparison> comparison;                  ///< of an extremum that is written as a choice

  /// Whether nothing but the update uses a value that it has read.
  bool isOnlyUserOf(ir::LoadOp read) const;
};

inline bool isExtremum(ir::AtomicKind kind) { return kind == ir::AtomicKind::min || kind == ir::AtomicKind::max; }

std::optional<Update> matchUpdate(ir::StoreOp store);

/// Moves `s = a if c else b` into the branches of the choice, and drops `s = s`. Returns whether it changed anything.
bool moveIntoBranches(ir::StoreOp store);

} // namespace qd::frontend
