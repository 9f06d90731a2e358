// value_map.h: what the values, places and containers of the IR are in one LLVM function
#pragma once

#include "codegen/llvm/lane_builder.h"

namespace qd::codegen {

class ValueMap {
public:
  explicit ValueMap(LaneBuilder &in) : in(in) {}

  const Components &getValue(mlir::Value value);
  Component getScalar(mlir::Value value) { return getValue(value)[0]; }
  Components getScalars(mlir::ValueRange range);
  void setValue(mlir::Value value, Components components) { values[value] = std::move(components); }
  /// A scalar with the same value in all lanes; the value must be uniform.
  llvm::Value *getUniform(mlir::Value value);
  Place getPlace(mlir::Value ref);
  /// The place, if code that is already emitted has defined it; null otherwise.
  const Place *findPlace(mlir::Value ref) const;
  void setPlace(mlir::Value ref, Place place) { places.insert_or_assign(ref, std::move(place)); }
  Tensor getTensor(mlir::Value tensor);
  void setTensor(mlir::Value value, Tensor tensor) { tensors[value] = tensor; }

  /// Supplies what is defined outside of this function: places, containers and values of the enclosing task. False if the value is unknown.
  std::function<bool(mlir::Value)> resolve;

private:
  /// Whether `map` has the value, after asking `resolve` if necessary.
  template <typename T> bool isKnown(llvm::DenseMap<mlir::Value, T> &map, mlir::Value value);

  LaneBuilder &in;
  llvm::DenseMap<mlir::Value, Components> values;
  llvm::DenseMap<mlir::Value, Place> places;
  llvm::DenseMap<mlir::Value, Tensor> tensors;
};

} // namespace qd::codegen
