// expressions.cpp: names, literals, displays, comparisons, and what evaluates only a part of its operands
#include "frontend/builder.h"

using namespace mlir;

namespace qd::frontend {

using Kind = Value::Kind;
using artifact::PathStep;
using ir::BinaryKind;

namespace {
struct Operator {
  BinaryKind kind;
  llvm::StringRef symbol;
};
} // namespace

static std::optional<Operator> findOperator(NodeKind kind) {
  switch (kind) {
  case NodeKind::Add: return Operator{BinaryKind::add, "+"};
  case NodeKind::Sub: return Operator{BinaryKind::sub, "-"};
  case NodeKind::Mult: return Operator{BinaryKind::mul, "*"};
  case NodeKind::Div: return Operator{BinaryKind::div, "/"};
  case NodeKind::FloorDiv: return Operator{BinaryKind::floor_div, "//"};
  case NodeKind::Mod: return Operator{BinaryKind::mod, "%"};
  case NodeKind::Pow: return Operator{BinaryKind::pow, "**"};
  case NodeKind::LShift: return Operator{BinaryKind::shl, "<<"};
  case NodeKind::RShift: return Operator{BinaryKind::shr, ">>"};
  case NodeKind::BitOr: return Operator{BinaryKind::bit_or, "|"};
  case NodeKind::BitXor: return Operator{BinaryKind::bit_xor, "^"};
  case NodeKind::BitAnd: return Operator{BinaryKind::bit_and, "&"};
  case NodeKind::Eq: return Operator{BinaryKind::eq, "=="};
  case NodeKind::NotEq: return Operator{BinaryKind::ne, "!="};
  case NodeKind::Lt: return Operator{BinaryKind::lt, "<"};
  case NodeKind::LtE: return Operator{BinaryKind::le, "<="};
  case NodeKind::Gt: return Operator{BinaryKind::gt, ">"};
  case NodeKind::GtE: return Operator{BinaryKind::ge, ">="};
  default: return std::nullopt;
  }
}

Value FunctionBuilder::visit(nb::handle at) {
  At here(*this, at);
  if (++expressionDepth > 400) fail(error::kSyntax, "the expression is nested too deeply: split it into several statements");
  Value value = visitNode(at);
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
      PyObject *object = operand.object.ptr();
      PyObject *result = kind == NodeKind::USub   ? PyNumber_Negative(object)
                         : kind == NodeKind::UAdd ? PyNumber_Positive(object)
                                                  : PyNumber_Invert(object);
      if (!result) throw nb::python_error();
      return makeObject(nb::steal(result));
    }
    if (kind == NodeKind::UAdd) return load(operand);
    return kind == NodeKind::USub ? negate(operand) : unary(ir::UnaryKind::bit_not, operand, "bit_not");
  }
  case NodeKind::Compare: return visitCompare(at);
  case NodeKind::BoolOp: return visitBoolean(at);
  case NodeKind::IfExp: return visitConditional(at);
  case NodeKind::Call: return visitCall(at);
  case NodeKind::Attribute: return visitAttribute(at);
  case NodeKind::Subscript: return visitSubscript(at);
  case NodeKind::List:
  case NodeKind::Set: return visitDisplay(at, false);
  case NodeKind::Tuple: return visitDisplay(at, true);
  case NodeKind::Dict: return visitDictionary(at);
  case NodeKind::ListComp:
  case NodeKind::SetComp:
  case NodeKind::DictComp:
  case NodeKind::GeneratorExp: return visitComprehension(at);
  case NodeKind::NamedExpr: {
    Value value = visit(getAttribute(at, names().value));
    assignName(getAttribute(at, names().target), value);
    return visitName(getAttribute(at, names().target));
  }
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
  Binding *binding = scopes.find(name.ptr());
  if (!binding) return lookUpGlobal(name);
  if (binding->kind == Binding::Kind::Merged) return merge(*binding, name.ptr());
  if (binding->kind == Binding::Kind::Partial && binding->line == 0)
    fail(error::kName, "Name \"" + toText(name) + "\" is not defined: it was deleted");
  if (binding->kind == Binding::Kind::Partial)
    fail(error::kName, "Name \"" + toText(name) + "\" is not defined on every path: the `if` in line " + std::to_string(binding->line) +
                           " assigns it in one branch only");
  return binding->value;
}

/// Levenshtein distance with an upper bound, for suggestions.
static bool isClose(llvm::StringRef a, llvm::StringRef b) { return a.edit_distance(b, true, 2) <= (a.size() > 3 ? 2u : 1u); }

Value FunctionBuilder::lookUpGlobal(nb::handle name) {
  llvm::StringRef text = toText(name);
  nb::handle callable = function.object;
  Reader &reader = session.reader;
  nb::object code = getAttribute(callable, names().__code__);
  nb::object cells = getAttribute(callable, names().__closure__);
  if (!cells.is_none()) {
    nb::object freeNames = getAttribute(code, names().co_freevars);
    Py_ssize_t position = PySequence_Index(freeNames.ptr(), name.ptr());
    if (position >= 0) {
      nb::object content = findAttribute(nb::object(cells[position]), nb::str("cell_contents"));
      if (content) {
        const PathNode *path =
            reader.getCellRoot(nb::object(cells[position]), reader.getStep(function.path, PathStep::Kind::FunctionClosure, text));
        reader.read(path, content);
        return makeObject(content, path);
      }
    } else {
      PyErr_Clear();
    }
  }
  nb::object globals = getAttribute(callable, names().__globals__);
  const PathNode *path = reader.getStep(reader.getFunctionRoot(callable, function.path), PathStep::Kind::FunctionGlobal, text);
  bool isPackageCode = toText(nb::str(getAttribute(callable, names().__module__))).starts_with("quadrants");
  if (PyObject *found = PyDict_GetItemWithError(globals.ptr(), name.ptr())) {
    if (!isPackageCode) reader.read(path, found);
    return makeObject(found, path);
  }
  if (PyObject *found = PyDict_GetItemWithError(session.python.builtins.ptr(), name.ptr())) return makeObject(found);
  std::string suggestion;
  for (auto [key, value] : nb::borrow<nb::dict>(globals))
    if (suggestion.empty() && PyUnicode_Check(key.ptr()) && isClose(toText(key), text)) suggestion = toText(key).str();
  for (const std::string &known : scopes.listNames())
    if (isClose(known, text)) suggestion = known;
  fail(error::kName, "Name \"" + text + "\" is not defined" + (suggestion.empty() ? "" : "; did you mean \"" + suggestion + "\"?"));
}

Value FunctionBuilder::visitBinary(nb::handle at) {
  // The left spine of a long sum is walked in a loop, so that its length does not matter.
  SmallVector<nb::object> spine;
  nb::object left = nb::borrow(at);
  while (kindOf(left) == NodeKind::BinOp) {
    spine.push_back(left);
    left = getAttribute(left, names().left);
  }
  Value value = visit(left);
  for (nb::object &step : llvm::reverse(spine)) {
    At here(*this, step);
    // A place is read before the right side may change it.
    if (kindOf(getAttribute(step, names().right)) != NodeKind::Constant) value = load(value);
    Value right = visit(getAttribute(step, names().right));
    NodeKind kind = kindOf(getAttribute(step, names().op));
    if (kind == NodeKind::MatMult) {
      value = matmul(value, right);
      continue;
    }
    std::optional<Operator> found = findOperator(kind);
    bool isFormat = kind == NodeKind::Mod && value.isObject() && PyUnicode_Check(value.object.ptr()) && !isConstant(right);
    if (isFormat) fail(error::kSyntax, "'%' on a text is supported in print and assert only");
    value = binary(found->kind, value, right, found->symbol);
  }
  return value;
}

Value FunctionBuilder::visitCompare(nb::handle at) {
  nb::object operators = getAttribute(at, names().ops), comparators = getAttribute(at, names().comparators);
  size_t count = nb::len(operators);
  Value left = visit(getAttribute(at, names().left));
  Value result;
  for (size_t link = 0; link < count; ++link) {
    NodeKind kind = kindOf(nb::object(operators[link]));
    left = load(left);
    Value right = visit(nb::object(comparators[link]));
    Value term;
    if (kind == NodeKind::Is || kind == NodeKind::IsNot) {
      if ((!isConstant(left) && !isTensor(left)) || (!isConstant(right) && !isTensor(right)))
        fail(error::kSyntax, "Operator \"" + llvm::Twine(kind == NodeKind::Is ? "is" : "is not") +
                                 "\" in Quadrants scope is not supported: it compares compile-time objects; use == for values");
      nb::object first = toPython(left), second = toPython(right);
      bool isSame = first && second && first.is(second);
      term = makeObject(nb::bool_(isSame == (kind == NodeKind::Is)));
    } else if (kind == NodeKind::In || kind == NodeKind::NotIn) {
      nb::object item = toPython(left), container = toPython(right);
      if (!item || !container)
        fail(error::kSyntax, "\"In\" is only supported inside `qd.static`: both sides must be known while compiling");
      int found = PySequence_Contains(container.ptr(), item.ptr());
      if (found < 0) throw nb::python_error();
      term = makeObject(nb::bool_((found == 1) == (kind == NodeKind::In)));
    } else {
      std::optional<Operator> found = findOperator(kind);
      right = load(right);
      term = binary(found->kind, left, right, found->symbol);
    }
    if (link == 0)
      result = term;
    else if (isConstant(result) && isConstant(term))
      result = isTrue(result) ? term : result;
    else if ((findType(result) && isa<VectorType>(findType(result))) || (findType(term) && isa<VectorType>(findType(term))))
      fail(error::kType, "vectors cannot be compared in a chain");
    else
      result = makeComputed(create<ir::BinaryOp>(BinaryKind::bit_and, truth(result, "compare"), truth(term, "compare")));
    left = right;
  }
  return result;
}

bool FunctionBuilder::isSpeculatable(Block &block) {
  unsigned count = 0;
  for (Operation &op : block) {
    if (++count > 12) return false;
    // Reads of variables cannot fail; elements, calls and integer division may, and a nested branch is not worth it.
    if (auto load = dyn_cast<ir::LoadOp>(op)) {
      if (!load.getRef().getDefiningOp<ir::LocalOp>()) return false;
      continue;
    }
    if (auto binary = dyn_cast<ir::BinaryOp>(op)) {
      switch (binary.getBinaryKind()) {
      case BinaryKind::pow:
      case BinaryKind::atan2: return false;
      case BinaryKind::floor_div:
      case BinaryKind::mod:
      case BinaryKind::raw_div:
      case BinaryKind::raw_mod:
        if (!ir::isFloatScalar(ir::getScalar(binary.getType()))) return false;
        continue;
      default: continue;
      }
    }
    if (auto unary = dyn_cast<ir::UnaryOp>(op)) {
      using ir::UnaryKind;
      if (unary.getUnaryKind() != UnaryKind::neg && unary.getUnaryKind() != UnaryKind::abs && unary.getUnaryKind() != UnaryKind::bit_not &&
          unary.getUnaryKind() != UnaryKind::logical_not && unary.getUnaryKind() != UnaryKind::floor)
        return false;
      continue;
    }
    if (!isa<ir::ConstantOp, ir::CastOp, ir::SelectOp, ir::VectorOp, ir::ExtractOp, ir::BroadcastOp, ir::ArgumentOp>(op)) return false;
  }
  return true;
}

Value FunctionBuilder::chooseBranch(mlir::Value condition, const std::function<Value()> &first, const std::function<Value()> &second) {
  auto branches = create<ir::IfOp>(condition);
  Value values[2];
  mlir::Value typed[2];
  mlir::Block *blocks[2];
  for (int side = 0; side < 2; ++side) {
    OpBuilder::InsertionGuard guard(builder);
    blocks[side] = builder.createBlock(side == 0 ? &branches.getThenRegion() : &branches.getElseRegion());
    scopes.push();
    ++runtimeDepth;
    values[side] = side == 0 ? first() : second();
    typed[side] = emit(values[side]);
    --runtimeDepth;
    scopes.pop();
  }
  Type shape = isa<VectorType>(typed[0].getType()) ? typed[0].getType() : typed[1].getType();
  if (isa<VectorType>(typed[0].getType()) && isa<VectorType>(typed[1].getType()) &&
      mlir::cast<VectorType>(typed[0].getType()).getShape() != mlir::cast<VectorType>(typed[1].getType()).getShape())
    fail(error::kCompilation, "Cannot broadcast tensor to tensor: the branches are '" + ir::describe(typed[0].getType()) + "' and '" +
                                  ir::describe(typed[1].getType()) + "'");
  Type type = ir::withScalar(shape, promote(typed[0].getType(), typed[1].getType()));
  if (isSpeculatable(*blocks[0]) && isSpeculatable(*blocks[1])) {
    // Cheap and harmless: both are computed, one is kept.
    for (mlir::Block *block : blocks) branches->getBlock()->getOperations().splice(branches->getIterator(), block->getOperations());
    branches->erase();
    return makeComputed(create<ir::SelectOp>(type, condition, convert(typed[0], type), convert(typed[1], type)));
  }
  mlir::Value result;
  {
    OpBuilder::InsertionGuard guard(builder);
    builder.setInsertionPoint(branches);
    result = create<ir::LocalOp>(ir::RefType::get(type));
  }
  for (int side = 0; side < 2; ++side) {
    OpBuilder::InsertionGuard guard(builder);
    builder.setInsertionPointToEnd(blocks[side]);
    create<ir::StoreOp>(convert(typed[side], type), result);
    create<ir::YieldOp>();
  }
  return makeComputed(create<ir::LoadOp>(type, result));
}

Value FunctionBuilder::visitBoolean(nb::handle at) {
  bool isAnd = kindOf(getAttribute(at, names().op)) == NodeKind::And;
  nb::object operands = getAttribute(at, names().values);
  size_t count = nb::len(operands);
  std::function<Value(size_t)> evaluate = [&](size_t index) -> Value {
    Value value = load(visit(nb::object(operands[index])));
    if (index + 1 == count) return value;
    if (isConstant(value)) { return isTrue(value) == isAnd ? evaluate(index + 1) : value; }
    mlir::Value left = emit(value);
    if (!session.options.shortCircuit || isa<VectorType>(left.getType())) {
      if (isa<VectorType>(left.getType()) && !ir::getScalar(left.getType()).isInteger(1) &&
          !ir::isIntegerScalar(ir::getScalar(left.getType())))
        fail(error::kType,
             "unsupported operand type(s) for '" + llvm::Twine(isAnd ? "&&" : "||") + "': '" + ir::describe(left.getType()) + "'");
      return binary(isAnd ? BinaryKind::bit_and : BinaryKind::bit_or, value, evaluate(index + 1), isAnd ? "&&" : "||");
    }
    mlir::Value condition = truth(value, isAnd ? "and" : "or");
    auto rest = [&] { return evaluate(index + 1); };
    auto own = [&] { return value; };
    return isAnd ? chooseBranch(condition, rest, own) : chooseBranch(condition, own, rest);
  };
  return evaluate(0);
}

Value FunctionBuilder::visitConditional(nb::handle at) {
  Value test = visit(getAttribute(at, names().test));
  nb::object first = getAttribute(at, names().body), second = getAttribute(at, names().orelse);
  if (isConstant(test) || test.isStatic) return visit(isTrue(test) ? first : second);
  mlir::Value condition = emit(test);
  if (isa<VectorType>(condition.getType()))
    fail(error::kSyntax, "the condition of a conditional expression is a vector. Please use \"qd.select\" instead.");
  condition = truth(makeComputed(condition), "if");
  return chooseBranch(condition, [&] { return load(visit(first)); }, [&] { return load(visit(second)); });
}

Value FunctionBuilder::visitDisplay(nb::handle at, bool isTuple) {
  std::vector<Value> items;
  for (nb::handle element : getAttribute(at, names().elts)) {
    if (kindOf(element) == NodeKind::Starred) {
      for (Value &item : listItems(visit(getAttribute(element, names().value)), "unpack")) items.push_back(std::move(item));
      continue;
    }
    items.push_back(load(visit(element)));
  }
  Value value = makeAggregate(Kind::Sequence, std::move(items));
  value.aggregate->isTuple = isTuple;
  return value;
}

Value FunctionBuilder::visitDictionary(nb::handle at) {
  Value result = makeAggregate(Kind::Dictionary, {});
  nb::object keys = getAttribute(at, names().keys), values = getAttribute(at, names().values);
  auto put = [&](nb::object key, Value value) {
    for (size_t index = 0; index < result.aggregate->names.size(); ++index)
      if (result.aggregate->names[index].equal(key)) {
        result.aggregate->items[index] = std::move(value);
        return;
      }
    result.aggregate->names.push_back(std::move(key));
    result.aggregate->items.push_back(std::move(value));
  };
  for (size_t index = 0, count = nb::len(keys); index < count; ++index) {
    nb::object keyNode = keys[index];
    Value value = load(visit(nb::object(values[index])));
    if (keyNode.is_none()) {
      if (value.isObject() && PyDict_Check(value.object.ptr())) {
        for (auto [key, item] : nb::borrow<nb::dict>(value.object)) put(nb::borrow(key), makeObject(item));
        continue;
      }
      if (!value.is(Kind::Dictionary)) fail(error::kType, "'**' needs a dict, got " + describe(value));
      for (auto [key, item] : llvm::zip(value.aggregate->names, value.aggregate->items)) put(key, item);
      continue;
    }
    nb::object key = toPython(visit(keyNode));
    if (!key) fail(error::kSyntax, "the keys of a dict must be known while compiling");
    put(key, std::move(value));
  }
  return result;
}

void FunctionBuilder::comprehend(nb::handle generators, size_t level, const std::function<void()> &emitElement) {
  if (level == nb::len(generators)) return emitElement();
  nb::object generator = generators[level];
  for (const Value &item : listItems(visit(getAttribute(generator, names().iter)), "iterate in a comprehension over")) {
    scopes.push();
    nb::object target = getAttribute(generator, names().target);
    std::function<void(nb::handle, const Value &)> bindTarget = [&](nb::handle to, const Value &value) {
      if (kindOf(to) == NodeKind::Name) {
        Binding binding;
        binding.kind = Binding::Kind::Static;
        binding.value = value;
        scopes.bind(getAttribute(to, names().id).ptr(), std::move(binding));
        return;
      }
      std::vector<Value> parts = listItems(value, "unpack");
      nb::object targets = getAttribute(to, names().elts);
      if (parts.size() != nb::len(targets)) fail(error::kSyntax, "The number of targets is not equal to value length");
      for (size_t index = 0; index < parts.size(); ++index) bindTarget(nb::object(targets[index]), parts[index]);
    };
    bindTarget(target, item);
    bool isWanted = true;
    for (nb::handle condition : getAttribute(generator, names().ifs)) {
      nb::object test = toPython(visit(condition));
      if (!test) fail(error::kSyntax, "the filter of a comprehension must be known while compiling");
      isWanted = isWanted && PyObject_IsTrue(test.ptr()) == 1;
    }
    if (isWanted) comprehend(generators, level + 1, emitElement);
    scopes.pop();
  }
}

Value FunctionBuilder::visitComprehension(nb::handle at) {
  bool isDict = kindOf(at) == NodeKind::DictComp;
  Value result = makeAggregate(isDict ? Kind::Dictionary : Kind::Sequence, {});
  comprehend(getAttribute(at, names().generators), 0, [&] {
    if (!isDict) {
      result.aggregate->items.push_back(load(visit(getAttribute(at, names().elt))));
      return;
    }
    nb::object key = toPython(visit(getAttribute(at, names().key)));
    if (!key) fail(error::kSyntax, "the keys of a dict must be known while compiling");
    result.aggregate->names.push_back(key);
    result.aggregate->items.push_back(load(visit(getAttribute(at, names().value))));
  });
  return result;
}

Value FunctionBuilder::visitFormatted(nb::handle at) {
  // Outside print and assert an f-string is a text known while compiling.
  nb::object text = nb::str("");
  for (nb::handle part : getAttribute(at, names().values)) {
    if (kindOf(part) == NodeKind::Constant) {
      text = text + getAttribute(part, names().value);
      continue;
    }
    nb::object value = toPython(visit(getAttribute(part, names().value)));
    if (!value) fail(error::kSyntax, "an f-string with run-time values is supported in print and assert only");
    nb::object specification = getAttribute(part, names().format_spec);
    nb::object spec = specification.is_none() ? nb::object(nb::str("")) : toPython(visit(specification));
    int64_t conversion = readInteger(part, names().conversion);
    if (conversion == 'r')
      value = nb::repr(value);
    else if (conversion == 's')
      value = nb::str(value);
    nb::object formatted = nb::steal(PyObject_Format(value.ptr(), spec.ptr()));
    if (!formatted) throw nb::python_error();
    text = text + formatted;
  }
  return makeObject(text);
}

} // namespace qd::frontend
