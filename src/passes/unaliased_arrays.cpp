// unaliased_arrays.cpp: lists the arrays that passes assume to share no memory with other containers
//
// In:   a module whose tensor arguments are marked where they share memory at the launch that is compiled for (kShares).
// Out:  the attribute kUnaliased of a kernel, in the order of the arguments. Several passes add to it.
#include "passes/unaliased_arrays.h"

#include "ir/attributes.h"

#include "mlir/IR/Builders.h"

#include <set>

using namespace mlir;
using namespace qd::ir;

namespace qd::passes {

UnaliasedArrays::UnaliasedArrays(ModuleOp module) {
  bool arePacked = true;
  module.walk([&](TensorArgumentOp argument) {
    if (argument->hasAttr(kShares)) aliased.insert(argument.getOffset());
    if (argument.getField()) return;
    arrays.insert(argument.getOffset());
    arePacked &= cast<ir::TensorType>(argument.getType()).isPacked();
  });
  // A field shares memory with none, so the only array shares none either. With strides, two of its indices may mean one element.
  if (arrays.size() == 1 && arePacked) arrays.clear();
}

void UnaliasedArrays::require(const llvm::DenseSet<uint64_t> &containers) {
  for (uint64_t offset : containers)
    if (arrays.contains(offset)) required.insert(offset);
}

void UnaliasedArrays::addTo(KernelOp kernel) const {
  std::set<int32_t> all(required.begin(), required.end());
  if (auto known = kernel->getAttrOfType<DenseI32ArrayAttr>(kUnaliased)) all.insert(known.asArrayRef().begin(), known.asArrayRef().end());
  if (!all.empty()) kernel->setAttr(kUnaliased, Builder(kernel.getContext()).getDenseI32ArrayAttr(llvm::to_vector(all)));
}

} // namespace qd::passes
