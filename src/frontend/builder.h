// builder.h: compiles the syntax tree of one function to IR
//
// There is one FunctionBuilder per function body. The builder of a func that is inlined into the kernel's top level (its loops are parallel
// tasks) emits into its caller's block. The methods are in files by subject; the headings in the class name them.
#pragma once

#include "frontend/session.h"

#include "mlir/IR/Builders.h"

#include "llvm/ADT/StringSet.h"

#include <functional>

namespace qd::frontend {

/// The meaning of a name in a scope.
struct Binding {
  enum class Kind : uint8_t {
    Variable,     ///< a place, or the value of a name that is assigned once
    Static,       ///< a compile-time object or container
    Parameter,    ///< parameter of a kernel; cannot be assigned
    LoopVariable, ///< cannot be assigned
    Merged,       ///< assigned in both branches of an earlier `if`; becomes a variable when it is used
    Partial       ///< assigned on some paths only; its use is an error
  };
  Kind kind = Kind::Variable;
  Value value;
  unsigned scope = 0;
  unsigned runtimeDepth = 0; ///< Static: number of enclosing run-time blocks
  std::shared_ptr<struct Merge> merge;
  int64_t line = 0;         ///< Partial: line of the `if` with a branch that does not assign it, or of the loop that declares its own
  const char *missing = ""; ///< Partial: the branch that does not assign it, as text; null: `line` is that of a loop
};

/// A name that both branches of an `if` assign, with its value at the end of each.
struct Merge {
  ir::IfOp branches;
  Value values[2];
  bool isTerminated[2] = {false, false};
};

/// The names of one function and their bindings.
class Scopes {
public:
  void push() { opened.emplace_back(); }
  /// Closes the innermost scope and returns its bindings in order.
  std::vector<std::pair<PyObject *, Binding>> pop();
  Binding *find(PyObject *name);
  Binding &bind(PyObject *name, Binding binding);
  /// The name of the variable in this place, or null.
  PyObject *findName(mlir::Value place) const;
  unsigned depth() const { return unsigned(opened.size()); }
  std::vector<std::string> listNames() const;
  /// Marks a name that an erroneous statement assigns. Until it is bound again, its use is not reported as a mistake.
  void poison(PyObject *name) { poisoned.insert(name); }
  bool isPoisoned(PyObject *name) const { return poisoned.contains(name); }
  /// The variables of the enclosing loops, outermost first.
  std::vector<std::pair<PyObject *, Value>> listLoopVariables() const;

private:
  llvm::DenseSet<PyObject *> poisoned;
  llvm::DenseMap<PyObject *, std::vector<Binding>> bindings;
  std::vector<std::vector<PyObject *>> opened;
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
  std::optional<int32_t> blockDim, maxThreads;
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

/// The arguments of a call.
struct Arguments {
  std::vector<Value> positional;
  std::vector<std::pair<std::string, Value>> named;
};

/// An operator of the language: its syntax node, its op, its spelling, and the C function that computes it for known values.
struct Operator {
  NodeKind node;
  ir::BinaryKind kind;
  llvm::StringLiteral symbol;
  PyObject *(*compute)(PyObject *, PyObject *);
};

/// The operator of a syntax node; null for matrix products, `is` and `in`.
const Operator *findOperator(NodeKind node);

class FunctionBuilder {
public:
  FunctionBuilder(Session &session, nb::object source, Value function, FunctionBuilder *caller);
  ~FunctionBuilder();

  /// Emits the kernel; returns after the module is complete.
  void buildKernel();
  void appendFrames(std::vector<artifact::SourceLocation> &frames) const;

private:
  using Names = std::vector<nb::object>;
  friend struct At;
  friend class Session;

  /// A formatted message.
  struct Fragments {
    llvm::SmallVector<mlir::Attribute> fragments; ///< literal text: string; operand: list with its format; number of the thread: unit
    llvm::SmallVector<mlir::Value> values;
    bool isConstant = false; ///< known while compiling; numbers are formatted as in Python
    void text(mlir::OpBuilder &builder, llvm::StringRef text);
    llvm::StringRef getText() const; ///< requires `isConstant`
  };

  //--- statements.cpp ---
  void visitBody(nb::handle statements);
  void visitBlock(nb::handle statements); ///< in a new scope
  /// Compiles a statement of the kernel. Records a mistake in it, so that the next statements are compiled to find more.
  void visitRecovering(nb::handle statement);
  void visitStatement(nb::handle statement);
  void visitStatementNode(nb::handle statement);
  void visitIf(nb::handle node);
  /// `otherwise` may be empty.
  void emitIf(mlir::Value condition, const std::function<void()> &then, const std::function<void()> &otherwise);
  void visitReturn(nb::handle node);
  void visitAssert(nb::handle node);
  void visitExpressionStatement(nb::handle node);
  [[noreturn]] void failUnsupported(nb::handle node);
  void visitDelete(nb::handle node);
  void visitWith(nb::handle node);
  void visitStreamBlock(nb::handle node);
  /// Fails if the call of a graph's context manager has arguments or is not in the kernel itself; warns about its deprecated names.
  void requirePlainContext(nb::handle call, llvm::StringRef name);
  void visitSections(nb::handle node, nb::handle call);
  void visitSection(nb::handle node, nb::handle call);
  /// Fails unless a statement of a parallel context is a section, or a static loop or branch around sections.
  void requireSection(nb::handle statement);
  /// Compiles the body of a `with` statement whose tasks do not wait for those of its neighbors.
  void visitBranch(nb::handle node);
  struct Branch {
    std::vector<std::pair<PyObject *, Binding>> bindings; ///< names that the branch declares
    bool isTerminated = false;
  };
  /// Emits one region of a run-time construct in a new scope.
  Branch runBranch(mlir::Region &region, const std::function<void()> &emit);
  /// Marks outer Merged names that a loop has assigned as Partial: their merged values would be outdated after the loop.
  void invalidateMerged(const std::vector<std::pair<PyObject *, Binding>> &made);
  void mergeBranches(ir::IfOp op, Branch (&branches)[2]);

  //--- assignment.cpp ---
  void visitAssign(nb::handle node);
  void visitAugmentedAssign(nb::handle node);
  void visitAnnotatedAssign(nb::handle node);
  void assign(nb::handle target, const Value &value);
  void assignName(nb::handle target, const Value &value, mlir::Type declared = {});
  Value memberTarget(const Value &base, nb::handle name);
  /// The element or member that an assignment changes. An item of a compile-time list or dict is assigned here; then the result is none.
  std::optional<Value> visitTarget(nb::handle target, const Value &value);
  void requirePlace(const Value &place); ///< fails if it cannot be assigned
  /// The targets of an unpacking and their values; the value of a starred target is a list.
  std::vector<std::pair<nb::object, Value>> pairTargets(nb::handle targets, const Value &value);
  void store(const Value &place, const Value &value);
  void storeTyped(const Value &place, mlir::Value value);
  /// Fails if only one value is a struct, or if both are structs with different members.
  void requireSameMembers(const Value &first, const Value &second);
  /// Calls `act` for a place, or for the place of each component, with the corresponding part of the value.
  void forEachPlace(const Value &place, mlir::Value value, llvm::function_ref<void(mlir::Value ref, mlir::Value part)> act);
  void augment(const Value &place, ir::BinaryKind kind, const Value &value, llvm::StringRef symbol);
  Value declare(const Value &value, bool isAssignedOnce);
  Value copy(const Value &value);
  Value merge(Binding &binding, PyObject *name);
  Value makeLocal(mlir::Type type);
  std::vector<Value> listItems(const Value &value, llvm::StringRef purpose);
  Value indexVector(nb::handle index); ///< the loop variable of an unrolled loop, from a tuple of numbers
  [[noreturn]] void failImmutable(const llvm::Twine &name);
  [[noreturn]] void failCaptured(const llvm::Twine &name);
  static bool isVisible(const Binding *binding);
  /// The variable that an assignment to the name changes; null if the assignment declares it. Fails if the name cannot be assigned.
  Binding *findTarget(nb::handle target);

  //--- loops.cpp ---
  void visitFor(nb::handle node);
  void visitWhile(nb::handle node);
  /// The callee of the `qd.graph.do_while(flag)` in the test of a while loop; null for any other loop.
  nb::object findRepeat(nb::handle test);
  Value visitRepeatFlag(nb::handle call, nb::handle callee);
  void visitRepeat(nb::handle node, nb::handle callee);
  /// Counts the rounds of a do_while and fails the launch above the limit.
  void checkRounds(const Value &rounds, const Value &flag);
  void visitLoopControl(NodeKind kind);
  void unroll(nb::handle node, const Value &iterable);
  struct Box {
    std::vector<mlir::Value> lower, upper, steps;
    std::vector<int32_t> axes;  ///< order of the loops, outermost first; empty: in order of the axes
    bool isGrouped = false;     ///< the loop variable is an index vector
    bool isNdrange = false;     ///< its loop variables can be assigned
    std::vector<bool> isBiased; ///< per axis: the bounds and the indices of the op are `biased`; empty: none
  };
  void loopOver(nb::handle node, Box box);
  Box boxOfRange(const Value &range, nb::handle target);
  /// Inverts the sign bit of an i64, which turns the unsigned order into the signed one; its own inverse.
  mlir::Value biased(mlir::Value value);
  mlir::Value clipped(const Value &value); ///< a u64 as an i64; clips counts that no loop can reach
  void requireStep(mlir::Value step);      ///< fails the launch if the step is 0
  Box boxOfContainers(const std::vector<Value> &containers, bool isGrouped, nb::handle target);
  /// The part of a container that indices and slices select; the loop's indices are those of the container.
  Box boxOfSlice(const Value &container, const std::vector<Value> &indices, nb::handle target);
  /// One of two ranges, selected at run time.
  Value chooseRange(nb::handle node, mlir::Value condition);
  /// The iterations of a loop; none if it is unrolled.
  std::optional<Box> findBox(nb::handle iterNode, Value &iterable, nb::handle target);
  std::pair<mlir::Value, mlir::Value> findBounds(const Value &container, size_t axis);
  static size_t countAxes(const Value &container); ///< for a tensor or view
  /// The first index and the end of each axis of a container, or of the cells of a node.
  std::vector<std::pair<mlir::Value, mlir::Value>> listBounds(Value container);
  size_t countTargets(nb::handle target);
  Value leafTensor(Value container); ///< for a container of structs: its first container of numbers
  bool isContainer(const Value &value);
  void checkIndices(const Box &box, nb::handle target);
  mlir::Type boundType(llvm::ArrayRef<Value> bounds);
  Value toRange(const Value &object);
  void bindLoopVariable(nb::handle target, const Value &value);
  /// Like bindLoopVariable, with a variable for each index that the body assigns.
  void bindIndices(nb::handle target, const Value &value, nb::handle body);
  void checkLoopTarget(nb::handle target);
  void visitElse(nb::handle node, mlir::Value breakFlag);
  mlir::Value makeBreakFlag(nb::handle node);
  Value makeRange(const Arguments &arguments);
  Value makeNdrange(const Arguments &arguments);
  Value makeZip(const Arguments &arguments);
  void configureLoop(const Arguments &arguments);

  //--- shared_variables.cpp ---
  /// Turns updates of outer variables in a parallel loop into atomic updates, and warns about other assignments to them.
  void materializeSharedVariables(ir::ForOp loop);

  //--- stopped_gradients.cpp ---
  void stopGradient(const Value &container);
  bool isStopped(mlir::Value place);
  mlir::Value withoutDerivative(mlir::Value value);

  //--- expressions.cpp ---
  Value visit(nb::handle node);
  Value visitNode(nb::handle node);
  Value visitName(nb::handle node);
  Value lookUpGlobal(nb::handle name);
  Value visitCompare(nb::handle node);
  Value compare(NodeKind kind, const Value &left, const Value &right);
  Value visitBoolean(nb::handle node);
  Value visitConditional(nb::handle node);
  Value visitDisplay(nb::handle node, bool isTuple);
  Value makeSet(const Value &items); ///< requires known items
  Value visitDictionary(nb::handle node);
  /// The values of a list of nodes; a starred node contributes its items.
  std::vector<Value> visitAll(nb::handle nodes, llvm::function_ref<Value(nb::handle)> visitOne);
  /// Keys and items of a dict or struct.
  std::vector<std::pair<nb::object, Value>> listPairs(const Value &value);
  nb::object knownKey(const Value &value);
  Value *findKey(const Value &dictionary, nb::handle key);   ///< null if there is none
  Value *findItem(const Value &container, const Value &key); ///< in a list or dict; null if there is none
  void assignItem(const Value &container, const Value &key, const Value &value);
  /// Makes the current block the owner of a list or dict. Items of compiled code become variables if the function assigns items.
  void materialize(const Value &container, const Assignments &use);
  Value copyElement(const Value &value);
  /// The atomic operation for a scalar type: or, exclusive or and and are sum, difference and product of u1.
  static ir::AtomicKind getAtomicKind(ir::AtomicKind kind, mlir::Type scalar);
  void put(const Value &dictionary, nb::object key, Value value);
  Value visitComprehension(nb::handle node);
  void emitComprehension(nb::handle generators, size_t level, const std::function<void()> &emit);
  Value visitBinary(nb::handle node);
  Value chooseBranch(mlir::Value condition, const std::function<Value()> &first, const std::function<Value()> &second);
  /// Whether the operations of the block are cheap and may run although the branch is not taken.
  bool isSpeculatable(mlir::Block &block);

  //--- operators.cpp ---
  Value binary(ir::BinaryKind kind, Value lhs, Value rhs, llvm::StringRef symbol);
  mlir::Value binaryTyped(ir::BinaryKind kind, mlir::Value lhs, mlir::Value rhs, llvm::StringRef symbol);
  Value unary(ir::UnaryKind kind, const Value &operand, llvm::StringRef name);
  Value power(const Value &base, const Value &exponent);
  Value matmul(const Value &lhs, const Value &rhs);
  [[noreturn]] void failOperands(llvm::StringRef symbol, const Value &lhs, const Value &rhs);
  Value select(const Value &condition, const Value &first, const Value &second);
  Value fuseMultiplyAdd(const Value &x, const Value &y, const Value &z);
  Value mapStructs(ir::BinaryKind kind, const Value &lhs, const Value &rhs, llvm::StringRef symbol);
  Value negate(const Value &operand);
  Value logicalNot(const Value &operand);
  mlir::Type promote(mlir::Type lhs, mlir::Type rhs) const;
  mlir::Type promoteArithmetic(mlir::Type lhs, mlir::Type rhs) const;
  void unifyShapes(mlir::Value &lhs, mlir::Value &rhs, llvm::StringRef symbol);
  mlir::Value cast(mlir::Value value, mlir::Type scalar);
  mlir::Value broadcast(mlir::Value scalar, mlir::Type shape);
  /// The value with exactly this type: casts the scalar type, broadcasts a scalar; other shapes are an error.
  mlir::Value convert(mlir::Value value, mlir::Type type);
  mlir::Value convert(const Value &value, mlir::Type type);
  /// A scalar condition.
  mlir::Value truth(const Value &value, llvm::StringRef construct);
  mlir::Value nonZero(mlir::Value value); ///< u1, component by component
  mlir::Value constant(int64_t value, mlir::Type type);
  mlir::Value constantFloat(double value, mlir::Type type);
  mlir::Value constantNumber(nb::handle number, mlir::Type type);
  bool holds(mlir::Type type, nb::handle integer); ///< whether an integer type can represent the value
  mlir::Type literalType(nb::handle number, mlir::Type anchor);
  mlir::Value extract(mlir::Value vector, int64_t component);
  mlir::Value makeVector(llvm::ArrayRef<mlir::Value> components, mlir::Type type);
  mlir::Value reduce(ir::BinaryKind kind, mlir::Value vector);

  //--- conversions.cpp ---
  /// The value as one typed IR value: loads places, builds constants and vectors. `anchor`: type of the other operand, for large literals.
  mlir::Value emit(const Value &value, mlir::Type anchor = {});
  /// Converts a loaded value to the type of computations: bf16 to f32.
  mlir::Value widened(mlir::Value value);
  /// Rounds a value of type bf16 to the f32 that a store and a load would yield; returns any other value unchanged.
  Value rounded(const Value &value);
  bool canEmit(const Value &value);
  bool isConstant(const Value &value);
  /// The value as a Python object; null if a part of it is known at run time only.
  nb::object toPython(const Value &value);
  /// The value as a Python object; fails for a run-time value.
  nb::object known(const Value &value);
  /// Python's truth of a compile-time value.
  bool isTrue(const Value &value);
  Value fromPython(nb::handle object, const PathNode *path);
  Value load(const Value &value);
  mlir::Value emitObject(const Value &value, mlir::Type anchor);
  mlir::Value emitSequence(const Value &value);
  mlir::Value emitHostMatrix(nb::handle object);
  mlir::Value getInput(const Value &value);
  std::optional<int64_t> findInteger(const Value &value);
  mlir::Type findType(const Value &value);
  std::string describe(const Value &value);
  /// `shape`: the known extents, with None for the others.
  Value toTensor(const Value &value, nb::handle shape = nb::handle());
  bool isTensor(const Value &value) { return value.is(Value::Kind::Tensor) || (value.isObject() && session.python.isTensor(value.object)); }

  //--- subscripts.cpp ---
  Value visitSubscript(nb::handle node);
  Value subscript(const Value &base, nb::handle index);
  Value subscriptValues(const Value &base, const std::vector<Value> &indices, bool isTuple);
  Value subscriptTensor(const Value &tensor, const std::vector<Value> &indices);
  Value viewOf(const Value &tensor, std::vector<Value> indices); ///< the subview at the given leading indices
  [[noreturn]] void failIndexCount(const Value &tensor, size_t count);
  Value subscriptVector(const Value &base, const std::vector<Value> &indices);
  /// A known integer index of a list, also if it is a component of a constant vector.
  std::optional<int64_t> findPosition(const Value &index);
  Value subscriptSequence(const Value &base, const Value &index);
  Value subscriptObject(const Value &base, const Value &index);
  Value component(const Value &base, int64_t flat);
  Value placeOfComponent(const Value &base, llvm::ArrayRef<mlir::Value> indices);
  Value componentsOf(const Value &base, std::vector<int32_t> components, mlir::Type type);
  Value componentPlace(const Value &components, size_t position);
  std::vector<Value> visitIndices(nb::handle index);
  int64_t knownLength(nb::handle slice);                              ///< of a slice such as `i:i + 2`; 0 if unknown
  std::vector<Value> flattenIndices(const std::vector<Value> &given); ///< expands vectors and lists
  int64_t wrapIndex(int64_t index, int64_t size, const llvm::Twine &container);
  nb::object makeSlice(const Value &range);
  std::vector<int64_t> sliceComponents(const Value &slice, int64_t extent);
  Value tensorShape(const Value &tensor);
  mlir::Value extent(const Value &tensor, int axis);
  mlir::Value indexValue(const Value &value, size_t position);

  //--- views.cpp ---
  /// A view, or the view of a whole container.
  Value toView(const Value &value);
  static std::vector<Value> listRanges(const Value &view); ///< of the view's axes: start, count and step
  Value combineIndices(ir::BinaryKind kind, const Value &first, const Value &second, llvm::StringRef spelling);
  Value add(const Value &first, const Value &second);
  Value subtract(const Value &first, const Value &second);
  Value multiply(const Value &first, const Value &second);
  Value productOf(const std::vector<Value> &counts);
  Value viewBound(const Value &bound); ///< requires an integer that is not a negative constant
  Value sliceRange(const Value &range, const Value &slice);
  Value subview(const Value &view, const Value &start, const Value &size);
  Value subscriptView(const Value &view, const std::vector<Value> &indices);
  Value viewAttribute(const Value &view, nb::handle name);
  bool isHostView(const Value &tensor);
  void requireNoHostView(const Value &tensor); ///< records that the array is no view: a view needs another version
  /// Offset and strides of a view or container in its underlying array, in elements.
  Value viewOffset(const Value &container);
  Value viewStrides(const Value &container);
  Value makeView(Arguments &arguments);
  /// The view clipped to its container, for code without a bounds check of the view.
  Value clippedView(const Value &view);
  Value clampIndex(const Value &index, const Value &count);
  /// In debug mode, fails the launch unless 0 <= index and `index kind limit` for each pair of index and limit.
  mlir::Operation *checkWithin(const std::vector<std::pair<Value, Value>> &indices, ir::BinaryKind kind, artifact::Site::Kind site,
                               llvm::StringRef what, llvm::function_ref<void(Fragments &)> describeValues);
  mlir::Operation *checkSlice(const std::vector<Value> &bounds, const Value &start, const Value &size, const Value &parent);
  void checkViewIndices(const Value &view, const std::vector<Value> &indices, const std::vector<Value> &counts);
  void addLabeled(Fragments &fragments, llvm::StringRef label, const Value &value);
  void addList(Fragments &fragments, llvm::StringRef label, const std::vector<Value> &values);

  //--- attributes.cpp ---
  Value visitAttribute(nb::handle node);
  Value getAttributeOf(const Value &base, nb::handle name);
  Value vectorAttribute(const Value &base, nb::handle name);
  Value typeAttribute(mlir::Type type, llvm::StringRef name); ///< dtype, n, m, ...; not `isGiven` if there is none
  Value makeInput(const PathNode *path, mlir::Type type);
  Value tensorAttribute(const Value &base, nb::handle name);
  Value structAttribute(const Value &base, nb::handle name);
  Value objectAttribute(const Value &base, nb::handle name);
  Value dataclassMember(const Value &base, nb::handle name, nb::object annotation);
  Value swizzle(const Value &base, llvm::StringRef letters);
  Value makeMethod(const Value &receiver, nb::handle name);

  //--- calls.cpp ---
  Value visitCall(nb::handle node);
  /// The arguments of a call. Arguments that `callee` takes by value are loaded in order.
  Arguments visitArguments(nb::handle at, const Value *callee = nullptr);
  bool mayTakeReference(const Value &callee, size_t position, nb::handle name);
  Value call(const Value &callee, Arguments &arguments, nb::handle node);
  Value callPython(const Value &callee, Arguments &arguments);
  std::optional<Value> callClass(const Value &callee, Arguments &arguments);
  Value callMethod(const Value &method, Arguments &arguments, nb::handle node);
  /// Whether Python can evaluate the call now: all arguments are known and none is a func.
  bool isKnownCall(const Arguments &arguments);
  std::optional<Value> tryPython(nb::handle callable, const Value &callee, const std::string &name, Arguments &arguments);
  Value runPython(nb::handle callable, const Value &callee, const std::string &name, Arguments &arguments);
  [[noreturn]] void failRuntimeOperands(nb::handle callable, const std::string &name);
  Value callSequenceMethod(const Value &receiver, llvm::StringRef name, Arguments &arguments);
  Value castLiteral(mlir::Type type, Arguments &arguments);

  //--- callables.cpp ---
  /// Calls an object that wraps another callable: a method, a partial, an object with `__call__`. None for any other callee.
  std::optional<Value> callWrapped(const Value &callee, Arguments &arguments, nb::handle node);
  /// Calls a Python function with run-time values: compiles it as a func, or, if that is impossible, runs it on stand-ins.
  Value callPlain(const Value &function, const Value *self, Arguments &arguments);
  /// Calls `object` in Python with stand-ins for run-time values, whose operators emit code.
  Value callWithOperands(nb::handle object, const std::string &name, const Value *self, Arguments &arguments);
  Value applyOperator(llvm::StringRef name, const std::vector<Value> &given, Arguments &named);
  /// `functools.partial` with run-time values: a Method whose items are the callee, positional arguments and named arguments.
  Value makePartial(const Value &type, Arguments &arguments);
  Value callPartial(const Value &partial, Arguments &arguments, nb::handle node);
  /// `qd.func(function)` in a kernel.
  Value declareFunc(nb::handle decorator, Arguments &arguments);
  /// Records the globals, closure variables and attributes that the code of a Python function names.
  void readCaptured(nb::handle function, const PathNode *path, const Value *self);

  //--- instances.cpp ---
  bool isUserClass(nb::handle object);
  /// Constructs an object with run-time members. Its `__init__` is inlined here.
  Value makeInstance(const Value &type, Arguments &arguments);
  Value makeNamedTuple(const Value &type, Arguments &arguments);
  Value instanceAttribute(const Value &base, nb::handle name);
  /// An item, method or constant of a named tuple.
  Value namedTupleAttribute(const Value &base, nb::handle name);
  void storeMember(const Value &instance, nb::handle name, const Value &value);
  static bool holdsInstance(const Value &value);
  /// Turns the members of objects that a call has returned into variables.
  void materializeInstances(Value &value);
  /// The fields of a dataclass with their values in a call.
  std::vector<std::pair<nb::object, Value>> bindFields(nb::handle type, Arguments &arguments);
  nb::object makeEmptyInstance(const Value &instance); ///< without its members

  //--- special_methods.cpp ---
  /// The user's class of an object, which compiled code or Python has constructed; null for any other value.
  nb::object findUserClass(const Value &value);
  /// Calls a method such as `__add__`. None if there is none or if it returns NotImplemented.
  std::optional<Value> callSpecial(const Value &value, const std::string &name, std::vector<Value> operands);
  /// Applies a binary operator to operands of which one is an object of a user's class.
  std::optional<Value> callOperator(NodeKind node, const Value &lhs, const Value &rhs);
  /// The new value of the target of `target op= value`.
  std::optional<Value> callInPlace(NodeKind node, const Value &target, const Value &value);
  /// The truth of an Instance: the result of `__bool__` or `__len__`, by default True.
  std::optional<Value> truthOfInstance(const Value &value);

  //--- functions.cpp ---
  /// A nested function with the variables that it captures, as a Method.
  Value makeLocalFunc(nb::handle node);
  bool isSuperCall(nb::handle node);
  Value superAttribute(nb::handle name);
  Value callFunc(const Value &func, const Value *self, Arguments &arguments);
  std::vector<Value> bindArguments(const Value &func, const Value *self, Arguments &arguments);
  Value passArgument(nb::handle parameter, const Value &value);
  bool isOuterVariable(const Value &place) const; ///< whether it is declared outside of the enclosing parallel loop
  /// Lists the IR values of a value. With `key`, places are not loaded, and `key` receives a text that identifies everything else.
  void flatten(const Value &value, llvm::SmallVectorImpl<mlir::Value> &operands, std::string *key);
  /// The inverse of `flatten`, with other IR values.
  Value rebuild(const Value &shape, llvm::function_ref<mlir::Value()> next, bool byReference);
  struct Callee {
    nb::object func;
    Value function; ///< the Python function, with its path
    nb::object source;
  };
  Value callInstance(const Callee &callee, const std::vector<Value> &values);
  /// Emits the func into the current block. With `hasTasks`, its outermost loops are tasks of the kernel.
  Value inlineCall(const Callee &callee, const std::vector<Value> &values, bool hasTasks);
  Value shapeOf(nb::handle annotation);
  Value buildFunction(ir::FuncOp op, const std::vector<Value> &values);
  void emitBody(const std::vector<Value> &values);
  std::vector<nb::object> listParameterNames();
  void bindParameters(const std::vector<Value> &values);
  Value unifyReturns(ir::FuncOp op);
  /// The type to which both types are promoted; null if their shapes differ.
  mlir::Type findCommonType(mlir::Type first, mlir::Type second);

  //--- simt.cpp ---
  Value callSimt(llvm::StringRef name, Arguments &arguments);
  Value makeSharedArray(const Value &shape, const Value &dtype);
  Value shuffle(const Value &value, const Value &lane, bool again);
  Value limitOf(const Value &value, bool isLargest);

  //--- register_tiles.cpp ---
  bool isRegisterTile(const Value &value);
  /// Calls a func of the tile's type.
  Value callRegisterTile(const Value &tile, const char *name, std::vector<Value> given);
  /// The operand of one lane in a statement about a tile: a slice along one axis becomes the element of the lane's row.
  Value laneValue(const Value &tile, const Value &value);
  /// `tile[:] = value`.
  void loadTile(const Value &tile, nb::handle index, const Value &value);
  /// `tile += qd.outer(a, b)` and the like.
  void augmentTile(const Value &tile, nb::handle statement);

  //--- assignment_counts.cpp ---
  void collectAssignments();
  bool isStaticCall(nb::handle node); ///< `qd.static(...)`
  /// Whether a statement of the body assigns the name or may pass it by reference.
  bool isAssignedIn(nb::handle body, nb::handle name);
  nb::object resolveCallee(nb::handle node);
  std::string builtinName(nb::handle object); ///< "" if it is no function of quadrants._language.builtins
  /// Whether the function contains loops that become tasks if it is called at the kernel's top level.
  bool containsTasks();
  bool returnsAtEnd(); ///< no return is under a run-time branch or loop
  bool mayContainTasks(nb::handle statements);
  bool isCompileTimeTest(nb::handle test);
  bool returnsEarly(nb::handle statements, bool isNested);

  //--- arguments.cpp ---
  void bindKernelParameters();
  Value makeStructArgument(nb::handle structType, const PathNode *path);
  Value withBoundary(Value container, nb::handle annotation); ///< sets `isClamped` from the annotation
  Value makeArrayArgument(nb::handle parameter, nb::handle argument, const PathNode *path);
  /// Sets the extents that the annotation of an array fixes. `shape`: a tuple with None for unknown extents; ignored if it is no tuple.
  static void setKnownExtents(layout::TensorLayout &layout, nb::handle shape);
  /// An array of another library. Its last `elementRank` axes are those of the element; `known`: as `shape` of setKnownExtents.
  Value makeExternalArray(nb::handle argument, const PathNode *path, size_t elementRank, nb::handle known = nb::handle());
  Value makeTensor(const Value &container, layout::TensorLayout layout, bool isField);
  std::vector<mlir::Type> listResultTypes();
  Value convertResult(nb::handle annotation, const Value &value);
  Value convertResults(const Value &value); ///< converts returned values to the annotated types
  /// Casts the numbers that an inlined func returns to the annotated scalar types; shapes may differ from the annotation.
  Value castResults(const Value &value);
  Value castResult(nb::handle annotation, const Value &value);

  //--- builtin_calls.cpp ---
  /// The arguments in the order of `parameters`, a list of names separated by blanks. A name with "?" is optional; its default is None.
  std::vector<Value> bind(const llvm::Twine &function, const Arguments &arguments, llvm::StringRef parameters);
  /// The data type that an argument of `function` names; null for None.
  mlir::Type scalarTypeOf(const Value &value, const llvm::Twine &function);
  Value callBuiltin(llvm::StringRef name, const Value &callee, Arguments &arguments);
  Value loadVolatile(const Value &target, llvm::StringRef name);
  Value callStaticPrint(Arguments &arguments);
  Value makeGrouped(const Value &operand);
  Value callStatic(Arguments &arguments);
  Value callMinMax(ir::BinaryKind kind, Arguments &arguments, llvm::StringRef name);
  Value callOrdered(llvm::StringRef name, Arguments &arguments, llvm::function_ref<Value()> call);
  Value callAtomic(llvm::StringRef name, Arguments &arguments);
  Value callCast(const Value &value, mlir::Type scalar);
  Value callReduction(llvm::StringRef name, Arguments &arguments);
  Value sortItems(const Value &list, Arguments &arguments);
  Value combineSequences(llvm::StringRef name, const std::vector<Value> &given); ///< tuple, list, reversed, enumerate, zip
  Value mapItemsOf(const std::vector<Value> &given, bool isFilter);              ///< map, filter
  /// Whether a class pattern matches the value; run-time numbers count as int, float or bool.
  bool matchesClass(const Value &value, nb::handle type);
  /// An empty list, tuple, dict or object of the same class as an aggregate, for `isinstance`; any other value unchanged.
  Value standIn(const Value &value);
  Value callPythonBuiltin(llvm::StringRef name, const Value &callee, Arguments &arguments);

  //--- matrix_methods.cpp ---
  struct MatrixMethod;
  static const llvm::StringMap<MatrixMethod> &getMatrixMethods();
  static bool hasMethod(mlir::Type type, llvm::StringRef name);
  Value callMatrixMethod(const Value &receiver, llvm::StringRef name, const Arguments &arguments);
  Value makeMatrix(Arguments &arguments, llvm::StringRef className);
  Value makeMatrixOfType(nb::handle type, Arguments &arguments);
  Value callMatrixFactory(llvm::StringRef name, const Value &matrixClass, Arguments &arguments);
  mlir::Value makeVectorOf(llvm::ArrayRef<mlir::Value> components, llvm::ArrayRef<int64_t> shape);
  mlir::Value transpose(mlir::Value matrix);

  //--- structs.cpp ---
  Value makeStruct(nb::handle structType, Arguments &arguments);
  Value makeAnonymousStruct(Arguments &arguments);
  /// A struct with the members of a dataclass, from run-time values.
  Value makeDataclass(nb::handle type, const nb::object &valueType, Arguments &arguments);
  /// A struct with the names of a dict and the members that `make` returns.
  Value makeMembers(nb::handle members, llvm::function_ref<Value(nb::handle name, nb::handle member)> make);
  Value makeStructOf(nb::handle structType, llvm::function_ref<Value(nb::handle name, nb::handle type)> make);
  bool isStructType(nb::handle object) const { return session.python.isInstance(object, session.python.structType); }
  mlir::Type memberType(nb::handle annotation);
  /// Names and values of a struct or dict; none for other values.
  std::optional<std::vector<std::pair<nb::object, Value>>> findNamedItems(const Value &value);
  Value zeroOf(nb::handle memberType);
  Value convertMember(nb::handle memberType, const Value &value);
  Value structOfObject(const Value &object);
  Value structFieldMember(const Value &structField, nb::handle name, nb::handle field);
  Value structElement(const Value &structField, llvm::function_ref<Value(const Value &)> element);
  [[noreturn]] void failHostMethod(llvm::StringRef name);
  [[noreturn]] void failShadow(const PathNode *container, llvm::StringRef name);
  /// Fails if `object` is the missing shadow of a container.
  void requireShadow(const Value &object);
  /// A component of a field of vectors, or a member of a field of structs: `get_scalar_field`, `get_member_field`.
  Value partOfField(const Value &field, llvm::StringRef method, Arguments &arguments);
  const Value *findMember(const Value &structure, nb::handle name);

  //--- printing.cpp ---
  /// The arguments that the fields of a format use.
  struct FormatUse {
    size_t automatic = 0, count = 0;
    llvm::StringSet<> names;
  };
  void print(nb::handle call);
  /// An f-string, `text.format(...)` or `text % ...`; false when the node is none of these.
  bool addFormatted(Fragments &fragments, nb::handle node);
  void addInterpolated(Fragments &fragments, nb::handle joined);
  void addFormat(Fragments &fragments, nb::handle format, const Arguments &arguments);
  void addFields(Fragments &fragments, nb::handle format, const Arguments &arguments, FormatUse &use);
  void addFragments(Fragments &fragments, const Value &value, llvm::StringRef spec);
  void addField(Fragments &fragments, const Value &value,
                llvm::StringRef spec); ///< formats known numbers as Python does
  void addOperand(Fragments &fragments, const Value &value, llvm::StringRef spec);
  Value visitFormatted(nb::handle node);

  //--- shared state and helpers ---
  [[noreturn]] void fail(const char *className, const llvm::Twine &message) { session.fail(className, message); }
  mlir::Location loc();
  template <typename Op, typename... Args> Op create(Args &&...args) { return Op::create(builder, loc(), std::forward<Args>(args)...); }
  bool isTerminated() const { return terminated; }
  bool isTopLevel() const { return isKernelLevel && runtimeDepth == 0 && !isOrdered; }
  bool isInKernel() const { return caller == nullptr; }
  const auto &names() const { return session.python.names; }
  NodeKind kindOf(nb::handle node) const { return session.python.kindOf(node); }
  int64_t readInteger(nb::handle node, const nb::object &name) const { return nb::cast<int64_t>(getAttribute(node, name)); }
  artifact::SourceLocation locationOf(nb::handle node) const;

  Session &session;
  FunctionBuilder *caller;
  nb::object source, tree;
  std::string file, functionName;
  Value function; ///< the Python function, with its path
  mlir::OpBuilder builder;
  std::shared_ptr<Body> body;
  Scopes scopes;
  nb::object node; ///< the current syntax node
  mlir::LocationAttr cachedLoc;
  std::shared_ptr<AssignmentCounts> assignmentCounts;
  std::vector<Loop> loops;
  LoopOptions nextLoop;
  std::vector<StoppedGradient> stopped;
  bool terminated = false;    ///< the rest of the block is unreachable
  bool isKernelLevel = false; ///< the function is the kernel, or a func inlined into its top level
  bool isInsideParallel = false;
  bool isOrdered = false; ///< in an `if` with a known condition without qd.static: loops are serial, as in a run-time `if`
  bool isInlined = false;
  bool isPartOfKernel = false; ///< inlined: its variables belong to the kernel
  bool isReal = false;         ///< a real_func
  unsigned runtimeDepth = 0;   ///< number of run-time if, for and while around the statement
  unsigned staticDepth = 0;    ///< number of calls of qd.static around the expression
  unsigned repeatDepth = 0;    ///< number of qd.graph.do_while around the statement
  bool isInStreamBlock = false;
  /// Position of the statement: directly in a qd.graph.parallel_context(), in one of its sections, or in neither.
  enum class Sections { None, Around, Inside } sections = Sections::None;
  int streamBlockCount = 0;
  unsigned expressionDepth = 0;
  Value inlinedResult = makeObject(nb::none()); ///< inlined func: its result
  std::vector<std::pair<ir::ReturnOp, Value>> returns;
  nb::object resultTypes = nb::none(); ///< list of annotations, or None
};

/// Sets the builder's current syntax node for the lifetime of the object.
struct At {
  At(FunctionBuilder &builder, nb::handle node) : builder(builder), saved(std::move(builder.node)), savedLoc(builder.cachedLoc) {
    builder.node = nb::borrow(node);
    builder.cachedLoc = {};
  }
  ~At() {
    builder.node = std::move(saved);
    builder.cachedLoc = savedLoc;
  }
  FunctionBuilder &builder;
  nb::object saved;
  mlir::LocationAttr savedLoc;
};

} // namespace qd::frontend
