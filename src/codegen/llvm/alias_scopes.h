// alias_scopes.h: which accesses of a kernel are to different memory, as LLVM's alias scopes
#pragma once

#include "codegen/llvm/interleaved_accesses.h"
#include "ir/call_graph.h"

#include <map>
#include <optional>
#include <set>
#include <vector>

namespace llvm {
class Instruction;
class LLVMContext;
class MDNode;
} // namespace llvm

namespace qd::codegen {

class AliasScopes {
public:
  AliasScopes(mlir::ModuleOp source, llvm::LLVMContext &ctx);

  /// The scope of a container argument; -1: none.
  int getScope(ir::TensorArgumentOp argument);
  int getScratchScope() const { return scratchScope; }
  /// Adds alias metadata to an access to a container; `lane`: the only lane that makes the access.
  void mark(llvm::Instruction *instruction, int scope, std::optional<unsigned> lane = std::nullopt);

  const InterleavedAccesses interleaved; ///< accesses to the same memory that delay each other

  //--- Targets with grids ---
  /// Marks a load as invariant if no thread of the grid writes the memory that it reads.
  void markReadOnly(llvm::Instruction *load, int scope);
  /// Adds what the task writes to the written scopes.
  void addWritten(ir::TaskOp task, const ir::CallGraph &calls);
  void forgetWritten() { writtenScopes.clear(); }

  bool hasReadOnlyLoads = false; ///< loads of memory that the task does not write may use the read-only cache
  /// Alias scopes of one iteration of a parallel loop and of its neighbors: no order exists between iterations.
  struct IterationScopes {
    llvm::MDNode *own, *others;
  };
  std::vector<IterationScopes> iterations; ///< one per lane, if iterations are distinguished

private:
  llvm::LLVMContext &ctx;
  std::map<uint32_t, int> ownScopes; ///< of written containers that share no memory with others; key: offset in the argument block
  int arrayScope = -1, readScope = -1, scratchScope = -1;
  std::vector<llvm::MDNode *> scopeLists, otherLists;
  std::set<int> writtenScopes; ///< scopes that the current task, and tasks merged with it, write
};

} // namespace qd::codegen
