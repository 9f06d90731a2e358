// conversions.h: queries on operands, and their conversion to IR values and Python objects
#pragma once

#include "frontend/function_part.h"

namespace qd::frontend {

class Conversions : FunctionPart {
public:
  using FunctionPart::FunctionPart;

  Operand copy(const Operand &value);
  mlir::Value convert(const Operand &value, mlir::Type type);
  /// The value as one typed IR value: loads places, builds constants and vectors. `anchor`: type of the other operand, for large literals.
  mlir::Value emit(const Operand &value, mlir::Type anchor = {});
  /// Rounds a value of type bf16 to the f32 that a store and a load would yield; returns any other value unchanged.
  Operand rounded(const Operand &value);
  bool canEmit(const Operand &value);
  bool isConstant(const Operand &value);
  /// The value as a Python object; null if a part of it is known at run time only.
  nb::object toPython(const Operand &value);
  /// The value as a Python object; fails for a run-time value.
  nb::object known(const Operand &value);
  /// Python's truth of a compile-time value.
  bool isTrue(const Operand &value);
  Operand fromPython(nb::handle object, const PathNode *path);
  Operand load(const Operand &value);
  mlir::Value emitSequence(const std::vector<Operand> &items, mlir::Type anchor = {});
  mlir::Value emitHostMatrix(nb::handle object);
  /// The value or container that is the artifact's input of this number.
  mlir::Value getInput(uint32_t number, mlir::Type type);
  std::optional<int64_t> findInteger(const Operand &value);
  mlir::Type findType(const Operand &value);
  std::string describe(const Operand &value);
  /// `shape`: the known extents, with None for the others.
  Tensor toTensor(const Operand &value, nb::handle shape = nb::handle());
  bool isTensor(const Operand &value) { return value.is<Tensor>() || session.python.isTensor(value.getObject()); }
  Operand makeInput(const PathNode *path, mlir::Type type);
  Operand callCast(const Operand &value, mlir::Type scalar);

private:
  mlir::Value emitObject(const PythonObject &value, mlir::Type anchor);
  mlir::Value emitComponents(const Components &components);
};

} // namespace qd::frontend
