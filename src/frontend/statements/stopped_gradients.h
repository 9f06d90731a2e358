// stopped_gradients.h: `qd.stop_grad`: containers into which no gradient flows
#pragma once

#include "frontend/function_part.h"

namespace qd::frontend {

class StoppedGradients : FunctionPart {
public:
  using FunctionPart::FunctionPart;

  void stopGradient(const Operand &container);
  bool isStopped(mlir::Value place);
  mlir::Value withoutDerivative(mlir::Value value);
};

} // namespace qd::frontend
