// builder.h: walks the syntax tree of one function and emits its IR
//
// One FunctionBuilder per function body; a func that is inlined into the kernel's top level (its loops are parallel tasks) gets one that
// emits into its caller's block. The methods are spread over files by subject: expressions.cpp, operators.cpp, subscripts.cpp,
// attributes.cpp, assignment.cpp, statements.cpp, loops.cpp, calls.cpp, functions.cpp, builtin_calls.cpp, matrix_methods.cpp, ....
#pragma once

#include "frontend/session.h"

#include "mlir/IR/Builders.h"

#include "llvm/ADT/StringSet.h"

#include <functional>

namespace qd::frontend {

/// What a name means in a scope.
struct Binding {
  enum class Kind : uint8_t {
    Variable,     ///< a place, or a value that is assigned once
    Static,       ///< a compile-time object or container
    Parameter,    ///< of a kernel: cannot be assigned
    LoopVariable, ///< cannot be assigned
    Merged,       ///< assigned in both branches of an `if` before: made into a variable when it is used
    Partial       ///< assigned on some paths only: using it is an error that says so
  };
  Kind kind = Kind::Variable;
  Value value;
  unsigned scope = 0;
  unsigned runtimeDepth = 0; ///< Static: how many run-time blocks were open
  std::shared_ptr<struct Merge> merge;
  int64_t line = 0;         ///< Partial: of the `if` that misses it, or of the loop that has one of its own
  const char *missing = ""; ///< Partial: which branch does, in words; null: it is a loop
};

/// Where a variable of two branches comes together.
struct Merge {
  ir::IfOp branches;
  Value values[2];
  bool isTerminated[2] = {false, false};
};

/// The memory of the names of one function.
class Scopes {
public:
  void push() { opened.emplace_back(); }
  /// Closes the innermost scope and hands out its bindings in order.
  std::vector<std::pair<PyObject *, Binding>> pop();
  Binding *find(PyObject *name);
  Binding &bind(PyObject *name, Binding binding);
  /// The name of the variable with this place, or null.
  PyObject *findName(mlir::Value place) const;
  unsigned depth() const { return unsigned(opened.size()); }
  std::vector<std::string> listNames() const;
  /// A name that a wrong statement was to assign: until it is bound again, using it is no mistake of its own.
  void poison(PyObject *name) { poisoned.insert(name); }
  bool isPoisoned(PyObject *name) const { return poisoned.contains(name); }
  /// The variables of the loops around, outermost first.
  std::vector<std::pair<PyObject *, Value>> listLoopVariables() const;

private:
  llvm::DenseSet<PyObject *> poisoned;
  llvm::DenseMap<PyObject *, std::vector<Binding>> bindings;
  std::vector<std::vector<PyObject *>> opened;
};

/// The function or kernel that ops are emitted into; shared by inlined functions.
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

/// A container that no gradient flows into from a loop.
struct StoppedGradient {
  mlir::Operation *loop;
  mlir::Value container;
};

/// The loop around a statement.
struct Loop {
  enum class Kind : uint8_t { Parallel, Sequential, Unrolled };
  Kind kind = Kind::Sequential;
  mlir::Value wasLeft;       ///< place of a flag for `else`, or null
  unsigned runtimeDepth = 0; ///< how many run-time blocks were open where the loop stands
  bool leave = false;        ///< unrolled: `break` was met
  bool skip = false;         ///< unrolled: `continue` was met
};

/// A call's arguments.
struct Arguments {
  std::vector<Value> positional;
  std::vector<std::pair<std::string, Value>> named;
};

/// An operator of the language: its syntax node, its row, how it is written, and Python's own on values known while compiling.
struct Operator {
  NodeKind node;
  ir::BinaryKind kind;
  llvm::StringLiteral symbol;
  PyObject *(*compute)(PyObject *, PyObject *);
};

/// Null for nodes that are no row of the table: matrix products, `is` and `in`.
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

  /// A text with run-time operands.
  struct Fragments {
    llvm::SmallVector<mlir::Attribute> fragments; ///< literal texts, formats of operands in a list, and units: the number of the thread
    llvm::SmallVector<mlir::Value> values;
    bool isConstant = false; ///< a text known while compiling, with numbers as Python writes them
    void text(mlir::OpBuilder &builder, llvm::StringRef text);
    llvm::StringRef getText() const; ///< of one that is constant
  };

  //--- statements.cpp ---
  void visitBody(nb::handle statements);
  void visitBlock(nb::handle statements); ///< in a scope of its own
  /// A statement of the kernel; a mistake in it is kept, and the next statement is compiled to find more.
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
  /// What the contexts of graphs want of the call that makes them.
  void requirePlainContext(nb::handle call, llvm::StringRef name);
  void visitSections(nb::handle node, nb::handle call);
  void visitSection(nb::handle node, nb::handle call);
  /// A statement among sections that may run at the same time is one of them, or a static loop or branch around some.
  void requireSection(nb::handle statement);
  /// The body of a `with` statement; its tasks need not wait for those of its neighbors.
  void visitBranch(nb::handle node);
  struct Branch {
    std::vector<std::pair<PyObject *, Binding>> bindings; ///< what the branch declared
    bool isTerminated = false;
  };
  /// Emits one region of a run-time construct in a scope of its own.
  Branch runBranch(mlir::Region &region, const std::function<void()> &emit);
  void hideShadowed(const std::vector<std::pair<PyObject *, Binding>> &made);
  void mergeBranches(ir::IfOp op, Branch (&branches)[2]);

  //--- assignment.cpp ---
  void visitAssign(nb::handle node);
  void visitAugmentedAssign(nb::handle node);
  void visitAnnotatedAssign(nb::handle node);
  void assign(nb::handle target, const Value &value);
  void assignName(nb::handle target, const Value &value, mlir::Type declared = {});
  Value memberTarget(const Value &base, nb::handle name);
  /// The element or member that an assignment changes; none when it was an item of a compile-time list or dict, which then has the value.
  std::optional<Value> visitTarget(nb::handle target, const Value &value);
  void requirePlace(const Value &place); ///< what cannot be written is an error
  /// The targets of an unpacking with what each gets; a starred one gets a list.
  std::vector<std::pair<nb::object, Value>> pairTargets(nb::handle targets, const Value &value);
  void store(const Value &place, const Value &value);
  void storeTyped(const Value &place, mlir::Value value);
  /// Fails where only one is a struct, or both are and have other members. Other values are taken as they are.
  void requireSameMembers(const Value &first, const Value &second);
  /// Calls `act` for a place, or for each place that components stand for, with its part of the value.
  void eachPlace(const Value &place, mlir::Value value, llvm::function_ref<void(mlir::Value ref, mlir::Value part)> act);
  void augment(const Value &place, ir::BinaryKind kind, const Value &value, llvm::StringRef symbol);
  Value declare(const Value &value, bool isAssignedOnce);
  Value copy(const Value &value);
  Value merge(Binding &binding, PyObject *name);
  Value makeLocal(mlir::Type type);
  std::vector<Value> listItems(const Value &value, llvm::StringRef purpose);
  Value indexVector(nb::handle index); ///< of an unrolled loop, from a tuple of numbers
  [[noreturn]] void failImmutable(const llvm::Twine &name);
  [[noreturn]] void failCaptured(const llvm::Twine &name);
  static bool isVisible(const Binding *binding);
  /// What an assignment to the name changes; null when it makes a variable. A name that cannot be assigned is an error.
  Binding *findTarget(nb::handle target);

  //--- loops.cpp ---
  void visitFor(nb::handle node);
  void visitWhile(nb::handle node);
  /// The callee of the `qd.graph.do_while(flag)` that a while loop asks; null for any other loop.
  nb::object findRepeat(nb::handle test);
  Value visitRepeatFlag(nb::handle call, nb::handle callee);
  void visitRepeat(nb::handle node, nb::handle callee);
  /// Counts the rounds of a do_while, and fails the launch after too many.
  void checkRounds(const Value &rounds, const Value &flag);
  void visitLoopControl(NodeKind kind);
  void unroll(nb::handle node, const Value &iterable);
  struct Box {
    std::vector<mlir::Value> lower, upper, steps;
    std::vector<int32_t> axes;  ///< order of the loops, outermost first; empty: as written
    bool isGrouped = false;     ///< one index vector
    bool isNdrange = false;     ///< its loop variables can be assigned
    std::vector<bool> isBiased; ///< by axis: bounds are `biased`, and so are the indices of the op; empty: none
  };
  void loopOver(nb::handle node, Box box);
  Box boxOfRange(const Value &range, nb::handle target);
  /// An i64 whose order among signed numbers is that of the value's bits among unsigned ones; the inverse, too.
  mlir::Value biased(mlir::Value value);
  mlir::Value clipped(const Value &value); ///< a u64 as an i64, where more iterations than that have no end anyway
  void requireStep(mlir::Value step);      ///< fails the launch for 0, with which a loop would not end
  Box boxOfContainers(const std::vector<Value> &containers, bool isGrouped, nb::handle target);
  /// The part of a container that indices and slices choose; the loop's indices are those of the container.
  Box boxOfSlice(const Value &container, const std::vector<Value> &indices, nb::handle target);
  /// One of two ranges, by a condition of the run time.
  Value chooseRange(nb::handle node, mlir::Value condition);
  /// The iterations of a loop that stays a loop; none for one that is unrolled.
  std::optional<Box> findBox(nb::handle iterNode, Value &iterable, nb::handle target);
  std::pair<mlir::Value, mlir::Value> findBounds(const Value &container, size_t axis);
  static size_t countAxes(const Value &container); ///< of a tensor or view
  /// The first index and the end of each axis of a container, or of the cells of a node.
  std::vector<std::pair<mlir::Value, mlir::Value>> listBounds(Value container);
  size_t countTargets(nb::handle target);
  Value leafTensor(Value container); ///< of a container of structs the first array with numbers
  bool isContainer(const Value &value);
  void checkIndices(const Box &box, nb::handle target);
  mlir::Type boundType(llvm::ArrayRef<Value> bounds);
  Value toRange(const Value &object);
  void bindLoopVariable(nb::handle target, const Value &value);
  /// The same, with a variable in place of each index that a statement of the body assigns.
  void bindIndices(nb::handle target, const Value &value, nb::handle body);
  void checkLoopTarget(nb::handle target);
  void visitElse(nb::handle node, mlir::Value wasLeft);
  mlir::Value makeLeftFlag(nb::handle node);
  Value makeRange(const Arguments &arguments);
  Value makeNdrange(const Arguments &arguments);
  Value makeZip(const Arguments &arguments);
  void configureLoop(const Arguments &arguments);

  //--- shared_variables.cpp ---
  /// What the iterations of a parallel loop do with variables from outside of it.
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
  Value makeSet(const Value &items); ///< of items that are known now
  Value visitDictionary(nb::handle node);
  /// The values of a list of nodes; starred ones give their items.
  std::vector<Value> visitAll(nb::handle nodes, llvm::function_ref<Value(nb::handle)> visitOne);
  /// Keys and items of a dict or struct.
  std::vector<std::pair<nb::object, Value>> listPairs(const Value &value);
  nb::object knownKey(const Value &value);
  Value *findKey(const Value &dictionary, nb::handle key);   ///< null where there is none
  Value *findItem(const Value &container, const Value &key); ///< of a list or dict; null where there is none
  void assignItem(const Value &container, const Value &key, const Value &value);
  /// Gives a list or dict to the block that names it; items that are assigned somewhere become variables.
  void materialize(const Value &container, const Assignments &use);
  Value copyElement(const Value &value);
  /// What an atomic sum, difference or product is on numbers that are 0 or 1, computed as integers.
  static ir::AtomicKind ofTruth(ir::AtomicKind kind, mlir::Type scalar);
  void put(const Value &dictionary, nb::object key, Value value);
  Value visitComprehension(nb::handle node);
  void comprehend(nb::handle generators, size_t level, const std::function<void()> &emit);
  Value visitBinary(nb::handle node);
  Value chooseBranch(mlir::Value condition, const std::function<Value()> &first, const std::function<Value()> &second);
  /// Whether ops of this block may run when the branch is not taken.
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
  bool holds(mlir::Type type, nb::handle integer); ///< whether an integer type has this value
  mlir::Type literalType(nb::handle number, mlir::Type anchor);
  mlir::Value extract(mlir::Value vector, int64_t component);
  mlir::Value makeVector(llvm::ArrayRef<mlir::Value> components, mlir::Type type);
  mlir::Value reduce(ir::BinaryKind kind, mlir::Value vector);

  //--- conversions.cpp ---
  /// The value as one typed IR value: reads places, makes constants and vectors. `anchor`: the type of what it meets, for large literals.
  mlir::Value emit(const Value &value, mlir::Type anchor = {});
  /// What was read from memory, as a value to compute with: f32 for bf16.
  mlir::Value widened(mlir::Value value);
  /// A value of type bf16 as the f32 that storing and reading it gives; any other as it is.
  Value rounded(const Value &value);
  bool canEmit(const Value &value);
  bool isConstant(const Value &value);
  /// The value as a Python object; null when a part of it is known at run time only.
  nb::object toPython(const Value &value);
  /// The value as a Python object; a value of the run time is an error.
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
  /// `shape`: extents that are known now, None for others.
  Value toTensor(const Value &value, nb::handle shape = nb::handle());
  bool isTensor(const Value &value) { return value.is(Value::Kind::Tensor) || (value.isObject() && session.python.isTensor(value.object)); }

  //--- subscripts.cpp ---
  Value visitSubscript(nb::handle node);
  Value subscript(const Value &base, nb::handle index);
  Value subscriptValues(const Value &base, const std::vector<Value> &indices, bool isTuple);
  Value subscriptTensor(const Value &tensor, const std::vector<Value> &indices);
  Value viewOf(const Value &tensor, std::vector<Value> indices); ///< the part of a container that the indices leave open
  [[noreturn]] void failIndexCount(const Value &tensor, size_t count);
  Value subscriptVector(const Value &base, const std::vector<Value> &indices);
  /// The integer that a list is indexed with: also the component of a constant vector.
  std::optional<int64_t> findPosition(const Value &index);
  Value subscriptSequence(const Value &base, const Value &index);
  Value subscriptObject(const Value &base, const Value &index);
  Value component(const Value &base, int64_t flat);
  Value placeOfComponent(const Value &base, llvm::ArrayRef<mlir::Value> indices);
  Value componentsOf(const Value &base, std::vector<int32_t> components, mlir::Type type);
  Value componentPlace(const Value &components, size_t position);
  std::vector<Value> visitIndices(nb::handle index);
  int64_t knownLength(nb::handle slice);                              ///< of `i:i + 2`; 0 where the text does not tell
  std::vector<Value> flattenIndices(const std::vector<Value> &given); ///< vectors and lists give their items
  int64_t wrapIndex(int64_t index, int64_t size, const llvm::Twine &container);
  nb::object makeSlice(const Value &range);
  std::vector<int64_t> sliceComponents(const Value &slice, int64_t extent);
  Value tensorShape(const Value &tensor);
  mlir::Value extent(const Value &tensor, int axis);
  mlir::Value indexValue(const Value &value, size_t position);

  //--- views.cpp ---
  /// A view, or the view of all of a container.
  Value toView(const Value &value);
  static std::vector<Value> listRanges(const Value &view); ///< of the axes that are left: start, count and step
  Value combineIndices(ir::BinaryKind kind, const Value &first, const Value &second, llvm::StringRef spelling);
  Value add(const Value &first, const Value &second);
  Value subtract(const Value &first, const Value &second);
  Value multiply(const Value &first, const Value &second);
  Value productOf(const std::vector<Value> &counts);
  Value viewBound(const Value &bound); ///< an integer that is not known to be negative
  Value sliceRange(const Value &range, const Value &slice);
  Value subview(const Value &view, const Value &start, const Value &size);
  Value subscriptView(const Value &view, const std::vector<Value> &indices);
  Value viewAttribute(const Value &view, nb::handle name);
  bool isHostView(const Value &tensor);
  void requireNoHostView(const Value &tensor); ///< a view in the place of the array is another specialization
  /// Number of the first element, and distances of neighbors, of a view or container in the array that it is a part of.
  Value viewOffset(const Value &container);
  Value viewStrides(const Value &container);
  Value makeView(Arguments &arguments);
  /// The view without what lies beyond its container, where nothing checks any more that it lies inside.
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
  Value typeAttribute(mlir::Type type, llvm::StringRef name); ///< dtype, n, m, ...; not given where there is none
  Value makeInput(const PathNode *path, mlir::Type type);
  Value tensorAttribute(const Value &base, nb::handle name);
  Value structAttribute(const Value &base, nb::handle name);
  Value objectAttribute(const Value &base, nb::handle name);
  Value dataclassMember(const Value &base, nb::handle name, nb::object annotation);
  Value swizzle(const Value &base, llvm::StringRef letters);
  Value makeMethod(const Value &receiver, nb::handle name);

  //--- calls.cpp ---
  Value visitCall(nb::handle node);
  /// The arguments of a call; those that `callee` takes by value are read in order.
  Arguments visitArguments(nb::handle at, const Value *callee = nullptr);
  bool mayTakeReference(const Value &callee, size_t position, nb::handle name);
  Value call(const Value &callee, Arguments &arguments, nb::handle node);
  Value callPython(const Value &callee, Arguments &arguments);
  std::optional<Value> callClass(const Value &callee, Arguments &arguments);
  Value callMethod(const Value &method, Arguments &arguments, nb::handle node);
  /// Whether Python itself can call it now: everything is known, and no func is among the arguments.
  bool isKnownCall(const Arguments &arguments);
  std::optional<Value> tryPython(nb::handle callable, const Value &callee, const std::string &name, Arguments &arguments);
  Value runPython(nb::handle callable, const Value &callee, const std::string &name, Arguments &arguments);
  [[noreturn]] void failRuntimeOperands(nb::handle callable, const std::string &name);
  Value callSequenceMethod(const Value &receiver, llvm::StringRef name, Arguments &arguments);
  Value castLiteral(mlir::Type type, Arguments &arguments);

  //--- callables.cpp ---
  /// A call of what wraps another callable: a method, a partial, an object with `__call__`; nothing for anything else.
  std::optional<Value> callWrapped(const Value &callee, Arguments &arguments, nb::handle node);
  /// A function of Python with values of the run time: compiled as a func, or run on stand-ins where it cannot be.
  Value callPlain(const Value &function, const Value *self, Arguments &arguments);
  /// Runs Python code whose operators on stand-ins emit code. `object` is called.
  Value callWithOperands(nb::handle object, const std::string &name, const Value *self, Arguments &arguments);
  Value applyOperator(llvm::StringRef name, const std::vector<Value> &given, Arguments &named);
  /// `functools.partial` of values of the run time: a method whose items are the callee, arguments by position, and those by name.
  Value makePartial(const Value &type, Arguments &arguments);
  Value callPartial(const Value &partial, Arguments &arguments, nb::handle node);
  /// `qd.func(function)` in a kernel.
  Value declareFunc(nb::handle decorator, Arguments &arguments);
  /// Notes what a function that runs while compiling looks at, as far as its code names it.
  void readCaptured(nb::handle function, const PathNode *path, const Value *self);

  //--- instances.cpp ---
  bool isClassOfUser(nb::handle object);
  /// An object of a class, with members of the run time; its `__init__` is compiled as code of this place.
  Value makeInstance(const Value &type, Arguments &arguments);
  Value makeNamedTuple(const Value &type, Arguments &arguments);
  Value instanceAttribute(const Value &base, nb::handle name);
  /// An item, method or constant of a named tuple.
  Value namedTupleAttribute(const Value &base, nb::handle name);
  void storeMember(const Value &instance, nb::handle name, const Value &value);
  static bool holdsInstance(const Value &value);
  /// Makes variables of the members of objects that a call has returned.
  void materializeInstances(Value &value);
  /// Fields of a dataclass with the values that a call gives them.
  std::vector<std::pair<nb::object, Value>> bindFields(nb::handle type, Arguments &arguments);
  nb::object shellOf(const Value &instance); ///< an object of the class without members

  //--- special_methods.cpp ---
  /// The class of an object of the user's own, made here or in Python; null for anything else.
  nb::object classOfUser(const Value &value);
  /// A call of a method such as `__add__`; nothing where there is none, or it gives NotImplemented.
  std::optional<Value> callSpecial(const Value &value, const std::string &name, std::vector<Value> operands);
  /// A binary operator, of which one operand is such an object.
  std::optional<Value> callOperator(NodeKind node, const Value &lhs, const Value &rhs);
  /// `target op= value`: what the target becomes.
  std::optional<Value> callInPlace(NodeKind node, const Value &target, const Value &value);
  /// What decides whether an object that is made here is true.
  std::optional<Value> truthOfInstance(const Value &value);

  //--- functions.cpp ---
  /// A function inside this one, with the variables that it reads; called as a method is.
  Value makeLocalFunc(nb::handle node);
  bool isSuperCall(nb::handle node);
  Value superAttribute(nb::handle name);
  Value callFunc(const Value &func, const Value *self, Arguments &arguments);
  std::vector<Value> bindArguments(const Value &func, const Value *self, Arguments &arguments);
  Value passArgument(nb::handle parameter, const Value &value);
  bool isOuterVariable(const Value &place) const; ///< from outside of the parallel loop around
  /// Lists the IR values of a value. With a `key` places stay places, and it gets a text that tells apart what is not among the values.
  void flatten(const Value &value, llvm::SmallVectorImpl<mlir::Value> &operands, std::string *key);
  /// The inverse of `flatten`, with other IR values.
  Value rebuild(const Value &shape, llvm::function_ref<mlir::Value()> next, bool byReference);
  struct Callee {
    nb::object func;
    Value function; ///< the Python function, with its path
    nb::object source;
  };
  Value callInstance(const Callee &callee, const std::vector<Value> &values);
  /// Emits the func into this block; with `hasTasks` its outermost loops are tasks of the kernel.
  Value inlineCall(const Callee &callee, const std::vector<Value> &values, bool hasTasks);
  Value shapeOf(nb::handle annotation);
  Value buildFunction(ir::FuncOp op, const std::vector<Value> &values);
  void emitBody(const std::vector<Value> &values);
  std::vector<nb::object> listParameterNames();
  void bindParameters(const std::vector<Value> &values);
  Value unifyReturns(ir::FuncOp op);
  /// The type that holds both; null when their shapes differ.
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
  /// What a lane gives to a statement about a tile: a slice along one axis stands for the element of the lane's row.
  Value laneValue(const Value &tile, const Value &value);
  /// `tile[:] = value`.
  void loadTile(const Value &tile, nb::handle index, const Value &value);
  /// `tile += qd.outer(a, b)` and the like.
  void augmentTile(const Value &tile, nb::handle statement);

  //--- assignment_counts.cpp ---
  void collectAssignments();
  bool isStaticCall(nb::handle node); ///< `qd.static(...)`
  /// Whether a statement of the body assigns the name, or may hand it to a function by reference.
  bool isAssignedIn(nb::handle body, nb::handle name);
  nb::object resolveCallee(nb::handle node);
  std::string builtinName(nb::handle object); ///< "" when it is no function of quadrants._language.builtins
  /// Whether a function's loops would be the kernel's tasks if it were called at the kernel's top level.
  bool containsTasks();
  bool returnsAtEnd(); ///< no return stands under a run-time branch or loop
  bool mayContainTasks(nb::handle statements);
  bool isCompileTimeTest(nb::handle test);
  bool returnsEarly(nb::handle statements, bool isNested);

  //--- arguments.cpp ---
  void bindKernelParameters();
  Value makeStructArgument(nb::handle structType, const PathNode *path);
  Value withBoundary(Value container, nb::handle annotation); ///< as the annotation says: its indices are clamped or not
  Value makeArrayArgument(nb::handle parameter, nb::handle argument, const PathNode *path);
  /// Gives an array the extents that its annotation says: `shape` is a tuple with None for the others, or something else.
  static void setKnownExtents(layout::TensorLayout &layout, nb::handle shape);
  /// An array of another library; its last axes are those of elements, and `known` says extents as for `setKnownExtents`.
  Value makeExternalArray(nb::handle argument, const PathNode *path, size_t elementRank, nb::handle known = nb::handle());
  Value makeTensor(const Value &container, layout::TensorLayout layout, bool isField);
  std::vector<mlir::Type> listResultTypes();
  Value convertResult(nb::handle annotation, const Value &value);
  Value convertResults(const Value &value); ///< what is returned, as the annotation says
  /// What an inlined func returns: its numbers have the annotated types, whatever its shape is.
  Value castResults(const Value &value);
  Value castResult(nb::handle annotation, const Value &value);

  //--- builtin_calls.cpp ---
  /// The arguments in the order of `parameters`: names with blanks between, those with "?" may be left out and are None then.
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
  /// Whether a pattern of this class fits: numbers of the run time are instances of int, float or bool.
  bool fitsClass(const Value &value, nb::handle type);
  /// A list, tuple, dict or object of a class, without items or members, for one of values; other values are themselves.
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
  /// A struct with the members of a dataclass, from values of the run time.
  Value makeDataclass(nb::handle type, const nb::object &valueType, Arguments &arguments);
  /// A struct with the names of a dict; `make` gives each member.
  Value makeMembers(nb::handle members, llvm::function_ref<Value(nb::handle name, nb::handle member)> make);
  Value makeStructOf(nb::handle structType, llvm::function_ref<Value(nb::handle name, nb::handle type)> make);
  bool isStructType(nb::handle object) const { return session.python.isInstance(object, session.python.structType); }
  mlir::Type memberType(nb::handle annotation);
  /// Names and values of a struct or dict; nothing for other values.
  std::optional<std::vector<std::pair<nb::object, Value>>> findNamedItems(const Value &value);
  Value zeroOf(nb::handle memberType);
  Value convertMember(nb::handle memberType, const Value &value);
  Value structOfObject(const Value &object);
  Value structFieldMember(const Value &structField, nb::handle name, nb::handle field);
  Value structElement(const Value &structField, llvm::function_ref<Value(const Value &)> element);
  [[noreturn]] void failHostMethod(llvm::StringRef name);
  [[noreturn]] void failShadow(const PathNode *container, llvm::StringRef name);
  /// Fails where `object` is the gradient or tangent of a container that has none.
  void requireShadow(const Value &object);
  /// A component of a field of vectors, or a member of a field of structs: `get_scalar_field`, `get_member_field`.
  Value partOfField(const Value &field, llvm::StringRef method, Arguments &arguments);
  const Value *findMember(const Value &structure, nb::handle name);

  //--- printing.cpp ---
  /// Which arguments the fields of a format have asked for.
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
                llvm::StringRef spec); ///< of a text: numbers known now are written as Python does
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
  nb::object node; ///< the syntax node at hand
  mlir::LocationAttr cachedLoc;
  std::shared_ptr<AssignmentCounts> uses; ///< how often each name is assigned
  std::vector<Loop> loops;
  LoopOptions nextLoop;
  std::vector<StoppedGradient> stopped;
  bool terminated = false;    ///< nothing after this point of the block runs
  bool isKernelLevel = false; ///< statements stand in the kernel or in a func inlined into its top level
  bool isInsideParallel = false;
  bool isOrdered = false; ///< in an `if` whose condition is known, but not by qd.static: loops run in order, as in any other `if`
  bool isInlined = false;
  bool isPartOfKernel = false; ///< inlined: its variables are those of the kernel
  bool isReal = false;         ///< a real_func
  unsigned runtimeDepth = 0;   ///< run-time if, for and while around the statement
  unsigned staticDepth = 0;    ///< calls of qd.static around the expression
  unsigned repeatDepth = 0;    ///< qd.graph.do_while around it
  bool isInStreamBlock = false;
  /// Where the statement stands: directly in a qd.graph.parallel_context(), in one of its sections, or in neither.
  enum class Sections { None, Around, Inside } sections = Sections::None;
  int streamBlockCount = 0;
  unsigned expressionDepth = 0;
  Value inlinedResult = makeObject(nb::none()); ///< of an inlined func
  std::vector<std::pair<ir::ReturnOp, Value>> returns;
  nb::object resultTypes = nb::none(); ///< list of annotations, or None
};

/// Marks a node as the one at hand while it is visited.
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
