// atomics.h: atomic updates of places
#pragma once

#include "codegen/llvm/launch_access.h"
#include "codegen/llvm/memory.h"

namespace qd::codegen {

class Atomics : EmitterPart {
public:
  Atomics(LaneBuilder &in, LaunchAccess &launch, ValueMap &values, Operators &operators, Memory &memory)
      : EmitterPart(in), launch(launch), values(values), operators(operators), memory(memory) {}

  /// Emits an access that reads and writes in one step; returns the old value.
  Components emit(ir::MemoryAccessOpInterface op);
  /// Updates one scalar and gives the old value, if it is used.
  llvm::Value *emitAtomicAt(ir::AtomicKind kind, mlir::Type type, llvm::Value *pointer, llvm::Value *value, const MemoryPlace &place,
                            bool wantsOld = true);

private:
  Components emitAtomic(ir::AtomicOp op);
  Component emitCompareExchange(ir::CompareExchangeOp op);
  using Emit = llvm::function_ref<llvm::Value *()>;
  /// Emits a choice at run time between `plain` (single-threaded) and `atomic`, or one of them if known. Both give the old value.
  llvm::Value *emitUpdate(const MemoryPlace &place, Emit plain, Emit atomic);
  bool isPlain(const MemoryPlace &place) const;
  llvm::Value *updatePlain(ir::AtomicKind kind, mlir::Type type, llvm::Value *pointer, llvm::Value *value);
  llvm::Value *emitLocked(ir::AtomicKind kind, mlir::Type type, llvm::Value *pointer, llvm::Value *value);
  Component emitAtomicScalar(ir::AtomicOp op, const MemoryPlace &place, mlir::Type type, const Component &value);
  Component updateLanes(const MemoryPlace &place, mlir::Type type, bool wantsOld,
                        llvm::function_ref<llvm::Value *(llvm::Value *pointer, llvm::Value *lane)> update);
  void scatter(ir::AtomicKind kind, mlir::Type type, const MemoryPlace &place, const Components &value);
  void updateTogether(ir::AtomicKind kind, mlir::Type type, llvm::Value *pointer, const Component &value, const MemoryPlace &place);
  Component addLanesTogether(ir::AtomicKind kind, mlir::Type type, const MemoryPlace &place, const Component &value);
  bool canAddOncePerSubgroup(ir::AtomicOp op, mlir::Type type);
  llvm::Value *addOncePerSubgroup(ir::AtomicKind kind, const MemoryPlace &place, llvm::Value *value);
  bool canAddAsVector(ir::AtomicOp op, const MemoryPlace &place);
  Components addAsVector(const MemoryPlace &place, Components parts, bool isDifference);

  LaunchAccess &launch;
  ValueMap &values;
  Operators &operators;
  Memory &memory;
};

} // namespace qd::codegen
