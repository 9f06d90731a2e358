// session.h: state that all functions of one compilation share
#pragma once

#include "frontend/dependency_tracker.h"
#include "frontend/frontend.h"
#include "frontend/operand.h"

#include <map>
#include <set>
#include <string>
#include <unordered_map>

namespace qd::frontend {

struct FunctionContext;

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

/// The exception that carries a user's mistake to `build`.
struct CompileError {
  Diagnostic diagnostic;   ///< an empty class name: the consequence of an earlier mistake
  bool isComplete = false; ///< contains all mistakes that were found
};

/// The options of qd.init that change the language.
struct LanguageOptions {
  support::ScalarType defaultFloat = support::ScalarType::F32;
  support::ScalarType defaultInteger = support::ScalarType::I32;
  bool isInterpreted = false; ///< the kernel is checked only; the interpreter runs it
  bool debug = false;
  bool checksBounds = false;
  bool checksNans = false;
  bool checksRaces = false;
  bool fastMath = true; ///< the sign of zero is unspecified
  bool strictConditions = false;
  bool strictMathTypes = false;
  bool shortCircuit = true;
  bool raiseOnTemplatedFloats = false;
  int64_t unrollingLimit = 32;
  int64_t maxRounds = 0; ///< of qd.graph.do_while; 0: any number
};

/// The scalar types, created once per compilation.
struct Types {
  explicit Types(mlir::MLIRContext *ctx, const LanguageOptions &options);
  mlir::Type u1, i32, i64, u32, u64, f16, f32, f64, bf16, defaultInteger, defaultFloat;
};

/// A function compiled for one combination of argument types and compile-time arguments.
struct FunctionInstance {
  ir::FuncOp op;
  Operand result; ///< shape and types of the returned value
  bool isInProgress = true;
  bool deactivates = false; ///< it deactivates cells
};

/// How often a name is assigned in a function; a name that needs a place counts twice. A name that is assigned once needs no place.
struct AssignmentCount {
  unsigned count = 0;
  bool hasItemAssigned = false; ///< `name[i]`, or a part of it, is assigned
  bool hasPartAssigned = false; ///< `name[i][j]`, or a part of it, is assigned
  bool hasItemPassed = false;   ///< `name[i]` is an argument that may be passed by reference
};
using AssignmentCounts = llvm::DenseMap<PyObject *, AssignmentCount>;

/// The checkpoints of a kernel (statements/checkpoints.cpp).
struct CheckpointState {
  struct Gate {
    ir::IfOp op;
    std::vector<artifact::SourceLocation> frames; ///< the statement in it
  };
  mlir::Value label;                               ///< argument: the label of the checkpoint from which the launch resumes
  mlir::Value position, status;                    ///< variables
  int32_t count = 0;                               ///< number of the current part of the kernel
  std::vector<std::pair<int64_t, int32_t>> labels; ///< of the checkpoints, with the numbers of the parts that they begin
  std::vector<Gate> gates;
};

/// The functions that the compilation has met so far.
struct SeenFunctions {
  std::unordered_map<std::string, FunctionInstance> instances;
  std::vector<nb::object> keptAlive; ///< objects that keys of `instances` identify by address
  /// (Python function, is it a real func) → the func that wraps it, or None if it runs in Python.
  std::map<std::pair<PyObject *, bool>, nb::object> plainFunctions;
  llvm::DenseMap<PyObject *, mlir::Block *> collectionOwners; ///< of sets and other collections of Python: the blocks that named them
  llvm::DenseMap<PyObject *, std::shared_ptr<AssignmentCounts>> assignmentCounts; ///< by function tree
  llvm::StringMap<unsigned> symbolCounts;
};

/// What is known about the cells of sparse trees.
struct CellActivity {
  std::vector<nb::object> assumedActive; ///< arguments of qd.no_activate
  unsigned deactivations = 0;            ///< number of calls so far that deactivate cells
};

class Session {
public:
  Session(mlir::MLIRContext &ctx, const Request &request, artifact::Artifact &artifact);

  mlir::OwningOpRef<mlir::ModuleOp> run();

  [[noreturn]] void fail(const char *className, const llvm::Twine &message);
  [[noreturn]] void failBecause(const char *className, const llvm::Twine &message, std::shared_ptr<PyObject> cause);
  /// Turns the pending Python exception into a user's mistake; its message has `context` after the name of the exception's class.
  [[noreturn]] void failFromPython(nb::python_error &problem, const llvm::Twine &context = "");
  /// Records a mistake, so that compilation can find later ones. Throws at the limit, and if the statements after it must not be compiled.
  void recordMistake(Diagnostic mistake);
  /// Throws the recorded mistakes, if there are any.
  void throwMistakes();
  void warn(const llvm::Twine &message, PyObject *category);
  void warnAt(llvm::StringRef file, unsigned line, const llvm::Twine &message, PyObject *category);
  /// Processes that find the kernel on disk do not repeat the warning, because they do not compile.
  void warnOfCompileTime(const llvm::Twine &message);
  /// Writes a log line of level debug with the current source location, once per location and text.
  void logDebug(const llvm::Twine &message);

  /// The IR type of a data type; null for any other object. `int`, `float` and `bool` are data types.
  mlir::Type findScalarType(nb::handle object) const;
  /// The IR type of a scalar, vector or matrix type; null for any other object.
  mlir::Type findValueType(nb::handle object) const;
  /// The type of a value of `type` after it has been read: f32 for bf16.
  mlir::Type valueType(mlir::Type type) const { return ir::getScalar(type) == types.bf16 ? ir::withScalar(type, types.f32) : type; }
  layout::TensorLayout readLayout(nb::handle container) const;
  bool hasCheckpoints() const; ///< whether the kernel was declared with checkpoints=True
  /// The layout of a container as an input: extents of arrays, and strides of unpacked arrays, are known at launch only.
  layout::TensorLayout readInputLayout(nb::handle container) const;

  mlir::MLIRContext &ctx;
  const Request &request;
  artifact::Artifact &artifact;
  PythonObjects python;
  LanguageOptions options;
  Types types;
  DependencyTracker tracker;
  llvm::DenseMap<mlir::Type, uint32_t> exchangeArrays; ///< of the threads of a block, by type; numbers of the tracker
  mlir::OwningOpRef<mlir::ModuleOp> module;
  FunctionContext *current = nullptr; ///< the function that is being compiled
  SeenFunctions functions;
  std::vector<std::pair<ir::TensorArgumentOp, uint32_t>> tensorArguments; ///< with the number of the input
  struct {
    unsigned calls = 0, flattened = 0;
  } depth;                                    ///< of nested calls, and of nested objects that become arguments
  std::vector<ir::AssertOp> unchecked;        ///< assertions that are evaluated for their effects only
  bool isLastMistake = false;                 ///< a recorded mistake ends the compilation
  std::optional<CheckpointState> checkpoints; ///< empty: the kernel was declared without checkpoints=True
  CellActivity cells;
  std::set<std::string> logged; ///< locations and texts of debug lines

  /// Erases the unchecked assertions in an operation, and the computations that only they use. No operand may refer to an
  /// operation in it afterwards.
  void dropUnchecked(mlir::Operation *inside);

private:
  std::vector<Diagnostic> mistakes;
  /// Of containers, which are held: a kernel refers to few, and accesses them often.
  mutable llvm::DenseMap<PyObject *, std::pair<nb::object, layout::TensorLayout>> layouts;
  artifact::SourceLocation currentLocation() const;
  void markWrittenInputs();      ///< input_effects.cpp
  void markMargins();            ///< input_effects.cpp
  void addSpecializationFacts(); ///< input_effects.cpp
  void addShadows();             ///< shadows.cpp
  LanguageOptions readOptions(nb::handle options) const;
};

} // namespace qd::frontend
