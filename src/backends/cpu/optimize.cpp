// optimize.cpp: optimizations and workarounds for the code generators of processors
//
// Runs after the shared pipeline (backends/optimize.cpp). Long functions get tables of literals and short blocks, because the code
// generator is quadratic in both.
#include "backends/cpu/steps.h"
#include "backends/replace_instructions.h"

#include "llvm/ADT/MapVector.h"
#include "llvm/Analysis/VectorUtils.h"
#include "llvm/IR/IRBuilder.h"
#include "llvm/IR/InlineAsm.h"
#include "llvm/IR/InstIterator.h"
#include "llvm/IR/IntrinsicInst.h"
#include "llvm/IR/IntrinsicsX86.h"
#include "llvm/IR/PatternMatch.h"

namespace qd::backends::cpu {

void setProcessor(llvm::Module &module, const Processor &processor, llvm::TargetMachine &machine) {
  module.setTargetTriple(processor.triple);
  module.setDataLayout(machine.createDataLayout());
  std::string width = std::to_string(processor.traits.vectorBytes * 8);
  for (llvm::Function &function : module) {
    if (function.isIntrinsic()) continue;
    function.addFnAttr("target-cpu", processor.name);
    function.addFnAttr("target-features", processor.features);
    // Some processors are tuned for narrower registers by default; emitted loops use the widest.
    function.addFnAttr("prefer-vector-width", width);
    function.addFnAttr("min-legal-vector-width", width);
    // Newer x86 processors predict that addresses relative to rbp are on the stack: with rbp as the base of an array's row, a stencil loses
    // 10 %.
    function.addFnAttr("frame-pointer", "all");
    function.setDoesNotThrow();
  }
}

/// The code generator searches each literal among all literals of the function. Functions with at least this many load them from a table
/// instead, at one instruction each.
constexpr unsigned kManyLiterals = 4096;

/// The float that an operand has in every lane; null for other operands, and for zero, which needs no memory.
static llvm::ConstantFP *findLiteral(llvm::Value *operand) {
  auto *constant = llvm::dyn_cast<llvm::Constant>(operand);
  if (constant && constant->getType()->isVectorTy()) constant = constant->getSplatValue();
  auto *literal = llvm::dyn_cast_or_null<llvm::ConstantFP>(constant);
  return literal && !literal->isZero() ? literal : nullptr;
}

/// Puts the literals of a function with many literals into tables, one per type.
static void tabulateLiterals(llvm::Function &function) {
  llvm::MapVector<llvm::Type *, llvm::MapVector<llvm::ConstantFP *, llvm::SmallVector<llvm::Use *, 2>>> tables;
  for (llvm::Instruction &instruction : llvm::instructions(function)) {
    if (llvm::isa<llvm::PHINode, llvm::IntrinsicInst>(instruction)) continue;
    for (llvm::Use &use : instruction.operands())
      if (llvm::ConstantFP *literal = findLiteral(use)) tables[literal->getType()][literal].push_back(&use);
  }
  for (auto &[type, literals] : tables) {
    if (literals.size() < kManyLiterals) continue;
    auto *listType = llvm::ArrayType::get(type, literals.size());
    llvm::SmallVector<llvm::Constant *> values(llvm::make_first_range(literals));
    auto *table = new llvm::GlobalVariable(*function.getParent(), listType, /*isConstant=*/true, llvm::GlobalValue::InternalLinkage,
                                           llvm::ConstantArray::get(listType, values), "literals");
    // Otherwise the loads would be folded back to literals.
    table->setExternallyInitialized(true);
    for (auto [index, entry] : llvm::enumerate(literals)) {
      for (llvm::Use *use : entry.second) {
        llvm::IRBuilder<> builder(llvm::cast<llvm::Instruction>(use->getUser()));
        llvm::LoadInst *load = builder.CreateLoad(type, builder.CreateConstInBoundsGEP2_64(listType, table, 0, index));
        load->setMetadata(llvm::LLVMContext::MD_invariant_load, llvm::MDNode::get(function.getContext(), {}));
        auto *vector = llvm::dyn_cast<llvm::FixedVectorType>(use->get()->getType());
        use->set(vector ? builder.CreateVectorSplat(vector->getNumElements(), load) : load);
      }
    }
  }
}

/// The code generator takes time quadratic in a block's length, because it walks all uses of a constant in the block. Longer blocks are
/// therefore split after this many instructions.
constexpr unsigned kLongestBlock = 512;

/// Splits a long block by branches that are never taken, but that no pass can fold: they test a zero that the code generator cannot see.
/// This costs three instructions per split.
static void splitLongBlock(llvm::BasicBlock &block, llvm::BasicBlock *&never) {
  std::vector<llvm::Instruction *> cuts;
  unsigned count = 0;
  for (llvm::Instruction &instruction : block) {
    if (++count % kLongestBlock == 0 && !llvm::isa<llvm::PHINode, llvm::AllocaInst>(instruction) && !instruction.isTerminator())
      cuts.push_back(&instruction);
  }
  if (count < 2 * kLongestBlock) return;
  llvm::Function &function = *block.getParent();
  llvm::LLVMContext &ctx = function.getContext();
  if (!never) {
    never = llvm::BasicBlock::Create(ctx, "never", &function);
    new llvm::UnreachableInst(ctx, never);
  }
  llvm::Type *number = llvm::Type::getInt32Ty(ctx);
  auto *type = llvm::FunctionType::get(number, {number}, false);
  llvm::InlineAsm *unknown = llvm::InlineAsm::get(type, "", "=r,0", false);
  // From last to first: each split moves the instructions after it.
  for (llvm::Instruction *cut : llvm::reverse(cuts)) {
    llvm::BasicBlock *rest = block.splitBasicBlock(cut->getIterator(), "split");
    block.getTerminator()->eraseFromParent();
    llvm::IRBuilder<> builder(&block);
    builder.CreateCondBr(builder.CreateIsNotNull(builder.CreateCall(type, unknown, builder.getInt32(0))), never, rest);
  }
}

static void splitLongBlocks(llvm::Module &module) {
  for (llvm::Function &function : module) {
    llvm::BasicBlock *never = nullptr;
    for (llvm::BasicBlock &block : llvm::make_early_inc_range(function)) splitLongBlock(block, never);
  }
}

/// 1 / sqrt(x) from the processor's estimate of 14 bits and two Newton steps, to 0.8 ulp. Where a step has no value (0, infinity), the
/// estimate is exact.
static llvm::Value *emitReciprocalRoot(llvm::IRBuilder<> &builder, llvm::Value *x) {
  constexpr unsigned kWidth = 8;
  const unsigned lanes = llvm::cast<llvm::FixedVectorType>(x->getType())->getNumElements();
  llvm::SmallVector<llvm::Value *, 2> parts;
  for (unsigned begin = 0; begin < lanes; begin += kWidth) {
    llvm::Value *part = builder.CreateShuffleVector(x, llvm::createSequentialMask(begin, kWidth, 0));
    llvm::Value *operands[] = {part, llvm::Constant::getNullValue(part->getType()), builder.getInt8(0xff)};
    parts.push_back(builder.CreateIntrinsic(llvm::Intrinsic::x86_avx512_rsqrt14_pd_512, {}, operands));
  }
  auto fma = [&](llvm::Value *a, llvm::Value *b, llvm::Value *c) {
    return builder.CreateIntrinsic(llvm::Intrinsic::fma, {x->getType()}, {a, b, c});
  };
  llvm::Value *estimate = llvm::concatenateVectors(builder, parts), *root = estimate, *rest = nullptr;
  for (int step = 0; step < 2; ++step) {
    llvm::Value *product = builder.CreateFMul(x, root), *half = builder.CreateFMul(root, llvm::ConstantFP::get(x->getType(), 0.5));
    rest = fma(builder.CreateFNeg(product), root, llvm::ConstantFP::get(x->getType(), 1.0));
    // The rounding error of the product, which the last step would keep.
    if (step == 1) rest = fma(builder.CreateFNeg(fma(x, root, builder.CreateFNeg(product))), root, rest);
    root = fma(half, rest, root);
  }
  return builder.CreateSelect(builder.CreateFCmpUNO(rest, rest), estimate, root);
}

/// Under fast_math, divides vectors of f64 by square roots without division and root, which take three times as long. LLVM does so for f32.
static void estimateRoots(llvm::Function &function) {
  if (function.getFnAttribute("prefer-vector-width").getValueAsString() != "512") return; // as setProcessor sets it for AVX-512
  for (llvm::Instruction &instruction : llvm::make_early_inc_range(llvm::instructions(function))) {
    auto *vector = llvm::dyn_cast<llvm::FixedVectorType>(instruction.getType());
    if (instruction.getOpcode() != llvm::Instruction::FDiv || !vector || !vector->getElementType()->isDoubleTy()) continue;
    auto *root = llvm::dyn_cast<llvm::IntrinsicInst>(instruction.getOperand(1));
    const bool isRoot = root && root->getIntrinsicID() == llvm::Intrinsic::sqrt && root->hasOneUse();
    if (!isRoot || !instruction.hasAllowReciprocal() || !instruction.hasApproxFunc() || vector->getNumElements() % 8 != 0) continue;
    llvm::IRBuilder<> builder(&instruction);
    llvm::Value *reciprocal = emitReciprocalRoot(builder, root->getArgOperand(0));
    builder.setFastMathFlags(instruction.getFastMathFlags());
    instruction.replaceAllUsesWith(builder.CreateFMul(instruction.getOperand(0), reciprocal));
    instruction.eraseFromParent();
    root->eraseFromParent();
  }
}

/// Under fast_math, writes minima and maxima as comparisons. The instructions of x64 return the second operand if either is a NaN, and LLVM
/// tests the result for that, so that each one of a chain waits for the test of the one before. Here the operand is tested that is no part
/// of the chain.
static void compareExtrema(llvm::Function &function) {
  if (!function.getParent()->getTargetTriple().isX86()) return;
  replaceInstructions(function, [](llvm::Instruction &instruction) -> llvm::Value * {
    auto *extremum = llvm::dyn_cast<llvm::IntrinsicInst>(&instruction);
    const llvm::Intrinsic::ID id = extremum ? extremum->getIntrinsicID() : llvm::Intrinsic::not_intrinsic;
    if (id != llvm::Intrinsic::minimumnum && id != llvm::Intrinsic::maximumnum) return nullptr;
    llvm::Value *chain = extremum->getArgOperand(0), *other = extremum->getArgOperand(1);
    llvm::Type *scalar = extremum->getType()->getScalarType();
    if (!extremum->hasNoSignedZeros() || !(scalar->isFloatTy() || scalar->isDoubleTy())) return nullptr;
    if (llvm::isa<llvm::Constant>(chain) || llvm::isa<llvm::Constant>(other)) return nullptr; // LLVM needs no test
    if (llvm::isa<llvm::PHINode>(other)) std::swap(chain, other);
    llvm::IRBuilder<> builder(extremum);
    const bool isMinimum = id == llvm::Intrinsic::minimumnum;
    llvm::Value *isChain = isMinimum ? builder.CreateFCmpOLT(chain, other) : builder.CreateFCmpOGT(chain, other);
    llvm::Value *result = builder.CreateSelect(isChain, chain, other);
    return builder.CreateSelect(builder.CreateFCmpUNO(other, other), chain, result);
  });
}

/// Computes the lanes that stay in a loop, `live & ~(live & leaves)`, in one step from `live`. LLVM writes an exclusive or of `live` and
/// the inner mask: the next iteration waits for both.
static void shortenMasks(llvm::Function &function) {
  using namespace llvm::PatternMatch;
  replaceInstructions(function, [](llvm::Instruction &instruction) -> llvm::Value * {
    llvm::Value *live, *leaves;
    llvm::Type *type = instruction.getType();
    if (!type->isVectorTy() || !type->isIntOrIntVectorTy(1)) return nullptr;
    if (!match(&instruction, m_c_Xor(m_c_And(m_Value(live), m_Value(leaves)), m_Deferred(live))) &&
        !match(&instruction, m_c_Xor(m_c_And(m_Value(leaves), m_Value(live)), m_Deferred(live))))
      return nullptr;
    llvm::IRBuilder<> builder(&instruction);
    return builder.CreateAnd(live, builder.CreateNot(leaves));
  });
}

void optimize(llvm::Module &module, llvm::TargetMachine &machine, int optLevel) {
  backends::optimize(module, machine, optLevel);
  for (llvm::Function &function : module) {
    estimateRoots(function);
    compareExtrema(function);
    shortenMasks(function);
    tabulateLiterals(function);
  }
  // Last: no later pass may join the blocks.
  splitLongBlocks(module);
}

} // namespace qd::backends::cpu
