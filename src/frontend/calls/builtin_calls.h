// builtin_calls.h: calls of the language's functions and of Python's builtins
#pragma once

#include "frontend/function_part.h"

namespace qd::frontend {

class BuiltinCalls : FunctionPart {
public:
  using FunctionPart::FunctionPart;

  Operand callBuiltin(llvm::StringRef name, const PythonObject &callee, Arguments &arguments);
  Operand callPythonBuiltin(llvm::StringRef name, const PythonObject &callee, Arguments &arguments);

private:
  Operand loadVolatile(const Operand &target, llvm::StringRef name);
  Operand callStaticPrint(Arguments &arguments);
  Operand makeGrouped(const Operand &operand);
  Operand callStatic(Arguments &arguments);
  Operand callMinMax(BinaryKind kind, Arguments &arguments, llvm::StringRef name);
  Operand callOrdered(llvm::StringRef name, Arguments &arguments, llvm::function_ref<Operand()> call);
  Operand callAtomic(llvm::StringRef name, const std::vector<Operand> &given);
  Operand callReduction(llvm::StringRef name, Arguments &arguments);
  Operand sortItems(const Operand &list, Arguments &arguments);
  Operand combineSequences(llvm::StringRef name, const std::vector<Operand> &given); ///< tuple, list, reversed, enumerate, zip
  Operand mapItemsOf(const std::vector<Operand> &given, bool isFilter);              ///< map, filter
  /// Whether a class pattern matches the value; run-time numbers count as int, float or bool.
  bool matchesClass(const Operand &value, nb::handle type);
  /// An empty list, tuple, dict or object of the same class as an aggregate, for `isinstance`; any other value unchanged.
  Operand standIn(const Operand &value);
};

} // namespace qd::frontend
