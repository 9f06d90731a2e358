// functions.h: sizes and work of the code of a kernel, and which of its functions are called rather than inlined
#pragma once

#include "codegen/llvm/polling.h"
#include "ir/call_graph.h"

namespace qd::codegen {

class FunctionFacts {
public:
  FunctionFacts(const ir::CallGraph &calls, bool hasLanes) : calls(calls), hasLanes(hasLanes) {}

  /// Number of operations of a region, counted by components, including those of called functions.
  int64_t getSize(mlir::Region &region);
  /// The same for one operation without its regions.
  int64_t getSize(mlir::Operation *op);
  /// The same with what the routines of mathematical functions add, which are inlined.
  int64_t getEmittedSize(mlir::Region &region);
  /// Approximate number of operations that one run of a region executes before it first polls for cancellation, or in total (polling.h).
  double getWork(mlir::Region &region);
  Polling getPolling(ir::ForOp loop, unsigned axis);
  bool isRecursive(ir::FuncOp function);
  /// Whether calls of the function become calls in LLVM IR (otherwise they are inlined).
  bool isOutlined(ir::FuncOp function);

private:
  /// How many copies of a function there would be if it and those that call it were inlined.
  int64_t countCopies(ir::FuncOp function);
  /// The size of a region in lanes, without the functions that it calls.
  int64_t getInlinedSize(mlir::Region &region);

  const ir::CallGraph &calls;
  const bool hasLanes;
  llvm::DenseMap<mlir::Operation *, int64_t> copies;
  llvm::DenseMap<mlir::Region *, int64_t> sizes;
  llvm::DenseMap<mlir::Region *, double> works;
  llvm::DenseMap<mlir::Operation *, bool> outlined, recursive;
};

} // namespace qd::codegen
