// legalize_parts.h: what legalize.cpp puts in place of LLVM's intrinsics
#pragma once

#include "backends/structured/steps.h"

#include "llvm/IR/IRBuilder.h"
#include "llvm/IR/IntrinsicInst.h"

namespace qd::backends::structured {

namespace I = llvm::Intrinsic;
using Builder = llvm::IRBuilder<>;

//--- Integers (legalize_integers.cpp) ---

/// ctpop, ctlz or cttz, of words of 32 bits.
llvm::Value *countBits(Builder &at, I::ID kind, llvm::Value *value);
/// Result of an operation, and whether it overflows.
std::pair<llvm::Value *, llvm::Value *> checkOverflow(Builder &at, I::ID kind, llvm::Value *a, llvm::Value *b);
llvm::Value *saturate(Builder &at, I::ID kind, llvm::Value *a, llvm::Value *b);
llvm::Value *rotate(Builder &at, bool isLeft, llvm::Value *high, llvm::Value *low, llvm::Value *count);
llvm::Value *swapBytes(Builder &at, llvm::Value *value);
llvm::Value *reverseBits(Builder &at, llvm::Value *value);
/// Replaces integers of more than 64 bits.
void splitWideIntegers(llvm::Function &function);
/// Compares numbers that were widened in their own type, as LLVM does where it finds them. What is put in place of minima and absolute
/// values would compare them wide: more work, and Mesa 22.3's processor driver compares an i32 that was widened to i64 with a constant
/// wrongly.
void narrowComparisons(llvm::Function &function);

//--- Floats (legalize_floats.cpp) ---

llvm::Value *copySign(Builder &at, llvm::Value *magnitude, llvm::Value *sign);
/// The operand that is no NaN; -0.0 is less than 0.0 unless the flags allow any order.
llvm::Value *chooseExtremum(Builder &at, bool isLeast, llvm::FastMathFlags flags, llvm::Value *a, llvm::Value *b);
/// a * b + c, rounded once, of sums and products.
llvm::Value *multiplyAdd(Builder &at, bool hasF64, llvm::Value *a, llvm::Value *b, llvm::Value *c);
llvm::Value *convertSaturating(Builder &at, bool isSigned, llvm::Value *value, llvm::Type *target);
/// floor, ceil, trunc or roundeven, of sums.
llvm::Value *roundBySums(Builder &at, I::ID kind, llvm::Value *value);
llvm::Value *testClass(Builder &at, llvm::Value *value, unsigned classes);
/// Halves are rounded away from zero.
llvm::Value *roundAway(Builder &at, llvm::Value *value);
/// Rounds what is narrowed to f16 and widened again before, for devices that leave out both.
void roundHalves(llvm::Function &function);
/// Makes calls of the quotients and, on devices with f64, roots that must be rounded right, so that LLVM does not compute them in a
/// narrower type. `isChosen`: whether that is needed in a function.
void keepExactOperations(llvm::Module &module, bool hasF64, llvm::function_ref<bool(const llvm::Function &)> isChosen);
/// Replaces these calls by operations of f64, whose second rounding changes nothing (Figueroa, *When is double rounding innocuous?*, 1995).
void widenExactOperations(llvm::Module &module);
/// Replaces arithmetic with a constant zero by choices among its few results. Mesa 22.3's processor driver takes 0 * x and 0 / x for 0,
/// 0 + x for x and x / 0 for undefined, whatever the sign of x, and whether it is a number.
void chooseResultsOfZeros(llvm::Function &function);

} // namespace qd::backends::structured
