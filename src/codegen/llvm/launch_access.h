// launch_access.h: members of the launch that emitted code reads, calls of the runtime, and the ends of a launch
#pragma once

#include "codegen/llvm/lane_builder.h"

namespace qd::codegen {

class LaunchAccess : EmitterPart {
public:
  explicit LaunchAccess(LaneBuilder &in) : EmitterPart(in), context(in.function->getArg(0)) {}

  llvm::Value *getField(ContextField field);
  /// Loads an address in memory that all threads share.
  llvm::Value *loadAddress(llvm::Value *pointer);
  /// Whether only one thread accesses the memory that this function changes, as an i1; read once.
  llvm::Value *isSingleThreaded();
  llvm::CallInst *callRuntime(ApiField field, llvm::ArrayRef<llvm::Value *> operands);
  void leaveIfFailed();
  /// Ends the function if the launch has failed, after a call of the runtime that has handled signals.
  void leaveIfStopped();
  /// Ends the function if the launch was canceled; emits nothing on targets with grids.
  void leaveIfCanceled();

  llvm::Value *context; ///< QdKernelContext or, on targets with grids, QdGpuLaunch
  /// Ends the function early, after a failed check.
  std::function<void()> leaveFailed;

private:
  llvm::Value *getGridField(ContextField field);

  llvm::Value *singleThreaded = nullptr; ///< see isSingleThreaded
};

} // namespace qd::codegen
