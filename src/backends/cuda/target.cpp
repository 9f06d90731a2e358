// target.cpp: the CUDA target: lowered IR → LLVM IR → PTX. The device's driver compiles the PTX to machine code.
//
// In:   a lowered module, and a compute capability.
// Out:  the binary of the artifact: PTX as text, for the oldest version that has what the code uses.
#include "backends/cuda/grid_target.h"
#include "backends/cuda/index_arithmetic.h"
#include "backends/cuda/limits.h"
#include "backends/steps.h"
#include "codegen/llvm/grid/staged_stores.h"

#include "mlir/IR/BuiltinOps.h"
#include "llvm/Analysis/ValueTracking.h"
#include "llvm/IR/IRBuilder.h"
#include "llvm/IR/InlineAsm.h"
#include "llvm/IR/InstIterator.h"
#include "llvm/IR/IntrinsicsNVPTX.h"
#include "llvm/IR/PatternMatch.h"
#include "llvm/Support/MemoryBuffer.h"
#include "llvm/Support/TargetSelect.h"

namespace qd::backends::cuda {
namespace {

/// The code generator for a device of this name.
std::unique_ptr<llvm::TargetMachine> makeMachine(llvm::StringRef device, llvm::StringRef features, int optLevel) {
  static const bool isRegistered = [] {
    LLVMInitializeNVPTXTargetInfo();
    LLVMInitializeNVPTXTarget();
    LLVMInitializeNVPTXTargetMC();
    LLVMInitializeNVPTXAsmPrinter();
    return true;
  }();
  (void)isRegistered;
  return makeGpuMachine(llvm::Triple("nvptx64-nvidia-cuda"), device, features, optLevel);
}

/// The number of a compute capability: 90 for sm_90.
unsigned getNumber(llvm::StringRef capability) {
  unsigned number = 0;
  capability.drop_front(3).consumeInteger(10, number);
  return number;
}

/// The oldest version of PTX that has the features of the code, so that old drivers accept it. For newer devices it is LLVM's default.
std::string chooseFeatures(llvm::StringRef capability) {
  unsigned number = getNumber(capability);
  return number < 90 ? "+ptx78" : number == 90 ? "+ptx81" : "";
}

/// The device's approximate f32 quotient of scalars: at most 2 ulp, also for divisors above 2^126, where LLVM's own lowering gives 0.
/// Denormal operands count as 0.
llvm::Value *emitFastQuotient(llvm::IRBuilder<> &builder, llvm::Value *left, llvm::Value *right) {
  namespace I = llvm::Intrinsic;
  namespace P = llvm::PatternMatch;
  llvm::Value *radicand;
  if (!P::match(left, P::m_FPOne())) return builder.CreateIntrinsic(builder.getFloatTy(), I::nvvm_div_full_ftz, {left, right});
  if (P::match(right, P::m_Intrinsic<I::sqrt>(P::m_Value(radicand))))
    return builder.CreateIntrinsic(builder.getFloatTy(), I::nvvm_rsqrt_approx_ftz_f, {radicand});
  return builder.CreateIntrinsic(builder.getFloatTy(), I::nvvm_rcp_approx_ftz_f, {right});
}

/// Uses the device's own instructions where approximate functions are allowed.
void useFastInstructions(llvm::Module &module) {
  auto isFast = [](const llvm::Instruction &instruction) {
    bool isQuotient = instruction.getOpcode() == llvm::Instruction::FDiv;
    return isQuotient && instruction.getType()->getScalarType()->isFloatTy() && instruction.hasApproxFunc();
  };
  llvm::SmallVector<llvm::Instruction *> quotients;
  for (llvm::Function &function : module)
    for (llvm::Instruction &instruction : llvm::instructions(function))
      if (isFast(instruction)) quotients.push_back(&instruction);
  for (llvm::Instruction *quotient : quotients) {
    llvm::IRBuilder<> builder(quotient);
    llvm::Value *left = quotient->getOperand(0), *right = quotient->getOperand(1), *result = llvm::PoisonValue::get(quotient->getType());
    auto *vector = llvm::dyn_cast<llvm::FixedVectorType>(quotient->getType());
    for (unsigned i = 0; vector && i < vector->getNumElements(); ++i) {
      llvm::Value *a = builder.CreateExtractElement(left, i), *b = builder.CreateExtractElement(right, i), *radicand;
      using namespace llvm::PatternMatch;
      // Take the root per lane, so that emitFastQuotient recognizes it.
      if (match(right, m_Intrinsic<llvm::Intrinsic::sqrt>(m_Value(radicand))))
        b = builder.CreateUnaryIntrinsic(llvm::Intrinsic::sqrt, builder.CreateExtractElement(radicand, i));
      result = builder.CreateInsertElement(result, emitFastQuotient(builder, a, b), i);
    }
    quotient->replaceAllUsesWith(vector ? result : emitFastQuotient(builder, left, right));
    quotient->eraseFromParent();
  }
}

/// The magnitude of integers as the smaller of the unsigned `x` and `-x`: ptxas takes the result of `abs.s32` for at least 0, which that of
/// the smallest integer is not, and leaves out what a condition guards (CUDA 13.0).
void wrapMagnitudes(llvm::Module &module) {
  for (llvm::Function &function : module)
    for (llvm::Instruction &instruction : llvm::make_early_inc_range(llvm::instructions(function))) {
      using namespace llvm::PatternMatch;
      llvm::Value *value;
      // The second argument is set where the smallest integer does not occur.
      bool mayWrap = match(&instruction, m_Intrinsic<llvm::Intrinsic::abs>(m_Value(value), m_Zero()));
      if (!mayWrap || instruction.getType()->getScalarSizeInBits() < 32) continue;
      llvm::IRBuilder<> builder(&instruction);
      instruction.replaceAllUsesWith(builder.CreateBinaryIntrinsic(llvm::Intrinsic::umin, value, builder.CreateNeg(value)));
      instruction.eraseFromParent();
    }
}

/// Negates 16-bit integers in 32 bits. ptxas merges the negation and a following conversion to 32 bits into a 32-bit negation, which is
/// wrong for the smallest integer (CUDA 13.0; remove this function when ptxas is fixed).
void widenNegations(llvm::Module &module) {
  llvm::SmallVector<llvm::Instruction *> negations;
  for (llvm::Function &function : module)
    for (llvm::Instruction &instruction : llvm::instructions(function)) {
      auto *absolute = llvm::dyn_cast<llvm::IntrinsicInst>(&instruction);
      bool isAbsolute = absolute && absolute->getIntrinsicID() == llvm::Intrinsic::abs;
      bool isNegation = llvm::PatternMatch::match(&instruction, llvm::PatternMatch::m_Neg(llvm::PatternMatch::m_Value()));
      if ((isNegation || isAbsolute) && instruction.getType()->getScalarSizeInBits() <= 16) negations.push_back(&instruction);
    }
  for (llvm::Instruction *negation : negations) {
    llvm::IRBuilder<> builder(negation);
    llvm::Type *type = negation->getType();
    bool isAbsolute = llvm::isa<llvm::IntrinsicInst>(negation);
    llvm::Value *wide = builder.CreateSExt(negation->getOperand(isAbsolute ? 0 : 1), type->getWithNewBitWidth(32));
    wide = isAbsolute ? builder.CreateBinaryIntrinsic(llvm::Intrinsic::abs, wide, builder.getTrue()) : builder.CreateNeg(wide);
    negation->replaceAllUsesWith(builder.CreateTrunc(wide, type));
    negation->eraseFromParent();
  }
}

/// Whether any lane of a mask holds, which LLVM compares as an integer: NVPTX would shift the lanes together.
void splitMaskTests(llvm::Module &module) {
  using namespace llvm::PatternMatch;
  llvm::SmallVector<std::pair<llvm::ICmpInst *, llvm::Value *>> tests;
  for (llvm::Function &function : module)
    for (llvm::Instruction &instruction : llvm::instructions(function)) {
      auto *test = llvm::dyn_cast<llvm::ICmpInst>(&instruction);
      llvm::Value *mask;
      if (test && test->isEquality() && match(test, m_ICmp(m_BitCast(m_Value(mask)), m_Zero())) && mask->getType()->isIntOrIntVectorTy(1) &&
          llvm::isa<llvm::FixedVectorType>(mask->getType()))
        tests.emplace_back(test, mask);
    }
  for (auto [test, mask] : tests) {
    llvm::IRBuilder<> builder(test);
    llvm::Value *any = builder.getFalse();
    for (unsigned i = 0; i < llvm::cast<llvm::FixedVectorType>(mask->getType())->getNumElements(); ++i)
      any = builder.CreateOr(any, builder.CreateExtractElement(mask, i));
    test->replaceAllUsesWith(test->getPredicate() == llvm::ICmpInst::ICMP_NE ? any : builder.CreateNot(any));
    test->eraseFromParent();
  }
}

/// Adds and compares vectors of 16-bit integers one by one. The driver loses the upper half of a constant that is added to a pair of them
/// (driver 580, H200; remove this function when that is fixed).
void splitHalfwords(llvm::Module &module) {
  llvm::SmallVector<llvm::Instruction *> vectors;
  for (llvm::Function &function : module)
    for (llvm::Instruction &instruction : llvm::instructions(function)) {
      bool isSum = instruction.getOpcode() == llvm::Instruction::Add || instruction.getOpcode() == llvm::Instruction::Sub;
      if ((isSum || llvm::isa<llvm::MinMaxIntrinsic>(instruction)) && llvm::isa<llvm::FixedVectorType>(instruction.getType()) &&
          instruction.getType()->getScalarSizeInBits() == 16)
        vectors.push_back(&instruction);
    }
  for (llvm::Instruction *vector : vectors) {
    llvm::IRBuilder<> builder(vector);
    llvm::Value *result = llvm::PoisonValue::get(vector->getType());
    for (unsigned i = 0; i < llvm::cast<llvm::FixedVectorType>(vector->getType())->getNumElements(); ++i) {
      llvm::Value *left = builder.CreateExtractElement(vector->getOperand(0), i);
      llvm::Value *right = builder.CreateExtractElement(vector->getOperand(1), i);
      auto *extremum = llvm::dyn_cast<llvm::MinMaxIntrinsic>(vector);
      llvm::Value *one = extremum ? builder.CreateBinaryIntrinsic(extremum->getIntrinsicID(), left, right)
                                  : builder.CreateBinOp(llvm::Instruction::BinaryOps(vector->getOpcode()), left, right);
      result = builder.CreateInsertElement(result, one, i);
    }
    vector->replaceAllUsesWith(result);
    vector->eraseFromParent();
  }
}

/// PTX's name of an atomic operation and its type on words of 32 or 64 bits; empty if a reduction has none.
std::string nameReduction(const llvm::AtomicRMWInst &update) {
  using Update = llvm::AtomicRMWInst;
  llvm::Type *type = update.getType();
  unsigned bits = type->isPointerTy() ? 0 : type->getScalarSizeInBits();
  if (type->isVectorTy() || (bits != 32 && bits != 64)) return "";
  std::string size = std::to_string(bits);
  switch (update.getOperation()) {
  case Update::FAdd: return "add.f" + size;
  case Update::Add: return "add.u" + size;
  case Update::Min: return "min.s" + size;
  case Update::Max: return "max.s" + size;
  case Update::UMin: return "min.u" + size;
  case Update::UMax: return "max.u" + size;
  case Update::And: return "and.b" + size;
  case Update::Or: return "or.b" + size;
  case Update::Xor: return "xor.b" + size;
  default: return "";
  }
}

/// Makes reductions of atomic operations in global memory whose old values nobody needs. Drivers keep the result of an `atom` that is not
/// used, which takes a third more time (driver 580, H100).
void useReductions(llvm::Module &module, unsigned global, llvm::SyncScope::ID device) {
  llvm::SmallVector<llvm::AtomicRMWInst *> updates;
  for (llvm::Function &function : module)
    for (llvm::Instruction &instruction : llvm::instructions(function))
      if (auto *update = llvm::dyn_cast<llvm::AtomicRMWInst>(&instruction))
        if (update->use_empty() && update->getOrdering() == llvm::AtomicOrdering::Monotonic && update->getSyncScopeID() == device &&
            llvm::getUnderlyingObject(update->getPointerOperand())->getType()->getPointerAddressSpace() == global)
          updates.push_back(update);
  for (llvm::AtomicRMWInst *update : updates) {
    std::string name = nameReduction(*update);
    if (name.empty()) continue;
    llvm::IRBuilder<> at(update);
    llvm::Value *pointer = at.CreateAddrSpaceCast(update->getPointerOperand(), at.getPtrTy(global)), *value = update->getValOperand();
    auto *type = llvm::FunctionType::get(at.getVoidTy(), {pointer->getType(), value->getType()}, false);
    llvm::StringRef kind = value->getType()->isFloatTy()       ? "f"
                           : value->getType()->isDoubleTy()    ? "d"
                           : value->getType()->isIntegerTy(32) ? "r"
                                                               : "l";
    std::string constraints = ("l," + kind + ",~{memory}").str();
    at.CreateCall(llvm::InlineAsm::get(type, "red.relaxed.gpu.global." + name + " [$0], $1;", constraints, /*hasSideEffects=*/true),
                  {pointer, value});
    update->eraseFromParent();
  }
}

/// Of each thread, unless the driver is told otherwise.
constexpr int64_t kDriversStackBytes = 1024;

class CudaTarget : public Target {
public:
  explicit CudaTarget(llvm::StringRef capability) : capability(capability.str()), features(chooseFeatures(capability)) {
    traits.subgroupSize = qd::cuda::kSubgroupSize;
    traits.maxBlockThreads = qd::cuda::kMaxBlockThreads;
    traits.maxSharedBytes = qd::cuda::kMaxSharedBytes;
    traits.maxCopyBytes = qd::cuda::kMaxCopyBytes;
    traits.maxParameterBytes = qd::cuda::kMaxParameterBytes;
    traits.hasGrids = traits.hasFma = traits.hasF16Arithmetic = true;
    traits.hasEarlyLaunch = traits.hasVectorAtomics = getNumber(capability) >= 90;
  }

  const char *getFileSuffix() const override { return ".ptx"; }
  bool isText() const override { return true; }
  const passes::TargetTraits &getTraits() const override { return traits; }
  const codegen::GridTarget *getGrid() const override { return grid.get(); }
  int64_t getStackBytes(const support::Options &options) const override {
    using support::Option;
    if (!options.getBool(Option::debug)) return 0;
    int64_t bytes = options.getInt(Option::cuda_stack_limit);
    return bytes > 0 ? bytes : kDriversStackBytes;
  }

  mlir::LogicalResult emit(mlir::ModuleOp source, const TargetOptions &options, Stages &stages,
                           artifact::Artifact &artifact) const override {
    Emission emission(source, *this, options, stages, artifact);
    if (emission.isOver()) return emission.getResult();
    llvm::Module &module = emission.getModule();
    LeakOnCancel machine(makeMachine(capability, features, options.optLevel));
    setMachine(module, *machine);
    linkDeviceLibrary(module);
    inlineRareParts(module);
    setMachine(module, *machine);
    stages.finish("device library");
    stages.begin("optimizing");
    optimize(module, *machine, options.optLevel);
    codegen::stageStores(module, artifact, *grid, traits);
    useFastInstructions(module);
    const llvm::SyncScope::ID device = module.getContext().getOrInsertSyncScopeID(grid->getDeviceScope());
    useReductions(module, grid->getAddressSpaces().global, device);
    wrapMagnitudes(module);
    widenNegations(module);
    splitHalfwords(module);
    splitMaskTests(module);
    if (!emission.finishOptimizing()) return mlir::success();
    splitOffsets(module);
    narrowFactors(module);
    stages.begin("machine code");
    Object ptx = emitObject(module, *machine, llvm::CodeGenFileType::AssemblyFile);
    if (llvm::StringRef path = stages.findReplay(".s"); !path.empty()) {
      auto edited = llvm::MemoryBuffer::getFile(path);
      if (!edited) throw std::runtime_error(path.str() + ": " + edited.getError().message());
      ptx.assign((*edited)->getBufferStart(), (*edited)->getBufferEnd());
    }
    if (!stages.finish("4_asm.s", [&](llvm::raw_ostream &output) { output << llvm::StringRef(ptx.data(), ptx.size()); }))
      return mlir::success();
    artifact.binary.assign(ptx.begin(), ptx.end());
    artifact.backend = "cuda";
    return mlir::success();
  }

private:
  std::string capability, features;
  passes::TargetTraits traits;
  std::unique_ptr<codegen::GridTarget> grid = makeGridTarget(getNumber(capability));
};

} // namespace

/// PTX for a device of this compute capability: "sm_90".
std::unique_ptr<Target> makeTarget(llvm::StringRef capability) {
  return std::make_unique<CudaTarget>(capability.empty() ? "sm_90" : capability);
}

} // namespace qd::backends::cuda
