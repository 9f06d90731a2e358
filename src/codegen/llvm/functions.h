// functions.h: sizes and work of the code of a kernel, and which of its functions are called rather than inlined
#pragma once

#include "codegen/llvm/polling.h"
#include "ir/call_graph.h"

namespace qd::codegen {

class FunctionFacts {
public:
  explicit FunctionFacts(const ir::CallGraph &calls) : calls(calls) {}

  /// Number of operations of a region, counted by components, including those of called functions.
  int64_t getSize(mlir::Region &region);
  /// The same for one operation without its regions.
  int64_t getSize(mlir::Operation *op);
  /// Approximate number of operations that one run of a region executes before it first polls for cancellation, or in total (polling.h).
  double getWork(mlir::Region &region);
  Polling getPolling(ir::ForOp loop, unsigned axis);
  bool isRecursive(ir::FuncOp function);
  /// Whether calls of the function become calls in LLVM IR (otherwise they are inlined).
  bool isOutlined(ir::FuncOp function);

private:
  const ir::CallGraph &calls;
  llvm::DenseMap<mlir::Region *, int64_t> sizes;
  llvm::DenseMap<mlir::Region *, double> works;
  llvm::DenseMap<mlir::Operation *, bool> outlined, recursive;
};

} // namespace qd::codegen
