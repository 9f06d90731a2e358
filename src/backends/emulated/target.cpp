// target.cpp: a device for tests that differs from GPUs of today: 64 threads in a subgroup, locals in address space 5, no generic pointers
//
// In:   lowered IR.
// Out:  LLVM IR as text, which calls a function for everything that threads do together; tests compile it for the processor and supply
//       these functions (tests/python/compile/emulated_grid.c). "emulated:minimal" lacks f64, atomic operations on 64 bits, and those on
//       floats.
#include "codegen/llvm/grid/target.h"
#include "backends/cpu/processor.h"
#include "backends/steps.h"
#include "codegen/llvm/grid/staged_stores.h"

#include "mlir/IR/BuiltinOps.h"
#include "llvm/IR/InstIterator.h"

namespace qd::backends::emulated {
namespace {

constexpr unsigned kSubgroupSize = 64;

class EmulatedGrid final : public codegen::GridTarget {
public:
  codegen::AddressSpaces getAddressSpaces() const override { return {.shared = 3, .local = 5, .hasGeneric = false}; }
  llvm::StringRef getDeviceScope() const override { return "device"; }

  void markEntry(llvm::Function &entry, uint64_t bytes) const override {
    llvm::AttrBuilder attributes(entry.getContext());
    attributes.addByRefAttr(llvm::ArrayType::get(llvm::Type::getInt64Ty(entry.getContext()), (bytes + 7) / 8));
    entry.addParamAttrs(0, attributes);
  }
  void setBlockSize(llvm::Function &entry, unsigned threads) const override { entry.addFnAttr("block-size", std::to_string(threads)); }

  llvm::Value *getNumber(Builder &at, codegen::ThreadNumber number) const override {
    static constexpr const char *kNames[] = {"thread", "block_size", "block", "block_count"};
    llvm::CallInst *value = call(at, kNames[size_t(number)], at.getInt32Ty(), {});
    value->setDoesNotAccessMemory();
    return value;
  }
  void synchronize(Builder &at, codegen::ThreadScope scope) const override {
    bool isBlock = scope == codegen::ThreadScope::Block;
    llvm::Value *which = isBlock ? at.getInt32(0) : at.getInt64(~uint64_t(0));
    call(at, isBlock ? "barrier" : "subgroup_barrier", at.getVoidTy(), {which});
  }
  void synchronizeSome(Builder &at, llvm::Value *threads) const override { call(at, "subgroup_barrier", at.getVoidTy(), {threads}); }
  void fence(Builder &at, codegen::ThreadScope) const override { call(at, "fence", at.getVoidTy(), {}); }
  llvm::Value *shuffle(Builder &at, llvm::Value *word, llvm::Value *lane, llvm::Value *threads) const override {
    return call(at, "shuffle", at.getInt32Ty(), {threads ? threads : at.getInt64(~uint64_t(0)), word, lane, at.getInt32(0)});
  }
  llvm::Value *shuffleDown(Builder &at, llvm::Value *word, unsigned distance) const override {
    return call(at, "shuffle_down", at.getInt32Ty(), {at.getInt64(~uint64_t(0)), word, at.getInt32(distance), at.getInt32(0)});
  }
  llvm::Value *ballot(Builder &at, llvm::Value *vote, llvm::Value *threads) const override {
    return call(at, "ballot", at.getInt64Ty(), {threads ? threads : at.getInt64(~uint64_t(0)), at.CreateZExt(vote, at.getInt8Ty())});
  }
  llvm::Value *getActiveThreads(Builder &at) const override { return call(at, "active", at.getInt64Ty(), {}); }
  llvm::Value *getEarlierThreads(Builder &at) const override { return call(at, "lanes_before", at.getInt64Ty(), {}); }

private:
  static llvm::CallInst *call(Builder &at, llvm::StringRef name, llvm::Type *result, llvm::ArrayRef<llvm::Value *> operands) {
    llvm::SmallVector<llvm::Type *, 4> types;
    for (llvm::Value *operand : operands) types.push_back(operand->getType());
    llvm::Module &module = *at.GetInsertBlock()->getModule();
    llvm::FunctionCallee callee = module.getOrInsertFunction(("emulated_" + name).str(), llvm::FunctionType::get(result, types, false));
    llvm::CallInst *made = at.CreateCall(callee, operands);
    made->setDoesNotThrow();
    made->addFnAttr(llvm::Attribute::WillReturn);
    made->setConvergent();
    return made;
  }
};

/// Throws if a generic pointer is left. Those that were cast for routines of the device library are gone.
void refuseGenericPointers(llvm::Module &module) {
  for (llvm::Function &function : module)
    for (llvm::Instruction &instruction : llvm::instructions(function))
      if (llvm::isa<llvm::AddrSpaceCastInst>(instruction)) throw std::runtime_error("a generic pointer in " + function.getName().str());
}

class EmulatedTarget final : public Target {
public:
  explicit EmulatedTarget(bool isMinimal) {
    traits.hasGrids = traits.hasFma = true;
    traits.hasF64 = traits.has64BitAtomics = traits.hasFloatAtomics = !isMinimal;
    traits.subgroupSize = kSubgroupSize;
    // As those of the device that the tests stand in for.
    traits.maxSharedBytes = 48 << 10;
    traits.maxCopyBytes = 32 << 10;
    traits.maxParameterBytes = 4096;
  }

  const passes::TargetTraits &getTraits() const override { return traits; }
  const codegen::GridTarget *getGrid() const override { return &grid; }

  mlir::LogicalResult emit(mlir::ModuleOp source, const TargetOptions &options, Stages &stages,
                           artifact::Artifact &artifact) const override {
    Emission emission(source, *this, options, stages, artifact);
    if (emission.isOver()) return emission.getResult();
    llvm::Module &module = emission.getModule();
    module.setDataLayout("e-i64:64-n8:16:32:64-A5");
    linkDeviceLibrary(module);
    // The library is compiled for another processor.
    for (llvm::Function &function : module) {
      function.removeFnAttr("target-cpu");
      function.removeFnAttr("target-features");
    }
    // A call would pass a pointer to a local.
    for (const char *name : {"qd_leave_failure_x1", "qd_leave_print_x1"})
      if (llvm::Function *routine = module.getFunction(name)) inlineCalls(*routine);
    CodeGenerator machine = cpu::makeCodeGenerator(cpu::getHost(), options.optLevel);
    optimize(module, *machine, options.optLevel);
    codegen::stageStores(module, artifact, grid, traits);
    inferAddressSpaces(module, machine->getTargetIRAnalysis());
    refuseGenericPointers(module);
    if (!emission.finishOptimizing()) return mlir::success();
    std::string text;
    llvm::raw_string_ostream output(text);
    module.print(output, nullptr);
    artifact.binary.assign(text.begin(), text.end());
    artifact.backend = "emulated";
    return mlir::success();
  }

private:
  static void inlineCalls(llvm::Function &routine) {
    routine.removeFnAttr(llvm::Attribute::NoInline);
    routine.addFnAttr(llvm::Attribute::AlwaysInline);
    for (llvm::User *user : routine.users())
      if (auto *call = llvm::dyn_cast<llvm::CallInst>(user)) call->removeFnAttr(llvm::Attribute::NoInline);
  }

  passes::TargetTraits traits;
  EmulatedGrid grid;
};

} // namespace

std::unique_ptr<Target> makeTarget(llvm::StringRef processor) { return std::make_unique<EmulatedTarget>(processor == "minimal"); }

} // namespace qd::backends::emulated
