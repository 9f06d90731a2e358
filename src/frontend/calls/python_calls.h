// python_calls.h: calls of Python callables that are no funcs: run now, or compiled as a func
#pragma once

#include "frontend/function_part.h"

namespace qd::frontend {

class PythonCalls : FunctionPart {
public:
  using FunctionPart::FunctionPart;

  Operand callPython(const PythonObject &callee, Arguments &arguments);
  /// Whether Python can evaluate the call now: all arguments are known and none is a func.
  bool isKnownCall(const Arguments &arguments);
  /// Whether a function may read elements of a container among its arguments: these are known at run time only.
  bool mayReadElements(nb::handle callable, const Arguments &arguments);
  std::optional<Operand> tryPython(nb::handle callable, const Operand &callee, const std::string &name, Arguments &arguments);
  /// Warns of a function of the clock or of random numbers, whose result will be a constant, and refuses to store that on disk.
  void warnOfChangingResult(nb::handle callable, const std::string &name);
  Operand runPython(nb::handle callable, const Operand &callee, const std::string &name, Arguments &arguments);
  [[noreturn]] void failRuntimeOperands(nb::handle callable, const std::string &name);
  /// Calls an object that wraps another callable: a method, a partial, an object with `__call__`. None for any other callee.
  std::optional<Operand> callWrapped(const PythonObject &callee, Arguments &arguments, nb::handle node);
  /// Calls a Python function with run-time values: compiles it as a func, or, if that is impossible, runs it on stand-ins.
  Operand callPlain(const PythonObject &function, const Operand *self, Arguments &arguments);
  /// `functools.partial` with run-time values: a Method whose items are the callee, positional arguments and named arguments.
  Operand makePartial(const PythonObject &type, Arguments &arguments);
  Operand callPartial(const Method &partial, Arguments &arguments, nb::handle node);

private:
  /// Calls `object` in Python with stand-ins for run-time values, whose operators emit code.
  Operand callWithOperands(nb::handle object, const std::string &name, const Operand *self, Arguments &arguments);
  Operand applyOperator(llvm::StringRef name, const std::vector<Operand> &given, Arguments &named);
  /// `qd.func(function)` in a kernel.
  Operand declareFunc(nb::handle decorator, Arguments &arguments);
  /// Records the globals, closure variables and attributes that the code of a Python function names.
  void readCaptured(nb::handle function, const PathNode *path, const Operand *self);
};

} // namespace qd::frontend
