// alias_scopes.cpp: alias metadata of accesses to containers
//
// Each field has a scope, and all arrays together have one, because arrays may share memory. The scratch block has a scope of its own.
#include "codegen/llvm/alias_scopes.h"

#include "ir/memory.h"

#include "mlir/IR/BuiltinOps.h"
#include "llvm/IR/Instruction.h"
#include "llvm/IR/MDBuilder.h"

using namespace mlir;

namespace qd::codegen {

/// Alias lists grow with the square of the number of containers; kernels with more containers get none.
constexpr size_t kMaxAliasScopes = 64;

AliasScopes::AliasScopes(ModuleOp source, llvm::LLVMContext &ctx) : ctx(ctx) {
  source->walk([&](ir::TensorArgumentOp argument) {
    if (argument.getField()) fieldScopes.try_emplace(argument.getOffset(), int(fieldScopes.size()));
  });
  arrayScope = int(fieldScopes.size());
  scratchScope = arrayScope + 1;
  size_t count = fieldScopes.size() + 2;
  if (count > kMaxAliasScopes) {
    fieldScopes.clear();
    arrayScope = scratchScope = -1;
    return;
  }
  llvm::MDBuilder metadata(ctx);
  llvm::MDNode *domain = metadata.createAnonymousAliasScopeDomain("memory");
  std::vector<llvm::Metadata *> scopes;
  for (size_t i = 0; i < count; ++i) scopes.push_back(metadata.createAnonymousAliasScope(domain, "container"));
  for (size_t i = 0; i < count; ++i) {
    std::vector<llvm::Metadata *> others = scopes;
    others.erase(others.begin() + ptrdiff_t(i));
    scopeLists.push_back(llvm::MDNode::get(ctx, scopes[i]));
    otherLists.push_back(llvm::MDNode::get(ctx, others));
  }
}

int AliasScopes::getScope(ir::TensorArgumentOp argument) {
  if (!argument.getField()) return arrayScope;
  auto found = fieldScopes.find(argument.getOffset());
  return found == fieldScopes.end() ? -1 : found->second;
}

void AliasScopes::mark(llvm::Instruction *instruction, int scope, std::optional<unsigned> lane) {
  bool isKnown = scope >= 0 && size_t(scope) < scopeLists.size(), hasLane = lane && *lane < iterations.size();
  auto set = [&](unsigned kind, llvm::MDNode *ofTensor, llvm::MDNode *ofIteration) {
    if (llvm::MDNode *both = llvm::MDNode::concatenate(ofTensor, ofIteration)) instruction->setMetadata(kind, both);
  };
  set(llvm::LLVMContext::MD_alias_scope, isKnown ? scopeLists[size_t(scope)] : nullptr, hasLane ? iterations[*lane].own : nullptr);
  set(llvm::LLVMContext::MD_noalias, isKnown ? otherLists[size_t(scope)] : nullptr, hasLane ? iterations[*lane].others : nullptr);
}

void AliasScopes::addWritten(ir::TaskOp task, const ir::CallGraph &calls) {
  auto write = [&](Value place) {
    if (ir::TensorArgumentOp argument = ir::findContainer(place)) writtenScopes.insert(getScope(argument));
  };
  calls.contains(task.getBody(), [&](Operation *op) {
    llvm::for_each(ir::listWrittenPlaces(op), write);
    // Writes of called functions to containers among their arguments are not analyzed.
    if (isa<ir::CallOp>(op)) llvm::for_each(op->getOperands(), write);
    return false;
  });
}

void AliasScopes::markReadOnly(llvm::Instruction *load, int scope) {
  if (hasReadOnlyLoads && scope >= 0 && scope != scratchScope && !writtenScopes.contains(scope))
    load->setMetadata(llvm::LLVMContext::MD_invariant_load, llvm::MDNode::get(ctx, {}));
}

} // namespace qd::codegen
