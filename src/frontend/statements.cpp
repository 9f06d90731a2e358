// statements.cpp: statements in order, branches, returns and assertions
#include "frontend/builder.h"

using namespace mlir;

namespace qd::frontend {

using Kind = Value::Kind;

void FunctionBuilder::visitBody(nb::handle statements) {
  for (nb::handle statement : statements) {
    // What stands after `return`, `break` or `continue` is not compiled.
    if (terminated) return;
    visitStatement(statement);
  }
}

void FunctionBuilder::failUnsupported(nb::handle at) {
  std::string name = toText(getAttribute(nb::handle(reinterpret_cast<PyObject *>(Py_TYPE(at.ptr()))), names().__name__)).str();
  fail(error::kSyntax, "Unsupported node \"" + name + "\"");
}

void FunctionBuilder::visitStatement(nb::handle statement) {
  At here(*this, statement);
  switch (kindOf(statement)) {
  case NodeKind::Assign: return visitAssign(statement);
  case NodeKind::AugAssign: return visitAugmentedAssign(statement);
  case NodeKind::AnnAssign: return visitAnnotatedAssign(statement);
  case NodeKind::For: return visitFor(statement);
  case NodeKind::While: return visitWhile(statement);
  case NodeKind::If: return visitIf(statement);
  case NodeKind::Expr: return visitExpressionStatement(statement);
  case NodeKind::Return: return visitReturn(statement);
  case NodeKind::Assert: return visitAssert(statement);
  case NodeKind::Break:
  case NodeKind::Continue: return visitLoopControl(kindOf(statement));
  case NodeKind::Pass: return;
  case NodeKind::Delete: return visitDelete(statement);
  case NodeKind::FunctionDef:
    fail(error::kSyntax, llvm::Twine("Function definition is not allowed in '") + (isInKernel() ? "qd.kernel" : "qd.func") + "'.");
  case NodeKind::With: {
    nb::object items = getAttribute(statement, names().items);
    if (nb::len(items) != 1) fail(error::kSyntax, "'with' in Quadrants kernels only supports a single context manager");
    if (kindOf(getAttribute(nb::object(items[0]), nb::str("context_expr"))) != NodeKind::Call)
      fail(error::kSyntax, "'with' in Quadrants kernels requires a call expression");
    if (!getAttribute(nb::object(items[0]), nb::str("optional_vars")).is_none())
      fail(error::kSyntax, "'with ... as ...' is not supported in Quadrants kernels");
    fail(error::kSyntax, "'with' in Quadrants kernels only supports qd.stream_parallel()");
  }
  default: failUnsupported(statement);
  }
}

void FunctionBuilder::visitExpressionStatement(nb::handle at) {
  nb::object expression = getAttribute(at, names().value);
  if (kindOf(expression) != NodeKind::Constant) visit(expression);
}

void FunctionBuilder::visitDelete(nb::handle at) {
  for (nb::handle target : getAttribute(at, names().targets)) {
    At here(*this, target);
    Binding *binding = kindOf(target) == NodeKind::Name ? scopes.find(getAttribute(target, names().id).ptr()) : nullptr;
    bool isOwn =
        binding && binding->scope == scopes.depth() && (binding->kind == Binding::Kind::Variable || binding->kind == Binding::Kind::Static);
    if (!isOwn) fail(error::kSyntax, "only variables of the same block can be deleted");
    *binding = {};
    binding->kind = Binding::Kind::Partial;
    binding->scope = scopes.depth();
  }
}

FunctionBuilder::Branch FunctionBuilder::runBranch(Region &region, const std::function<void()> &emitBody) {
  OpBuilder::InsertionGuard guard(builder);
  if (region.empty()) builder.createBlock(&region);
  builder.setInsertionPointToEnd(&region.front());
  scopes.push();
  ++runtimeDepth;
  bool wasTerminated = std::exchange(terminated, false);
  emitBody();
  Branch branch;
  branch.isTerminated = std::exchange(terminated, wasTerminated);
  --runtimeDepth;
  branch.bindings = scopes.pop();
  mlir::Block &block = region.front();
  if (block.empty() || !block.back().hasTrait<OpTrait::IsTerminator>()) create<ir::YieldOp>();
  return branch;
}

void FunctionBuilder::mergeBranches(ir::IfOp op, Branch &first, Branch &second) {
  llvm::DenseMap<PyObject *, Binding *> others;
  for (auto &[name, binding] : second.bindings) others[name] = &binding;
  auto canMerge = [](const Binding &binding) {
    return binding.kind == Binding::Kind::Variable && (binding.value.isTyped() || binding.value.is(Kind::Struct));
  };
  auto offer = [&](PyObject *name, Binding binding) {
    if (!scopes.find(name) || scopes.find(name)->kind == Binding::Kind::Merged || scopes.find(name)->kind == Binding::Kind::Partial)
      scopes.bind(name, std::move(binding));
  };
  int64_t line = readInteger(node, names().lineno);
  auto offerPartial = [&](PyObject *name) {
    Binding partial;
    partial.kind = Binding::Kind::Partial;
    partial.line = line;
    offer(name, std::move(partial));
  };
  for (auto &[name, binding] : first.bindings) {
    Binding *other = others.lookup(name);
    others.erase(name);
    // Bring variables of inner branches up first.
    if (binding.kind == Binding::Kind::Merged) merge(binding, name);
    if (other && other->kind == Binding::Kind::Merged) merge(*other, name);
    bool isHere = canMerge(binding), isThere = other && canMerge(*other);
    if (isHere && isThere && binding.value.is(Kind::Struct) != other->value.is(Kind::Struct)) isThere = false;
    if ((isHere || first.isTerminated) && (isThere || second.isTerminated) && (isHere || isThere)) {
      Binding merged;
      merged.kind = Binding::Kind::Merged;
      merged.merge = std::make_shared<Merge>();
      merged.merge->branches = op;
      merged.merge->values[0] = binding.value;
      if (isThere) merged.merge->values[1] = other->value;
      merged.merge->isTerminated[0] = first.isTerminated;
      merged.merge->isTerminated[1] = second.isTerminated;
      if (!(first.isTerminated && second.isTerminated)) offer(name, std::move(merged));
      continue;
    }
    offerPartial(name);
  }
  for (auto &[name, binding] : second.bindings) {
    if (!others.count(name)) continue;
    if (binding.kind == Binding::Kind::Merged) merge(binding, name);
    if (first.isTerminated && !second.isTerminated && canMerge(binding)) {
      Binding merged;
      merged.kind = Binding::Kind::Merged;
      merged.merge = std::make_shared<Merge>();
      merged.merge->branches = op;
      merged.merge->values[1] = binding.value;
      merged.merge->isTerminated[0] = true;
      offer(name, std::move(merged));
    } else {
      offerPartial(name);
    }
  }
}

void FunctionBuilder::visitIf(nb::handle at) {
  nb::object body = getAttribute(at, names().body), orelse = getAttribute(at, names().orelse);
  Value test = visit(getAttribute(at, names().test));
  if (isConstant(test) || isTensor(test) || test.isStatic) {
    nb::object object = toPython(test);
    if (!object)
      fail(error::kCompilation, "Input to qd.static must be compile-time constants or global pointers, instead of " + describe(test));
    int isTrue = PyObject_IsTrue(object.ptr());
    if (isTrue < 0) throw nb::python_error();
    scopes.push();
    visitBody(isTrue == 1 ? body : orelse);
    for (auto &[name, binding] : scopes.pop()) {
      bool isFree =
          !scopes.find(name) || scopes.find(name)->kind == Binding::Kind::Merged || scopes.find(name)->kind == Binding::Kind::Partial;
      if (isFree && binding.kind != Binding::Kind::LoopVariable) {
        if (binding.kind != Binding::Kind::Partial) binding.kind = Binding::Kind::Merged;
        scopes.bind(name, std::move(binding));
      }
    }
    return;
  }
  visitRuntimeIf(at, truth(test, "if"));
}

void FunctionBuilder::visitRuntimeIf(nb::handle at, mlir::Value condition) {
  nb::object orelse = getAttribute(at, names().orelse);
  auto op = create<ir::IfOp>(condition);
  Branch first = runBranch(op.getThenRegion(), [&] { visitBody(getAttribute(at, names().body)); });
  Branch second;
  if (nb::len(orelse) != 0) second = runBranch(op.getElseRegion(), [&] { visitBody(orelse); });
  if (nb::len(orelse) == 0 && first.bindings.empty()) return;
  // A branch that leaves says nothing about the variables after the `if`.
  if (op.getElseRegion().empty() && first.isTerminated) return;
  mergeBranches(op, first, second);
  terminated = first.isTerminated && second.isTerminated;
}

void FunctionBuilder::visitReturn(nb::handle at) {
  if (isInsideParallel) fail(error::kSyntax, "Return inside non-static if/for is not supported in parallel loops");
  Value value = returnedValue(at);
  if (isInlined) {
    if (runtimeDepth != 0)
      fail(error::kSyntax, "Return inside non-static if/for is not supported in a function with loops that run in parallel");
    inlinedResult = copy(value);
    hasInlinedResult = true;
    terminated = true;
    return;
  }
  if (isInKernel()) {
    returnFromKernel(value);
    terminated = true;
    return;
  }
  value = copy(value);
  SmallVector<mlir::Value> operands;
  flatten(value, operands, nullptr, false);
  returns.emplace_back(create<ir::ReturnOp>(operands), value);
  terminated = true;
}

void FunctionBuilder::visitAssert(nb::handle at) {
  nb::object test = getAttribute(at, names().test), message = getAttribute(at, names().msg);
  Pieces pieces;
  if (!session.options.debug) return;
  mlir::Value condition = truth(visit(test), "assert");
  if (message.is_none()) {
    pieces.text(builder, toText(nb::object(nb::module_::import_("ast").attr("unparse")(test))));
  } else if (!addFormatted(pieces, message)) {
    nb::object text = toPython(visit(message));
    if (!text || !PyUnicode_Check(text.ptr()))
      fail(error::kSyntax, "assert info must be constant or formatted string, not " + (text ? describeType(text) : "a run-time value"));
    pieces.text(builder, toText(text));
  }
  create<ir::AssertOp>(condition, uint32_t(artifact::Site::Kind::Assert), builder.getArrayAttr(pieces.pieces), pieces.values);
}

} // namespace qd::frontend
