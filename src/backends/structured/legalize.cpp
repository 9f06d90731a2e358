// legalize.cpp: LLVM IR → the part of LLVM IR that writers have instructions for
//
// In:   optimized IR; all calls are inlined.
// Out:  scalars only; of LLVM's intrinsics those of `isWritten`. legalize_parts.h lists the operations.
#include "backends/replace_instructions.h"
#include "backends/structured/grid_target.h"
#include "backends/structured/legalize_parts.h"
#include "devlib/marks.h"
#include "support/error.h"

#include "llvm/Analysis/VectorUtils.h"
#include "llvm/IR/Assumptions.h"
#include "llvm/IR/Dominators.h"
#include "llvm/IR/InstIterator.h"
#include "llvm/IR/PassInstrumentation.h"
#include "llvm/Transforms/Scalar/Scalarizer.h"
#include "llvm/Transforms/Utils/BasicBlockUtils.h"
#include "llvm/Transforms/Utils/Local.h"

namespace qd::backends::structured {

void refuse(const llvm::Twine &what) {
  throw support::Error(support::ErrorKind::Runtime, "a kernel cannot be compiled for this device: " + what.str());
}

unsigned getContainerBits(unsigned bits) {
  if (bits > 64) refuse("integers of " + llvm::Twine(bits) + " bits");
  return std::max(8u, unsigned(llvm::PowerOf2Ceil(bits)));
}

void inlineEverything(llvm::Module &module, llvm::ArrayRef<std::string> entries) {
  for (llvm::Function &function : module) {
    function.removeFnAttr("target-cpu");
    function.removeFnAttr("target-features");
    function.removeFnAttr("tune-cpu");
    if (function.isDeclaration() || llvm::is_contained(entries, function.getName())) continue;
    function.setLinkage(llvm::GlobalValue::InternalLinkage);
    if (function.getName().starts_with(kDoubleRoutine)) {
      function.removeFnAttr(llvm::Attribute::AlwaysInline);
      function.addFnAttr(llvm::Attribute::NoInline);
      continue;
    }
    for (auto attribute : {llvm::Attribute::NoInline, llvm::Attribute::OptimizeNone, llvm::Attribute::Cold})
      function.removeFnAttr(attribute);
    function.addFnAttr(llvm::Attribute::AlwaysInline);
    for (llvm::User *user : function.users())
      if (auto *call = llvm::dyn_cast<llvm::CallInst>(user)) call->removeFnAttr(llvm::Attribute::NoInline);
  }
}

void moveTables(llvm::Module &module) {
  for (llvm::GlobalVariable &table : llvm::make_early_inc_range(module.globals())) {
    if (!table.isConstant() || table.getAddressSpace() != 0 || !table.hasInitializer()) continue;
    auto *moved = new llvm::GlobalVariable(module, table.getValueType(), /*isConstant=*/true, llvm::GlobalValue::InternalLinkage,
                                           table.getInitializer(), "", nullptr, llvm::GlobalValue::NotThreadLocal, kConstant);
    moved->takeName(&table);
    moved->setAlignment(table.getAlign());
    table.replaceAllUsesWith(llvm::ConstantExpr::getAddrSpaceCast(moved, table.getType()));
    table.eraseFromParent();
  }
}

namespace {

//--- Memory ---

/// Bytes that the accesses of a copy should have: those of the elements of a local or shared array, if that is known.
uint64_t getUnit(llvm::Value *pointer, llvm::Align align) {
  llvm::Value *root = pointer->stripInBoundsOffsets();
  llvm::Type *type = nullptr;
  if (auto *local = llvm::dyn_cast<llvm::AllocaInst>(root)) type = local->getAllocatedType();
  if (auto *global = llvm::dyn_cast<llvm::GlobalVariable>(root)) type = global->getValueType();
  while (auto *array = llvm::dyn_cast_or_null<llvm::ArrayType>(type)) type = array->getElementType();
  uint64_t bytes = type && type->isSingleValueType() ? type->getPrimitiveSizeInBits().getFixedValue() / 8 : 8;
  return std::min<uint64_t>(align.value(), std::clamp<uint64_t>(bytes, 1, 8));
}

/// A loop over the units of a copy, or of a memset.
void expandMemory(llvm::AnyMemIntrinsic &copy) {
  auto *transfer = llvm::dyn_cast<llvm::AnyMemTransferInst>(&copy);
  auto *length = llvm::dyn_cast<llvm::ConstantInt>(copy.getLength());
  uint64_t unit = getUnit(copy.getDest(), copy.getDestAlign().valueOrOne());
  if (transfer) unit = std::min(unit, getUnit(transfer->getSource(), transfer->getSourceAlign().valueOrOne()));
  while (unit > 1 && (!length || length->getZExtValue() % unit)) unit /= 2;
  if (copy.getIntrinsicID() == I::memmove) refuse("a copy of memory that may overlap");
  Builder at(&copy);
  llvm::Type *word = at.getIntNTy(unsigned(unit * 8));
  llvm::Value *filling = nullptr;
  if (auto *fill = llvm::dyn_cast<llvm::AnyMemSetInst>(&copy)) {
    filling = at.CreateZExt(fill->getValue(), word);
    filling = at.CreateMul(filling, llvm::ConstantInt::get(word, llvm::APInt::getSplat(unsigned(unit * 8), llvm::APInt(8, 1))));
  }
  auto copyUnit = [&](Builder &in, llvm::Value *index) {
    llvm::Value *value = filling;
    if (!value) value = in.CreateAlignedLoad(word, in.CreateGEP(word, transfer->getSource(), index), llvm::Align(unit));
    in.CreateAlignedStore(value, in.CreateGEP(word, copy.getDest(), index), llvm::Align(unit));
  };
  constexpr uint64_t kFew = 8;
  if (length && length->getZExtValue() <= kFew * unit) {
    for (uint64_t i = 0; i < length->getZExtValue() / unit; ++i) copyUnit(at, at.getInt32(unsigned(i)));
  } else {
    llvm::Value *count = at.CreateUDiv(at.CreateZExtOrTrunc(copy.getLength(), at.getInt64Ty()), at.getInt64(unit));
    llvm::Instruction *body = llvm::SplitBlockAndInsertIfThen(at.CreateIsNotNull(count), copy.getIterator(), false);
    auto [place, index] = llvm::SplitBlockAndInsertSimpleForLoop(count, body->getIterator());
    Builder in(place->getParent(), place->getIterator());
    copyUnit(in, index);
  }
  copy.eraseFromParent();
}

//--- The table ---

/// Intrinsics that the writer writes.
bool isWritten(const llvm::IntrinsicInst &call, const Abilities &device) {
  switch (call.getIntrinsicID()) {
  case I::ctpop:
  case I::ctlz:
  case I::cttz: return call.getType()->isIntegerTy(32);
  case I::floor:
  case I::ceil:
  case I::trunc:
  case I::rint:
  case I::nearbyint:
  case I::roundeven: return device.hasRounding64 || !call.getType()->isDoubleTy();
  case I::fabs:
  case I::sqrt:
  case I::readcyclecounter:
  case I::readsteadycounter: return true;
  case I::fma: return device.hasFma;
  default: return false;
  }
}

/// What replaces a call of an intrinsic; null: it has no effect.
llvm::Value *expand(Builder &at, llvm::IntrinsicInst &call, const Abilities &device) {
  auto get = [&](unsigned i) { return call.getArgOperand(i); };
  I::ID kind = call.getIntrinsicID();
  bool isFloat = llvm::isa<llvm::FPMathOperator>(call);
  llvm::FastMathFlags flags = isFloat ? call.getFastMathFlags() : llvm::FastMathFlags();
  at.setFastMathFlags(flags);
  switch (kind) {
  case I::assume:
  case I::experimental_noalias_scope_decl:
  case I::lifetime_start:
  case I::lifetime_end:
  case I::sideeffect:
  case I::dbg_value:
  case I::dbg_declare: return nullptr;
  case I::expect:
  case I::arithmetic_fence:
  case I::ssa_copy: return get(0);
  case I::ctpop:
  case I::ctlz:
  case I::cttz: return countBits(at, kind, get(0));
  case I::abs: { // without a comparison of signs: NVIDIA's driver would take the result for at least 0, which that of the smallest is not
    llvm::Value *negated = at.CreateNeg(get(0));
    return at.CreateSelect(at.CreateICmpULT(get(0), negated), get(0), negated);
  }
  case I::smin: return at.CreateSelect(at.CreateICmpSLT(get(0), get(1)), get(0), get(1));
  case I::smax: return at.CreateSelect(at.CreateICmpSGT(get(0), get(1)), get(0), get(1));
  case I::umin: return at.CreateSelect(at.CreateICmpULT(get(0), get(1)), get(0), get(1));
  case I::umax: return at.CreateSelect(at.CreateICmpUGT(get(0), get(1)), get(0), get(1));
  case I::ucmp:
  case I::scmp: {
    llvm::Value *isLess = kind == I::scmp ? at.CreateICmpSLT(get(0), get(1)) : at.CreateICmpULT(get(0), get(1));
    llvm::Value *isMore = kind == I::scmp ? at.CreateICmpSGT(get(0), get(1)) : at.CreateICmpUGT(get(0), get(1));
    return at.CreateSub(at.CreateZExt(isMore, call.getType()), at.CreateZExt(isLess, call.getType()));
  }
  case I::uadd_sat:
  case I::usub_sat:
  case I::sadd_sat:
  case I::ssub_sat: return saturate(at, kind, get(0), get(1));
  case I::fshl:
  case I::fshr: return rotate(at, kind == I::fshl, get(0), get(1), get(2));
  case I::bitreverse: return reverseBits(at, get(0));
  case I::bswap: return swapBytes(at, get(0));
  case I::fmuladd: return at.CreateFAdd(at.CreateFMul(get(0), get(1)), get(2));
  case I::floor:
  case I::ceil:
  case I::trunc:
  case I::rint:
  case I::nearbyint:
  case I::roundeven: return roundBySums(at, kind, get(0));
  case I::fma: return multiplyAdd(at, device.hasF64, get(0), get(1), get(2));
  case I::copysign: return copySign(at, get(0), get(1));
  case I::minnum:
  case I::minimumnum: return chooseExtremum(at, true, flags, get(0), get(1));
  case I::maxnum:
  case I::maximumnum: return chooseExtremum(at, false, flags, get(0), get(1));
  case I::is_fpclass: return testClass(at, get(0), unsigned(llvm::cast<llvm::ConstantInt>(get(1))->getZExtValue()));
  case I::round: return roundAway(at, get(0));
  case I::canonicalize: return get(0);
  case I::fptosi_sat:
  case I::fptoui_sat: return convertSaturating(at, kind == I::fptosi_sat, get(0), call.getType());
  default: break;
  }
  if (auto *check = llvm::dyn_cast<llvm::WithOverflowInst>(&call)) {
    auto [result, overflows] = checkOverflow(at, kind, check->getLHS(), check->getRHS());
    return at.CreateInsertValue(at.CreateInsertValue(llvm::PoisonValue::get(call.getType()), result, 0), overflows, 1);
  }
  refuse("no instructions exist for " + call.getCalledFunction()->getName());
}

void expandIntrinsics(llvm::Function &function, const Abilities &device) {
  llvm::SmallVector<llvm::IntrinsicInst *> calls;
  for (llvm::Instruction &instruction : llvm::instructions(function))
    if (auto *call = llvm::dyn_cast<llvm::IntrinsicInst>(&instruction)) calls.push_back(call);
  for (llvm::IntrinsicInst *call : calls) {
    if (auto *copy = llvm::dyn_cast<llvm::AnyMemIntrinsic>(call)) {
      expandMemory(*copy);
      continue;
    }
    if (isWritten(*call, device)) continue;
    Builder at(call);
    llvm::Value *result = expand(at, *call, device);
    if (result) {
      // Parts of a pair are read directly.
      for (llvm::User *user : llvm::make_early_inc_range(call->users()))
        if (auto *part = llvm::dyn_cast<llvm::ExtractValueInst>(user); part && llvm::isa<llvm::InsertValueInst>(result)) {
          auto *outer = llvm::cast<llvm::InsertValueInst>(result);
          bool isSecond = part->getIndices()[0] == 1;
          auto *own = isSecond ? outer : llvm::cast<llvm::InsertValueInst>(outer->getAggregateOperand());
          part->replaceAllUsesWith(own->getInsertedValueOperand());
          part->eraseFromParent();
        }
      call->replaceAllUsesWith(result);
    }
    call->eraseFromParent();
  }
  // What keeps LLVM from moving accesses of memory across a clock.
  for (llvm::Instruction &instruction : llvm::make_early_inc_range(llvm::instructions(function)))
    if (auto *call = llvm::dyn_cast<llvm::CallInst>(&instruction); call && call->isInlineAsm()) call->eraseFromParent();
  // Pairs of which only the parts are used.
  for (llvm::Instruction &instruction : llvm::make_early_inc_range(llvm::instructions(function)))
    if (llvm::isa<llvm::InsertValueInst>(instruction)) llvm::RecursivelyDeleteTriviallyDeadInstructions(&instruction);
}

/// Leaves of f64's intrinsics only absolute values, roots and fused products.
void expandDoubleIntrinsics(llvm::Module &module) {
  constexpr Abilities kNoRounding{.hasRounding64 = false};
  replaceInstructions(module, [&](llvm::Instruction &instruction) -> llvm::Value * {
    auto isDouble = [](const llvm::Value *value) { return value->getType()->isDoubleTy(); };
    auto *call = llvm::dyn_cast<llvm::IntrinsicInst>(&instruction);
    if (!call || (!isDouble(call) && llvm::none_of(call->args(), isDouble)) || isWritten(*call, kNoRounding)) return nullptr;
    Builder at(call);
    return expand(at, *call, kNoRounding);
  });
}

/// Results of compare-exchanges are pairs, of which only the parts exist.
void dropFrozenPairs(llvm::Function &function) {
  replaceInstructions(function, [](llvm::Instruction &instruction) {
    bool isFrozenPair = llvm::isa<llvm::FreezeInst>(instruction) && llvm::isa<llvm::AtomicCmpXchgInst>(instruction.getOperand(0));
    return isFrozenPair ? instruction.getOperand(0) : nullptr;
  });
}

void scalarize(llvm::Function &function) {
  llvm::FunctionAnalysisManager analyses;
  registerAnalyses<llvm::TargetIRAnalysis, llvm::DominatorTreeAnalysis, llvm::PassInstrumentationAnalysis>(analyses);
  llvm::ScalarizerPassOptions options;
  options.ScalarizeLoadStore = true;
  llvm::ScalarizerPass(options).run(function, analyses);
}

/// Replaces a cast of a number to a vector whose elements are read, or of a vector to a number: the shifts and masks that it stands for.
void splitCast(llvm::BitCastInst &cast) {
  llvm::Value *source = cast.getOperand(0);
  auto *vector = llvm::dyn_cast<llvm::FixedVectorType>(cast.getType());
  bool isJoined = !vector && (vector = llvm::dyn_cast<llvm::FixedVectorType>(source->getType()));
  if (!vector || (!isJoined && source->getType()->isVectorTy())) return;
  llvm::Type *element = vector->getElementType();
  unsigned bits = unsigned(element->getPrimitiveSizeInBits());
  Builder at(&cast);
  llvm::Type *part = at.getIntNTy(bits), *whole = at.getIntNTy(bits * vector->getNumElements());
  if (isJoined) {
    llvm::Value *joined = llvm::ConstantInt::get(whole, 0);
    for (unsigned i = 0; i < vector->getNumElements(); ++i) {
      llvm::Value *value = llvm::findScalarElement(source, i);
      value = at.CreateBitCast(value ? value : at.CreateExtractElement(source, i), part);
      joined = at.CreateOr(joined, at.CreateShl(at.CreateZExt(value, whole), i * bits));
    }
    cast.replaceAllUsesWith(at.CreateBitCast(joined, cast.getType()));
    llvm::RecursivelyDeleteTriviallyDeadInstructions(&cast); // the handle of it is that of the number now
  } else {
    llvm::Value *number = at.CreateBitCast(source, whole);
    for (llvm::User *user : llvm::make_early_inc_range(cast.users())) {
      auto *read = llvm::dyn_cast<llvm::ExtractElementInst>(user);
      auto *index = read ? llvm::dyn_cast<llvm::ConstantInt>(read->getIndexOperand()) : nullptr;
      if (!index) continue;
      llvm::Value *value = at.CreateTrunc(at.CreateLShr(number, index->getZExtValue() * bits), part);
      read->replaceAllUsesWith(at.CreateBitCast(value, element));
      read->eraseFromParent();
    }
  }
}

/// Loads bits as the number that they are part of.
void loadBitsAsNumbers(llvm::Function &function) {
  replaceInstructions(function, [](llvm::Instruction &instruction) -> llvm::Value * {
    auto *load = llvm::dyn_cast<llvm::LoadInst>(&instruction);
    auto *vector = load ? llvm::dyn_cast<llvm::FixedVectorType>(load->getType()) : nullptr;
    if (!vector || vector->getScalarSizeInBits() % 8 == 0) return nullptr;
    Builder at(load);
    llvm::LoadInst *number = at.CreateAlignedLoad(at.getIntNTy(unsigned(vector->getPrimitiveSizeInBits())), load->getPointerOperand(),
                                                  load->getAlign(), load->isVolatile());
    number->copyMetadata(*load);
    return at.CreateBitCast(number, vector);
  });
}

void splitCasts(llvm::Function &function) {
  loadBitsAsNumbers(function);
  llvm::SmallVector<llvm::WeakTrackingVH> casts;
  for (llvm::Instruction &instruction : llvm::instructions(function))
    if (llvm::isa<llvm::BitCastInst>(instruction)) casts.emplace_back(&instruction);
  for (llvm::WeakTrackingVH &cast : casts)
    if (auto *known = llvm::dyn_cast_or_null<llvm::BitCastInst>(cast)) splitCast(*known);
  llvm::RecursivelyDeleteTriviallyDeadInstructionsPermissive(casts);
}

} // namespace

void prepare(llvm::Module &module, llvm::ArrayRef<std::string> entries, Stages &stages, int optLevel, bool hasF64, bool hasExactQuotients) {
  module.setDataLayout(kDataLayout);
  if (!hasExactQuotients) keepExactOperations(module, hasF64, [](const llvm::Function &) { return true; });
  linkDeviceLibrary(module, kLocal);
  if (!hasExactQuotients)
    keepExactOperations(module, hasF64, [](const llvm::Function &function) { return llvm::hasAssumption(function, QD_EXACT); });
  inlineEverything(module, entries);
  stages.finish("device library");
  stages.begin("optimizing");
  optimize(module, llvm::TargetIRAnalysis(), /*isGpu=*/true, optLevel);
  widenExactOperations(module);
  if (!hasF64) {
    for (llvm::Function &function : module)
      if (!function.isDeclaration()) scalarize(function);
    expandDoubleIntrinsics(module);
    if (softenDoubles(module)) {
      linkDeviceLibrary(module, kLocal);
      inlineEverything(module, entries);
      optimize(module, llvm::TargetIRAnalysis(), /*isGpu=*/true, optLevel);
    }
  }
  moveTables(module);
  inferAddressSpaces(module, llvm::TargetIRAnalysis());
}

void legalize(llvm::Module &module, const Abilities &device) {
  for (llvm::Function &function : module) {
    if (function.isDeclaration()) continue;
    dropFrozenPairs(function);
    scalarize(function);
    splitCasts(function);
    splitWideIntegers(function);
    expandIntrinsics(function, device);
    narrowComparisons(function);
    chooseResultsOfZeros(function);
    if (!device.roundsHalves) roundHalves(function);
  }
  legalizeAtomics(module, device);
}

} // namespace qd::backends::structured
