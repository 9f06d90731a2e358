// functions.h: calls of funcs, and the bodies of called funcs
#pragma once

#include "frontend/function_part.h"

namespace qd::frontend {

class Functions : FunctionPart {
public:
  using FunctionPart::FunctionPart;

  /// A nested function with the variables that it captures, as a Method.
  Operand makeLocalFunc(nb::handle node);
  bool isSuperCall(nb::handle node);
  Operand superAttribute(nb::handle name);
  Operand callFunc(const PythonObject &func, const Operand *self, Arguments &arguments);
  /// Lists the IR values of a value. With `key`, places are not loaded, and `key` receives a text that identifies everything else.
  void flatten(const Operand &value, llvm::SmallVectorImpl<mlir::Value> &operands, std::string *key);
  /// The inverse of `flatten`, with other IR values.
  Operand rebuild(const Operand &shape, llvm::function_ref<mlir::Value()> next, bool byReference);
  Operand shapeOf(nb::handle annotation);
  Operand buildFunction(ir::FuncOp op, const std::vector<Operand> &values);
  void emitBody(const std::vector<Operand> &values);
  std::vector<nb::object> listParameterNames();

private:
  struct Callee {
    nb::object func;
    PythonObject function; ///< the Python function, with its path
    nb::object source;
  };
  std::vector<Operand> bindArguments(const PythonObject &func, const Operand *self, Arguments &arguments);
  Operand passArgument(nb::handle parameter, const Operand &value);
  Operand callInstance(const Callee &callee, const std::vector<Operand> &values);
  /// Emits the func into the current block. With `hasTasks`, its outermost loops are tasks of the kernel.
  Operand inlineCall(const Callee &callee, const std::vector<Operand> &values, bool hasTasks);
  bool sharesCollections(const std::vector<Operand> &values);
  void bindParameters(const std::vector<Operand> &values);
  Operand unifyReturns(ir::FuncOp op);
};

} // namespace qd::frontend
