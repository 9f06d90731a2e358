// functions.h: calls of funcs, and the bodies of called funcs
#pragma once

#include "frontend/function_part.h"

namespace qd::frontend {

class Functions : FunctionPart {
public:
  using FunctionPart::FunctionPart;

  /// A nested function with the variables that it captures, as a Method.
  Value makeLocalFunc(nb::handle node);
  bool isSuperCall(nb::handle node);
  Value superAttribute(nb::handle name);
  Value callFunc(const Value &func, const Value *self, Arguments &arguments);
  /// Lists the IR values of a value. With `key`, places are not loaded, and `key` receives a text that identifies everything else.
  void flatten(const Value &value, llvm::SmallVectorImpl<mlir::Value> &operands, std::string *key);
  /// The inverse of `flatten`, with other IR values.
  Value rebuild(const Value &shape, llvm::function_ref<mlir::Value()> next, bool byReference);
  Value shapeOf(nb::handle annotation);
  Value buildFunction(ir::FuncOp op, const std::vector<Value> &values);
  void emitBody(const std::vector<Value> &values);

private:
  struct Callee {
    nb::object func;
    Value function; ///< the Python function, with its path
    nb::object source;
  };
  std::vector<Value> bindArguments(const Value &func, const Value *self, Arguments &arguments);
  Value passArgument(nb::handle parameter, const Value &value);
  Value callInstance(const Callee &callee, const std::vector<Value> &values);
  /// Emits the func into the current block. With `hasTasks`, its outermost loops are tasks of the kernel.
  Value inlineCall(const Callee &callee, const std::vector<Value> &values, bool hasTasks);
  std::vector<nb::object> listParameterNames();
  void bindParameters(const std::vector<Value> &values);
  Value unifyReturns(ir::FuncOp op);
};

} // namespace qd::frontend
