// simt.h: builtins of qd.simt
#pragma once

#include "frontend/function_part.h"

namespace qd::frontend {

class Simt : FunctionPart {
public:
  using FunctionPart::FunctionPart;

  Value callSimt(llvm::StringRef name, const Arguments &arguments, llvm::StringRef parameters);

private:
  Value makeSharedArray(const Value &shape, const Value &dtype);
  Value shuffle(const Value &value, const Value &lane, bool again);
  Value limitOf(const Value &value, bool isLargest);
};

} // namespace qd::frontend
