// grid_target.cpp: what threads of a grid do together, as calls that the writer of a language replaces
//
// In:   requests of the shared emitter (codegen/llvm/grid/target.h).
// Out:  calls of functions without a body, and LLVM's fences.
#include "backends/structured/grid_target.h"

#include "llvm/IR/Module.h"

namespace qd::backends::structured {
namespace {

/// Attributes of entries.
constexpr char kBlockSize[] = "block-size", kParameterBytes[] = "parameter-bytes", kRegisters[] = "prefers-registers";

class CalledGrid final : public codegen::GridTarget {
public:
  CalledGrid(unsigned subgroupSize, bool widens, unsigned launch, bool saves, bool combines)
      : subgroupSize(subgroupSize), widens(widens), saves(saves), combines(combines), launch(launch) {}

  codegen::AddressSpaces getAddressSpaces() const override {
    return {.shared = kShared, .local = kLocal, .launch = launch, .hasGeneric = false};
  }
  llvm::StringRef getDeviceScope() const override { return "device"; }
  bool widensReports() const override { return widens; }
  bool hasWideAccesses() const override { return false; }
  bool savesRegisters() const override { return saves; }
  void preferRegisters(llvm::Function &entry, unsigned, unsigned) const override { entry.addFnAttr(kRegisters); }

  void markEntry(llvm::Function &entry, uint64_t bytes) const override { entry.addFnAttr(kParameterBytes, std::to_string(bytes)); }
  void setBlockSize(llvm::Function &entry, unsigned threads) const override { entry.addFnAttr(kBlockSize, std::to_string(threads)); }

  llvm::Value *getNumber(Builder &at, codegen::ThreadNumber number) const override {
    switch (number) {
    case codegen::ThreadNumber::Thread: return readNumber(at, kThreadCall);
    case codegen::ThreadNumber::Block: return readNumber(at, kBlockCall);
    case codegen::ThreadNumber::BlockSize: return readNumber(at, kBlockSizeCall);
    case codegen::ThreadNumber::BlockCount: return readNumber(at, kBlockCountCall);
    }
    llvm_unreachable("unknown number");
  }
  void synchronize(Builder &at, codegen::ThreadScope scope) const override {
    call(at, scope == codegen::ThreadScope::Block ? kBarrierCall : kSubgroupBarrierCall, at.getVoidTy(), {});
  }
  void fence(Builder &at, codegen::ThreadScope scope) const override {
    llvm::StringRef name = scope == codegen::ThreadScope::Device ? getDeviceScope() : "workgroup";
    at.CreateFence(llvm::AtomicOrdering::AcquireRelease, at.getContext().getOrInsertSyncScopeID(name));
  }
  llvm::Value *shuffle(Builder &at, llvm::Value *word, llvm::Value *lane, llvm::Value *) const override {
    // The number of a lane that does not exist gives an undefined value, or worse.
    return call(at, kShuffleCall, at.getInt32Ty(), {word, at.CreateAnd(lane, at.getInt32(subgroupSize - 1))});
  }
  llvm::Value *shuffleDown(Builder &at, llvm::Value *word, unsigned distance) const override {
    return shuffle(at, word, at.CreateAdd(readNumber(at, kLaneCall), at.getInt32(distance)), nullptr);
  }
  llvm::Value *combine(Builder &at, llvm::AtomicRMWInst::BinOp operation, llvm::Value *word) const override {
    if (!combines) return nullptr;
    return call(at, (llvm::Twine(kCombineCall) + llvm::AtomicRMWInst::getOperationName(operation)).str(), at.getInt32Ty(), {word});
  }
  llvm::Value *ballot(Builder &at, llvm::Value *vote, llvm::Value *) const override {
    return call(at, kBallotCall, at.getInt64Ty(), {vote});
  }
  llvm::Value *getActiveThreads(Builder &at) const override { return ballot(at, at.getTrue(), nullptr); }
  llvm::Value *getEarlierThreads(Builder &at) const override {
    llvm::Value *own = at.CreateShl(at.getInt64(1), at.CreateZExt(readNumber(at, kLaneCall), at.getInt64Ty()));
    return at.CreateSub(own, at.getInt64(1));
  }

private:
  static llvm::CallInst *call(Builder &at, llvm::StringRef name, llvm::Type *result, llvm::ArrayRef<llvm::Value *> operands,
                              bool isConvergent = true) {
    llvm::SmallVector<llvm::Type *, 4> types;
    for (llvm::Value *operand : operands) types.push_back(operand->getType());
    llvm::Module &module = *at.GetInsertBlock()->getModule();
    llvm::FunctionCallee callee = module.getOrInsertFunction(name, llvm::FunctionType::get(result, types, false));
    // Of a call alone, LLVM removes the mark.
    if (isConvergent) llvm::cast<llvm::Function>(callee.getCallee())->setConvergent();
    llvm::CallInst *made = at.CreateCall(callee, operands);
    made->setDoesNotThrow();
    made->addFnAttr(llvm::Attribute::WillReturn);
    return made;
  }
  static llvm::CallInst *readNumber(Builder &at, llvm::StringRef name) {
    llvm::CallInst *made = call(at, name, at.getInt32Ty(), {}, /*isConvergent=*/false);
    made->setDoesNotAccessMemory();
    return made;
  }

  unsigned subgroupSize;
  bool widens, saves, combines;
  unsigned launch; ///< address space
};

} // namespace

gpu::Entries::Entry describeEntry(const llvm::Function &entry) {
  gpu::Entries::Entry result{entry.getName().str(), 1, 0, {}};
  entry.getFnAttribute(kBlockSize).getValueAsString().getAsInteger(10, result.blockSize);
  entry.getFnAttribute(kParameterBytes).getValueAsString().getAsInteger(10, result.parameterBytes);
  return result;
}

bool prefersRegisters(const llvm::Function &entry) { return entry.hasFnAttribute(kRegisters); }

std::unique_ptr<codegen::GridTarget> makeGridTarget(unsigned subgroupSize, bool widensReports, unsigned launchSpace, bool savesRegisters,
                                                    bool combinesWords) {
  return std::make_unique<CalledGrid>(subgroupSize, widensReports, launchSpace, savesRegisters, combinesWords);
}

} // namespace qd::backends::structured
