// checkpoints.h: places of a kernel where a launch may suspend itself, and where a later one may resume it
#pragma once

#include "frontend/function_part.h"

namespace qd::frontend {

class Checkpoints : FunctionPart {
public:
  using FunctionPart::FunctionPart;

  /// Declares the variables of a kernel with checkpoints.
  void begin();
  /// Emits a statement of the kernel's top level. What changes data in it is skipped where a launch is suspended or not resumed yet.
  void visitGated(const std::function<void()> &visit);
  void visitCheckpoint(nb::handle at, nb::handle call);
  /// Ends a round of a do_while: whether `again` holds and the launch is not suspended.
  mlir::Value endRound(mlir::Value again);
  /// The first value that the kernel returns: the label of the checkpoint that suspended the launch, or a number that is no label.
  mlir::Value loadStatus();
  /// Completes the kernel when all checkpoints are known.
  void finish();

private:
  struct Request {
    nb::object label, flag; ///< nodes
  };
  Request readRequest(nb::handle call);
  int64_t visitLabel(nb::handle at);
  mlir::Value visitFlag(nb::handle at);
  void initialize();
  void removeGates();
  void refuseSkippedVariables();
  mlir::Value loadPosition();
};

} // namespace qd::frontend
