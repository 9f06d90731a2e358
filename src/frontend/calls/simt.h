// simt.h: builtins of qd.simt
#pragma once

#include "frontend/function_part.h"

namespace qd::frontend {

class Simt : FunctionPart {
public:
  using FunctionPart::FunctionPart;

  Operand callSimt(llvm::StringRef name, const Arguments &arguments, llvm::StringRef parameters);

private:
  Operand makeSharedArray(const Operand &shape, const Operand &dtype);
  /// A mask of threads as u64; null: all of the subgroup.
  mlir::Value convertMask(const Operand &threads);
  Operand shuffle(const Operand &value, const Operand &lane, mlir::Value threads, bool again);
  Operand combine(const std::vector<Operand> &given);
  Operand makeExchangeArray(const Operand &dtype);
  void copyAsync(const Operand &target, const Operand &source);
  Operand limitOf(const Operand &value, bool isLargest);
};

} // namespace qd::frontend
