// function_part.h: base of the classes that compile a function, each for one subject
#pragma once

#include "frontend/function_context.h"

namespace qd::frontend {

using ir::BinaryKind;
using ir::UnaryKind;

/// The class of each subject, and the name by which the others reach it.
// clang-format off
#define QD_FUNCTION_PARTS(X)                                                                                                               \
  X(Assignments, assignments) X(Attributes, attributes) X(BuiltinCalls, builtinCalls) X(Calls, calls) X(Checkpoints, checkpoints)          \
  X(Collections, collections) X(Expressions, expressions) X(FunctionSyntax, syntax) X(Functions, functions) X(Instances, instances) X(LoopRanges, loopRanges) \
  X(Loops, loops) X(MatrixMethods, matrixMethods) X(Operators, operators) X(PackedElements, packedElements) X(Printing, printing) X(PythonCalls, pythonCalls) \
  X(RegisterTiles, registerTiles) X(RuntimeDicts, runtimeDicts) X(Signature, signature) X(Simt, simt) X(SparseCells, sparseCells) X(Statements, statements)              \
  X(StoppedGradients, stoppedGradients) X(Structs, structs) X(Subscripts, subscripts) X(Variables, variables) X(Views, views) X(WithStatements, withStatements)
// clang-format on

struct FunctionBuilder;
class Emitter;
class Conversions;
#define X(Class, name) class Class;
QD_FUNCTION_PARTS(X)
#undef X
struct Box;
struct Fragments;

/// What the classes of all subjects use. `loops().visitFor(node)` calls another class for the same function.
class FunctionPart {
public:
  explicit FunctionPart(FunctionBuilder &function);

protected:
#define X(Class, name) Class &name() const;
  QD_FUNCTION_PARTS(X)
#undef X
  [[noreturn]] void fail(const char *className, const llvm::Twine &message) { session.fail(className, message); }
  mlir::Location loc() { return context.loc(); }
  template <typename Op, typename... Args> Op create(Args &&...args) { return Op::create(builder, loc(), std::forward<Args>(args)...); }
  const auto &names() const { return session.python.names; }
  NodeKind kindOf(nb::handle node) const { return session.python.kindOf(node); }

  FunctionBuilder &function;
  FunctionContext &context;
  Session &session;
  mlir::OpBuilder &builder;
  Scopes &scopes;
  Nesting &nesting;
  Emitter &emitter;
  Conversions &conversions;
};

} // namespace qd::frontend
