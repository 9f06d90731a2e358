// index_arithmetic.cpp: 64-bit addresses of 32-bit indices in the instructions that PTX has for them
//
// In:   optimized IR, whose addresses are sums of bytes: an index is extended to 64 bits and multiplied by its stride.
// Out:  the same addresses as `mul.wide.s32` and constant offsets of accesses. LLVM's code generator finds the product only where the index
//       is extended in the product's block, and the offset only where the index has 64 bits.
#include "backends/cuda/index_arithmetic.h"
#include "backends/replace_instructions.h"

#include "llvm/Analysis/ValueTracking.h"
#include "llvm/IR/Dominators.h"
#include "llvm/IR/IRBuilder.h"
#include "llvm/IR/InlineAsm.h"
#include "llvm/IR/PatternMatch.h"

#include <map>

namespace qd::backends::cuda {

namespace P = llvm::PatternMatch;

/// The bytes of an address as `(extended x + summand) * stride`; nothing if they are not of this form.
struct IndexedBytes {
  llvm::Value *index;
  bool isSigned;
  int64_t summand, stride;
};

static std::optional<IndexedBytes> findSummand(llvm::Value *bytes) {
  llvm::Value *extended = bytes, *scaled, *x;
  const llvm::APInt *factor, *summand;
  int64_t stride = 1;
  // A pattern that does not match may have set its first value.
  if (P::match(bytes, P::m_Shl(P::m_Value(scaled), P::m_APInt(factor))) && factor->ult(31)) {
    extended = scaled;
    stride = int64_t(1) << factor->getZExtValue();
  } else if (P::match(bytes, P::m_Mul(P::m_Value(scaled), P::m_APInt(factor)))) {
    extended = scaled;
    stride = factor->getSExtValue();
  }
  if (P::match(extended, P::m_SExt(P::m_NSWAdd(P::m_Value(x), P::m_APInt(summand))))) return {{x, true, summand->getSExtValue(), stride}};
  if (P::match(extended, P::m_ZExt(P::m_NUWAdd(P::m_Value(x), P::m_APInt(summand)))))
    return {{x, false, int64_t(summand->getZExtValue()), stride}};
  return std::nullopt;
}

void splitOffsets(llvm::Module &module) {
  replaceInstructions(module, [](llvm::Instruction &instruction) -> llvm::Value * {
    auto *address = llvm::dyn_cast<llvm::GetElementPtrInst>(&instruction);
    if (!address || address->getType()->isVectorTy() || !address->getSourceElementType()->isIntegerTy(8)) return nullptr;
    llvm::Value *offset = address->getOperand(1);
    std::optional<IndexedBytes> bytes = offset->getType()->isIntegerTy(64) ? findSummand(offset) : std::nullopt;
    if (!bytes) return nullptr;
    llvm::IRBuilder<> builder(address);
    llvm::Value *index = builder.CreateIntCast(bytes->index, builder.getInt64Ty(), bytes->isSigned);
    llvm::Value *base = builder.CreatePtrAdd(address->getPointerOperand(), builder.CreateMul(index, builder.getInt64(bytes->stride)));
    return builder.CreatePtrAdd(base, builder.getInt64(bytes->summand * bytes->stride));
  });
}

/// The factors of a 64-bit product. Shifts of indices that are loaded count: LLVM would extend them where they are loaded, and would
/// compare them in 64 bits. Other multiples by constants do not: LLVM finds neighboring addresses by them.
static std::optional<std::pair<llvm::Value *, llvm::Value *>> findFactors(llvm::Instruction &product) {
  llvm::Value *left, *right, *loaded;
  const llvm::APInt *factor;
  if (!product.getType()->isIntegerTy(64)) return std::nullopt;
  auto isLoaded = [&] { return P::match(left, P::m_SExt(P::m_Value(loaded))) && llvm::isa<llvm::LoadInst>(loaded); };
  if (P::match(&product, P::m_Shl(P::m_Value(left), P::m_APInt(factor))) && factor->ult(31) && isLoaded())
    return {{left, llvm::ConstantInt::get(product.getType(), uint64_t(1) << factor->getZExtValue())}};
  if (!P::match(&product, P::m_Mul(P::m_Value(left), P::m_Value(right)))) return std::nullopt;
  if (llvm::isa<llvm::Constant>(right) && !isLoaded()) return std::nullopt;
  return {{left, right}};
}

void narrowFactors(llvm::Module &module) {
  const llvm::DataLayout &layout = module.getDataLayout();
  llvm::Type *i32 = llvm::Type::getInt32Ty(module.getContext()), *i64 = llvm::Type::getInt64Ty(module.getContext());
  auto skipExtension = [&](llvm::Value *value) {
    llvm::Value *narrow;
    return P::match(value, P::m_SExt(P::m_Value(narrow))) && narrow->getType() == i32 ? narrow : value;
  };
  auto isNarrow = [&](llvm::Value *value) { return llvm::ComputeNumSignBits(value, layout) > 32; };
  llvm::SmallVector<llvm::Instruction *> products;
  for (llvm::Function &function : module)
    for (llvm::Instruction &instruction : llvm::instructions(function)) {
      auto factors = findFactors(instruction);
      if (factors && isNarrow(factors->first) && isNarrow(factors->second)) products.push_back(&instruction);
    }
  auto *type = llvm::FunctionType::get(i64, {i32, i32}, false);
  llvm::InlineAsm *multiply = llvm::InlineAsm::get(type, "mul.wide.s32 $0, $1, $2;", "=l,r,r", /*hasSideEffects=*/false);
  // Equal products are one value, so that LLVM sees which addresses are neighbors.
  std::map<std::pair<llvm::Value *, llvm::Value *>, llvm::SmallVector<llvm::CallInst *, 1>> known;
  std::map<llvm::Function *, llvm::DominatorTree> dominators;
  for (llvm::Instruction *product : products) {
    // Products before this one, which may be its factors, are replaced.
    auto factors = findFactors(*product);
    if (!factors) continue;
    llvm::Value *left = skipExtension(factors->first), *right = skipExtension(factors->second);
    llvm::Function *function = product->getFunction();
    llvm::DominatorTree &tree = dominators.try_emplace(function, *function).first->second;
    llvm::SmallVector<llvm::CallInst *, 1> &equal = known[{left, right}];
    auto *found = llvm::find_if(equal, [&](llvm::CallInst *before) { return tree.dominates(before, product); });
    if (found == equal.end()) {
      llvm::IRBuilder<> builder(product);
      llvm::CallInst *wide = builder.CreateCall(multiply, {builder.CreateTrunc(left, i32), builder.CreateTrunc(right, i32)});
      wide->setDoesNotAccessMemory();
      wide->setDoesNotThrow();
      wide->addFnAttr(llvm::Attribute::WillReturn); // accesses before and after it are still vectorized
      found = &equal.emplace_back(wide);
    }
    product->replaceAllUsesWith(*found);
    product->eraseFromParent();
  }
  // Extensions that nothing uses would still be merged with loads.
  for (llvm::Function &function : module)
    for (llvm::Instruction &instruction : llvm::make_early_inc_range(llvm::instructions(function)))
      if (llvm::isa<llvm::SExtInst>(instruction) && instruction.use_empty()) instruction.eraseFromParent();
}

} // namespace qd::backends::cuda
