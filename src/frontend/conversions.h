// conversions.h: queries on values, and their conversion to IR values and Python objects
#pragma once

#include "frontend/function_part.h"

namespace qd::frontend {

class Conversions : FunctionPart {
public:
  using FunctionPart::FunctionPart;

  Value copy(const Value &value);
  mlir::Value convert(const Value &value, mlir::Type type);
  /// The value as one typed IR value: loads places, builds constants and vectors. `anchor`: type of the other operand, for large literals.
  mlir::Value emit(const Value &value, mlir::Type anchor = {});
  /// Rounds a value of type bf16 to the f32 that a store and a load would yield; returns any other value unchanged.
  Value rounded(const Value &value);
  bool canEmit(const Value &value);
  bool isConstant(const Value &value);
  /// The value as a Python object; null if a part of it is known at run time only.
  nb::object toPython(const Value &value);
  /// The value as a Python object; fails for a run-time value.
  nb::object known(const Value &value);
  /// Python's truth of a compile-time value.
  bool isTrue(const Value &value);
  Value fromPython(nb::handle object, const PathNode *path);
  Value load(const Value &value);
  mlir::Value emitSequence(const Value &value);
  mlir::Value emitHostMatrix(nb::handle object);
  mlir::Value getInput(const Value &value);
  std::optional<int64_t> findInteger(const Value &value);
  mlir::Type findType(const Value &value);
  std::string describe(const Value &value);
  /// `shape`: the known extents, with None for the others.
  Value toTensor(const Value &value, nb::handle shape = nb::handle());
  bool isTensor(const Value &value) { return value.is(Value::Kind::Tensor) || (value.isObject() && session.python.isTensor(value.object)); }
  Value makeInput(const PathNode *path, mlir::Type type);
  Value callCast(const Value &value, mlir::Type scalar);

private:
  mlir::Value emitObject(const Value &value, mlir::Type anchor);
};

} // namespace qd::frontend
