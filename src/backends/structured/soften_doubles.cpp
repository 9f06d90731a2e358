// soften_doubles.cpp: f64 on devices that have none → its bits, in integers
//
// In:   optimized LLVM IR without functions. Kernels that use f64 are refused before; what is left are parts of the device library's
//       functions of f32.
// Out:  the same without f64: calls of routines of the device library (devlib/doubles.h), which are not linked yet. They stay functions:
//       inlined, a `pow` has 16,000 lines in Metal's language.
#include "backends/structured/steps.h"

#include "llvm/IR/IRBuilder.h"
#include "llvm/IR/InstIterator.h"
#include "llvm/IR/IntrinsicInst.h"

namespace qd::backends::structured {
namespace {

using I = llvm::Instruction;
using Builder = llvm::IRBuilder<>;

llvm::Value *callRoutine(Builder &at, llvm::StringRef name, llvm::Type *result, llvm::ArrayRef<llvm::Value *> operands) {
  llvm::SmallVector<llvm::Type *> types;
  for (llvm::Value *operand : operands) types.push_back(operand->getType());
  llvm::Module &module = *at.GetInsertBlock()->getModule();
  return at.CreateCall(module.getOrInsertFunction((kDoubleRoutine + name + "_x1").str(), llvm::FunctionType::get(result, types, false)),
                       operands);
}

constexpr uint64_t kSign = uint64_t(1) << 63, kOne = uint64_t(1023) << 52;

llvm::Value *flipSign(Builder &at, llvm::Value *bits) { return at.CreateXor(bits, at.getInt64(kSign)); }

/// The value of an instruction, whose operands are bits already; null: only its type changes.
llvm::Value *soften(Builder &at, I &instruction) {
  llvm::Type *bits = at.getInt64Ty();
  llvm::Value *first = instruction.getOperand(0);
  auto call = [&](llvm::StringRef name) {
    llvm::SmallVector<llvm::Value *> operands;
    for (llvm::Value *operand : instruction.operand_values())
      if (!llvm::isa<llvm::Function>(operand)) operands.push_back(operand);
    return callRoutine(at, name, bits, operands);
  };
  auto multiplyAdd = [&](llvm::Value *factor, llvm::Value *other, llvm::Value *added) {
    return callRoutine(at, "fma", bits, {factor, other, added});
  };
  if (auto *comparison = llvm::dyn_cast<llvm::FCmpInst>(&instruction)) {
    llvm::Value *relation = callRoutine(at, "relate", at.getInt32Ty(), {first, instruction.getOperand(1)});
    return at.CreateIsNotNull(at.CreateAnd(relation, uint64_t(comparison->getPredicate())));
  }
  switch (instruction.getOpcode()) {
  case I::FAdd: return multiplyAdd(first, at.getInt64(kOne), instruction.getOperand(1));
  case I::FSub: return multiplyAdd(first, at.getInt64(kOne), flipSign(at, instruction.getOperand(1)));
  case I::FMul: {
    llvm::Value *other = instruction.getOperand(1); // a zero of the product's sign changes nothing
    return multiplyAdd(first, other, at.CreateAnd(at.CreateXor(first, other), at.getInt64(kSign)));
  }
  case I::FDiv: return call("divide");
  case I::FNeg: return flipSign(at, first);
  case I::FPExt: return callRoutine(at, "from_f32", bits, {at.CreateFPExt(first, at.getFloatTy())});
  case I::UIToFP: return callRoutine(at, "from_u64", bits, {at.CreateZExt(first, bits)});
  case I::SIToFP: return callRoutine(at, "from_i64", bits, {at.CreateSExt(first, bits)});
  case I::FPTrunc:
    if (instruction.getType()->isHalfTy()) refuse("f64 that becomes f16");
    return callRoutine(at, "to_f32", at.getFloatTy(), {first});
  case I::FPToSI:
  case I::FPToUI: {
    llvm::Value *whole = call("to_i64");
    return instruction.getType()->isIntegerTy(1) ? at.CreateIsNotNull(whole) : at.CreateTrunc(whole, instruction.getType());
  }
  case I::BitCast: return first;
  case I::Call: {
    llvm::Intrinsic::ID kind = llvm::cast<llvm::CallInst>(instruction).getIntrinsicID();
    if (kind == llvm::Intrinsic::fabs) return at.CreateAnd(first, at.getInt64(~kSign));
    if (kind == llvm::Intrinsic::fma) return call("fma");
    refuse("f64 in " + llvm::cast<llvm::CallInst>(instruction).getCalledFunction()->getName());
  }
  default: return nullptr;
  }
}

/// False: the function has no f64.
bool softenFunction(llvm::Function &function) {
  llvm::Type *bits = llvm::Type::getInt64Ty(function.getContext());
  auto isDouble = [](const llvm::Value *value) { return value->getType()->isDoubleTy(); };
  llvm::SmallVector<I *> found;
  for (I &instruction : llvm::instructions(function))
    if (isDouble(&instruction) || llvm::any_of(instruction.operand_values(), isDouble)) found.push_back(&instruction);
  // All types first: a phi may come before what it gets.
  for (I *instruction : found) {
    for (llvm::Use &operand : instruction->operands()) {
      if (auto *number = llvm::dyn_cast<llvm::ConstantFP>(operand); number && isDouble(number))
        operand.set(llvm::ConstantInt::get(bits, number->getValueAPF().bitcastToAPInt()));
      else if (llvm::isa<llvm::UndefValue>(operand) && isDouble(operand))
        operand.set(llvm::PoisonValue::get(bits));
    }
    if (isDouble(instruction)) instruction->mutateType(bits);
  }
  for (I *instruction : found) {
    Builder at(instruction);
    llvm::Value *value = soften(at, *instruction);
    if (!value) continue;
    instruction->replaceAllUsesWith(value);
    instruction->eraseFromParent();
  }
  return !found.empty();
}

} // namespace

bool softenDoubles(llvm::Module &module) {
  bool isChanged = false;
  for (llvm::Function &function : module) isChanged |= softenFunction(function);
  return isChanged;
}

} // namespace qd::backends::structured
