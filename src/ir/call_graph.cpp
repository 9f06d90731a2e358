// call_graph.cpp: look up functions, their callers, and what they contain
//
// In:   a module.
// Out:  the function of each call, the calls of each function, searches through both.
// Here: one walk over the module serves all queries; looking up a symbol in MLIR takes time in proportion to the number of functions.
#include "ir/call_graph.h"

#include <functional>

using namespace mlir;

namespace qd::ir {

bool containsOp(Operation *op, llvm::function_ref<bool(Operation *)> matches) {
  return op->walk([&](Operation *inner) { return matches(inner) ? WalkResult::interrupt() : WalkResult::advance(); }).wasInterrupted();
}

CallGraph::CallGraph(ModuleOp module) {
  for (FuncOp function : module.getOps<FuncOp>()) functions[function.getSymNameAttr()] = function;
  module.walk([&](CallOp call) { calls[lookup(call)].push_back(call); });
}

FuncOp CallGraph::lookup(Operation *op) const {
  auto call = dyn_cast<CallOp>(op);
  return call ? functions.lookup(call.getCalleeAttr().getAttr()) : FuncOp();
}

ArrayRef<CallOp> CallGraph::getCalls(Operation *function) const {
  auto found = calls.find(function);
  return found == calls.end() ? ArrayRef<CallOp>() : ArrayRef<CallOp>(found->second);
}

bool CallGraph::contains(Region &region, llvm::function_ref<bool(Operation *)> matches) const {
  DenseSet<Operation *> seen;
  std::function<bool(Region &)> search = [&](Region &body) {
    auto find = [&](Operation &op) {
      return containsOp(&op, [&](Operation *inner) {
        FuncOp callee = lookup(inner);
        return matches(inner) || (callee && seen.insert(callee).second && search(callee.getBody()));
      });
    };
    return llvm::any_of(body.getOps(), find);
  };
  return search(region);
}

DenseSet<Operation *> CallGraph::findFunctions(llvm::function_ref<bool(Operation *)> matches) const {
  DenseSet<Operation *> found;
  SmallVector<Operation *> pending;
  auto add = [&](Operation *function) {
    if (found.insert(function).second) pending.push_back(function);
  };
  for (FuncOp function : llvm::make_second_range(functions))
    if (containsOp(function, matches)) add(function);
  while (!pending.empty())
    for (CallOp call : getCalls(pending.pop_back_val()))
      if (auto caller = call->getParentOfType<FuncOp>()) add(caller);
  return found;
}

} // namespace qd::ir
