// expressions.cpp: names, literals, comparisons, and expressions that evaluate only some of their operands
//
// In:   the syntax node of an expression.
// Out:  its value; ops in the current block for what is known at run time only.
// Here: `visitNode` dispatches on the node's class; operators, collections, subscripts, attributes and calls have files of their own.
#include "frontend/builder.h"

using namespace mlir;

namespace qd::frontend {

Operand Expressions::visit(nb::handle at) {
  At here(context, at);
  Enter inside(context);
  if (++nesting.expressionDepth > 400) fail(error::kSyntax, "the expression is nested too deeply: split it into several statements");
  try {
    return visitNode(at);
  } catch (nb::python_error &problem) { session.failFromPython(problem); }
}

Operand Expressions::visitNode(nb::handle at) {
  switch (kindOf(at)) {
  case NodeKind::Constant: return makeObject(getAttribute(at, names().value));
  case NodeKind::Name: return visitName(at);
  case NodeKind::BinOp: return visitBinary(at);
  case NodeKind::UnaryOp: {
    Operand operand = visit(getAttribute(at, names().operand));
    NodeKind kind = kindOf(getAttribute(at, names().op));
    if (kind == NodeKind::Not) return operators().logicalNot(operand);
    if (conversions.isConstant(operand) && operand.isObject()) {
      auto *compute = kind == NodeKind::USub ? PyNumber_Negative : kind == NodeKind::UAdd ? PyNumber_Positive : PyNumber_Invert;
      return makeObject(checked(compute(session.python.toPythonScalar(operand.getObject()).ptr())));
    }
    if (kind == NodeKind::UAdd) return instances().callSpecial(operand, "__pos__", {}).value_or(conversions.load(operand));
    return kind == NodeKind::USub ? operators().negate(operand) : operators().unary(UnaryKind::bit_not, operand, "bit_not");
  }
  case NodeKind::Compare: return visitCompare(at);
  case NodeKind::BoolOp: return visitBoolean(at);
  case NodeKind::IfExp: return visitConditional(at);
  case NodeKind::Call: return calls().visitCall(at);
  case NodeKind::Attribute: return attributes().visitAttribute(at);
  case NodeKind::Subscript: return subscripts().visitSubscript(at);
  case NodeKind::List: return collections().visitDisplay(at, false);
  case NodeKind::Set: return runtimeDicts().makeSet(collections().visitDisplay(at, false));
  case NodeKind::Tuple: return collections().visitDisplay(at, true);
  case NodeKind::Dict: return collections().visitDictionary(at);
  case NodeKind::SetComp: return runtimeDicts().makeSet(collections().visitComprehension(at));
  case NodeKind::ListComp:
  case NodeKind::DictComp:
  case NodeKind::GeneratorExp: return collections().visitComprehension(at);
  case NodeKind::NamedExpr: {
    Operand value = visit(getAttribute(at, names().value));
    nb::object target = getAttribute(at, names().target);
    variables().declareForStatement(getAttribute(target, names().id).ptr(), value);
    assignments().assignName(target, value);
    return visitName(target);
  }
  case NodeKind::Lambda: return functions().makeLocalFunc(at);
  case NodeKind::JoinedStr: return printing().visitFormatted(at);
  case NodeKind::Starred: fail(error::kSyntax, "'*' can stand in calls, displays and assignment targets only");
  default: statements().failUnsupported(at);
  }
}

Operand Expressions::visitName(nb::handle at) {
  nb::object name = getAttribute(at, names().id);
  if (scopes.isPoisoned(name.ptr())) throw CompileError{};
  Binding *binding = scopes.find(name.ptr());
  if (!binding) return lookUpGlobal(name);
  if (binding->kind == Binding::Kind::Merged) return variables().merge(*binding, name.ptr());
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

Operand Expressions::lookUpGlobal(nb::handle name) {
  llvm::StringRef text = toText(name);
  nb::handle callable = context.source.function.object;
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
    const PathNode *path = tracker.getCellRoot(cell, tracker.getStep(context.source.function.path, PathStep::Kind::FunctionClosure, text));
    if (!path) tracker.refuseCache();
    tracker.read(path, content);
    refuseFloat(content);
    return makeObject(content, path);
  }
  nb::object globals = getAttribute(callable, names().__globals__);
  const PathNode *path =
      tracker.getStep(tracker.getFunctionRoot(callable, context.source.function.path), PathStep::Kind::FunctionGlobal, text);
  if (PyObject *found = PyDict_GetItemWithError(globals.ptr(), name.ptr())) {
    if (!isPackageCode) tracker.read(path, found);
    refuseFloat(found);
    return makeObject(found, path);
  }
  if (PyObject *found = PyDict_GetItemWithError(session.python.host.builtins.ptr(), name.ptr())) return makeObject(found);
  nb::list visible(globals);
  for (const std::string &local : scopes.listNames()) visible.insert(0, nb::str(local.c_str()));
  const std::string close = findClosest(text, visible);
  std::string remedy = close.empty() ? "" : "; did you mean \"" + close + "\"?";
  nb::object walk = nb::module_::import_("ast").attr("walk");
  for (nb::handle part : walk(context.source.tree))
    if (kindOf(part) == NodeKind::Name && getAttribute(part, names().id).equal(name) &&
        kindOf(getAttribute(part, names().ctx)) == NodeKind::Store)
      remedy = " here: it belongs to the block that assigns it, in line " + toText(nb::str(getAttribute(part, names().lineno))).str();
  const std::vector<nb::object> parameters = functions().listParameterNames();
  Binding *self = parameters.empty() ? nullptr : scopes.find(parameters[0].ptr());
  if (remedy.empty() && self && self->value.isObject() && self->value.getObject() && findAttribute(self->value.getObject(), name))
    remedy = "; did you mean \"" + toText(parameters[0]).str() + "." + text.str() + "\"?";
  fail(error::kName, "Name \"" + text + "\" is not defined" + remedy);
}

Operand Expressions::visitBinary(nb::handle at) {
  // A loop over the left operands instead of recursion, so that sums of any length compile.
  SmallVector<nb::object> spine;
  nb::object left = nb::borrow(at);
  while (kindOf(left) == NodeKind::BinOp) {
    spine.push_back(left);
    left = getAttribute(left, names().left);
  }
  Operand value = visit(left);
  for (nb::object &step : llvm::reverse(spine)) {
    At here(context, step);
    // A place is loaded before the right operand may change it.
    if (kindOf(getAttribute(step, names().right)) != NodeKind::Constant) value = conversions.load(value);
    Operand right = visit(getAttribute(step, names().right));
    NodeKind kind = kindOf(getAttribute(step, names().op));
    if (kind == NodeKind::MatMult) {
      value = operators().matmul(value, right);
      continue;
    }
    bool isFormat = kind == NodeKind::Mod && value.isObject() && PyUnicode_Check(value.getObject().ptr()) && !conversions.isConstant(right);
    if (isFormat) fail(error::kSyntax, "'%' on a text is supported in print and assert only");
    const Operator &op = *findOperator(kind);
    value = operators().binary(op.kind, value, right, op.symbol);
  }
  return value;
}

Operand Expressions::visitCompare(nb::handle at) {
  nb::object symbols = getAttribute(at, names().ops), comparators = getAttribute(at, names().comparators);
  size_t count = nb::len(symbols);
  auto isVector = [&](const Operand &term) { return isa_and_nonnull<VectorType>(conversions.findType(term)); };
  // As with `and`, operands after a false comparison are not evaluated.
  std::function<Operand(size_t, const Operand &)> compareFrom = [&](size_t link, const Operand &left) -> Operand {
    Operand right = visit(nb::object(comparators[link]));
    if (link + 1 < count) right = conversions.load(right);
    Operand term = compare(kindOf(nb::object(symbols[link])), left, right);
    if (link + 1 == count) return term;
    if (conversions.isConstant(term)) return conversions.isTrue(term) ? compareFrom(link + 1, right) : term;
    auto rest = [&] {
      Operand next = compareFrom(link + 1, right);
      if (isVector(term) || isVector(next)) fail(error::kType, "vectors cannot be compared in a chain");
      return makeComputed(operators().truth(next, "compare"));
    };
    if (isVector(term)) rest();
    mlir::Value condition = operators().truth(term, "compare");
    if (!session.options.shortCircuit) return makeComputed(create<ir::BinaryOp>(BinaryKind::bit_and, condition, conversions.emit(rest())));
    return chooseBranch(condition, rest, [&] { return makeKnown(false); });
  };
  return compareFrom(0, conversions.load(visit(getAttribute(at, names().left))));
}

Operand Expressions::compare(NodeKind kind, const Operand &left, const Operand &right) {
  if (kind == NodeKind::Is || kind == NodeKind::IsNot) {
    auto isKnown = [&](const Operand &operand) { return conversions.isConstant(operand) || conversions.isTensor(operand); };
    // What is known at run time only is not None, as is the argument for a parameter with this default.
    if ((left.isNone() && !right.isObject()) || (right.isNone() && !left.isObject())) return makeKnown(kind == NodeKind::IsNot);
    llvm::StringRef symbol = kind == NodeKind::Is ? "is" : "is not";
    if ((!isKnown(left) || !isKnown(right)) && nesting.staticDepth > 0)
      fail(error::kSyntax, "Operator \"" + symbol +
                               "\" inside `qd.static` requires a direct `qd.template()` or `qd.Tensor` kernel argument and `None`, "
                               "or other objects known while compiling");
    if (!isKnown(left) || !isKnown(right))
      fail(error::kSyntax,
           "Operator \"" + symbol + "\" in Quadrants scope is not supported: it compares compile-time objects; use == for values");
    if (conversions.isTensor(left) && conversions.isTensor(right))
      for (const Operand *operand : {&left, &right}) {
        auto *tensor = operand->find<Tensor>();
        session.tracker.depend(tensor ? tensor->path : operand->get<PythonObject>().path, artifact::Dependency::Kind::Identity);
      }
    nb::object first = conversions.toPython(left), second = conversions.toPython(right);
    bool isSame = first && second && first.is(second);
    return makeKnown(isSame == (kind == NodeKind::Is));
  }
  if (kind == NodeKind::In || kind == NodeKind::NotIn) {
    auto *dictionary = right.find<Dictionary>();
    nb::object item = conversions.toPython(left), container = conversions.toPython(right);
    if (dictionary && !dictionary->hasRuntimeKeys) container = nb::cast(dictionary->names);
    if (!item || !container) {
      if (nesting.staticDepth > 0)
        fail(error::kSyntax, llvm::Twine(kind == NodeKind::In ? "\"In\"" : "\"NotIn\"") +
                                 " inside `qd.static` compares values that are known while compiling");
      Operand found = contains(right, left);
      return kind == NodeKind::In ? found : operators().logicalNot(found);
    }
    const bool isDict = PyDict_Check(container.ptr()) || session.python.isWrapper(container);
    if (auto *known = right.find<PythonObject>(); known && isDict && !session.python.isPlainData(container)) {
      const bool isPresent = PySequence_Contains(container.ptr(), item.ptr()) == 1;
      const auto dependency = isPresent ? artifact::Dependency::Kind::Type : artifact::Dependency::Kind::Absent;
      session.tracker.depend(collections().findKeyPath(*known, item), dependency);
    }
    int found = PySequence_Contains(container.ptr(), item.ptr());
    if (found < 0) throw nb::python_error();
    return makeKnown((found == 1) == (kind == NodeKind::In));
  }
  const Operator &op = *findOperator(kind);
  return operators().binary(op.kind, left, conversions.load(right), op.symbol);
}

/// Whether a list, a range or a vector contains a value, of which at least one is known at run time only.
Operand Expressions::contains(const Operand &container, const Operand &given) {
  if (std::optional<Operand> found = instances().callSpecial(container, "__contains__", {collections().copyElement(given)})) return *found;
  const Operand value = conversions.load(given);
  auto apply = [&](BinaryKind kind, const Operand &lhs, const Operand &rhs) { return operators().binary(kind, lhs, rhs, "in"); };
  nb::object known = container.getObject();
  if (known && PyRange_Check(known.ptr())) {
    if (known.attr("step") < nb::int_(0)) known = known.attr("__getitem__")(nb::slice(nb::none(), nb::none(), nb::int_(-1)));
    auto type = dyn_cast_if_present<IntegerType>(conversions.findType(value));
    const auto start = nb::cast<int64_t>(known.attr("start")), stride = nb::cast<int64_t>(known.attr("step"));
    if (type && type.isUnsigned() && start < 0)
      known = known.attr("__getitem__")(nb::slice(nb::int_((stride - 1 - start) / stride), nb::none(), nb::none()));
    return contains(loopRanges().toRange(makeObject(known)), value);
  }
  if (auto *range = container.find<Range>(); range && !range->isNdrange) {
    const Operand &begin = range->items[0], &end = range->items[1], &step = range->items[2];
    const std::optional<int64_t> stride = conversions.findInteger(step);
    if (!stride || *stride <= 0) fail(error::kSyntax, "'in' searches ranges whose steps are known while compiling and positive");
    Operand isInside = apply(BinaryKind::bit_and, apply(BinaryKind::ge, value, begin), apply(BinaryKind::lt, value, end));
    Operand isOnStep = apply(BinaryKind::eq, apply(BinaryKind::mod, value, step), apply(BinaryKind::mod, begin, step));
    return apply(BinaryKind::bit_and, isInside, isOnStep);
  }
  Operand any = makeKnown(false);
  for (const auto &[item, isPresent] : runtimeDicts().listItems(container, "search")) {
    Operand isSame = RuntimeDicts::hasRuntimeKeys(container) ? runtimeDicts().isSame(item, value) : apply(BinaryKind::eq, value, item);
    if (isa_and_nonnull<VectorType>(isSame.getType())) isSame = makeComputed(emitter.reduce(BinaryKind::bit_and, conversions.emit(isSame)));
    any = apply(BinaryKind::bit_or, any, runtimeDicts().combine(BinaryKind::bit_and, isPresent, isSame));
  }
  return any;
}

bool Expressions::isSpeculatable(Block &block) {
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
      using enum UnaryKind;
      static constexpr UnaryKind kCheap[] = {neg, abs, bit_not, logical_not, floor};
      return llvm::is_contained(kCheap, unary.getUnaryKind());
    }
    return isa<ir::ConstantOp, ir::CastOp, ir::SelectOp, ir::VectorOp, ir::ExtractOp, ir::BroadcastOp, ir::ArgumentOp>(op);
  };
  return llvm::hasNItemsOrLess(block, 12) && llvm::all_of(block, isCheap);
}

Operand Expressions::chooseBranch(mlir::Value condition, const std::function<Operand()> &first, const std::function<Operand()> &second) {
  auto branches = create<ir::IfOp>(condition);
  Operand values[2];
  SmallVector<mlir::Value> typed[2]; // for a struct: its members
  mlir::Block *blocks[2];
  for (int side = 0; side < 2; ++side) {
    OpBuilder::InsertionGuard guard(builder);
    blocks[side] = builder.createBlock(side == 0 ? &branches.getThenRegion() : &branches.getElseRegion());
    Enter inside(context);
    scopes.push();
    ++nesting.runtimeDepth;
    values[side] = side == 0 ? first() : second();
    if (session.python.isInstance(values[side].getObject(), session.python.values.structValue))
      values[side] = structs().structOfObject(values[side]);
    if (values[side].is<Struct>())
      functions().flatten(values[side], typed[side], nullptr);
    else if (side == 1 || !session.python.isNumber(values[side].getObject()))
      typed[side].push_back(conversions.emit(values[side], side == 1 ? values[0].getType() : Type()));
  }
  if (typed[0].empty() && !values[0].is<Struct>()) { // a number: a large literal takes the type of the second branch
    OpBuilder::InsertionGuard guard(builder);
    builder.setInsertionPointToEnd(blocks[0]);
    typed[0].push_back(conversions.emit(values[0], values[1].getType()));
  }
  structs().requireSameMembers(values[0], values[1]);
  SmallVector<Type> types;
  for (auto [first, second] : llvm::zip_equal(typed[0], typed[1])) {
    auto one = dyn_cast<VectorType>(first.getType()), other = dyn_cast<VectorType>(second.getType());
    if (one && other && one.getShape() != other.getShape())
      fail(error::kCompilation,
           "Cannot broadcast tensor to tensor: the branches are '" + ir::describe(one) + "' and '" + ir::describe(other) + "'");
    types.push_back(ir::withScalar(one ? Type(one) : second.getType(), emitter.promote(first.getType(), second.getType())));
  }
  SmallVector<mlir::Value> results;
  if (isSpeculatable(*blocks[0]) && isSpeculatable(*blocks[1])) {
    // Both branches are cheap and cannot fail: compute both and select one result.
    for (mlir::Block *block : blocks) branches->getBlock()->getOperations().splice(branches->getIterator(), block->getOperations());
    branches->erase();
    for (auto [type, first, second] : llvm::zip_equal(types, typed[0], typed[1]))
      results.push_back(create<ir::SelectOp>(type, condition, emitter.convert(first, type), emitter.convert(second, type)));
  } else {
    {
      OpBuilder::InsertionGuard guard(builder);
      builder.setInsertionPoint(branches);
      for (Type type : types) results.push_back(create<ir::LocalOp>(ir::RefType::get(type)));
    }
    for (int side = 0; side < 2; ++side) {
      OpBuilder::InsertionGuard guard(builder);
      builder.setInsertionPointToEnd(blocks[side]);
      for (auto [type, value, place] : llvm::zip_equal(types, typed[side], results))
        create<ir::StoreOp>(emitter.convert(value, type), place);
      create<ir::YieldOp>();
    }
    for (auto [type, place] : llvm::zip_equal(types, results)) place = create<ir::LoadOp>(type, place);
  }
  if (!values[0].is<Struct>()) return makeComputed(results[0]);
  size_t position = 0;
  return functions().rebuild(values[0], [&] { return results[position++]; }, false);
}

Operand Expressions::visitBoolean(nb::handle at) {
  bool isAnd = kindOf(getAttribute(at, names().op)) == NodeKind::And;
  nb::object operands = getAttribute(at, names().values);
  llvm::StringRef symbol = isAnd ? "&&" : "||";
  BinaryKind kind = isAnd ? BinaryKind::bit_and : BinaryKind::bit_or;
  size_t count = nb::len(operands);
  auto isHostMatrix = [&](const Operand &value) { return session.python.isInstance(value.getObject(), session.python.values.matrix); };
  auto isVector = [&](const Operand &value) { return isHostMatrix(value) || isa_and_nonnull<VectorType>(conversions.findType(value)); };
  // With a vector operand, the truth of each operand is computed per component.
  auto asTruth = [&](const Operand &value) {
    mlir::Value number = conversions.emit(value);
    Type scalar = ir::getScalar(number.getType());
    if (isVector(value) && !scalar.isInteger(1) && !ir::isIntegerScalar(scalar))
      fail(error::kType, "unsupported operand type(s) for '" + symbol + "': '" + ir::describe(number.getType()) + "'");
    return makeComputed(emitter.nonZero(number));
  };
  std::function<Operand(size_t)> evaluate = [&](size_t index) -> Operand {
    Operand value = conversions.load(visit(nb::object(operands[index])));
    if (index + 1 == count) return value;
    if (conversions.isConstant(value) && !isHostMatrix(value)) {
      if (conversions.isTrue(value) != isAnd) return value;
      Operand rest = evaluate(index + 1);
      return isVector(rest) ? asTruth(rest) : rest;
    }
    value = makeComputed(conversions.emit(value));
    if (isVector(value)) {
      Operand left = asTruth(value);
      return operators().binary(kind, left, asTruth(evaluate(index + 1)), symbol);
    }
    if (!session.options.shortCircuit) {
      Operand rest = evaluate(index + 1);
      return isVector(rest) ? operators().binary(kind, asTruth(value), asTruth(rest), symbol)
                            : operators().binary(kind, value, rest, symbol);
    }
    mlir::Value condition = operators().truth(value, isAnd ? "and" : "or");
    Operand right;
    auto rest = [&] {
      right = evaluate(index + 1);
      return isVector(right) ? asTruth(right) : right;
    };
    auto own = [&] { return value; };
    Operand chosen = isAnd ? chooseBranch(condition, rest, own) : chooseBranch(condition, own, rest);
    return isVector(right) ? makeComputed(emitter.nonZero(conversions.emit(chosen))) : chosen;
  };
  return evaluate(0);
}

Operand Expressions::visitConditional(nb::handle at) {
  Operand test = visit(getAttribute(at, names().test));
  nb::object first = getAttribute(at, names().body), second = getAttribute(at, names().orelse);
  if (std::optional<Operand> decisive = instances().truthOfInstance(test)) test = *decisive;
  if (conversions.isConstant(test) || test.isStatic) return visit(conversions.isTrue(test) ? first : second);
  mlir::Value condition = conversions.emit(test);
  if (isa<VectorType>(condition.getType()))
    fail(error::kSyntax, "the condition of a conditional expression is a vector. Please use \"qd.select\" instead.");
  condition = operators().truth(makeComputed(condition), "if");
  return chooseBranch(condition, [&] { return conversions.load(visit(first)); }, [&] { return conversions.load(visit(second)); });
}

} // namespace qd::frontend
