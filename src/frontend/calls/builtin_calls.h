// builtin_calls.h: calls of the language's functions and of Python's builtins
#pragma once

#include "frontend/function_part.h"

namespace qd::frontend {

class BuiltinCalls : FunctionPart {
public:
  using FunctionPart::FunctionPart;

  Value callBuiltin(llvm::StringRef name, const Value &callee, Arguments &arguments);
  Value callPythonBuiltin(llvm::StringRef name, const Value &callee, Arguments &arguments);

private:
  Value loadVolatile(const Value &target, llvm::StringRef name);
  Value callStaticPrint(Arguments &arguments);
  Value makeGrouped(const Value &operand);
  Value callStatic(Arguments &arguments);
  Value callMinMax(BinaryKind kind, Arguments &arguments, llvm::StringRef name);
  Value callOrdered(llvm::StringRef name, Arguments &arguments, llvm::function_ref<Value()> call);
  Value callAtomic(llvm::StringRef name, const std::vector<Value> &given);
  Value callReduction(llvm::StringRef name, Arguments &arguments);
  Value sortItems(const Value &list, Arguments &arguments);
  Value combineSequences(llvm::StringRef name, const std::vector<Value> &given); ///< tuple, list, reversed, enumerate, zip
  Value mapItemsOf(const std::vector<Value> &given, bool isFilter);              ///< map, filter
  /// Whether a class pattern matches the value; run-time numbers count as int, float or bool.
  bool matchesClass(const Value &value, nb::handle type);
  /// An empty list, tuple, dict or object of the same class as an aggregate, for `isinstance`; any other value unchanged.
  Value standIn(const Value &value);
};

} // namespace qd::frontend
