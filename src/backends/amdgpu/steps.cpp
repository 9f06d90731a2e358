// steps.cpp: the steps from emitted LLVM IR to machine code that only AMD GPUs need
//
// In:   LLVM IR of the shared emitter, with the device library linked.
// Out:  IR that LLVM's AMDGPU backend selects, or an error that names the operation: for an operation without instructions the backend
//       would end the process.
#include "backends/amdgpu/steps.h"
#include "support/error.h"

#include "llvm/IR/IRBuilder.h"
#include "llvm/IR/InlineAsm.h"
#include "llvm/IR/InstIterator.h"
#include "llvm/IR/IntrinsicInst.h"
#include "llvm/IR/IntrinsicsAMDGPU.h"
#include "llvm/IR/MDBuilder.h"

namespace qd::backends::amdgpu {

namespace I = llvm::Intrinsic;

/// All instructions of the module that have a type.
template <typename T> static llvm::SmallVector<T *> collect(llvm::Module &module) {
  llvm::SmallVector<T *> found;
  for (llvm::Function &function : module)
    for (llvm::Instruction &instruction : llvm::instructions(function))
      if (auto *one = llvm::dyn_cast<T>(&instruction)) found.push_back(one);
  return found;
}

/// Containers are in memory of the device, never of the host: the run half accepts no other.
void describeAtomics(llvm::Module &module, bool fastMath) {
  llvm::MDNode *yes = llvm::MDNode::get(module.getContext(), {});
  for (llvm::AtomicRMWInst *atomic : collect<llvm::AtomicRMWInst>(module)) {
    atomic->setMetadata("amdgpu.no.fine.grained.memory", yes);
    atomic->setMetadata("amdgpu.no.remote.memory", yes);
    // The instruction may replace f32 denormals by 0.
    if (fastMath && atomic->getType()->isFloatTy()) atomic->setMetadata("amdgpu.ignore.denormal.mode", yes);
  }
}

/// LLVM's product with an approximate reciprocal gives 0 for f32 divisors above 2^126; with a limit of the error it scales the operands.
/// For f64, where Newton's steps make NaN of the reciprocals of 0 and of infinity, there is only the exact quotient.
void boundQuotients(llvm::Module &module) {
  for (llvm::BinaryOperator *quotient : collect<llvm::BinaryOperator>(module)) {
    llvm::Type *type = quotient->getType()->getScalarType();
    bool isFast = quotient->getOpcode() == llvm::Instruction::FDiv && quotient->hasApproxFunc();
    if (!isFast || type->isHalfTy()) continue;
    quotient->setHasApproxFunc(false);
    if (!type->isFloatTy()) continue;
    quotient->setHasAllowReciprocal(false);
    quotient->setMetadata(llvm::LLVMContext::MD_fpmath, llvm::MDBuilder(module.getContext()).createFPMath(2.5f));
  }
}

/// LLVM 22 rounds products to f16 by v_fma_mixlo_f16 with an addend of 0, which makes 0 of -0: the product passes an empty assembly text,
/// so that the two operations stay apart.
void keepSignsOfProducts(llvm::Module &module) {
  for (llvm::FPTruncInst *rounding : collect<llvm::FPTruncInst>(module)) {
    auto *product = llvm::dyn_cast<llvm::BinaryOperator>(rounding->getOperand(0));
    if (!product || product->getOpcode() != llvm::Instruction::FMul || product->hasNoSignedZeros()) continue;
    llvm::Type *type = product->getType();
    if (!rounding->getType()->getScalarType()->isHalfTy() || !type->getScalarType()->isFloatTy()) continue;
    auto *text = llvm::InlineAsm::get(llvm::FunctionType::get(type, {type}, false), "", "=v,0", /*hasSideEffects=*/false);
    rounding->setOperand(0, llvm::IRBuilder<>(rounding).CreateCall(text, {product}));
  }
}

/// The operations that may reach instruction selection; all others are routines of the device library.
// clang-format off
constexpr I::ID kSelectable[] = {
    // Of floats: f16, f32 and f64.
    I::fabs, I::fma, I::fmuladd, I::sqrt, I::floor, I::ceil, I::trunc, I::rint, I::nearbyint, I::round, I::roundeven, I::copysign,
    I::minnum, I::maxnum, I::minimum, I::maximum, I::minimumnum, I::maximumnum, I::canonicalize, I::is_fpclass, I::ldexp, I::frexp,
    I::fptosi_sat, I::fptoui_sat,
    // Of integers.
    I::abs, I::smin, I::smax, I::umin, I::umax, I::ctpop, I::ctlz, I::cttz, I::bswap, I::bitreverse, I::fshl, I::fshr, I::sadd_sat,
    I::uadd_sat, I::ssub_sat, I::usub_sat, I::sadd_with_overflow, I::uadd_with_overflow, I::ssub_with_overflow, I::usub_with_overflow,
    I::smul_with_overflow, I::umul_with_overflow, I::ucmp, I::scmp,
    // Of vectors of lanes.
    I::vector_reduce_add, I::vector_reduce_mul, I::vector_reduce_and, I::vector_reduce_or, I::vector_reduce_xor, I::vector_reduce_smin,
    I::vector_reduce_smax, I::vector_reduce_umin, I::vector_reduce_umax, I::vector_reduce_fmin, I::vector_reduce_fmax,
    I::vector_reduce_fadd, I::vector_reduce_fmul, I::vector_insert, I::vector_extract,
    // Of memory, and without a result.
    I::memcpy, I::memmove, I::memset, I::assume, I::experimental_noalias_scope_decl, I::readcyclecounter, I::readsteadycounter,
    I::dbg_value, I::dbg_declare, I::sideeffect,
    // The device's own.
    I::amdgcn_workitem_id_x, I::amdgcn_workgroup_id_x, I::amdgcn_implicitarg_ptr, I::amdgcn_s_barrier, I::amdgcn_wave_barrier,
    I::amdgcn_ds_bpermute, I::amdgcn_readlane, I::amdgcn_readfirstlane, I::amdgcn_ballot, I::amdgcn_mbcnt_lo, I::amdgcn_mbcnt_hi,
};
// clang-format on

void checkSelectable(const llvm::Module &module) {
  auto refuse = [](const std::string &what) {
    throw support::Error(support::ErrorKind::Runtime, "amdgpu: no instructions exist for " + what + ", and no routine replaces it");
  };
  for (const llvm::Function &function : module) {
    if (function.isDeclaration() && !function.use_empty() && !llvm::is_contained(kSelectable, function.getIntrinsicID()))
      refuse(function.getName().str());
    for (const llvm::Instruction &instruction : llvm::instructions(function))
      if (instruction.getOpcode() == llvm::Instruction::FRem) refuse("the remainder of floats");
  }
}

} // namespace qd::backends::amdgpu
