// expressions.cpp: names, literals, displays, comparisons, and expressions that evaluate only some of their operands
//
// In:   the syntax node of an expression.
// Out:  its value; ops in the current block for what is known at run time only.
// Here: `visitNode` dispatches on the node's class; operators, subscripts, attributes and calls have files of their own.
#include "frontend/builder.h"

using namespace mlir;

namespace qd::frontend {

using Kind = Value::Kind;
using artifact::PathStep;
using ir::BinaryKind;

Value FunctionBuilder::visit(nb::handle at) {
  At here(*this, at);
  if (++expressionDepth > 400) fail(error::kSyntax, "the expression is nested too deeply: split it into several statements");
  Value value;
  try {
    value = visitNode(at);
  } catch (nb::python_error &problem) { session.failFromPython(problem); }
  --expressionDepth;
  return value;
}

Value FunctionBuilder::visitNode(nb::handle at) {
  switch (kindOf(at)) {
  case NodeKind::Constant: return makeObject(getAttribute(at, names().value));
  case NodeKind::Name: return visitName(at);
  case NodeKind::BinOp: return visitBinary(at);
  case NodeKind::UnaryOp: {
    Value operand = visit(getAttribute(at, names().operand));
    NodeKind kind = kindOf(getAttribute(at, names().op));
    if (kind == NodeKind::Not) return logicalNot(operand);
    if (isConstant(operand) && operand.isObject()) {
      auto *compute = kind == NodeKind::USub ? PyNumber_Negative : kind == NodeKind::UAdd ? PyNumber_Positive : PyNumber_Invert;
      return makeObject(checked(compute(session.python.toPythonScalar(operand.object).ptr())));
    }
    if (kind == NodeKind::UAdd) return callSpecial(operand, "__pos__", {}).value_or(load(operand));
    return kind == NodeKind::USub ? negate(operand) : unary(ir::UnaryKind::bit_not, operand, "bit_not");
  }
  case NodeKind::Compare: return visitCompare(at);
  case NodeKind::BoolOp: return visitBoolean(at);
  case NodeKind::IfExp: return visitConditional(at);
  case NodeKind::Call: return visitCall(at);
  case NodeKind::Attribute: return visitAttribute(at);
  case NodeKind::Subscript: return visitSubscript(at);
  case NodeKind::List: return visitDisplay(at, false);
  case NodeKind::Set: return makeSet(visitDisplay(at, false));
  case NodeKind::Tuple: return visitDisplay(at, true);
  case NodeKind::Dict: return visitDictionary(at);
  case NodeKind::SetComp: return makeSet(visitComprehension(at));
  case NodeKind::ListComp:
  case NodeKind::DictComp:
  case NodeKind::GeneratorExp: return visitComprehension(at);
  case NodeKind::NamedExpr: {
    Value value = visit(getAttribute(at, names().value));
    assignName(getAttribute(at, names().target), value);
    return visitName(getAttribute(at, names().target));
  }
  case NodeKind::Lambda: return makeLocalFunc(at);
  case NodeKind::JoinedStr: return visitFormatted(at);
  case NodeKind::Starred: fail(error::kSyntax, "'*' can stand in calls, displays and assignment targets only");
  default: {
    std::string name = toText(getAttribute(nb::handle(reinterpret_cast<PyObject *>(Py_TYPE(at.ptr()))), names().__name__)).str();
    fail(error::kSyntax, "Unsupported node \"" + name + "\"");
  }
  }
}

Value FunctionBuilder::visitName(nb::handle at) {
  nb::object name = getAttribute(at, names().id);
  if (scopes.isPoisoned(name.ptr())) throw CompileError{};
  Binding *binding = scopes.find(name.ptr());
  if (!binding) return lookUpGlobal(name);
  if (binding->kind == Binding::Kind::Merged) return merge(*binding, name.ptr());
  if (binding->kind == Binding::Kind::Partial && binding->line == 0)
    fail(error::kName, "Name \"" + toText(name) + "\" is not defined: it was deleted");
  if (binding->kind == Binding::Kind::Partial && !binding->missing)
    fail(error::kName, "Name \"" + toText(name) + "\" is not defined after the loop in line " + std::to_string(binding->line) +
                           ", which has a variable of its own: assign it before the `if`, too, so that all are one");
  if (binding->kind == Binding::Kind::Partial)
    fail(error::kName, "Name \"" + toText(name) + "\" is not defined on every path: the `if` in line " + std::to_string(binding->line) +
                           " assigns it in one branch only, " + binding->missing);
  return binding->value;
}

Value FunctionBuilder::lookUpGlobal(nb::handle name) {
  llvm::StringRef text = toText(name);
  nb::handle callable = function.object;
  DependencyTracker &tracker = session.tracker;
  bool isPackageCode = toText(nb::str(getAttribute(callable, names().__module__))).starts_with("quadrants");
  auto refuseFloat = [&](nb::handle found) {
    if (!isPackageCode && session.options.raiseOnTemplatedFloats && PyFloat_Check(found.ptr()))
      fail(error::kCompilation, "Not permitted to access floats as global values: \"" + text + "\"");
  };
  nb::object cells = getAttribute(callable, names().__closure__);
  nb::object freeNames = getAttribute(getAttribute(callable, names().__code__), names().co_freevars);
  for (size_t position = 0; position < nb::len(freeNames); ++position) {
    if (!nb::object(freeNames[position]).equal(name)) continue;
    nb::object cell = cells[position], content = findAttribute(cell, nb::str("cell_contents"));
    if (!content) break;
    const PathNode *path = tracker.getCellRoot(cell, tracker.getStep(function.path, PathStep::Kind::FunctionClosure, text));
    if (!path) tracker.refuseCache();
    tracker.read(path, content);
    refuseFloat(content);
    return makeObject(content, path);
  }
  nb::object globals = getAttribute(callable, names().__globals__);
  const PathNode *path = tracker.getStep(tracker.getFunctionRoot(callable, function.path), PathStep::Kind::FunctionGlobal, text);
  if (PyObject *found = PyDict_GetItemWithError(globals.ptr(), name.ptr())) {
    if (!isPackageCode) tracker.read(path, found);
    refuseFloat(found);
    return makeObject(found, path);
  }
  if (PyObject *found = PyDict_GetItemWithError(session.python.builtins.ptr(), name.ptr())) return makeObject(found);
  nb::list visible(globals);
  for (const std::string &local : scopes.listNames()) visible.insert(0, nb::str(local.c_str()));
  std::string close = findClosest(text, visible);
  fail(error::kName, "Name \"" + text + "\" is not defined" + (close.empty() ? "" : "; did you mean \"" + close + "\"?"));
}

Value FunctionBuilder::visitBinary(nb::handle at) {
  // A loop over the left operands instead of recursion, so that sums of any length compile.
  SmallVector<nb::object> spine;
  nb::object left = nb::borrow(at);
  while (kindOf(left) == NodeKind::BinOp) {
    spine.push_back(left);
    left = getAttribute(left, names().left);
  }
  Value value = visit(left);
  for (nb::object &step : llvm::reverse(spine)) {
    At here(*this, step);
    // A place is loaded before the right operand may change it.
    if (kindOf(getAttribute(step, names().right)) != NodeKind::Constant) value = load(value);
    Value right = visit(getAttribute(step, names().right));
    NodeKind kind = kindOf(getAttribute(step, names().op));
    if (kind == NodeKind::MatMult) {
      value = matmul(value, right);
      continue;
    }
    bool isFormat = kind == NodeKind::Mod && value.isObject() && PyUnicode_Check(value.object.ptr()) && !isConstant(right);
    if (isFormat) fail(error::kSyntax, "'%' on a text is supported in print and assert only");
    const Operator &op = *findOperator(kind);
    value = binary(op.kind, value, right, op.symbol);
  }
  return value;
}

Value FunctionBuilder::visitCompare(nb::handle at) {
  nb::object operators = getAttribute(at, names().ops), comparators = getAttribute(at, names().comparators);
  size_t count = nb::len(operators);
  auto isVector = [&](const Value &term) { return isa_and_nonnull<VectorType>(findType(term)); };
  // As with `and`, operands after a false comparison are not evaluated.
  std::function<Value(size_t, const Value &)> compareFrom = [&](size_t link, const Value &left) -> Value {
    Value right = visit(nb::object(comparators[link]));
    if (link + 1 < count) right = load(right);
    Value term = compare(kindOf(nb::object(operators[link])), left, right);
    if (link + 1 == count) return term;
    if (isConstant(term)) return isTrue(term) ? compareFrom(link + 1, right) : term;
    auto rest = [&] {
      Value next = compareFrom(link + 1, right);
      if (isVector(term) || isVector(next)) fail(error::kType, "vectors cannot be compared in a chain");
      return makeComputed(truth(next, "compare"));
    };
    if (isVector(term)) rest();
    mlir::Value condition = truth(term, "compare");
    if (!session.options.shortCircuit) return makeComputed(create<ir::BinaryOp>(BinaryKind::bit_and, condition, rest().ir));
    return chooseBranch(condition, rest, [&] { return makeObject(nb::bool_(false)); });
  };
  return compareFrom(0, load(visit(getAttribute(at, names().left))));
}

Value FunctionBuilder::compare(NodeKind kind, const Value &left, const Value &right) {
  if (kind == NodeKind::Is || kind == NodeKind::IsNot) {
    auto isKnown = [&](const Value &operand) { return isConstant(operand) || isTensor(operand); };
    llvm::StringRef symbol = kind == NodeKind::Is ? "is" : "is not";
    if ((!isKnown(left) || !isKnown(right)) && staticDepth > 0)
      fail(error::kSyntax, "Operator \"" + symbol +
                               "\" inside `qd.static` requires a direct `qd.template()` or `qd.Tensor` kernel argument and `None`, "
                               "or other objects known while compiling");
    if (!isKnown(left) || !isKnown(right))
      fail(error::kSyntax,
           "Operator \"" + symbol + "\" in Quadrants scope is not supported: it compares compile-time objects; use == for values");
    if (isTensor(left) && isTensor(right))
      for (const Value *operand : {&left, &right}) session.tracker.depend(operand->path, artifact::Dependency::Kind::Identity);
    nb::object first = toPython(left), second = toPython(right);
    bool isSame = first && second && first.is(second);
    return makeObject(nb::bool_(isSame == (kind == NodeKind::Is)));
  }
  if (kind == NodeKind::In || kind == NodeKind::NotIn) {
    nb::object item = toPython(left), container = right.is(Kind::Dictionary) ? nb::cast(right.aggregate->names) : toPython(right);
    if (!item || !container)
      fail(error::kSyntax, llvm::Twine(kind == NodeKind::In ? "\"In\"" : "\"NotIn\"") +
                               " is only supported inside `qd.static`. Both sides must be known while compiling");
    int found = PySequence_Contains(container.ptr(), item.ptr());
    if (found < 0) throw nb::python_error();
    return makeObject(nb::bool_((found == 1) == (kind == NodeKind::In)));
  }
  const Operator &op = *findOperator(kind);
  return binary(op.kind, left, load(right), op.symbol);
}

bool FunctionBuilder::isSpeculatable(Block &block) {
  // Checked builds add assertions to arithmetic, and an operation that the program does not execute must not fail.
  bool isChecked = session.options.debug || session.options.checksNans;
  auto isCheap = [&](Operation &op) {
    if (isChecked && isa<ir::BinaryOp, ir::UnaryOp, ir::CastOp>(op)) return ir::getScalar(op.getResult(0).getType()).isInteger(1);
    // Loads of variables cannot fail. Elements, calls and integer divisions may fail, and nested branches are too expensive.
    if (auto load = dyn_cast<ir::LoadOp>(op)) return load.getRef().getDefiningOp<ir::LocalOp>() != nullptr;
    if (auto binary = dyn_cast<ir::BinaryOp>(op)) {
      static constexpr BinaryKind kDivisions[] = {BinaryKind::floor_div, BinaryKind::mod, BinaryKind::raw_div, BinaryKind::raw_mod};
      BinaryKind kind = binary.getBinaryKind();
      if (llvm::is_contained(kDivisions, kind)) return ir::isFloatScalar(ir::getScalar(binary.getType()));
      return kind != BinaryKind::pow && kind != BinaryKind::atan2;
    }
    if (auto unary = dyn_cast<ir::UnaryOp>(op)) {
      using enum ir::UnaryKind;
      static constexpr ir::UnaryKind kCheap[] = {neg, abs, bit_not, logical_not, floor};
      return llvm::is_contained(kCheap, unary.getUnaryKind());
    }
    return isa<ir::ConstantOp, ir::CastOp, ir::SelectOp, ir::VectorOp, ir::ExtractOp, ir::BroadcastOp, ir::ArgumentOp>(op);
  };
  return llvm::hasNItemsOrLess(block, 12) && llvm::all_of(block, isCheap);
}

Value FunctionBuilder::chooseBranch(mlir::Value condition, const std::function<Value()> &first, const std::function<Value()> &second) {
  auto branches = create<ir::IfOp>(condition);
  Value values[2];
  SmallVector<mlir::Value> typed[2]; // for a struct: its members
  mlir::Block *blocks[2];
  for (int side = 0; side < 2; ++side) {
    OpBuilder::InsertionGuard guard(builder);
    blocks[side] = builder.createBlock(side == 0 ? &branches.getThenRegion() : &branches.getElseRegion());
    scopes.push();
    ++runtimeDepth;
    values[side] = side == 0 ? first() : second();
    if (values[side].isObject() && session.python.isInstance(values[side].object, session.python.structValue))
      values[side] = structOfObject(values[side]);
    if (values[side].is(Kind::Struct))
      flatten(values[side], typed[side], nullptr);
    else
      typed[side].push_back(emit(values[side]));
    --runtimeDepth;
    scopes.pop();
  }
  requireSameMembers(values[0], values[1]);
  SmallVector<Type> types;
  for (auto [first, second] : llvm::zip_equal(typed[0], typed[1])) {
    auto one = dyn_cast<VectorType>(first.getType()), other = dyn_cast<VectorType>(second.getType());
    if (one && other && one.getShape() != other.getShape())
      fail(error::kCompilation,
           "Cannot broadcast tensor to tensor: the branches are '" + ir::describe(one) + "' and '" + ir::describe(other) + "'");
    types.push_back(ir::withScalar(one ? Type(one) : second.getType(), promote(first.getType(), second.getType())));
  }
  SmallVector<mlir::Value> results;
  if (isSpeculatable(*blocks[0]) && isSpeculatable(*blocks[1])) {
    // Both branches are cheap and cannot fail: compute both and select one result.
    for (mlir::Block *block : blocks) branches->getBlock()->getOperations().splice(branches->getIterator(), block->getOperations());
    branches->erase();
    for (auto [type, first, second] : llvm::zip_equal(types, typed[0], typed[1]))
      results.push_back(create<ir::SelectOp>(type, condition, convert(first, type), convert(second, type)));
  } else {
    {
      OpBuilder::InsertionGuard guard(builder);
      builder.setInsertionPoint(branches);
      for (Type type : types) results.push_back(create<ir::LocalOp>(ir::RefType::get(type)));
    }
    for (int side = 0; side < 2; ++side) {
      OpBuilder::InsertionGuard guard(builder);
      builder.setInsertionPointToEnd(blocks[side]);
      for (auto [type, value, place] : llvm::zip_equal(types, typed[side], results)) create<ir::StoreOp>(convert(value, type), place);
      create<ir::YieldOp>();
    }
    for (auto [type, place] : llvm::zip_equal(types, results)) place = create<ir::LoadOp>(type, place);
  }
  if (!values[0].is(Kind::Struct)) return makeComputed(results[0]);
  size_t position = 0;
  return rebuild(values[0], [&] { return results[position++]; }, false);
}

Value FunctionBuilder::visitBoolean(nb::handle at) {
  bool isAnd = kindOf(getAttribute(at, names().op)) == NodeKind::And;
  nb::object operands = getAttribute(at, names().values);
  llvm::StringRef symbol = isAnd ? "&&" : "||";
  BinaryKind kind = isAnd ? BinaryKind::bit_and : BinaryKind::bit_or;
  size_t count = nb::len(operands);
  auto isHostMatrix = [&](const Value &value) {
    return value.isObject() && session.python.isInstance(value.object, session.python.matrix);
  };
  auto isVector = [&](const Value &value) { return isHostMatrix(value) || isa_and_nonnull<VectorType>(findType(value)); };
  // With a vector operand, the truth of each operand is computed per component.
  auto asTruth = [&](const Value &value) {
    mlir::Value number = emit(value);
    Type scalar = ir::getScalar(number.getType());
    if (isVector(value) && !scalar.isInteger(1) && !ir::isIntegerScalar(scalar))
      fail(error::kType, "unsupported operand type(s) for '" + symbol + "': '" + ir::describe(number.getType()) + "'");
    return makeComputed(nonZero(number));
  };
  std::function<Value(size_t)> evaluate = [&](size_t index) -> Value {
    Value value = load(visit(nb::object(operands[index])));
    if (index + 1 == count) return value;
    if (isConstant(value) && !isHostMatrix(value)) {
      if (isTrue(value) != isAnd) return value;
      Value rest = evaluate(index + 1);
      return isVector(rest) ? asTruth(rest) : rest;
    }
    value = makeComputed(emit(value));
    if (isVector(value)) {
      Value left = asTruth(value);
      return binary(kind, left, asTruth(evaluate(index + 1)), symbol);
    }
    if (!session.options.shortCircuit) {
      Value rest = evaluate(index + 1);
      return isVector(rest) ? binary(kind, asTruth(value), asTruth(rest), symbol) : binary(kind, value, rest, symbol);
    }
    mlir::Value condition = truth(value, isAnd ? "and" : "or");
    Value right;
    auto rest = [&] {
      right = evaluate(index + 1);
      return isVector(right) ? asTruth(right) : right;
    };
    auto own = [&] { return value; };
    Value chosen = isAnd ? chooseBranch(condition, rest, own) : chooseBranch(condition, own, rest);
    return isVector(right) ? makeComputed(nonZero(emit(chosen))) : chosen;
  };
  return evaluate(0);
}

Value FunctionBuilder::visitConditional(nb::handle at) {
  Value test = visit(getAttribute(at, names().test));
  nb::object first = getAttribute(at, names().body), second = getAttribute(at, names().orelse);
  if (std::optional<Value> decisive = truthOfInstance(test)) test = *decisive;
  if (isConstant(test) || test.isStatic) return visit(isTrue(test) ? first : second);
  mlir::Value condition = emit(test);
  if (isa<VectorType>(condition.getType()))
    fail(error::kSyntax, "the condition of a conditional expression is a vector. Please use \"qd.select\" instead.");
  condition = truth(makeComputed(condition), "if");
  return chooseBranch(condition, [&] { return load(visit(first)); }, [&] { return load(visit(second)); });
}

std::vector<Value> FunctionBuilder::visitAll(nb::handle nodes, llvm::function_ref<Value(nb::handle)> visitOne) {
  std::vector<Value> values;
  for (nb::handle at : nodes) {
    if (kindOf(at) != NodeKind::Starred)
      values.push_back(visitOne(at));
    else
      llvm::append_range(values, listItems(visit(getAttribute(at, names().value)), "unpack"));
  }
  return values;
}

/// The copy of a value that a list, tuple or dict stores.
Value FunctionBuilder::copyElement(const Value &value) { return value.is(Kind::Struct) ? declare(value, false) : load(value); }

Value FunctionBuilder::visitDisplay(nb::handle at, bool isTuple) {
  Value value = makeAggregate(Kind::Sequence,
                              visitAll(getAttribute(at, names().elts), [&](nb::handle element) { return copyElement(visit(element)); }));
  for (Value &item : value.aggregate->items) // places that are items of unpacked lists
    if (item.is(Kind::Place)) item = load(item);
  value.aggregate->isTuple = isTuple;
  return value;
}

Value FunctionBuilder::makeSet(const Value &items) {
  nb::object set = nb::steal(PySet_New(nullptr));
  for (const Value &item : items.aggregate->items) {
    nb::object known = toPython(item);
    if (!known) fail(error::kSyntax, "the items of a set must be known while compiling, got " + describe(item));
    if (PySet_Add(set.ptr(), known.ptr()) != 0) throw nb::python_error();
  }
  return makeObject(set);
}

nb::object FunctionBuilder::knownKey(const Value &value) {
  nb::object key = toPython(value);
  if (!key) fail(error::kSyntax, "the keys of a dict must be known while compiling, got " + describe(value));
  return key;
}

Value *FunctionBuilder::findKey(const Value &dictionary, nb::handle key) {
  for (auto [name, item] : llvm::zip(dictionary.aggregate->names, dictionary.aggregate->items))
    if (name.equal(key)) return &item;
  return nullptr;
}

void FunctionBuilder::put(const Value &dictionary, nb::object key, Value value) {
  if (Value *item = findKey(dictionary, key)) {
    *item = std::move(value);
    return;
  }
  dictionary.aggregate->names.push_back(std::move(key));
  dictionary.aggregate->items.push_back(std::move(value));
}

std::vector<std::pair<nb::object, Value>> FunctionBuilder::listPairs(const Value &value) {
  auto pairs = findNamedItems(value);
  if (!pairs) fail(error::kType, "'**' needs a dict, got " + describe(value));
  return std::move(*pairs);
}

Value FunctionBuilder::visitDictionary(nb::handle at) {
  Value result = makeAggregate(Kind::Dictionary, {});
  nb::object values = getAttribute(at, names().values);
  size_t index = 0;
  for (nb::handle keyNode : getAttribute(at, names().keys)) {
    Value value = copyElement(visit(nb::object(values[index++])));
    if (keyNode.is_none())
      for (auto &[key, item] : listPairs(value)) put(result, key, item);
    else
      put(result, knownKey(visit(keyNode)), value);
  }
  return result;
}

void FunctionBuilder::emitComprehension(nb::handle generators, size_t level, const std::function<void()> &emitElement) {
  if (level == nb::len(generators)) return emitElement();
  nb::object generator = generators[level];
  for (const Value &item : listItems(visit(getAttribute(generator, names().iter)), "iterate in a comprehension over")) {
    scopes.push();
    bindLoopVariable(getAttribute(generator, names().target), item);
    bool isWanted = true;
    for (nb::handle condition : getAttribute(generator, names().ifs)) {
      nb::object test = toPython(visit(condition));
      if (!test) fail(error::kSyntax, "the filter of a comprehension must be known while compiling");
      isWanted = isWanted && isTrue(makeObject(test));
    }
    if (isWanted) emitComprehension(generators, level + 1, emitElement);
    scopes.pop();
  }
}

Value FunctionBuilder::visitComprehension(nb::handle at) {
  bool isDict = kindOf(at) == NodeKind::DictComp;
  Value result = makeAggregate(isDict ? Kind::Dictionary : Kind::Sequence, {});
  emitComprehension(getAttribute(at, names().generators), 0, [&] {
    if (isDict) {
      nb::object key = knownKey(visit(getAttribute(at, names().key)));
      put(result, key, copyElement(visit(getAttribute(at, names().value))));
    } else {
      result.aggregate->items.push_back(copyElement(visit(getAttribute(at, names().elt))));
    }
  });
  return result;
}

} // namespace qd::frontend
