// session.h: what all functions of one compilation share
#pragma once

#include "frontend/dependency_tracker.h"
#include "frontend/frontend.h"
#include "frontend/values.h"

#include <map>
#include <set>
#include <string>
#include <unordered_map>

namespace qd::frontend {

class FunctionBuilder;

/// Names of classes of quadrants._base.errors.
namespace error {
inline constexpr const char *kSyntax = "QuadrantsSyntaxError";
inline constexpr const char *kType = "QuadrantsTypeError";
inline constexpr const char *kArgumentType = "QuadrantsArgumentTypeError";
inline constexpr const char *kName = "QuadrantsNameError";
inline constexpr const char *kIndex = "QuadrantsIndexError";
inline constexpr const char *kAttribute = "QuadrantsAttributeError";
inline constexpr const char *kCompilation = "QuadrantsCompilationError";
inline constexpr const char *kRuntime = "QuadrantsRuntimeError";
inline constexpr const char *kReturnType = "QuadrantsReturnTypeError";
} // namespace error

/// A user's mistake on its way to `build`, with the places where it happened.
struct CompileError {
  Diagnostic diagnostic;   ///< without a class: a consequence of a mistake that is known already
  bool isComplete = false; ///< tells of all mistakes that were found
};

/// The options of qd.init that change the language.
struct LanguageOptions {
  support::ScalarType defaultFloat = support::ScalarType::F32;
  support::ScalarType defaultInteger = support::ScalarType::I32;
  bool isInterpreted = false; ///< only checked here; it runs as Python
  bool debug = false;
  bool checksBounds = false;
  bool checksNans = false;
  bool strictConditions = false;
  bool strictMathTypes = false;
  bool shortCircuit = true;
  bool raiseOnTemplatedFloats = false;
  int64_t unrollingLimit = 32;
  int64_t maxRounds = 0; ///< of qd.graph.do_while; 0: any number
};

/// The scalar types, at hand.
struct Types {
  explicit Types(mlir::MLIRContext *ctx, const LanguageOptions &options);
  mlir::Type u1, i32, i64, u32, u64, f16, f32, f64, bf16, defaultInteger, defaultFloat;
};

/// One compiled combination of a function and what it was called with.
struct Instance {
  ir::FuncOp op;
  Value result; ///< shape and types of what it returns
  bool isInProgress = true;
};

/// How often a name of a function is assigned; one whose place is needed counts twice. Names assigned once need no place.
struct Assignments {
  unsigned count = 0;
  bool hasItemAssigned = false; ///< `name[i]`, or a part of it, is assigned somewhere
  bool hasItemPassed = false;   ///< or it is an argument that may be taken by reference
};
using AssignmentCounts = llvm::DenseMap<PyObject *, Assignments>;

class Session {
public:
  Session(mlir::MLIRContext &ctx, const Request &request, artifact::Artifact &artifact);

  mlir::OwningOpRef<mlir::ModuleOp> run();

  [[noreturn]] void fail(const char *className, const llvm::Twine &message);
  [[noreturn]] void failBecause(const char *className, const llvm::Twine &message, std::shared_ptr<PyObject> cause);
  /// Turns the pending Python exception into an error of the user's; `context` stands behind the name of its class.
  [[noreturn]] void failFromPython(nb::python_error &problem, const llvm::Twine &context = "");
  /// Keeps a mistake, so that the ones after it are found too. Throws when these are enough, or when nothing after it was meant to compile.
  void keepMistake(Diagnostic mistake);
  /// Throws the mistakes that were kept, if there are any.
  void throwMistakes();
  void warn(const llvm::Twine &message, PyObject *category);
  void warnAt(llvm::StringRef file, unsigned line, const llvm::Twine &message, PyObject *category);
  /// A log line of level debug that names the place at hand; one for each place and text.
  void note(const llvm::Twine &message);

  /// The data type as an IR type; null when the object is none. `int`, `float` and `bool` are data types.
  mlir::Type findScalarType(nb::handle object) const;
  /// Scalar, vector or matrix type; null when the object is none.
  mlir::Type findValueType(nb::handle object) const;
  /// The type that a value of `type` has once it was read: f32 for bf16.
  mlir::Type valueType(mlir::Type type) const { return ir::getScalar(type) == types.bf16 ? ir::withScalar(type, types.f32) : type; }
  layout::TensorLayout readLayout(nb::handle container) const;
  /// As a kernel sees it: extents of arrays, and strides of those that are not packed, are known at launch only.
  layout::TensorLayout readInputLayout(nb::handle container) const;

  mlir::MLIRContext &ctx;
  const Request &request;
  artifact::Artifact &artifact;
  PythonObjects python;
  LanguageOptions options;
  Types types;
  DependencyTracker tracker;
  mlir::OwningOpRef<mlir::ModuleOp> module;
  FunctionBuilder *current = nullptr; ///< the function whose syntax tree is walked
  std::unordered_map<std::string, Instance> instances;
  std::vector<nb::object> kept;                                           ///< keeps alive what keys of instances name by address
  std::vector<std::pair<ir::TensorArgumentOp, uint32_t>> tensorArguments; ///< with the number of the input
  unsigned callDepth = 0, flattenDepth = 0;
  std::vector<ir::AssertOp> unchecked;                                    ///< of assertions that are evaluated for their effects only
  bool isOver = false;                                                    ///< the mistake on its way is the last one
  llvm::DenseMap<PyObject *, std::shared_ptr<AssignmentCounts>> nameUses; ///< by function tree
  /// Python functions called as funcs, or as real funcs, wrapped; None for those that run in Python.
  std::map<std::pair<PyObject *, bool>, nb::object> plainFunctions;
  llvm::StringMap<unsigned> symbolCounts;
  std::set<std::string> notes;

  /// Erases the unchecked assertions inside of an operation, with what was computed for them alone. No value of the frontend may still
  /// name anything in there.
  void dropUnchecked(mlir::Operation *inside);

private:
  std::vector<Diagnostic> mistakes;
  artifact::SourceLocation currentPlace() const;
  void markWrittenInputs();      ///< input_effects.cpp
  void addSpecializationFacts(); ///< input_effects.cpp
  void addShadows();             ///< shadows.cpp
  LanguageOptions readOptions(nb::handle options) const;
};

} // namespace qd::frontend
