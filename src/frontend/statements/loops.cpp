// loops.cpp: loops over ranges, containers and compile-time items
//
// In:   the syntax node of a `for` or `while` statement.
// Out:  qd.for, qd.while or qd.repeat, or the repeated body of an unrolled loop.
// Here: a loop at the kernel's top level becomes `qd.for parallel`; in a run-time construct it is sequential; over a compile-time iterable
//       (qd.static, lists, vectors) it is unrolled.
#include "frontend/builder.h"
#include "ir/attributes.h"

#include "llvm/ADT/StringSwitch.h"

using namespace mlir;

namespace qd::frontend {

void Loops::checkLoopTarget(nb::handle target) {
  At here(context, target);
  if (kindOf(target) == NodeKind::Tuple || kindOf(target) == NodeKind::List) {
    for (nb::handle part : getAttribute(target, names().elts)) checkLoopTarget(part);
    return;
  }
  if (kindOf(target) != NodeKind::Name) fail(error::kSyntax, "the target of a loop must be a name");
  nb::object name = getAttribute(target, names().id);
  if (Variables::isVisible(scopes.find(name.ptr())) && toText(name) != "_")
    fail(error::kSyntax, "Variable '" + toText(name) + "' is already declared in the outer scope and cannot be used as loop variable");
}

void Loops::bindLoopVariable(nb::handle target, const Operand &value) {
  At here(context, target);
  if (kindOf(target) == NodeKind::Name) {
    Binding binding;
    binding.kind = Binding::Kind::LoopVariable;
    binding.value = value;
    collections().materialize(value, context.assignmentCounts->lookup(getAttribute(target, names().id).ptr()));
    if (auto *computed = binding.value.find<Computed>()) computed->isReadOnly = true;
    if (auto *place = binding.value.find<Place>()) place->isReadOnly = true;
    scopes.bind(getAttribute(target, names().id).ptr(), std::move(binding));
    return;
  }
  if (kindOf(target) != NodeKind::Tuple && kindOf(target) != NodeKind::List) fail(error::kSyntax, "the target of a loop must be a name");
  for (auto &[part, item] : assignments().pairTargets(getAttribute(target, names().elts), value)) bindLoopVariable(part, item);
}

Operand Loops::joinIndices(nb::handle target, const std::vector<Operand> &indices, bool isGrouped) {
  if (isGrouped && !indices.empty()) return makeComputed(conversions.emitSequence(indices));
  return !isGrouped && kindOf(target) == NodeKind::Name ? indices[0] : makeTuple(indices);
}

void Loops::bindIndices(nb::handle target, const Operand &value, nb::handle body) {
  if (kindOf(target) != NodeKind::Name) {
    for (auto &[part, item] : assignments().pairTargets(getAttribute(target, names().elts), value)) bindIndices(part, item, body);
    return;
  }
  nb::object name = getAttribute(target, names().id);
  bool isVariable = value.isTyped() && context.assignmentCounts->lookup(name.ptr()).count > 1 && syntax().isAssignedIn(body, name);
  if (!isVariable) return bindLoopVariable(target, value);
  At here(context, target);
  Binding binding;
  binding.value = variables().declare(value, false);
  scopes.bind(name.ptr(), std::move(binding));
}

void Loops::unroll(nb::handle at, const Operand &iterable) {
  nb::object target = getAttribute(at, names().target), body = getAttribute(at, names().body);
  std::vector<OptionalItem> items;
  {
    At here(context, getAttribute(at, names().iter));
    items = runtimeDicts().listItems(iterable, "loop over");
  }
  if (session.options.unrollingLimit > 0 && int64_t(items.size()) > session.options.unrollingLimit &&
      !session.python.isOfPackage(context.source.function.object))
    session.warnOfCompileTime("You are unrolling more than " + std::to_string(session.options.unrollingLimit) +
                              " iterations, so the compile time may be extremely long.");
  context.loops.push_back({Loop::Kind::Unrolled, {}, nesting.runtimeDepth});
  Operand isRunning = makeKnown(true); // whether no iteration before has left the loop
  for (const auto &[value, isPresent] : items) {
    const Operand condition = runtimeDicts().combine(BinaryKind::bit_and, isRunning, isPresent);
    auto visitIteration = [&, &item = value] {
      context.loops.back().runtimeDepth = nesting.runtimeDepth;
      scopes.push();
      bindLoopVariable(target, conversions.load(item)); // loads the item's value of this iteration
      statements().visitBody(body);
      statements().invalidateMerged(scopes.pop());
      if (context.loops.back().skip || context.loops.back().leave) context.isTerminated = false;
    };
    if (conversions.isConstant(condition))
      visitIteration();
    else
      statements().emitIf(conversions.emit(condition), visitIteration, {});
    context.loops.back().skip = false;
    if (std::exchange(context.loops.back().leave, false))
      isRunning = runtimeDicts().combine(BinaryKind::bit_and, isRunning, operators().logicalNot(condition));
    if (context.isTerminated || runtimeDicts().isNever(isRunning)) break;
  }
  context.loops.pop_back();
  auto visitElse = [&] { statements().visitBlock(getAttribute(at, names().orelse)); };
  if (context.isTerminated || nb::len(getAttribute(at, names().orelse)) == 0) return;
  if (runtimeDicts().isAlways(isRunning))
    visitElse();
  else if (!runtimeDicts().isNever(isRunning))
    statements().emitIf(conversions.emit(isRunning), visitElse, {});
}

void Loops::visitLoopControl(NodeKind kind) {
  bool isBreak = kind == NodeKind::Break;
  std::string word = isBreak ? "break" : "continue";
  if (context.loops.empty()) fail(error::kSyntax, "'" + word + "' outside of a loop");
  Loop &loop = context.loops.back();
  context.isTerminated = true;
  if (loop.kind == Loop::Kind::Unrolled) {
    if (nesting.runtimeDepth != loop.runtimeDepth)
      fail(error::kSyntax,
           "You are trying to `" + word + "` a static `for` loop, but the `" + word + "` statement is inside a non-static `if`.");
    (isBreak ? loop.leave : loop.skip) = true;
    return;
  }
  if (!isBreak) {
    create<ir::ContinueOp>();
    return;
  }
  if (loop.kind == Loop::Kind::Parallel)
    fail(error::kSyntax,
         "Cannot break in the outermost loop: its iterations run in parallel (qd.loop_config(serialize=True) makes it serial)");
  if (loop.breakFlag) create<ir::StoreOp>(emitter.constant(1, session.types.u1), loop.breakFlag);
  create<ir::BreakOp>();
}

mlir::Value Loops::makeBreakFlag(nb::handle at) {
  if (nb::len(getAttribute(at, names().orelse)) == 0) return {};
  mlir::Value flag = create<ir::LocalOp>(ir::RefType::get(session.types.u1));
  create<ir::StoreOp>(emitter.constant(0, session.types.u1), flag);
  return flag;
}

void Loops::visitElse(nb::handle at, mlir::Value breakFlag) {
  if (!breakFlag) return;
  mlir::Value left = create<ir::LoadOp>(session.types.u1, breakFlag);
  auto op = create<ir::IfOp>(create<ir::UnaryOp>(UnaryKind::logical_not, left));
  statements().invalidateMerged(
      statements().runBranch(op.getThenRegion(), [&] { statements().visitBody(getAttribute(at, names().orelse)); }).bindings);
}

void Loops::visitFor(nb::handle at) {
  nb::object iterNode = getAttribute(at, names().iter), target = getAttribute(at, names().target);
  Operand iterable;
  if (kindOf(iterNode) == NodeKind::Subscript) {
    Operand base = expressions().visit(getAttribute(iterNode, names().value)), leaf = loopRanges().leafTensor(base);
    bool isWhole = conversions.isTensor(base) || base.is<View>();
    if (conversions.isTensor(leaf)) leaf = conversions.toTensor(leaf);
    if (leaf.is<Tensor>() || leaf.is<View>()) {
      std::vector<Operand> indices = subscripts().visitIndices(getAttribute(iterNode, names().slice));
      llvm::erase_if(indices, [](const Operand &index) { return index.isNone(); });
      bool isElement = isWhole && indices.size() == LoopRanges::countAxes(leaf) &&
                       llvm::none_of(indices, [](const Operand &index) { return index.is<Slice>(); });
      if (!isElement) return loopOver(at, loopRanges().boxOfSlice(leaf, indices, target));
      iterable = conversions.load(subscripts().subscriptValues(leaf, indices, /*isTuple=*/false));
    }
  }
  if (kindOf(iterNode) == NodeKind::IfExp) {
    Operand test = expressions().visit(getAttribute(iterNode, names().test));
    if (!conversions.isConstant(test) && !test.isStatic) iterable = loopRanges().chooseRange(iterNode, operators().truth(test, "if"));
  }
  if (!iterable.isGiven()) iterable = expressions().visit(iterNode);
  if (sparseCells().visitLoop(at, iterable) || packedElements().visitLoop(at, iterable)) return;
  if (std::optional<Box> box = loopRanges().findBox(iterNode, iterable, target)) return loopOver(at, std::move(*box));
  unroll(at, iterable);
}

/// Returns the numbers of an option of a loop: one, or up to three for `block_dim`.
std::vector<int32_t> Loops::readLoopNumbers(StringRef name, nb::handle value, int64_t most) {
  const bool mayBeSeveral = name == "block_dim";
  std::vector<int32_t> numbers;
  int64_t product = 1;
  for (nb::handle number : mayBeSeveral &&isList(makeObject(value)) ? nb::borrow(value) : nb::object(nb::make_tuple(value))) {
    const bool isInteger = PyIndex_Check(number.ptr()) && !PyBool_Check(number.ptr());
    int overflow = 0;
    int64_t each = isInteger ? PyLong_AsLongLongAndOverflow(nb::int_(nb::borrow(number)).ptr(), &overflow) : 0;
    product = overflow || each < 1 || each > most ? most + 1 : std::min(product * each, most + 1);
    numbers.push_back(int32_t(each));
  }
  if (numbers.empty() || numbers.size() > 3 || product > most)
    fail(error::kSyntax, "qd.loop_config: " + name + " must be an integer between 1 and " + llvm::Twine(most) +
                             (mayBeSeveral ? ", or up to three with such a product" : "") + ", got " + toText(nb::repr(value)));
  return numbers;
}

void Loops::configureLoop(const Arguments &arguments) {
  auto failCall = [&](const llvm::Twine &text) { fail(error::kType, "TypeError when calling `loop_config`: loop_config() " + text); };
  if (!arguments.positional.empty()) failCall("takes keyword arguments only");
  LoopOptions &options = context.nextLoop = {};
  for (const auto &[name, argument] : arguments.named) {
    nb::object value = conversions.toPython(argument);
    if (!value) failCall("needs values that are known while compiling");
    auto read = [&, &name = name](std::optional<int32_t> &option, int64_t most) {
      if (!value.is_none()) option = readLoopNumbers(name, value, most)[0];
    };
    bool isIgnored = false, *flag = llvm::StringSwitch<bool *>(name)
                                        .Case("serialize", &options.isSerial)
                                        .Case("persistent", &options.isPersistent)
                                        .Case("clobbers", &options.clobbers)
                                        .Cases({"block_dim_adaptive", "bit_vectorize"}, &isIgnored)
                                        .Default(nullptr);
    auto failWith = [&, &name = name](const char *wanted) {
      fail(error::kSyntax, "qd.loop_config: " + name + " must be " + wanted + ", got " + toText(nb::repr(value)));
    };
    if (flag) {
      if (!value.is_none() && !value.equal(nb::bool_(true)) && !value.equal(nb::bool_(false))) failWith("True or False");
      *flag = *flag || conversions.isTrue(argument);
    } else if (name == "name") {
      if (!value.is_none() && !PyUnicode_Check(value.ptr())) failWith("a string");
      options.name = value.is_none() ? "" : toText(value).str();
    } else if (name == "block_dim") {
      if (!value.is_none()) options.blockShape = readLoopNumbers(name, value, 1024);
    } else if (name == "parallelize") {
      read(options.maxThreads, INT32_MAX);
    } else if (name == "grid_dim") {
      read(options.gridDim, INT32_MAX);
    } else if (name == "min_blocks") {
      read(options.residentBlocks, 32);
    } else if (name == "max_registers") {
      read(options.maxRegisters, 512);
    } else {
      failCall("got an unexpected keyword argument '" + name + "'");
    }
  }
  options.isSerial = options.isSerial || options.maxThreads == 1;
}

/// Divides the axes of a box into blocks: for each of the last axes, the blocks along it, and behind all of these the threads of a block
/// along it. Returns what computes the indices of the box from those of the loop, and leaves out the threads beyond its end.
std::function<SmallVector<mlir::Value>(ValueRange)> Loops::divideIntoBlocks(Box &box, ArrayRef<int32_t> shape) {
  size_t rank = box.lower.size();
  if (shape.size() > rank)
    fail(error::kSyntax, "block_dim has " + llvm::Twine(shape.size()) + " numbers, the loop has " + llvm::Twine(rank) + " axes");
  if (!box.steps.empty()) fail(error::kSyntax, "block_dim with several numbers is for loops without steps");
  SmallVector<int32_t> sizes(rank, 1);
  for (size_t i = 0; i < shape.size(); ++i) sizes[rank - 1 - i] = shape[i];
  auto binary = [this](BinaryKind kind, mlir::Value lhs, mlir::Value rhs) { return mlir::Value(create<ir::BinaryOp>(kind, lhs, rhs)); };
  std::vector<mlir::Value> lower, upper, threads;
  for (size_t axis = 0; axis < rank; ++axis) {
    mlir::Type type = box.lower[axis].getType();
    mlir::Value zero = emitter.constant(0, type), size = emitter.constant(sizes[axis], type);
    mlir::Value extent = binary(BinaryKind::max, binary(BinaryKind::sub, box.upper[axis], box.lower[axis]), zero);
    mlir::Value rest = binary(BinaryKind::ne, binary(BinaryKind::mod, extent, size), zero);
    lower.push_back(zero);
    upper.push_back(binary(BinaryKind::add, binary(BinaryKind::floor_div, extent, size), emitter.cast(rest, type)));
    threads.push_back(size);
  }
  auto restore = [this, begins = box.lower, ends = box.upper, threads, binary](ValueRange indices) {
    SmallVector<mlir::Value> result;
    mlir::Value isInside;
    for (size_t axis = 0, rank = begins.size(); axis < rank; ++axis) {
      mlir::Value first = binary(BinaryKind::add, begins[axis], binary(BinaryKind::mul, indices[axis], threads[axis]));
      result.push_back(binary(BinaryKind::add, first, indices[rank + axis]));
      mlir::Value isBefore = binary(BinaryKind::lt, result.back(), ends[axis]);
      isInside = isInside ? binary(BinaryKind::bit_and, isInside, isBefore) : isBefore;
    }
    auto op = create<ir::IfOp>(create<ir::UnaryOp>(UnaryKind::logical_not, isInside));
    OpBuilder::InsertionGuard guard(builder);
    builder.createBlock(&op.getThenRegion());
    create<ir::ContinueOp>();
    return result;
  };
  lower.insert(lower.end(), lower.begin(), lower.end());
  upper.insert(upper.end(), threads.begin(), threads.end());
  box.lower = lower;
  box.upper = upper;
  box.mostIterations = 0;
  return restore;
}

void Loops::loopOver(nb::handle at, Box box) {
  nb::object target = getAttribute(at, names().target);
  checkLoopTarget(target);
  LoopOptions options = std::exchange(context.nextLoop, {});
  bool isParallel = context.isTopLevel() && !nesting.isInsideParallel && !options.isSerial;
  bool isNested =
      nesting.isInsideParallel || llvm::any_of(context.loops, [](const Loop &loop) { return loop.kind != Loop::Kind::Unrolled; });
  if (!options.name.empty() && isNested)
    session.warn("qd.loop_config(name=\"" + options.name +
                     "\") is set on a loop inside of another loop: the name is ignored, only outermost loops have one",
                 PyExc_UserWarning);
  size_t rank = box.lower.size();
  if (rank == 0) {
    // One iteration, for the only element of a container without axes.
    box.lower = {emitter.constant(0, session.types.i32)};
    box.upper = {emitter.constant(1, session.types.i32)};
  }
  if (!box.axes.empty()) {
    Box written = box;
    for (auto [position, axis] : llvm::enumerate(box.axes)) {
      box.lower[position] = written.lower[size_t(axis)];
      box.upper[position] = written.upper[size_t(axis)];
      if (!box.steps.empty()) box.steps[position] = written.steps[size_t(axis)];
    }
  }
  std::function<SmallVector<mlir::Value>(ValueRange)> restore;
  SmallVector<int32_t> shape(options.blockShape.begin(), options.blockShape.end());
  while (!shape.empty() && shape.back() == 1) shape.pop_back();
  if (isParallel && !box.visit && shape.size() > 1) restore = divideIntoBlocks(box, shape);
  mlir::Value breakFlag = isParallel ? mlir::Value() : makeBreakFlag(at);
  std::optional<int32_t> blockDim;
  for (int32_t size : options.blockShape) blockDim = blockDim.value_or(1) * size;
  auto integer = [&](std::optional<int32_t> value) { return value ? builder.getI32IntegerAttr(*value) : IntegerAttr(); };
  auto op = create<ir::ForOp>(ValueRange(box.lower), ValueRange(box.upper), ValueRange(box.steps), isParallel, integer(blockDim),
                              integer(options.maxThreads), options.name.empty() ? StringAttr() : builder.getStringAttr(options.name));
  if (options.residentBlocks) op->setAttr(ir::kResidentBlocks, integer(options.residentBlocks));
  if (options.maxRegisters) op->setAttr(ir::kMaxRegisters, integer(options.maxRegisters));
  if (options.gridDim) op->setAttr(ir::kGridSize, integer(options.gridDim));
  if (options.isPersistent) op->setAttr(ir::kPersistent, builder.getUnitAttr());
  if (options.clobbers) op->setAttr(ir::kClobbers, builder.getUnitAttr());
  if (box.mostIterations) op->setAttr(ir::kMostIterations, builder.getI64IntegerAttr(box.mostIterations));
  mlir::Block &block = op.getBody().emplaceBlock();
  for (mlir::Value bound : op.getLower()) block.addArgument(bound.getType(), loc());
  Branch body = statements().runBranch(op.getBody(), [&] {
    nesting.isInsideParallel |= isParallel;
    context.loops.push_back({isParallel ? Loop::Kind::Parallel : Loop::Kind::Sequential, breakFlag});
    if (box.visit) return box.visit(at, block.getArguments());
    std::vector<Operand> indices(rank);
    SmallVector<mlir::Value> values = restore ? restore(block.getArguments()) : SmallVector<mlir::Value>(block.getArguments());
    for (size_t position = 0; position < rank; ++position) {
      size_t axis = box.axes.empty() ? position : size_t(box.axes[position]);
      mlir::Value index = values[position];
      indices[axis] = makeComputed(axis < box.isBiased.size() && box.isBiased[axis] ? loopRanges().biased(index) : index);
    }
    Operand value = joinIndices(target, indices, box.isGrouped);
    nb::object nodes = getAttribute(at, names().body);
    box.isNdrange ? bindIndices(target, value, nodes) : bindLoopVariable(target, value);
    statements().visitBody(nodes);
  });
  statements().invalidateMerged(body.bindings);
  if (isParallel) materializeSharedVariables(context, op);
  if (isParallel)
    statements().visitBlock(getAttribute(at, names().orelse));
  else
    visitElse(at, breakFlag);
}

nb::object Loops::findRepeat(nb::handle test) {
  if (kindOf(test) != NodeKind::Call) return {};
  nb::object callee = getAttribute(test, names().func), root = callee;
  while (kindOf(root) == NodeKind::Attribute) root = getAttribute(root, names().value);
  if (kindOf(root) != NodeKind::Name) return {};
  Binding *binding = scopes.find(getAttribute(root, names().id).ptr());
  if (binding && binding->kind != Binding::Kind::Static) return {}; // the test calls a method of a variable
  Operand function = expressions().visit(callee);
  return syntax().builtinName(function.getObject()) == "graph_do_while" ? callee : nb::object();
}

Tensor Loops::visitRepeatFlag(nb::handle call, nb::handle callee) {
  At here(context, call);
  constexpr llvm::StringLiteral kName = "qd.graph.do_while()";
  bool isFlat = toText(getAttribute(callee, kindOf(callee) == NodeKind::Name ? names().id : names().attr)) == "graph_do_while";
  if (isFlat)
    session.warn("qd.graph_do_while() is deprecated and will be removed; use qd.graph.do_while() instead.", PyExc_DeprecationWarning);
  if (!nb::cast<bool>(getAttribute(nb::borrow(session.request.source), names().is_graph)))
    fail(error::kSyntax, kName + " requires @qd.kernel(graph=True)");
  if (!context.isTopLevel() || nesting.isInsideParallel)
    fail(error::kSyntax, kName + " must be at the kernel top level or directly in the body of another " + kName);
  Arguments arguments;
  try {
    arguments = calls().visitArguments(call);
  } catch (CompileError &error) {
    Diagnostic &found = error.diagnostic;
    bool isMissing = found.className == error::kName || found.className == error::kAttribute;
    if (!isMissing) throw;
    fail(error::kSyntax, kName + ": the flag does not resolve to an ndarray kernel parameter: " + found.message);
  }
  Operand flag = calls().bind(kName.drop_back(2), arguments, calls().getParameters(expressions().visit(callee).getObject()))[0];
  if (!conversions.isTensor(flag))
    fail(error::kSyntax,
         kName + ": '" + conversions.describe(flag) + "' does not resolve to an ndarray kernel parameter; the flag is a 0-d i32 ndarray");
  Tensor tensor = conversions.toTensor(flag);
  ir::TensorType type = tensor.type;
  if (type.getRank() != 0 || !ir::isIntegerScalar(type.getElement()))
    fail(error::kType, kName + ": the flag is a 0-d array of integers, got " + conversions.describe(flag));
  return tensor;
}

void Loops::checkRounds(const Operand &rounds, const Operand &flag) {
  int64_t limit = session.options.maxRounds;
  Operand count = operators().binary(BinaryKind::add, rounds, makeObject(nb::int_(1)), "+");
  variables().storeTyped(rounds, conversions.emit(count));
  Operand isDone = operators().binary(BinaryKind::eq, flag, makeObject(nb::int_(0)), "=="),
          isWithinLimit =
              operators().binary(BinaryKind::bit_or, isDone,
                                 operators().binary(BinaryKind::lt, conversions.load(rounds), makeObject(nb::int_(limit)), "<"), "|");
  Fragments fragments;
  fragments.text(builder, "qd.graph.do_while() has run " + std::to_string(limit) +
                              " rounds, and its flag is not zero: set the option graph_max_iterations where it needs more");
  create<ir::AssertOp>(conversions.emit(isWithinLimit), uint32_t(artifact::Site::Kind::Assert), builder.getArrayAttr(fragments.fragments),
                       fragments.values);
}

/// Counts the rounds of a do_while whose body draws random numbers, which are others in each round.
void Loops::countRounds(ir::RepeatOp repeat) {
  mlir::Value rounds;
  {
    OpBuilder::InsertionGuard guard(builder);
    builder.setInsertionPointToStart(&repeat->getParentOfType<ir::KernelOp>().getBody().front());
    rounds = create<ir::LocalOp>(ir::RefType::get(session.types.u32));
    create<ir::StoreOp>(emitter.constant(0, session.types.u32), rounds);
  }
  mlir::Value count = create<ir::LoadOp>(session.types.u32, rounds), one = emitter.constant(1, session.types.u32);
  create<ir::StoreOp>(emitter.binaryTyped(BinaryKind::add, count, one, "+"), rounds);
  repeat.getRoundsMutable().assign(rounds);
}

void Loops::visitRepeat(nb::handle at, nb::handle callee) {
  Tensor flag = visitRepeatFlag(getAttribute(at, names().test), callee);
  mlir::Value again = create<ir::LocalOp>(ir::RefType::get(session.types.u1));
  Operand rounds;
  if (session.options.maxRounds > 0) {
    rounds = Place{create<ir::LocalOp>(ir::RefType::get(session.types.i64))};
    variables().storeTyped(rounds, emitter.constant(0, session.types.i64));
  }
  auto op = create<ir::RepeatOp>(again, mlir::Value());
  {
    OpBuilder::InsertionGuard guard(builder);
    builder.createBlock(&op.getBody());
    auto outerLoops = std::exchange(context.loops, {});
    {
      Enter inside(context);
      ++nesting.repeatDepth;
      statements().visitBlock(getAttribute(at, names().body));
    }
    context.loops = std::move(outerLoops);
    Operand left = conversions.load(subscripts().subscriptTensor(flag, {}));
    mlir::Value goesOn = emitter.nonZero(conversions.emit(left));
    create<ir::StoreOp>(session.checkpoints ? checkpoints().endRound(goesOn) : goesOn, again);
    if (rounds.isGiven()) checkRounds(rounds, left);
    if (session.artifact.drawsRandom) countRounds(op);
  }
  statements().visitBlock(getAttribute(at, names().orelse));
}

/// Whether a `break` leaves this loop.
static bool hasBreak(ir::WhileOp loop) {
  auto walked = loop.getBody().walk([&](ir::BreakOp op) {
    Operation *around = op->getParentOp();
    while (!isa<ir::ForOp, ir::WhileOp>(around)) around = around->getParentOp();
    return around == loop ? WalkResult::interrupt() : WalkResult::advance();
  });
  return walked.wasInterrupted();
}

void Loops::visitWhile(nb::handle at) {
  if (nb::object callee = findRepeat(getAttribute(at, names().test)); callee) return visitRepeat(at, callee);
  mlir::Value breakFlag = makeBreakFlag(at);
  auto op = create<ir::WhileOp>();
  bool isEndless = false;
  {
    OpBuilder::InsertionGuard guard(builder);
    builder.createBlock(&op.getConditionRegion());
    Enter inside(context);
    scopes.push();
    ++nesting.runtimeDepth;
    nb::object expression = getAttribute(at, names().test);
    Operand test = expressions().visit(expression);
    At here(context, expression);
    isEndless = conversions.isConstant(test) && conversions.isTrue(test);
    create<ir::ConditionOp>(conversions.isConstant(test) ? emitter.constant(isEndless, session.types.u1)
                                                         : operators().truth(test, "while"));
  }
  Branch body = statements().runBranch(op.getBody(), [&] {
    context.loops.push_back({Loop::Kind::Sequential, breakFlag});
    statements().visitBody(getAttribute(at, names().body));
  });
  statements().invalidateMerged(body.bindings);
  visitElse(at, breakFlag);
  context.isTerminated = isEndless && !hasBreak(op);
}

} // namespace qd::frontend
