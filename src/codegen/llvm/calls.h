// calls.h: calls of functions, and returns from them
#pragma once

#include "codegen/llvm/control.h"
#include "codegen/llvm/sites.h"

#include <deque>

namespace qd::codegen {

class Calls : EmitterPart {
public:
  Calls(LaneBuilder &in, LaunchAccess &launch, ValueMap &values, Sites &sites, ControlFlow &control)
      : EmitterPart(in), launch(launch), values(values), sites(sites), control(control) {}

  void emitCall(ir::CallOp op);
  void emitReturn(ir::ReturnOp op);
  /// Emits the body of an outlined instance, whose parameters already have values and places, with its return.
  void emitInstance(ir::FuncOp function, llvm::Type *resultType);

  /// Ends the kernel at one of its own qd.return operations.
  std::function<void(ir::ReturnOp)> leaveKernel;
  llvm::Value *stackLimit = nullptr; ///< i64, in recursive functions: the lowest address that the stack may reach

private:
  /// Where the function instance that is being emitted stores its results; both null in a kernel.
  struct Returns {
    LocalStorage *slots = nullptr; ///< one per component, if there are several returns or an early one
    Components *values = nullptr;  ///< results of the only return, which ends the function
  };

  Components emitInlined(ir::CallOp op, ir::FuncOp callee, const BodyFacts &calleeFacts);
  Components emitOutlined(ir::CallOp op, ir::FuncOp callee, const BodyFacts &calleeFacts, llvm::ArrayRef<LaneKind> kinds);
  llvm::Value *getStackAddress();
  llvm::Value *getStackLimit();
  void leaveIfStackIsFull(ir::CallOp op);
  LocalStorage *makeResults(ir::FuncOp callee, const BodyFacts &calleeFacts);
  Components loadResults(const LocalStorage &results);
  void emitFunctionBody(ir::FuncOp callee, Returns into, llvm::BasicBlock *exit);

  LaunchAccess &launch;
  ValueMap &values;
  Sites &sites;
  ControlFlow &control;
  Returns returns;
  std::deque<LocalStorage> storages; ///< of results
};

} // namespace qd::codegen
