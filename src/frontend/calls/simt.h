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
  Operand shuffle(const Operand &value, const Operand &lane, bool again);
  Operand makeExchangeArray(const Operand &dtype);
  void copyAsync(const Operand &target, const Operand &source);
  Operand limitOf(const Operand &value, bool isLargest);
};

} // namespace qd::frontend
