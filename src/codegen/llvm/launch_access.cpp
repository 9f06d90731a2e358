// launch_access.cpp: reads the members of a launch and calls the runtime
//
// Code for the processor gets a QdKernelContext and calls the runtime through it; an entry of a grid gets a QdGpuLaunch and calls nothing.
#include "codegen/llvm/launch_access.h"
#include "runtime/kernel_abi.h"

#include "llvm/IR/Constants.h"
#include "llvm/IR/MDBuilder.h"

using namespace mlir;

namespace qd::codegen {

llvm::Value *LaunchAccess::getField(ContextField field) {
  if (module.traits.hasGrids) return getGridField(field);
  llvm::Value *pointer = in.offsetBy(context, int64_t(kContextOffsets[field]));
  if (field == kFailed) {
    llvm::LoadInst *failed = builder.CreateAlignedLoad(builder.getInt32Ty(), pointer, llvm::Align(4), /*isVolatile=*/true, "failed");
    module.aliases.mark(failed, module.aliases.getScratchScope()); // it is in no container either
    return failed;
  }
  if (field == kSingleThreaded) return builder.CreateAlignedLoad(builder.getInt32Ty(), pointer, llvm::Align(4));
  bool isNumber = field == kRandomSeed || field == kLaunchIndex;
  llvm::LoadInst *load = in.loadInvariant(isNumber ? static_cast<llvm::Type *>(builder.getInt64Ty()) : builder.getPtrTy(), pointer);
  if (field == kArguments && module.argumentBytes > 0) {
    // Lets LLVM hoist strides, and values computed from them, out of loops that use them conditionally.
    auto addNumber = [&](unsigned kind, uint64_t number) {
      load->setMetadata(kind, llvm::MDNode::get(module.ctx, llvm::ConstantAsMetadata::get(builder.getInt64(number))));
    };
    addNumber(llvm::LLVMContext::MD_dereferenceable, module.argumentBytes);
    addNumber(llvm::LLVMContext::MD_align, alignof(uint64_t));
  }
  return load;
}

llvm::Value *LaunchAccess::getGridField(ContextField field) {
  auto at = [&](size_t offset) { return in.offsetBy(context, int64_t(offset)); };
  switch (field) {
  case kArguments:
    if (module.hasInlineArguments()) return at(sizeof(QdGpuLaunch));
    return loadAddress(at(offsetof(QdGpuLaunch, arguments)));
  case kResult: return loadAddress(at(offsetof(QdGpuLaunch, result)));
  case kScratch: return loadAddress(at(offsetof(QdGpuLaunch, scratch)));
  case kRandomSeed:
  case kLaunchIndex: {
    size_t offset = field == kRandomSeed ? offsetof(QdGpuLaunch, random_seed) : offsetof(QdGpuLaunch, launch_index);
    return in.loadInvariant(builder.getInt64Ty(), at(offset));
  }
  case kFailed: {
    llvm::Value *state = loadAddress(at(offsetof(QdGpuLaunch, state)));
    return builder.CreateAlignedLoad(builder.getInt32Ty(), in.offsetBy(state, offsetof(QdGpuState, failed)), llvm::Align(4),
                                     /*isVolatile=*/true, "failed");
  }
  case kApi:
  case kSingleThreaded:
  case kContextFields: break;
  }
  llvm_unreachable("a grid has no runtime to call");
}

llvm::Value *LaunchAccess::loadAddress(llvm::Value *pointer) {
  // Marked as global memory, because accesses through generic addresses are slower.
  return in.toGeneric(in.loadInvariant(builder.getPtrTy(module.spaces.global), pointer));
}

static llvm::Type *getAbiType(llvm::IRBuilderBase &builder, AbiResult result) {
  switch (result) {
  case AbiResult::Nothing: return builder.getVoidTy();
  case AbiResult::Address: return builder.getPtrTy();
  case AbiResult::Int32: return builder.getInt32Ty();
  case AbiResult::Int64: return builder.getInt64Ty();
  }
  llvm_unreachable("unknown result");
}

llvm::CallInst *LaunchAccess::callRuntime(ApiField field, ArrayRef<llvm::Value *> operands) {
  const ApiMember &member = kApiMembers[field];
  llvm::Value *pointer = in.offsetBy(getField(kApi), int64_t(member.offset));
  llvm::Value *routine = builder.CreateAlignedLoad(builder.getPtrTy(), pointer, llvm::Align(8));
  llvm::SmallVector<llvm::Value *, 6> all = {context};
  llvm::SmallVector<llvm::Type *, 6> types;
  all.append(operands.begin(), operands.end());
  for (llvm::Value *operand : all) types.push_back(operand->getType());
  return builder.CreateCall(llvm::FunctionType::get(getAbiType(builder, member.result), types, false), routine, all);
}

llvm::Value *LaunchAccess::isSingleThreaded() {
  if (singleThreaded) return singleThreaded;
  llvm::IRBuilder<>::InsertPointGuard guard(builder);
  llvm::BasicBlock &entry = in.function->getEntryBlock();
  auto *made = dyn_cast<llvm::Instruction>(context);
  builder.SetInsertPoint(&entry, made ? std::next(made->getIterator()) : entry.begin());
  return singleThreaded = builder.CreateIsNotNull(getField(kSingleThreaded), "single_threaded");
}

void LaunchAccess::leaveIfCanceled() {
  if (!module.traits.hasGrids) leaveIfFailed();
}

void LaunchAccess::leaveIfStopped() {
  llvm::Value *stopped = builder.CreateTrunc(getField(kFailed), builder.getInt1Ty()); // QD_STOP is the lowest bit
  in.emitWhen(stopped, "stopped", leaveFailed, nullptr, llvm::MDBuilder(module.ctx).createUnlikelyBranchWeights());
}

void LaunchAccess::leaveIfFailed() {
  auto leave = [&] {
    if (module.traits.hasGrids) return leaveFailed();
    llvm::CallInst *stops = callRuntime(kMustStop, {});
    // The call changes no memory that the kernel reads, so values loaded before a loop stay known in it.
    stops->setMemoryEffects(llvm::MemoryEffects::inaccessibleMemOnly());
    stops->addFnAttr(llvm::Attribute::Cold);
    in.emitWhen(builder.CreateIsNotNull(stops), "stop", leaveFailed);
  };
  in.emitWhen(builder.CreateIsNotNull(getField(kFailed)), "failed", leave, nullptr,
              llvm::MDBuilder(module.ctx).createUnlikelyBranchWeights());
}

} // namespace qd::codegen
