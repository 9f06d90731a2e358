// target.cpp: the CUDA target: lowered IR → LLVM IR → PTX. The device's driver compiles the PTX to machine code.
//
// In:   a lowered module, and a compute capability.
// Out:  the binary of the artifact: PTX as text, for the oldest version that has what the code uses.
#include "backends/cuda/grid_target.h"
#include "backends/cuda/index_arithmetic.h"
#include "backends/cuda/limits.h"
#include "backends/replace_instructions.h"
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
CodeGenerator makeCodeGenerator(llvm::StringRef device, llvm::StringRef features, int optLevel) {
  static const bool isRegistered = [] {
    LLVMInitializeNVPTXTargetInfo();
    LLVMInitializeNVPTXTarget();
    LLVMInitializeNVPTXTargetMC();
    LLVMInitializeNVPTXAsmPrinter();
    return true;
  }();
  (void)isRegistered;
  return CodeGenerator(llvm::Triple("nvptx64-nvidia-cuda"), device, features, optLevel);
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
  replaceInstructions(module, [](llvm::Instruction &quotient) -> llvm::Value * {
    const bool isQuotient = quotient.getOpcode() == llvm::Instruction::FDiv && quotient.getType()->getScalarType()->isFloatTy();
    if (!isQuotient || !quotient.hasApproxFunc()) return nullptr;
    llvm::IRBuilder<> builder(&quotient);
    llvm::Value *left = quotient.getOperand(0), *right = quotient.getOperand(1), *result = llvm::PoisonValue::get(quotient.getType());
    auto *vector = llvm::dyn_cast<llvm::FixedVectorType>(quotient.getType());
    if (!vector) return emitFastQuotient(builder, left, right);
    for (unsigned i = 0; i < vector->getNumElements(); ++i) {
      llvm::Value *a = builder.CreateExtractElement(left, i), *b = builder.CreateExtractElement(right, i), *radicand;
      using namespace llvm::PatternMatch;
      // Take the root per lane, so that emitFastQuotient recognizes it.
      if (match(right, m_Intrinsic<llvm::Intrinsic::sqrt>(m_Value(radicand))))
        b = builder.CreateUnaryIntrinsic(llvm::Intrinsic::sqrt, builder.CreateExtractElement(radicand, i));
      result = builder.CreateInsertElement(result, emitFastQuotient(builder, a, b), i);
    }
    return result;
  });
}

/// The magnitude of integers as the smaller of the unsigned `x` and `-x`: ptxas takes the result of `abs.s32` for at least 0, which that of
/// the smallest integer is not, and leaves out what a condition guards (CUDA 13.0).
void wrapMagnitudes(llvm::Module &module) {
  replaceInstructions(module, [](llvm::Instruction &instruction) -> llvm::Value * {
    using namespace llvm::PatternMatch;
    llvm::Value *value;
    // The second argument is set where the smallest integer does not occur.
    bool mayWrap = match(&instruction, m_Intrinsic<llvm::Intrinsic::abs>(m_Value(value), m_Zero()));
    if (!mayWrap || instruction.getType()->getScalarSizeInBits() < 32) return nullptr;
    llvm::IRBuilder<> builder(&instruction);
    return builder.CreateBinaryIntrinsic(llvm::Intrinsic::umin, value, builder.CreateNeg(value));
  });
}

/// Negates 16-bit integers in 32 bits. ptxas merges the negation and a following conversion to 32 bits into a 32-bit negation, which is
/// wrong for the smallest integer (CUDA 13.0; remove this function when ptxas is fixed).
void widenNegations(llvm::Module &module) {
  replaceInstructions(module, [](llvm::Instruction &instruction) -> llvm::Value * {
    using namespace llvm::PatternMatch;
    llvm::Value *value;
    bool isAbsolute = match(&instruction, m_Intrinsic<llvm::Intrinsic::abs>(m_Value(value)));
    if (!isAbsolute && !match(&instruction, m_Neg(m_Value(value)))) return nullptr;
    llvm::Type *type = instruction.getType();
    if (type->getScalarSizeInBits() > 16) return nullptr;
    llvm::IRBuilder<> builder(&instruction);
    llvm::Value *wide = builder.CreateSExt(value, type->getWithNewBitWidth(32));
    wide = isAbsolute ? builder.CreateBinaryIntrinsic(llvm::Intrinsic::abs, wide, builder.getTrue()) : builder.CreateNeg(wide);
    return builder.CreateTrunc(wide, type);
  });
}

/// Whether any lane of a mask holds, which LLVM compares as an integer: NVPTX would shift the lanes together.
void splitMaskTests(llvm::Module &module) {
  replaceInstructions(module, [](llvm::Instruction &instruction) -> llvm::Value * {
    using namespace llvm::PatternMatch;
    auto *test = llvm::dyn_cast<llvm::ICmpInst>(&instruction);
    llvm::Value *mask;
    if (!test || !test->isEquality() || !match(test, m_ICmp(m_BitCast(m_Value(mask)), m_Zero()))) return nullptr;
    auto *type = llvm::dyn_cast<llvm::FixedVectorType>(mask->getType());
    if (!type || !type->getElementType()->isIntegerTy(1)) return nullptr;
    llvm::IRBuilder<> builder(test);
    llvm::Value *any = builder.getFalse();
    for (unsigned i = 0; i < type->getNumElements(); ++i) any = builder.CreateOr(any, builder.CreateExtractElement(mask, i));
    return test->getPredicate() == llvm::ICmpInst::ICMP_NE ? any : builder.CreateNot(any);
  });
}

/// Adds and compares vectors of 16-bit integers one by one. The driver loses the upper half of a constant that is added to a pair of them
/// (driver 580, H200; remove this function when that is fixed).
void splitHalfwords(llvm::Module &module) {
  replaceInstructions(module, [](llvm::Instruction &instruction) -> llvm::Value * {
    bool isSum = instruction.getOpcode() == llvm::Instruction::Add || instruction.getOpcode() == llvm::Instruction::Sub;
    auto *extremum = llvm::dyn_cast<llvm::MinMaxIntrinsic>(&instruction);
    auto *type = llvm::dyn_cast<llvm::FixedVectorType>(instruction.getType());
    if ((!isSum && !extremum) || !type || type->getScalarSizeInBits() != 16) return nullptr;
    llvm::IRBuilder<> builder(&instruction);
    llvm::Value *result = llvm::PoisonValue::get(type);
    for (unsigned i = 0; i < type->getNumElements(); ++i) {
      llvm::Value *left = builder.CreateExtractElement(instruction.getOperand(0), i);
      llvm::Value *right = builder.CreateExtractElement(instruction.getOperand(1), i);
      llvm::Value *one = extremum ? builder.CreateBinaryIntrinsic(extremum->getIntrinsicID(), left, right)
                                  : builder.CreateBinOp(llvm::Instruction::BinaryOps(instruction.getOpcode()), left, right);
      result = builder.CreateInsertElement(result, one, i);
    }
    return result;
  });
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
    CodeGenerator machine = makeCodeGenerator(capability, features, options.optLevel);
    setMachine(module, *machine);
    linkDeviceLibrary(module);
    inlineRareParts(module);
    setMachine(module, *machine);
    stages.finish("device library");
    stages.begin("optimizing");
    optimize(module, *machine, options.optLevel);
    inferAddressSpaces(module, machine->getTargetIRAnalysis());
    inferAlignments(module, machine->getTargetIRAnalysis());
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
    Object ptx = machine.emit(module, llvm::CodeGenFileType::AssemblyFile);
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
