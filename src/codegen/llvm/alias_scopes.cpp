// alias_scopes.cpp: alias metadata of accesses to containers
//
// Each field that the kernel writes has a scope, and so has each written array that is known to be unaliased. All other arrays together
// have one, because they may share memory, and so have all fields that are only read. The scratch block has a scope of its own.
#include "codegen/llvm/alias_scopes.h"

#include "ir/attributes.h"
#include "ir/memory.h"

#include "mlir/IR/BuiltinOps.h"
#include "llvm/IR/Instruction.h"
#include "llvm/IR/MDBuilder.h"

using namespace mlir;

namespace qd::codegen {

/// Alias lists grow with the square of the number of containers; kernels with more containers get none.
constexpr size_t kMaxAliasScopes = 64;

AliasScopes::AliasScopes(ModuleOp source, llvm::LLVMContext &ctx) : interleaved(source), ctx(ctx) {
  llvm::SmallDenseSet<int32_t> unaliased;
  for (auto kernel : source.getOps<ir::KernelOp>())
    if (auto offsets = kernel->getAttrOfType<DenseI32ArrayAttr>(ir::kUnaliased)) unaliased.insert_range(offsets.asArrayRef());
  source->walk([&](Operation *op) {
    for (ir::TensorArgumentOp argument : ir::listWrittenContainers(op))
      if (argument.getField() || unaliased.contains(int32_t(argument.getOffset())))
        ownScopes.try_emplace(argument.getOffset(), int(ownScopes.size()));
  });
  arrayScope = int(ownScopes.size());
  readScope = arrayScope + 1;
  scratchScope = arrayScope + 2;
  size_t count = ownScopes.size() + 3;
  if (count > kMaxAliasScopes) {
    ownScopes.clear();
    arrayScope = readScope = scratchScope = -1;
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
  auto found = ownScopes.find(argument.getOffset());
  return found != ownScopes.end() ? found->second : argument.getField() ? readScope : arrayScope;
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
  calls.contains(task.getBody(), [&](Operation *op) {
    for (ir::TensorArgumentOp argument : ir::listWrittenContainers(op)) writtenScopes.insert(getScope(argument));
    return false;
  });
}

void AliasScopes::markReadOnly(llvm::Instruction *load, int scope) {
  if (hasReadOnlyLoads && scope >= 0 && scope != scratchScope && !writtenScopes.contains(scope))
    load->setMetadata(llvm::LLVMContext::MD_invariant_load, llvm::MDNode::get(ctx, {}));
}

} // namespace qd::codegen
