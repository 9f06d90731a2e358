// value_map.cpp: looks up what a value, place or container of the IR is in LLVM IR
//
// An entry that is missing and that `resolve` cannot supply is a bug of the compiler: it is reported, and emission goes on with poison.
#include "codegen/llvm/value_map.h"

#include "llvm/IR/Constants.h"

using namespace mlir;

namespace qd::codegen {

template <typename T> bool ValueMap::isKnown(llvm::DenseMap<Value, T> &map, Value value) {
  if (map.contains(value) || (resolve && resolve(value))) return true;
  in.module.reportError(value.getLoc()) << "the LLVM emitter has nothing for a value here; this is a bug of the compiler";
  return false;
}

const Components &ValueMap::getValue(Value value) {
  if (!isKnown(values, value)) {
    auto *poison = llvm::PoisonValue::get(in.module.getType(ir::getScalar(value.getType())));
    setValue(value, Components(size_t(ir::getComponentCount(value.getType())), {poison}));
  }
  return values[value];
}

Components ValueMap::getScalars(ValueRange range) {
  Components scalars;
  for (Value value : range) scalars.push_back(getScalar(value));
  return scalars;
}

const Place *ValueMap::findPlace(Value ref) const {
  auto found = places.find(ref);
  return found == places.end() ? nullptr : &found->second;
}

Place ValueMap::getPlace(Value ref) {
  if (!isKnown(places, ref)) {
    llvm::Value *none = llvm::PoisonValue::get(in.builder.getPtrTy());
    setPlace(ref, MemoryPlace{cast<ir::RefType>(ref.getType()).getPointee(), none});
  }
  return places[ref];
}

Tensor ValueMap::getTensor(Value tensor) {
  llvm::Value *none = llvm::PoisonValue::get(in.builder.getPtrTy());
  if (!isKnown(tensors, tensor)) setTensor(tensor, {cast<ir::TensorType>(tensor.getType()), none, none});
  return tensors[tensor];
}

llvm::Value *ValueMap::getUniform(Value value) {
  Component component = getScalar(value);
  return component.kind.isVarying() ? in.builder.CreateExtractElement(component.value, uint64_t(0)) : component.value;
}

} // namespace qd::codegen
