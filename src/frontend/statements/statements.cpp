// statements.cpp: sequences of statements, branches, returns and assertions
//
// In:   a list of statement nodes.
// Out:  ops in the current block, and bindings in the current scope.
// Here: a mistake in a statement of the kernel does not end the compilation, so that further mistakes are found.
#include "frontend/builder.h"
#include "ir/attributes.h"

#include "llvm/ADT/MapVector.h"
#include "llvm/Support/SaveAndRestore.h"

using namespace mlir;

namespace qd::frontend {

void Statements::visitBody(nb::handle statements) {
  for (nb::handle statement : statements) {
    // Statements after `return`, `break` or `continue` are not compiled.
    if (context.isTerminated) return;
    if (PyErr_CheckSignals() != 0) throw nb::python_error(); // Ctrl-C
    if (session.request.beforeStatement) session.request.beforeStatement();
    if (context.isInKernel())
      visitRecovering(statement);
    else
      visitStatement(statement);
  }
}

void Statements::visitRecovering(nb::handle statement) {
  OpBuilder::InsertPoint place = builder.saveInsertionPoint();
  unsigned calls = session.depth.calls;
  try {
    Enter inside(context);
    visitStatement(statement);
  } catch (CompileError &error) {
    if (error.isComplete) throw;
    context.nextLoop = {};
    context.isTerminated = false;
    session.depth.calls = calls;
    session.depth.flattened = 0;
    for (auto instance = session.functions.instances.begin(); instance != session.functions.instances.end();)
      instance = instance->second.isInProgress ? session.functions.instances.erase(instance) : std::next(instance);
    builder.restoreInsertionPoint(place);
    for (nb::handle part : nb::module_::import_("ast").attr("walk")(statement))
      if (kindOf(part) == NodeKind::Name && kindOf(getAttribute(part, names().ctx)) == NodeKind::Store)
        scopes.poison(getAttribute(part, names().id).ptr());
    if (!error.diagnostic.className.empty()) session.recordMistake(std::move(error.diagnostic));
  }
}

void Statements::visitBlock(nb::handle statements) {
  scopes.push();
  visitBody(statements);
  scopes.pop();
}

void Statements::failUnsupported(nb::handle at) {
  std::string name = toText(getAttribute(nb::handle(reinterpret_cast<PyObject *>(Py_TYPE(at.ptr()))), names().__name__)).str();
  static constexpr const char *kNoExceptions = ": kernels know no exceptions: test with `if`, `assert`, or store a flag in a field";
  static constexpr const char *kNoGlobals = ": kernels change no variables of Python: return the value, or keep it in a field or an array";
  static constexpr const char *kNoYield = ": a kernel runs to its end: return the values, or store them in a field or an array";
  static const std::pair<llvm::StringLiteral, const char *> kRemedies[] = {{"Try", kNoExceptions},
                                                                           {"TryStar", kNoExceptions},
                                                                           {"Raise", kNoExceptions},
                                                                           {"Global", kNoGlobals},
                                                                           {"Nonlocal", kNoGlobals},
                                                                           {"Yield", kNoYield},
                                                                           {"YieldFrom", kNoYield},
                                                                           {"Await", kNoYield},
                                                                           {"Import", ": import at the top of the file"},
                                                                           {"ImportFrom", ": import at the top of the file"},
                                                                           {"ClassDef", ": define the class outside of the kernel"}};
  const auto *found = llvm::find_if(kRemedies, [&](const auto &row) { return row.first == name; });
  fail(error::kSyntax, "Unsupported node \"" + name + "\"" + (found == std::end(kRemedies) ? "" : found->second));
}

void Statements::visitStatement(nb::handle statement) {
  At here(context, statement);
  llvm::SaveAndRestore inside(context.statement, {scopes.depth(), builder.getInsertionBlock()});
  try {
    bool isGated = session.checkpoints && context.isTopLevel() && !nesting.isInsideParallel;
    isGated ? checkpoints().visitGated([&] { visitStatementNode(statement); }) : visitStatementNode(statement);
  } catch (nb::python_error &problem) { session.failFromPython(problem); }
}

void Statements::visitStatementNode(nb::handle statement) {
  if (nesting.sections == Sections::Around) withStatements().requireSection(statement);
  switch (kindOf(statement)) {
  case NodeKind::Assign: return assignments().visitAssign(statement);
  case NodeKind::AugAssign: return assignments().visitAugmentedAssign(statement);
  case NodeKind::AnnAssign: return assignments().visitAnnotatedAssign(statement);
  case NodeKind::For: return loops().visitFor(statement);
  case NodeKind::While: return loops().visitWhile(statement);
  case NodeKind::If: return visitIf(statement);
  case NodeKind::Expr: return visitExpressionStatement(statement);
  case NodeKind::Return: return visitReturn(statement);
  case NodeKind::Assert: return visitAssert(statement);
  case NodeKind::Break:
  case NodeKind::Continue: return loops().visitLoopControl(kindOf(statement));
  case NodeKind::Pass: return;
  case NodeKind::Delete: return visitDelete(statement);
  case NodeKind::FunctionDef: {
    nb::object name = getAttribute(statement, names().name);
    if (nb::len(getAttribute(statement, names().decorator_list)) != 0)
      fail(error::kSyntax, llvm::Twine("Function definition is not allowed in '") + (context.isInKernel() ? "qd.kernel" : "qd.func") +
                               "' with decorators.");
    if (Variables::isVisible(scopes.find(name.ptr()))) fail(error::kSyntax, "Recreating variables is not allowed: '" + toText(name) + "'");
    Binding binding;
    binding.kind = Binding::Kind::Static;
    binding.value = functions().makeLocalFunc(statement);
    scopes.bind(name.ptr(), std::move(binding));
    return;
  }
  case NodeKind::With: return withStatements().visitWith(statement);
  default: failUnsupported(statement);
  }
}

void Statements::visitExpressionStatement(nb::handle at) {
  nb::object expression = getAttribute(at, names().value);
  if (kindOf(expression) != NodeKind::Constant) expressions().visit(expression);
}

void Statements::visitDelete(nb::handle at) {
  for (nb::handle target : getAttribute(at, names().targets)) {
    At here(context, target);
    Operand base = kindOf(target) == NodeKind::Subscript ? expressions().visit(getAttribute(target, names().value)) : Operand();
    if (auto *sequence = base.find<Sequence>(); base.is<Dictionary>() || (sequence && !sequence->isTuple && !sequence->isUnpacked)) {
      nb::object index = getAttribute(target, names().slice);
      std::vector<Operand> keys;
      if (sequence && kindOf(index) == NodeKind::Slice) {
        const Operand slice = subscripts().visitIndices(index)[0];
        std::vector<int64_t> positions = subscripts().sliceComponents(slice.get<Slice>(), int64_t(sequence->items.size()));
        llvm::sort(positions, std::greater());
        keys = listOperands(positions, [](int64_t position) { return makeObject(nb::int_(position)); });
      } else {
        keys = {expressions().visit(index)};
      }
      for (const Operand &key : keys) {
        Arguments one;
        one.positional = {key};
        collections().callSequenceMethod(base, "__delitem__", one);
      }
      continue;
    }
    if (auto *object = base.find<PythonObject>(); object && object->path)
      variables().failCaptured(DependencyTracker::describe(object->path));
    Binding *binding = kindOf(target) == NodeKind::Name ? scopes.find(getAttribute(target, names().id).ptr()) : nullptr;
    bool isOwn =
        binding && binding->scope == scopes.depth() && (binding->kind == Binding::Kind::Variable || binding->kind == Binding::Kind::Static);
    if (!isOwn) fail(error::kSyntax, "only variables of the same block can be deleted");
    *binding = {};
    binding->kind = Binding::Kind::Partial;
    binding->scope = scopes.depth();
  }
}

Branch Statements::runBranch(Region &region, const std::function<void()> &emitBody) {
  OpBuilder::InsertionGuard guard(builder);
  if (region.empty()) builder.createBlock(&region);
  builder.setInsertionPointToEnd(&region.front());
  Enter inside(context);
  scopes.push();
  ++nesting.runtimeDepth;
  bool wasTerminated = std::exchange(context.isTerminated, false);
  emitBody();
  Branch branch;
  branch.isTerminated = std::exchange(context.isTerminated, wasTerminated);
  branch.bindings = scopes.pop();
  mlir::Block &block = region.front();
  if (block.empty() || !block.back().hasTrait<OpTrait::IsTerminator>()) create<ir::YieldOp>();
  return branch;
}

void Statements::invalidateMerged(const std::vector<std::pair<PyObject *, Binding>> &made) {
  for (auto &[name, binding] : made) {
    Binding *outer = scopes.find(name);
    if (!outer || outer->kind != Binding::Kind::Merged) continue;
    outer->kind = Binding::Kind::Partial;
    outer->line = readInteger(context.node, session.python.names.lineno);
    outer->missing = nullptr;
  }
}

void Statements::mergeBranches(ir::IfOp op, Branch (&branches)[2]) {
  // Names in the order of their first binding, each with its binding at the end of the two branches.
  llvm::MapVector<PyObject *, std::array<Binding *, 2>> names;
  for (int side = 0; side < 2; ++side)
    for (auto &[name, binding] : branches[side].bindings) {
      // Names that inner branches assign become variables first.
      if (binding.kind == Binding::Kind::Merged) variables().merge(binding, name);
      names[name][size_t(side)] = &binding;
    }
  int64_t line = readInteger(context.node, session.python.names.lineno);
  for (auto &[name, sides] : names) {
    if (Variables::isVisible(scopes.find(name))) continue;
    auto merged = std::make_shared<Merge>();
    merged->branches = op;
    bool isCovered[2], hasLiveValue = false;
    for (size_t side = 0; side < 2; ++side) {
      Binding *binding = sides[side];
      bool isVariable = binding && binding->kind == Binding::Kind::Variable && (binding->value.isTyped() || binding->value.is<Struct>());
      merged->isTerminated[side] = branches[side].isTerminated;
      if (isVariable) merged->values[side] = binding->value;
      isCovered[side] = isVariable || branches[side].isTerminated;
      hasLiveValue |= isVariable && !branches[side].isTerminated;
    }
    bool haveSameKind =
        merged->isTerminated[0] || merged->isTerminated[1] || merged->values[0].is<Struct>() == merged->values[1].is<Struct>();
    Binding binding;
    binding.kind = isCovered[0] && isCovered[1] && hasLiveValue && haveSameKind ? Binding::Kind::Merged : Binding::Kind::Partial;
    binding.line = line;
    binding.missing = isCovered[0] ? "not in its else" : "not where its condition holds";
    if (binding.kind == Binding::Kind::Merged) binding.merge = std::move(merged);
    scopes.bind(name, std::move(binding));
  }
}

void Statements::visitIf(nb::handle at) {
  nb::object body = getAttribute(at, names().body), orelse = getAttribute(at, names().orelse);
  nb::object expression = getAttribute(at, names().test);
  Operand test = expressions().visit(expression);
  bool isKnown = conversions.isConstant(test) || conversions.isTensor(test) || test.isStatic, holds = false;
  mlir::Value condition;
  {
    At here(context, expression);
    if (isKnown && !conversions.toPython(test))
      fail(error::kCompilation,
           "Input to qd.static must be compile-time constants or global pointers, instead of " + conversions.describe(test));
    if (isKnown)
      holds = conversions.isTrue(test);
    else
      condition = operators().truth(test, "if");
  }
  if (!isKnown)
    return emitIf(condition, [&] { visitBody(body); }, nb::len(orelse) != 0 ? [&] { visitBody(orelse); } : std::function<void()>());
  Enter inside(context);
  nesting.isOrdered |= !syntax().isStaticCall(expression);
  scopes.push();
  visitBody(holds ? body : orelse);
  for (auto &[name, binding] : scopes.pop()) {
    if (Variables::isVisible(scopes.find(name)) || binding.kind == Binding::Kind::LoopVariable) continue;
    if (binding.kind != Binding::Kind::Partial) binding.kind = Binding::Kind::Merged;
    scopes.bind(name, std::move(binding));
  }
}

void Statements::emitIf(mlir::Value condition, const std::function<void()> &then, const std::function<void()> &otherwise) {
  auto op = create<ir::IfOp>(condition);
  Branch branches[2];
  branches[0] = runBranch(op.getThenRegion(), then);
  if (otherwise) branches[1] = runBranch(op.getElseRegion(), otherwise);
  // A branch that does not reach the end of the `if` does not affect the variables after it.
  if (!otherwise && branches[0].isTerminated) return;
  mergeBranches(op, branches);
  context.isTerminated = branches[0].isTerminated && branches[1].isTerminated;
}

void Statements::visitReturn(nb::handle at) {
  if (nesting.isInsideParallel && (!context.role.isInlined || context.role.isKernelLevel))
    fail(error::kSyntax, "Return inside non-static if/for is not supported in parallel loops");
  if (nesting.repeatDepth) fail(error::kSyntax, "Return inside qd.graph.do_while() is not supported");
  if (nesting.isInCheckpoint && !context.role.isInlined) fail(error::kSyntax, "Return inside qd.checkpoint() is not supported");
  if (context.role.isInlined && nesting.runtimeDepth != 0)
    fail(error::kSyntax, llvm::Twine("Return inside non-static if/for is not supported in a function ") +
                             (context.role.isKernelLevel ? "with loops that run in parallel" : "that makes the members of an object"));
  nb::object expression = getAttribute(at, names().value);
  Operand value = expression.is_none() ? makeObject(nb::none()) : expressions().visit(expression);
  if (context.isInKernel() && context.results.types.is_none() && !value.isNone())
    fail(error::kSyntax, "A kernel with a return value must be annotated with a return type, e.g. def func() -> qd.f32");
  At here(context, expression.is_none() ? nb::borrow(at) : expression);
  // A single return passes compile-time values on; with several, the executed one is known at run time only.
  std::function<Operand(const Operand &)> typed = [&](const Operand &part) -> Operand {
    if (part.is<Sequence>() || part.is<Dictionary>() || (part.is<Instance>() && !context.role.isInlined)) return mapItems(part, typed);
    return session.python.isNumber(part.getObject()) ? makeComputed(conversions.emit(part)) : conversions.copy(part);
  };
  bool isOneOfSeveral = context.assignmentCounts->lookup(context.source.tree.ptr()).count > 1;
  if (!context.results.types.is_none())
    value = context.role.isReal || context.isInKernel() ? signature().convertResults(value) : signature().castResults(value);
  else if (context.role.isReal && !value.isNone())
    fail(error::kSyntax, "A function with a return value must be annotated with a return type, e.g. def func() -> qd.f32");
  else
    value = isOneOfSeveral ? typed(value) : conversions.copy(value);
  context.isTerminated = true;
  if (context.role.isInlined) {
    context.results.inlined = value;
    return;
  }
  SmallVector<mlir::Value> operands;
  functions().flatten(value, operands, nullptr);
  if (session.checkpoints && context.isInKernel()) operands.insert(operands.begin(), checkpoints().loadStatus());
  context.results.returns.emplace_back(create<ir::ReturnOp>(operands), value);
}

void Statements::require(mlir::Value condition, llvm::StringRef text, const Operand &shown) {
  Fragments fragments;
  fragments.text(builder, text);
  if (shown.isGiven()) printing().addLabeled(fragments, " ", shown);
  auto check =
      create<ir::AssertOp>(condition, uint32_t(artifact::Site::Kind::Assert), builder.getArrayAttr(fragments.fragments), fragments.values);
  check->setAttr(ir::kAlways, builder.getUnitAttr());
}

void Statements::visitAssert(nb::handle at) {
  nb::object test = getAttribute(at, names().test), message = getAttribute(at, names().msg);
  mlir::Value condition = operators().truth(expressions().visit(test), "assert");
  if (!session.options.debug && !sparseCells().checksAlways()) {
    auto unchecked = create<ir::AssertOp>(condition, uint32_t(artifact::Site::Kind::Assert), builder.getArrayAttr({}), ValueRange());
    session.unchecked.push_back(unchecked);
    return;
  }
  Fragments fragments;
  if (!printing().addFormatted(fragments, message)) {
    nb::object text =
        message.is_none() ? nb::module_::import_("ast").attr("unparse")(test) : conversions.toPython(expressions().visit(message));
    if (!text || !PyUnicode_Check(text.ptr()))
      fail(error::kSyntax, "assert info must be constant or formatted string, not " + (text ? describeType(text) : "a run-time value"));
    fragments.text(builder, toText(text));
  }
  bool isFirst = true;
  for (const auto &[name, value] : scopes.listLoopVariables()) {
    if (!conversions.canEmit(value)) continue;
    printing().addLabeled(fragments, (isFirst ? " (" : ", ") + toText(name).str() + " = ", value);
    isFirst = false;
  }
  fragments.text(builder, isFirst ? "" : ")");
  auto op =
      create<ir::AssertOp>(condition, uint32_t(artifact::Site::Kind::Assert), builder.getArrayAttr(fragments.fragments), fragments.values);
  if (sparseCells().checksAlways()) op->setAttr(ir::kAlways, builder.getUnitAttr());
}

} // namespace qd::frontend
