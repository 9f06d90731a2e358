// calls.h: calls: arguments, and dispatch by the kind of the callee
#pragma once

#include "frontend/function_part.h"

namespace qd::frontend {

class Calls : FunctionPart {
public:
  using FunctionPart::FunctionPart;

  Operand visitCall(nb::handle node);
  /// The arguments of a call. Arguments that `callee` takes by value are loaded in order.
  Arguments visitArguments(nb::handle at, const Operand *callee = nullptr);
  Operand call(const Operand &operand, Arguments &arguments, nb::handle node);
  Operand callMethod(const Operand &operand, Arguments &arguments, nb::handle node);
  std::string getParameters(nb::handle builtin); ///< of a function of quadrants._language.builtins, without *args and keyword-only ones
  /// The arguments in the order of `parameters`, a list of names separated by blanks. A name with "?" is optional; its default is None.
  std::vector<Operand> bind(const llvm::Twine &function, const Arguments &arguments, llvm::StringRef parameters);
  /// The data type that an argument of `function` names; null for None.
  mlir::Type scalarTypeOf(const Operand &value, const llvm::Twine &function);

private:
  std::optional<Operand> callClass(const PythonObject &callee, Arguments &arguments);
  Operand castLiteral(mlir::Type type, Arguments &arguments);
};

} // namespace qd::frontend
