// checkpoints.cpp: `with qd.checkpoint(label, yield_on=flag)`, and which statements a suspended or resumed launch skips
//
// In:   the statements of a kernel with checkpoints=True, and the label from which a launch resumes (a hidden argument).
// Out:  a qd.if with the attribute kGate around all that changes data at the top level; split_tasks makes gates of tasks of it.
// Here: the parts of the kernel are numbered in the order of the source; a checkpoint, which may contain others, begins and ends one.
//       A variable, the position, holds the number from which on statements run: 0 in a plain launch, that of a checkpoint in one that
//       resumes there, and kSuspended after a checkpoint has suspended the launch. A do_while sets it back to 0 after a round that ran.
//
// Statements that only compute variables always run: a resumed launch knows their values, and nothing else shows that they ran.
#include "frontend/builder.h"
#include "ir/gates.h"
#include "ir/memory.h"

#include "mlir/Interfaces/SideEffectInterfaces.h"

using namespace mlir;

namespace qd::frontend {

static constexpr llvm::StringLiteral kName = "qd.checkpoint()";
static constexpr int64_t kSuspended = INT32_MAX;
// Numbers that are no labels, also in quadrants/_language/checkpoints.py.
static constexpr int64_t kStart = INT64_MIN;       ///< argument: the launch begins at the start; result: it was not suspended
static constexpr int64_t kUnknown = INT64_MIN + 1; ///< result: no checkpoint has the label of the argument
static constexpr int64_t kNone = INT64_MIN + 2;    ///< result: the kernel has no checkpoints

void Checkpoints::begin() {
  CheckpointState &state = session.checkpoints.emplace();
  state.label = conversions.emit(scopes.find(names()._qd_from_checkpoint.ptr())->value);
  state.position = create<ir::LocalOp>(ir::RefType::get(session.types.i32));
  state.position.getDefiningOp()->setAttr(ir::kPosition, builder.getUnitAttr());
  state.status = create<ir::LocalOp>(ir::RefType::get(session.types.i64));
}

mlir::Value Checkpoints::loadPosition() { return create<ir::LoadOp>(session.types.i32, session.checkpoints->position); }

mlir::Value Checkpoints::loadStatus() { return create<ir::LoadOp>(session.types.i64, session.checkpoints->status); }

//--- Gates ---

namespace {
/// Finds operations that do more than compute values and assign variables of the user.
struct ChangeFinder {
  bool isChange(Operation *op) {
    return op->walk([&](Operation *inner) { return isHarmless(inner) ? WalkResult::advance() : WalkResult::interrupt(); }).wasInterrupted();
  }

  bool isHarmless(Operation *op) {
    if (isa<ir::FuncOp, ir::IfOp, ir::ForOp, ir::WhileOp, ir::YieldOp, ir::ConditionOp, ir::BreakOp, ir::ContinueOp>(op)) return true;
    if (isa<ir::LoadOp, ir::LocalOp, ir::RandomOp>(op) || isPure(op)) return true;
    if (isa<ir::ReturnOp>(op)) return op->getParentOfType<ir::FuncOp>() != nullptr;
    if (auto call = dyn_cast<ir::CallOp>(op)) {
      auto callee = dyn_cast_or_null<ir::FuncOp>(SymbolTable::lookupSymbolIn(module, call.getCallee()));
      return callee && (!visited.insert(callee).second || !isChange(callee));
    }
    auto access = dyn_cast<ir::MemoryAccessOpInterface>(op);
    mlir::Value base = access ? ir::findBase(access.getRef()) : mlir::Value();
    return base && isa_and_nonnull<ir::LocalOp>(base.getDefiningOp()) && base != state.position && base != state.status;
  }

  const CheckpointState &state;
  ModuleOp module;
  llvm::DenseSet<Operation *> visited = {}; ///< functions
};
} // namespace

void Checkpoints::visitGated(const std::function<void()> &visit) {
  mlir::Block &block = *builder.getInsertionBlock();
  Operation *before = block.empty() ? nullptr : &block.back();
  visit();
  CheckpointState &state = *session.checkpoints;
  SmallVector<Operation *> segment;
  auto close = [&] {
    SmallVector<Operation *> ops = std::exchange(segment, {});
    ChangeFinder finder{state, *session.module};
    if (llvm::none_of(ops, [&](Operation *op) { return finder.isChange(op); })) return;
    builder.setInsertionPointAfter(ops.back());
    mlir::Value runs = emitter.binaryTyped(BinaryKind::le, loadPosition(), emitter.constant(state.count, session.types.i32), "<=");
    auto gate = create<ir::IfOp>(runs);
    gate->setAttr(ir::kGate, builder.getI32IntegerAttr(state.count));
    mlir::Block &inside = gate.getThenRegion().emplaceBlock();
    for (Operation *op : ops) op->moveBefore(&inside, inside.end());
    builder.setInsertionPointToEnd(&inside);
    create<ir::YieldOp>();
    context.appendFrames(state.gates.emplace_back(gate).frames);
  };
  // Variables are declared outside of gates. Statements inside of this one, and inside of loops over tasks, have gates of their own.
  for (Operation *op = before ? before->getNextNode() : block.empty() ? nullptr : &block.front(), *next; op; op = next) {
    next = op->getNextNode();
    if (isa<ir::RepeatOp, ir::ReturnOp>(op) || op->hasAttr(ir::kGate))
      close();
    else if (!isa<ir::LocalOp>(op))
      segment.push_back(op);
  }
  close();
  builder.setInsertionPointToEnd(&block);
}

//--- Checkpoints ---

Checkpoints::Request Checkpoints::readRequest(nb::handle call) {
  Request request;
  nb::object placed = getAttribute(call, names().args);
  if (nb::len(placed) > 2)
    fail(error::kSyntax,
         kName + " is written qd.checkpoint(cp_id, yield_on=flag), got " + std::to_string(nb::len(placed)) + " arguments without names");
  if (nb::len(placed) > 0) request.label = placed[0];
  if (nb::len(placed) > 1) request.flag = placed[1];
  for (nb::handle keyword : getAttribute(call, names().keywords)) {
    nb::object name = getAttribute(keyword, names().arg);
    llvm::StringRef text = name.is_none() ? "**" : toText(name);
    if (text != "cp_id" && text != "yield_on")
      fail(error::kSyntax, kName + " got unexpected keyword argument '" + text + "'; only 'cp_id' and 'yield_on' are supported");
    nb::object &part = text == "cp_id" ? request.label : request.flag;
    if (part) fail(error::kSyntax, kName + " got `" + text + "` both positionally and as a keyword");
    part = getAttribute(keyword, names().value);
  }
  const char *missing = !request.label ? "cp_id" : !request.flag ? "yield_on" : nullptr;
  if (missing)
    fail(error::kSyntax, kName + " is missing required argument `" + missing + "`: it is written qd.checkpoint(cp_id, yield_on=flag)");
  return request;
}

int64_t Checkpoints::visitLabel(nb::handle at) {
  At here(context, at);
  nb::object label = expressions().visit(at).getObject();
  if (!label || !PyLong_Check(label.ptr()) || PyBool_Check(label.ptr()))
    fail(error::kSyntax, kName + ": the label `cp_id` must be an int literal or an IntEnum value (e.g. `Stage.SIM`), known when the kernel "
                                 "is compiled");
  int overflow = 0;
  int64_t value = PyLong_AsLongLongAndOverflow(label.ptr(), &overflow);
  if (overflow || value <= kNone) fail(error::kSyntax, kName + ": the label `cp_id` must fit into 64 bits");
  if (llvm::is_contained(llvm::make_first_range(session.checkpoints->labels), value))
    fail(error::kSyntax, "qd.checkpoint(cp_id=" + toText(nb::repr(label)) + ", ...) declares a cp_id that is already used by another " +
                             "checkpoint in kernel '" + session.artifact.kernel + "'");
  return value;
}

/// Whether a checkpoint suspends the launch: a flag in memory, or a number computed in the kernel, is not zero.
mlir::Value Checkpoints::visitFlag(nb::handle at) {
  At here(context, at);
  Operand flag;
  try {
    flag = expressions().visit(at);
  } catch (CompileError &error) {
    if (error.diagnostic.className != error::kName && error.diagnostic.className != error::kAttribute) throw;
    fail(error::kSyntax,
         "qd.checkpoint(yield_on=...): the flag does not resolve to an ndarray kernel parameter: " + error.diagnostic.message);
  }
  if (conversions.isTensor(flag)) {
    Tensor tensor = conversions.toTensor(flag);
    if (tensor.type.getRank() != 0 || !ir::isIntegerScalar(tensor.type.getElement()))
      fail(error::kType, kName + ": the flag is a 0-d array of integers, got " + conversions.describe(flag));
    flag = conversions.load(subscripts().subscriptTensor(tensor, {}));
  }
  if (flag.isObject() || !conversions.canEmit(flag))
    fail(error::kSyntax,
         "qd.checkpoint(yield_on=...) must reference a kernel ndarray argument, or be a number that the kernel computes; got " +
             conversions.describe(flag));
  return operators().truth(flag, "yield_on");
}

void Checkpoints::visitCheckpoint(nb::handle at, nb::handle call) {
  if (!context.isInKernel()) fail(error::kSyntax, kName + " can only be used inside @qd.kernel, not @qd.func");
  if (!session.checkpoints)
    fail(error::kSyntax, kName + " found in kernel '" + session.artifact.kernel +
                             "', which was not decorated with `checkpoints=True`: " + "write @qd.kernel(graph=True, checkpoints=True)");
  if (nesting.sections != Sections::None || nesting.isInStreamBlock)
    fail(error::kSyntax, kName + " cannot appear inside a qd.graph.parallel() section");
  if (!context.isTopLevel() || nesting.isInsideParallel)
    fail(error::kSyntax, kName + " must be at the kernel top level or directly in the body of qd.graph.do_while() or of another " + kName +
                             "; it cannot be nested in 'if', 'for' or 'while'");
  CheckpointState &state = *session.checkpoints;
  Request request = readRequest(call);
  int64_t label = visitLabel(request.label);
  state.labels.emplace_back(label, ++state.count);
  {
    Enter inside(context);
    nesting.isInCheckpoint = true;
    statements().visitBody(getAttribute(at, names().body));
  }
  visitGated([&] {
    mlir::Value suspends = visitFlag(request.flag);
    mlir::Value position = emitter.constant(kSuspended, session.types.i32), status = emitter.constant(label, session.types.i64);
    create<ir::StoreOp>(create<ir::SelectOp>(suspends, position, loadPosition()), state.position);
    create<ir::StoreOp>(create<ir::SelectOp>(suspends, status, loadStatus()), state.status);
  });
  ++state.count; // what follows is another task, which finds the new position
}

mlir::Value Checkpoints::endRound(mlir::Value again) {
  CheckpointState &state = *session.checkpoints;
  mlir::Value position = loadPosition(), start = emitter.constant(0, session.types.i32);
  mlir::Value hasRun = emitter.binaryTyped(BinaryKind::le, position, emitter.constant(state.count, session.types.i32), "<=");
  create<ir::StoreOp>(create<ir::SelectOp>(hasRun, start, position), state.position);
  return emitter.binaryTyped(BinaryKind::bit_and, again, hasRun, "&");
}

//--- The end of the kernel ---

void Checkpoints::initialize() {
  CheckpointState &state = *session.checkpoints;
  const Types &types = session.types;
  bool hasAny = state.count > 0;
  builder.setInsertionPointAfter(state.status.getDefiningOp());
  mlir::Value position = emitter.constant(hasAny ? kSuspended : 0, types.i32);
  mlir::Value status = emitter.constant(hasAny ? kUnknown : kNone, types.i64), unsuspended = emitter.constant(kStart, types.i64);
  auto startAt = [&](int64_t label, int64_t number) {
    mlir::Value isIt = emitter.binaryTyped(BinaryKind::eq, state.label, emitter.constant(label, types.i64), "==");
    position = create<ir::SelectOp>(isIt, emitter.constant(number, types.i32), position);
    status = create<ir::SelectOp>(isIt, unsuspended, status);
  };
  if (hasAny) startAt(kStart, 0);
  for (auto [label, number] : state.labels) startAt(label, number);
  create<ir::StoreOp>(position, state.position);
  create<ir::StoreOp>(status, state.status);
}

void Checkpoints::removeGates() {
  CheckpointState &state = *session.checkpoints;
  for (CheckpointState::Gate &gate : state.gates) {
    mlir::Block &inside = gate.op.getThenRegion().front();
    inside.back().erase();
    gate.op->getBlock()->getOperations().splice(gate.op->getIterator(), inside.getOperations());
    gate.op.erase();
  }
  state.gates.clear();
  state.position.getDefiningOp()->removeAttr(ir::kPosition);
}

/// A value that only a skipped statement computes has no value when a launch resumes behind it.
void Checkpoints::refuseSkippedVariables() {
  CheckpointState &state = *session.checkpoints;
  for (CheckpointState::Gate &gate : state.gates) {
    auto isOutside = [&](Operation *user) { return !gate.op->isAncestor(user); };
    auto isUsedOutside = [&](Operation *inner) {
      if (llvm::any_of(inner->getUsers(), isOutside)) return true;
      auto access = dyn_cast<ir::MemoryAccessOpInterface>(inner);
      mlir::Value base = access && access.writes() ? ir::findBase(access.getRef()) : mlir::Value();
      return base && isa_and_nonnull<ir::LocalOp>(base.getDefiningOp()) && base != state.position && base != state.status &&
             llvm::any_of(base.getUsers(), isOutside);
    };
    bool isUsed = gate.op->walk([&](Operation *inner) { return isUsedOutside(inner) ? WalkResult::interrupt() : WalkResult::advance(); })
                      .wasInterrupted();
    if (!isUsed) continue;
    throw CompileError{
        {error::kSyntax,
         "this statement changes data and assigns a variable that is used after it. A launch that resumes behind it skips it "
         "and does not know the variable: store the value in an array, or assign the variable in a statement of its own",
         gate.frames}};
  }
}

void Checkpoints::finish() {
  if (!context.isTerminated) create<ir::ReturnOp>(ValueRange{loadStatus()});
  if (session.checkpoints->count == 0) removeGates();
  refuseSkippedVariables();
  OpBuilder::InsertionGuard guard(builder);
  initialize();
}

} // namespace qd::frontend
