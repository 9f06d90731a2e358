// grid_target.cpp: the instructions of AMD GPUs for grids of threads
//
// In:   requests of the shared emitter (codegen/llvm/grid/target.h).
// Out:  intrinsics, fences and attributes of LLVM's AMDGPU backend. Subgroups have 64 threads on every family.
#include "backends/amdgpu/grid_target.h"
#include "backends/amdgpu/limits.h"

#include "llvm/IR/ConstantRange.h"
#include "llvm/IR/GlobalVariable.h"
#include "llvm/IR/InlineAsm.h"
#include "llvm/IR/IntrinsicsAMDGPU.h"
#include "llvm/IR/Module.h"

namespace qd::backends::amdgpu {
namespace {

namespace I = llvm::Intrinsic;
using qd::amdgpu::kMaxBlockThreads;
using qd::amdgpu::kPrivate;
using qd::amdgpu::kSubgroupSize;

/// LLVM's address spaces.
constexpr unsigned kGlobal = 1, kShared = 3, kConstant = 4;
/// Offsets in the arguments that the driver adds to those of an entry: number of blocks (u32), threads of a block (u16).
constexpr unsigned kBlockCountOffset = 0, kBlockSizeOffset = 12;

class AmdGrid final : public codegen::GridTarget {
public:
  explicit AmdGrid(bool reachesWholeSubgroup) : reachesWholeSubgroup(reachesWholeSubgroup) {}

  codegen::AddressSpaces getAddressSpaces() const override {
    return {.global = kGlobal, .shared = kShared, .local = kPrivate, .launch = kConstant};
  }
  llvm::StringRef getDeviceScope() const override { return "agent"; }

  void markEntry(llvm::Function &entry, uint64_t bytes) const override {
    llvm::LLVMContext &ctx = entry.getContext();
    entry.setCallingConv(llvm::CallingConv::AMDGPU_KERNEL);
    llvm::AttrBuilder attributes(ctx);
    // The struct is the beginning of the entry's arguments: read it in place.
    attributes.addByRefAttr(llvm::ArrayType::get(llvm::Type::getInt64Ty(ctx), (bytes + 7) / 8));
    attributes.addAlignmentAttr(llvm::Align(8));
    entry.addParamAttrs(0, attributes);
    entry.addFnAttr("uniform-work-group-size", "true");
  }
  void setBlockSize(llvm::Function &entry, unsigned threads) const override {
    entry.addFnAttr("amdgpu-flat-work-group-size", "1," + std::to_string(threads));
  }
  void limitRegisters(llvm::Function &entry, unsigned registers) const override {
    entry.addFnAttr("amdgpu-num-vgpr", std::to_string(registers));
  }

  llvm::Value *getNumber(Builder &at, codegen::ThreadNumber number) const override {
    auto read = [&](unsigned intrinsic, uint64_t limit) {
      llvm::CallInst *value = at.CreateIntrinsic(at.getInt32Ty(), intrinsic, {});
      value->addRangeRetAttr(llvm::ConstantRange(llvm::APInt(32, 0), llvm::APInt(32, limit)));
      return value;
    };
    switch (number) {
    case codegen::ThreadNumber::Thread: return read(I::amdgcn_workitem_id_x, kMaxBlockThreads);
    case codegen::ThreadNumber::Block: return read(I::amdgcn_workgroup_id_x, INT32_MAX);
    case codegen::ThreadNumber::BlockSize: return at.CreateZExt(readHidden(at, at.getInt16Ty(), kBlockSizeOffset), at.getInt32Ty());
    case codegen::ThreadNumber::BlockCount: return readHidden(at, at.getInt32Ty(), kBlockCountOffset);
    }
    llvm_unreachable("unknown number");
  }

  /// The barrier itself orders no memory operations.
  void synchronize(Builder &at, codegen::ThreadScope scope) const override {
    bool isBlock = scope == codegen::ThreadScope::Block;
    emitFence(at, llvm::AtomicOrdering::Release, isBlock ? "workgroup" : "wavefront");
    at.CreateIntrinsic(at.getVoidTy(), isBlock ? I::amdgcn_s_barrier : I::amdgcn_wave_barrier, {});
    emitFence(at, llvm::AtomicOrdering::Acquire, isBlock ? "workgroup" : "wavefront");
  }
  void fence(Builder &at, codegen::ThreadScope scope) const override {
    emitFence(at, llvm::AtomicOrdering::AcquireRelease, scope == codegen::ThreadScope::Device ? "agent" : "workgroup");
  }

  llvm::Value *shuffle(Builder &at, llvm::Value *word, llvm::Value *lane, llvm::Value *) const override {
    if (!reachesWholeSubgroup) return shuffleThroughShared(at, word, lane);
    llvm::Value *address = at.CreateShl(lane, 2); // the instruction ignores the high bits
    return at.CreateIntrinsic(at.getInt32Ty(), I::amdgcn_ds_bpermute, {address, word});
  }
  llvm::Value *shuffleDown(Builder &at, llvm::Value *word, unsigned distance) const override {
    return shuffle(at, word, at.CreateAdd(getLane(at), at.getInt32(distance)), nullptr);
  }
  llvm::Value *ballot(Builder &at, llvm::Value *vote, llvm::Value *) const override {
    return at.CreateIntrinsic(I::amdgcn_ballot, {at.getInt64Ty()}, {vote});
  }
  llvm::Value *getActiveThreads(Builder &at) const override { return ballot(at, at.getTrue(), nullptr); }
  llvm::Value *getEarlierThreads(Builder &at) const override {
    llvm::Value *own = at.CreateShl(at.getInt64(1), at.CreateZExt(getLane(at), at.getInt64Ty()));
    return at.CreateSub(own, at.getInt64(1));
  }
  llvm::Value *pin(Builder &at, llvm::Value *word) const override {
    auto *type = llvm::FunctionType::get(word->getType(), word->getType(), false);
    return at.CreateCall(llvm::InlineAsm::get(type, "", "=v,0", /*hasSideEffects=*/true), word);
  }

private:
  static void emitFence(Builder &at, llvm::AtomicOrdering order, llvm::StringRef scope) {
    at.CreateFence(order, at.getContext().getOrInsertSyncScopeID(scope));
  }
  static llvm::Value *readHidden(Builder &at, llvm::Type *type, unsigned offset) {
    llvm::Value *hidden = at.CreateIntrinsic(at.getPtrTy(kConstant), I::amdgcn_implicitarg_ptr, {});
    auto *value = at.CreateAlignedLoad(type, at.CreateConstInBoundsGEP1_32(at.getInt8Ty(), hidden, offset), llvm::Align(4));
    value->setMetadata(llvm::LLVMContext::MD_invariant_load, llvm::MDNode::get(at.getContext(), {}));
    return value;
  }
  static llvm::Value *getLane(Builder &at) {
    llvm::Value *low = at.CreateIntrinsic(at.getInt32Ty(), I::amdgcn_mbcnt_lo, {at.getInt32(~0u), at.getInt32(0)});
    llvm::CallInst *lane = at.CreateIntrinsic(at.getInt32Ty(), I::amdgcn_mbcnt_hi, {at.getInt32(~0u), low});
    lane->addRangeRetAttr(llvm::ConstantRange(llvm::APInt(32, 0), llvm::APInt(32, kSubgroupSize)));
    return lane;
  }

  /// Every thread stores its word and reads that of another one. Shared memory runs the instructions of a subgroup in their order; the
  /// fences keep LLVM from another one.
  llvm::Value *shuffleThroughShared(Builder &at, llvm::Value *word, llvm::Value *lane) const {
    constexpr char kName[] = "qd_exchange";
    llvm::Module &module = *at.GetInsertBlock()->getModule();
    llvm::GlobalVariable *words = module.getNamedGlobal(kName);
    if (!words) {
      auto *type = llvm::ArrayType::get(at.getInt32Ty(), kMaxBlockThreads);
      words = new llvm::GlobalVariable(module, type, /*isConstant=*/false, llvm::GlobalValue::InternalLinkage, llvm::PoisonValue::get(type),
                                       kName, nullptr, llvm::GlobalValue::NotThreadLocal, kShared);
      words->setAlignment(llvm::Align(16));
    }
    llvm::Value *thread = getNumber(at, codegen::ThreadNumber::Thread);
    llvm::Value *other = at.CreateOr(at.CreateAnd(thread, at.getInt32(~(kSubgroupSize - 1))), at.CreateAnd(lane, kSubgroupSize - 1));
    auto getPlace = [&](llvm::Value *number) { return at.CreateInBoundsGEP(at.getInt32Ty(), words, number); };
    auto keepOrder = [&] { emitFence(at, llvm::AtomicOrdering::AcquireRelease, "wavefront"); };
    keepOrder();
    at.CreateStore(word, getPlace(thread));
    keepOrder();
    llvm::Value *received = at.CreateLoad(at.getInt32Ty(), getPlace(other));
    keepOrder();
    return received;
  }

  bool reachesWholeSubgroup;
};

} // namespace

std::unique_ptr<codegen::GridTarget> makeGridTarget(bool reachesWholeSubgroup) { return std::make_unique<AmdGrid>(reachesWholeSubgroup); }

} // namespace qd::backends::amdgpu
