// combining.cpp: the operators of reductions, by the kind of an atomic operation
//
// The emitters of tasks use them for partial results, those of atomic operations for updates of locals and of addresses that lanes share.
#include "codegen/llvm/operators.h"

#include "llvm/IR/Constants.h"
#include "llvm/Transforms/Utils/LoopUtils.h"

using namespace mlir;

namespace qd::codegen {

/// LLVM's reduction of vectors for an entry of builtins.def and one class of types.
static llvm::Intrinsic::ID getReduction(ir::AtomicKind kind, Type type) {
  namespace R = llvm::Intrinsic;
  // Floats, signed integers, unsigned integers; in the order of builtins.def.
  static constexpr R::IndependentIntrinsics kReductions[][3] = {
      /* add */ {R::vector_reduce_fadd, R::vector_reduce_add, R::vector_reduce_add},
      /* sub */ {R::vector_reduce_fadd, R::vector_reduce_add, R::vector_reduce_add},
      /* mul */ {R::vector_reduce_fmul, R::vector_reduce_mul, R::vector_reduce_mul},
      /* min */ {R::vector_reduce_fmin, R::vector_reduce_smin, R::vector_reduce_umin},
      /* max */ {R::vector_reduce_fmax, R::vector_reduce_smax, R::vector_reduce_umax},
      /* bit_and */ {R::not_intrinsic, R::vector_reduce_and, R::vector_reduce_and},
      /* bit_or */ {R::not_intrinsic, R::vector_reduce_or, R::vector_reduce_or},
      /* bit_xor */ {R::not_intrinsic, R::vector_reduce_xor, R::vector_reduce_xor},
      /* exchange */ {R::not_intrinsic, R::not_intrinsic, R::not_intrinsic},
  };
  return kReductions[size_t(kind)][isa<FloatType>(type) ? 0 : type.isSignedInteger() ? 1 : 2];
}

llvm::Value *Operators::emitAtomicCombine(ir::AtomicKind kind, Type type, llvm::Value *old, llvm::Value *value) {
  std::optional<ir::BinaryKind> binary = ir::findKind<ir::BinaryKind>(ir::getOpInfo(kind).name);
  return binary ? emitBinary(*binary, type, type, old, value) : value;
}

Components Operators::combineAll(ir::AtomicKind kind, Type type, const Components &old, const Components &value) {
  Components next;
  for (auto [a, b] : llvm::zip(old, value)) {
    if (a.kind.isUniform() && b.kind.isUniform())
      next.push_back({emitAtomicCombine(kind, type, a.value, b.value)});
    else
      next.push_back(in.makeVarying(emitAtomicCombine(kind, type, in.toVector(a), in.toVector(b))));
  }
  return next;
}

llvm::Constant *Operators::getIdentity(ir::AtomicKind kind, Type type) {
  // Of min and max of floats it is NaN: an infinity would replace a NaN that nothing but NaN is compared with.
  return cast<llvm::Constant>(llvm::getReductionIdentity(getReduction(kind, type), module.getType(type), llvm::FastMathFlags()));
}

llvm::Value *Operators::reduceLanes(ir::AtomicKind kind, Type type, llvm::Value *vector) {
  if (in.lanes == 1) return vector;
  // The values that lanes subtracted must be added.
  if (kind == ir::AtomicKind::sub) kind = ir::AtomicKind::add;
  if (!llvm::isPowerOf2_32(in.lanes)) {
    llvm::Value *all = builder.CreateExtractElement(vector, uint64_t(0));
    for (unsigned lane = 1; lane < in.lanes; ++lane)
      all = emitAtomicCombine(kind, type, all, builder.CreateExtractElement(vector, uint64_t(lane)));
    return all;
  }
  for (unsigned width = in.lanes / 2; width > 0; width /= 2) {
    auto *half = llvm::FixedVectorType::get(module.getType(type), width);
    vector = emitAtomicCombine(kind, type, builder.CreateExtractVector(half, vector, uint64_t(0)),
                               builder.CreateExtractVector(half, vector, uint64_t(width)));
  }
  return builder.CreateExtractElement(vector, uint64_t(0));
}

} // namespace qd::codegen
