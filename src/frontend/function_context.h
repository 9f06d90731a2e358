// function_context.h: what all classes know about the function that is being compiled
#pragma once

#include "frontend/scopes.h"
#include "frontend/session.h"

#include "mlir/IR/Builders.h"

namespace qd::frontend {

/// The syntax tree of a function, and where it stands.
struct FunctionSource {
  nb::object object, tree;
  std::string file, name;
  PythonObject function; ///< the Python function, with its path
};

/// How the function takes part in the kernel.
struct FunctionRole {
  bool isKernelLevel = false; ///< the kernel, or a func inlined into its top level
  bool isInlined = false;
  bool isPartOfKernel = false; ///< inlined: its variables belong to the kernel
  bool isReal = false;         ///< a real_func
};

/// Position of a statement: directly in a qd.graph.parallel_context(), in one of its sections, or in neither.
enum class Sections : uint8_t { None, Around, Inside };

/// What encloses the current statement or expression.
struct Nesting {
  bool isInsideParallel = false;
  bool isOrdered = false; ///< in an `if` with a known condition without qd.static: loops are serial, as in a run-time `if`
  bool isInStreamBlock = false;
  bool isInCheckpoint = false;
  Sections sections = Sections::None;
  unsigned runtimeDepth = 0; ///< number of run-time if, for and while around the statement
  unsigned staticDepth = 0;  ///< number of calls of qd.static around the expression
  unsigned repeatDepth = 0;  ///< number of qd.graph.do_while around the statement
  unsigned expressionDepth = 0;
};

/// The returned values of a function.
struct Results {
  Operand inlined = makeObject(nb::none()); ///< inlined func: its result
  std::vector<std::pair<ir::ReturnOp, Operand>> returns;
  nb::object types = nb::none(); ///< list of annotations, or None
};

/// The function or kernel into which operations are emitted; inlined functions share it.
struct Body {
  mlir::Block *entry = nullptr;
  mlir::Operation *lastInput = nullptr;
  llvm::DenseMap<uint32_t, mlir::Value> inputs;
};

/// Options of qd.loop_config for the next loop.
struct LoopOptions {
  bool isSerial = false;
  bool isPersistent = false;
  bool clobbers = false;           ///< what is behind a counter's place
  std::vector<int32_t> blockShape; ///< threads of a block along the loop's last axis, the one before it, ...; empty: not given
  std::optional<int32_t> gridDim, maxThreads, residentBlocks, maxRegisters;
  std::string name;
};

/// A container into which no gradient flows from the loop.
struct StoppedGradient {
  mlir::Operation *loop;
  mlir::Value container;
};

/// A loop that encloses the current statement.
struct Loop {
  enum class Kind : uint8_t { Parallel, Sequential, Unrolled };
  Kind kind = Kind::Sequential;
  mlir::Value breakFlag;     ///< loop with `else`: place of the flag that `break` sets; or null
  unsigned runtimeDepth = 0; ///< number of run-time blocks around the loop
  bool leave = false;        ///< unrolled: a `break` was compiled
  bool skip = false;         ///< unrolled: a `continue` was compiled
};

/// The function that is being compiled. The context of a func that is inlined into the kernel's top level (its loops are parallel tasks)
/// emits into its caller's block.
struct FunctionContext {
  FunctionContext(Session &session, nb::object source, PythonObject function, FunctionContext *caller);

  void appendFrames(std::vector<artifact::SourceLocation> &frames) const;
  artifact::SourceLocation locationOf(nb::handle node) const;
  mlir::Location loc();
  bool isTopLevel() const { return role.isKernelLevel && nesting.runtimeDepth == 0 && !nesting.isOrdered; }
  bool isInKernel() const { return caller == nullptr; }
  /// Whether a place is declared outside of the enclosing parallel loop.
  bool isOuterVariable(const Place &place) const;

  Session &session;
  FunctionContext *caller;
  FunctionSource source;
  FunctionRole role;
  mlir::OpBuilder builder;
  std::shared_ptr<Body> body;
  Scopes scopes;
  nb::object node; ///< the current syntax node
  mlir::LocationAttr cachedLoc;
  std::shared_ptr<AssignmentCounts> assignmentCounts;
  std::vector<Loop> loops;
  LoopOptions nextLoop;
  std::vector<StoppedGradient> stopped;
  bool isTerminated = false; ///< the rest of the block is unreachable
  struct {
    unsigned depth = 0;           ///< number of open scopes
    mlir::Block *block = nullptr; ///< where its operations begin; null outside of statements
  } statement;                    ///< that is being compiled
  Nesting nesting;
  Results results;
};

/// Leaves at its end what was entered in its lifetime: nesting, loops and scopes.
class Enter {
public:
  explicit Enter(FunctionContext &context)
      : context(context), nesting(context.nesting), loopCount(context.loops.size()), depth(context.scopes.depth()) {}
  Enter(const Enter &) = delete;
  ~Enter() {
    context.nesting = nesting;
    context.loops.resize(loopCount);
    while (context.scopes.depth() > depth) context.scopes.pop();
  }

private:
  FunctionContext &context;
  Nesting nesting;
  size_t loopCount;
  unsigned depth;
};

/// Sets the current syntax node for the lifetime of the object.
struct At {
  At(FunctionContext &context, nb::handle node) : context(context), saved(std::move(context.node)), savedLoc(context.cachedLoc) {
    context.node = nb::borrow(node);
    context.cachedLoc = {};
  }
  ~At() {
    context.node = std::move(saved);
    context.cachedLoc = savedLoc;
  }
  FunctionContext &context;
  nb::object saved;
  mlir::LocationAttr savedLoc;
};

} // namespace qd::frontend
