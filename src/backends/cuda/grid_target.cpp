// grid_target.cpp: the instructions of NVPTX for grids of threads
//
// In:   requests of the shared emitter (codegen/llvm/grid/target.h).
// Out:  intrinsics and attributes of LLVM's NVPTX backend; PTX itself where LLVM has no intrinsic.
#include "backends/cuda/grid_target.h"
#include "backends/cuda/limits.h"

#include "llvm/IR/ConstantRange.h"
#include "llvm/IR/InlineAsm.h"
#include "llvm/IR/IntrinsicsNVPTX.h"

namespace qd::backends::cuda {
namespace {

namespace I = llvm::Intrinsic;
using qd::cuda::kMaxBlockThreads;
using qd::cuda::kSubgroupSize;

llvm::CallInst *callWord(codegen::GridTarget::Builder &at, unsigned intrinsic, llvm::ArrayRef<llvm::Value *> operands = {}) {
  return at.CreateIntrinsic(at.getInt32Ty(), intrinsic, operands);
}

class CudaGrid final : public codegen::GridTarget {
public:
  /// `capability`: 90 for sm_90.
  explicit CudaGrid(unsigned capability) : capability(capability) {}

  unsigned getMaxDynamicBytes() const override { return qd::cuda::getMaxDynamicBytes(capability); }

  codegen::AddressSpaces getAddressSpaces() const override { return {.global = 1, .shared = 3}; }
  llvm::StringRef getDeviceScope() const override { return "device"; }

  void markEntry(llvm::Function &entry, uint64_t bytes) const override {
    llvm::LLVMContext &ctx = entry.getContext();
    entry.setCallingConv(llvm::CallingConv::PTX_Kernel);
    llvm::AttrBuilder attributes(ctx);
    attributes.addByValAttr(llvm::ArrayType::get(llvm::Type::getInt64Ty(ctx), (bytes + 7) / 8));
    attributes.addAlignmentAttr(llvm::Align(8));
    // The parameter is constant: read it in place.
    attributes.addAttribute("nvvm.grid_constant");
    entry.addParamAttrs(0, attributes);
  }
  void setBlockSize(llvm::Function &entry, unsigned threads) const override { entry.addFnAttr("nvvm.maxntid", std::to_string(threads)); }
  /// Without this attribute the assembler orders loads so that a full multiprocessor has enough registers. With it, it uses all registers
  /// that so many threads leave, and spills what does not fit.
  void preferRegisters(llvm::Function &entry, unsigned blockSize, unsigned threads) const override {
    unsigned whole = unsigned(llvm::alignTo(blockSize, qd::cuda::kSubgroupSize)); // a subgroup has registers for all its threads
    entry.addFnAttr("nvvm.minctasm", std::to_string(std::max(1u, threads / whole)));
  }

  void limitRegisters(llvm::Function &entry, unsigned registers) const override {
    entry.addFnAttr("nvvm.maxnreg", std::to_string(std::clamp(registers, 24u, 255u))); // what calls need, and what an instruction can name
  }

  /// Copies of 4, 8 or 16 bytes are instructions from sm_80 on.
  void copyAsync(Builder &at) const override {
    if (!hasAsyncCopies() || at.GetInsertPoint() == at.GetInsertBlock()->begin()) return;
    auto *store = dyn_cast<llvm::StoreInst>(&*std::prev(at.GetInsertPoint()));
    auto *load = store ? dyn_cast<llvm::LoadInst>(store->getValueOperand()) : nullptr;
    if (!load || load->isVolatile()) return;
    uint64_t bytes = load->getDataLayout().getTypeStoreSize(load->getType());
    unsigned intrinsic = bytes == 4    ? I::nvvm_cp_async_ca_shared_global_4
                         : bytes == 8  ? I::nvvm_cp_async_ca_shared_global_8
                         : bytes == 16 ? I::nvvm_cp_async_ca_shared_global_16
                                       : 0;
    auto toSpace = [&](llvm::Value *pointer, unsigned space) { return at.CreateAddrSpaceCast(pointer, at.getPtrTy(space)); };
    if (!intrinsic || load->getAlign() < bytes || store->getAlign() < bytes) return;
    at.CreateIntrinsic(at.getVoidTy(), intrinsic,
                       {toSpace(store->getPointerOperand(), getAddressSpaces().shared), toSpace(load->getPointerOperand(), 1)});
    store->eraseFromParent();
  }
  void waitForCopies(Builder &at) const override {
    if (hasAsyncCopies()) at.CreateIntrinsic(at.getVoidTy(), I::nvvm_cp_async_wait_all, {});
  }

  llvm::Value *getNumber(Builder &at, codegen::ThreadNumber number) const override {
    auto read = [&](unsigned intrinsic, uint64_t limit) {
      llvm::CallInst *value = callWord(at, intrinsic);
      value->addRangeRetAttr(llvm::ConstantRange(llvm::APInt(32, 0), llvm::APInt(32, limit)));
      return value;
    };
    switch (number) {
    case codegen::ThreadNumber::Thread: return read(I::nvvm_read_ptx_sreg_tid_x, kMaxBlockThreads);
    case codegen::ThreadNumber::BlockSize: return read(I::nvvm_read_ptx_sreg_ntid_x, kMaxBlockThreads + 1);
    case codegen::ThreadNumber::Block: return read(I::nvvm_read_ptx_sreg_ctaid_x, INT32_MAX);
    case codegen::ThreadNumber::BlockCount: return read(I::nvvm_read_ptx_sreg_nctaid_x, uint64_t(INT32_MAX) + 1);
    }
    llvm_unreachable("unknown number");
  }

  void synchronize(Builder &at, codegen::ThreadScope scope) const override {
    bool isBlock = scope == codegen::ThreadScope::Block;
    at.CreateIntrinsic(at.getVoidTy(), isBlock ? I::nvvm_barrier_cta_sync_aligned_all : I::nvvm_bar_warp_sync,
                       {isBlock ? at.getInt32(0) : at.getInt32(~0u)});
  }
  void synchronizeSome(Builder &at, llvm::Value *threads) const override {
    at.CreateIntrinsic(at.getVoidTy(), I::nvvm_bar_warp_sync, {threads});
  }
  void fence(Builder &at, codegen::ThreadScope scope) const override {
    at.CreateIntrinsic(at.getVoidTy(), scope == codegen::ThreadScope::Device ? I::nvvm_membar_gl : I::nvvm_membar_cta, {});
  }
  llvm::Value *shuffle(Builder &at, llvm::Value *word, llvm::Value *lane, llvm::Value *threads) const override {
    return callWord(at, I::nvvm_shfl_sync_idx_i32, {threads ? threads : at.getInt32(~0u), word, lane, at.getInt32(kSubgroupSize - 1)});
  }
  llvm::Value *shuffleDown(Builder &at, llvm::Value *word, unsigned distance) const override {
    return callWord(at, I::nvvm_shfl_sync_down_i32, {at.getInt32(~0u), word, at.getInt32(distance), at.getInt32(kSubgroupSize - 1)});
  }
  llvm::Value *combine(Builder &at, llvm::AtomicRMWInst::BinOp operation, llvm::Value *word) const override {
    if (capability < 80) return nullptr;
    auto emit = [&](unsigned intrinsic) { return callWord(at, intrinsic, {word, at.getInt32(~0u)}); };
    switch (operation) {
    case llvm::AtomicRMWInst::Add: return emit(I::nvvm_redux_sync_add);
    case llvm::AtomicRMWInst::Min: return emit(I::nvvm_redux_sync_min);
    case llvm::AtomicRMWInst::Max: return emit(I::nvvm_redux_sync_max);
    case llvm::AtomicRMWInst::UMin: return emit(I::nvvm_redux_sync_umin);
    case llvm::AtomicRMWInst::UMax: return emit(I::nvvm_redux_sync_umax);
    case llvm::AtomicRMWInst::And: return emit(I::nvvm_redux_sync_and);
    case llvm::AtomicRMWInst::Or: return emit(I::nvvm_redux_sync_or);
    case llvm::AtomicRMWInst::Xor: return emit(I::nvvm_redux_sync_xor);
    default: return nullptr;
    }
  }
  llvm::Value *ballot(Builder &at, llvm::Value *vote, llvm::Value *threads) const override {
    return callWord(at, I::nvvm_vote_ballot_sync, {threads ? threads : at.getInt32(~0u), vote});
  }
  llvm::Value *getActiveThreads(Builder &at) const override { return callWord(at, I::nvvm_activemask); }
  llvm::Value *getEarlierThreads(Builder &at) const override { return callWord(at, I::nvvm_read_ptx_sreg_lanemask_lt); }
  llvm::Value *pin(Builder &at, llvm::Value *word) const override {
    llvm::Type *type = word->getType();
    const char *constraint = type->isIntegerTy(32) ? "=r,0" : "=l,0";
    return at.CreateCall(llvm::InlineAsm::get(llvm::FunctionType::get(type, type, false), "", constraint, /*hasSideEffects=*/true), word);
  }

  void launchEarly(Builder &at) const override {
    auto *type = llvm::FunctionType::get(at.getVoidTy(), false);
    for (const char *code : {"griddepcontrol.launch_dependents;", "griddepcontrol.wait;"})
      at.CreateCall(llvm::InlineAsm::get(type, code, "~{memory}", /*hasSideEffects=*/true));
  }
  void addVector(Builder &at, llvm::Value *pointer, llvm::ArrayRef<llvm::Value *> parts) const override {
    llvm::SmallVector<llvm::Type *, 5> types(parts.size() + 1, at.getFloatTy());
    types[0] = pointer->getType();
    bool isPair = parts.size() == 2;
    auto *code = llvm::InlineAsm::get(llvm::FunctionType::get(at.getVoidTy(), types, false),
                                      isPair ? "red.relaxed.gpu.global.add.v2.f32 [$0], {$1, $2};"
                                             : "red.relaxed.gpu.global.add.v4.f32 [$0], {$1, $2, $3, $4};",
                                      isPair ? "l,f,f,~{memory}" : "l,f,f,f,f,~{memory}", /*hasSideEffects=*/true);
    llvm::SmallVector<llvm::Value *, 5> operands{pointer};
    llvm::append_range(operands, parts);
    at.CreateCall(code, operands);
  }

private:
  bool hasAsyncCopies() const { return capability >= 80; }

  unsigned capability;
};

} // namespace

std::unique_ptr<codegen::GridTarget> makeGridTarget(unsigned capability) { return std::make_unique<CudaGrid>(capability); }

} // namespace qd::backends::cuda
