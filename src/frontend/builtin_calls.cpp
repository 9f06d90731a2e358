// builtin_calls.cpp: calls of the functions of quadrants._language.builtins and of Python's builtins
//
// In:   the name of a function and its arguments as values.
// Out:  ops, or the compile-time result if Python can compute it.
// Here: one table of names and parameters for the language's functions, then Python's builtins with a meaning of their own in kernels.
#include "frontend/builder.h"
#include "ir/attributes.h"

#include "llvm/ADT/StringExtras.h"

#include <numeric>

using namespace mlir;

namespace qd::frontend {

using Kind = Value::Kind;
using ir::BinaryKind;
using ir::UnaryKind;

std::vector<Value> FunctionBuilder::bind(const llvm::Twine &function, const Arguments &arguments, llvm::StringRef parameters) {
  SmallVector<llvm::StringRef> names;
  parameters.split(names, ' ', -1, /*KeepEmpty=*/false);
  size_t required = llvm::count_if(names, [](llvm::StringRef name) { return !name.ends_with("?"); });
  std::vector<Value> values = arguments.positional;
  auto failCount = [&](size_t count) {
    fail(error::kType, function + "() takes " + std::to_string(required) +
                           (names.size() == required ? "" : " to " + std::to_string(names.size())) + " arguments, got " +
                           std::to_string(count));
  };
  if (values.size() > names.size()) failCount(values.size());
  values.resize(names.size());
  for (const auto &[key, value] : arguments.named) {
    llvm::StringRef wanted = key;
    auto found = llvm::find_if(names, [&](llvm::StringRef name) { return name.rtrim('?') == wanted; });
    if (found == names.end()) fail(error::kType, function + "() got an unexpected keyword argument '" + key + "'");
    Value &place = values[size_t(found - names.begin())];
    if (place.isGiven()) fail(error::kType, function + "() got multiple values for argument '" + key + "'");
    place = value;
  }
  for (size_t index = 0; index < values.size(); ++index) {
    if (!values[index].isGiven() && index < required) failCount(arguments.positional.size() + arguments.named.size());
    if (!values[index].isGiven()) values[index] = makeObject(nb::none());
  }
  return values;
}

Type FunctionBuilder::scalarTypeOf(const Value &value, const llvm::Twine &function) {
  if (value.isNone()) return {};
  Type type = value.isObject() ? session.findScalarType(value.object) : Type();
  if (!type) fail(error::kType, "Invalid data type " + describe(value) + " given to " + function);
  return type;
}

Value FunctionBuilder::callStatic(Arguments &arguments) {
  Value limit;
  if (arguments.named.size() == 1 && arguments.named[0].first == "max_unroll") limit = arguments.named[0].second;
  if (arguments.positional.empty() || (limit.isGiven() ? 1u : 0u) != arguments.named.size())
    fail(error::kSyntax, "qd.static takes compile-time values, and max_unroll");
  auto check = [&](const Value &value) {
    bool isVector = value.isTyped() && value.is(Kind::Computed);
    if (isVector || value.is(Kind::Place) || value.is(Kind::Components) || value.is(Kind::Argument)) {
      std::string what = value.is(Kind::Argument)
                             ? "<class 'Expr'>: it is a runtime kernel argument and cannot be used inside qd.static()"
                             : "<class 'Expr'> ('" + ir::describe(value.type) + "'); assign it with qd.static if it is constant";
      fail(value.is(Kind::Argument) ? error::kSyntax : error::kCompilation,
           "Input to qd.static must be compile-time constants or global pointers, instead of " + what);
    }
    if (value.is(Kind::Range) && value.aggregate->items.size() != 1)
      fail(error::kType, "TypeError when calling `range`: 'Quadrants Expression' object cannot be interpreted as an integer.");
  };
  for (const Value &value : arguments.positional) check(value);
  nb::object given = getAttribute(node, names().args);
  bool isNested = nb::len(given) == 1 && kindOf(nb::object(given[0])) == NodeKind::Call && arguments.positional[0].isStatic;
  if (isNested && !canEmit(arguments.positional[0])) fail(error::kSyntax, "'qd.static' cannot be nested");
  Value result = arguments.positional.size() == 1 ? arguments.positional[0] : makeAggregate(Kind::Sequence, arguments.positional);
  // A loop of more than max_unroll iterations is not unrolled.
  result.isStatic = !limit.isGiven() || int64_t(listItems(result, "loop over").size()) <= nb::cast<int64_t>(known(limit));
  return result;
}

Value FunctionBuilder::callMinMax(BinaryKind kind, Arguments &arguments, llvm::StringRef name) {
  std::vector<Value> operands = arguments.positional;
  if (operands.size() == 1) operands = listItems(operands[0], "compare the items of");
  if (operands.empty()) fail(error::kType, name + "() needs at least one value");
  if (llvm::all_of(operands, [&](const Value &value) { return isConstant(value) && value.isObject(); })) {
    nb::list list;
    for (const Value &value : operands) list.append(value.object);
    nb::object function = nb::borrow(PyDict_GetItemString(session.python.builtins.ptr(), kind == BinaryKind::min ? "min" : "max"));
    return makeObject(function(list));
  }
  mlir::Value result = emit(operands[0], operands.size() > 1 ? findType(operands[1]) : Type());
  for (size_t index = 1; index < operands.size(); ++index)
    result = binaryTyped(kind, result, emit(operands[index], result.getType()), name);
  return makeComputed(result);
}

Value FunctionBuilder::callCast(const Value &value, Type scalar) {
  if (value.isObject() && session.python.isNumber(value.object)) return rounded(makeComputed(convert(value, scalar)));
  return rounded(makeComputed(cast(emit(value), scalar)));
}

Value FunctionBuilder::rounded(const Value &value) {
  if (!value.isTyped() || ir::getScalar(value.type) != session.types.bf16) return value;
  mlir::Value memory = create<ir::LocalOp>(ir::RefType::get(value.type));
  create<ir::StoreOp>(emit(value), memory);
  return load(makePlace(memory));
}

/// Calls an atomic operation with `order=` and `scope=`. The operation itself is relaxed; fences before and after it enforce the order.
Value FunctionBuilder::callOrdered(llvm::StringRef name, Arguments &arguments, llvm::function_ref<Value()> call) {
  auto take = [&](llvm::StringRef keyword, ArrayRef<llvm::StringRef> words) -> size_t {
    auto given = llvm::find_if(arguments.named, [&](const auto &argument) { return argument.first == keyword; });
    if (given == arguments.named.end()) return 0;
    nb::object value = toPython(given->second);
    auto word = llvm::find(words, value && PyUnicode_Check(value.ptr()) ? toText(value) : "");
    if (word == words.end())
      fail(error::kType, "'" + keyword + "' of " + name + "() is one of " + llvm::join(words, ", ") + ", got " + describe(given->second));
    arguments.named.erase(given);
    return size_t(word - words.begin());
  };
  size_t order = take("order", {"relaxed", "acquire", "release", "acq_rel", "seq_cst"});
  bool isBlock = take("scope", {"device", "block", "system"}) == 1;
  if (order >= 2) create<ir::FenceOp>(isBlock);
  Value result = call();
  if (order && order != 2) create<ir::FenceOp>(isBlock);
  return result;
}

Value FunctionBuilder::callAtomic(llvm::StringRef name, Arguments &arguments) {
  llvm::StringRef operation = name.drop_front(7); // without "atomic_"
  if (operation == "load") {
    Value place = bind("qd." + name, arguments, "x")[0];
    return place.isElement || isTensor(place) ? loadVolatile(place, name) : load(place);
  }
  std::vector<Value> given = bind("qd." + name, arguments, operation == "cas" ? "x expected desired" : "x y");
  const Value &place = given[0];
  bool isLvalue = (place.is(Kind::Place) || place.is(Kind::Components)) && !place.isReadOnly;
  if (!isLvalue)
    fail(error::kSyntax,
         "cannot use a non-writable target as the first operand of '" + name + "': an lvalue (a variable or an element) is needed");
  if (operation == "cas") {
    if (!place.is(Kind::Place) || isa<VectorType>(place.type))
      fail(error::kType, "qd.atomic_cas takes a scalar lvalue, the expected value and the new value");
    return makeComputed(
        widened(create<ir::CompareExchangeOp>(place.type, place.ir, convert(given[1], place.type), convert(given[2], place.type))));
  }
  bool isStore = operation == "store";
  if (isStore) operation = "exchange";
  bool isBitwise = operation == "and" || operation == "or" || operation == "xor";
  std::optional<ir::AtomicKind> kind = ir::findKind<ir::AtomicKind>((isBitwise ? "bit_" : "") + operation.str());
  Type scalar = ir::getScalar(place.type);
  mlir::Value operand = emit(given[1], place.type);
  if (ir::getOpInfo(*kind).operand == ir::OperandClass::Integer &&
      (ir::isFloatScalar(scalar) || ir::isFloatScalar(ir::getScalar(operand.getType()))))
    fail(error::kType,
         "'" + name + "' requires integer operands, got '" + ir::describe(place.type) + "' and '" + ir::describe(operand.getType()) + "'");
  operand = convert(operand, place.type);
  kind = getAtomicKind(*kind, scalar);
  SmallVector<mlir::Value> old;
  if (place.is(Kind::Place))
    old.push_back(create<ir::AtomicOp>(*kind, place.ir, operand));
  else
    for (size_t position = 0; position < size_t(ir::getComponentCount(place.type)); ++position)
      old.push_back(create<ir::AtomicOp>(*kind, componentPlace(place, position).ir, extract(operand, int64_t(position))));
  if (isStore) return makeObject(nb::none());
  return makeComputed(widened(place.is(Kind::Place) ? old[0] : makeVector(old, place.type)));
}

Value FunctionBuilder::loadVolatile(const Value &target, llvm::StringRef name) {
  if (isTensor(target)) fail(error::kSyntax, "cannot pass a Field directly to '" + name + "': it reads an element");
  if (!target.is(Kind::Place) && !target.is(Kind::Components)) {
    nb::object given = getAttribute(node, names().args);
    bool isLocal = target.is(Kind::Computed) && nb::len(given) == 1 && kindOf(nb::object(given[0])) == NodeKind::Name;
    fail(isLocal ? error::kType : error::kSyntax,
         "'volatile_load' requires an lvalue (field / ndarray subscript), got " + describe(target) +
             (isLocal ? ": variables and function-scope local arrays are not visible to other threads" : ""));
  }
  auto read = [&](const Value &place) -> mlir::Value {
    if (!place.isElement) fail(error::kType, "'volatile_load': variables and function-scope local arrays are not visible to other threads");
    auto load = create<ir::LoadOp>(place.type, place.ir);
    load->setAttr(ir::kVolatile, UnitAttr::get(&session.ctx));
    return load;
  };
  if (target.is(Kind::Place)) return makeComputed(read(target));
  SmallVector<mlir::Value> components;
  for (size_t position = 0; position < size_t(ir::getComponentCount(target.type)); ++position)
    components.push_back(read(componentPlace(target, position)));
  return makeComputed(makeVector(components, target.type));
}

Value FunctionBuilder::callStaticPrint(Arguments &arguments) {
  for (Value &value : arguments.positional)
    if (!toPython(value)) value = makeObject(nb::str(describe(value).c_str()));
  Value print = makeObject(nb::borrow(PyDict_GetItemString(session.python.builtins.ptr(), "print")));
  for (const auto &[key, value] : arguments.named)
    if (!toPython(value)) failRuntimeOperands(print.object, "print");
  return runPython(print.object, print, "print", arguments);
}

Value FunctionBuilder::makeGrouped(const Value &operand) {
  if (operand.isStatic) fail(error::kSyntax, "'qd.static' is not allowed inside 'qd.grouped'");
  if (isContainer(operand)) return makeAggregate(Kind::Range, {operand});
  Value range = operand.isObject() ? toRange(operand) : operand;
  bool isNested = range.is(Kind::Range) && (range.aggregate->isNdrange ? range.aggregate->isGrouped : range.aggregate->items.size() == 1);
  if (isNested) fail(error::kSyntax, "'qd.grouped' cannot be nested");
  if (!range.is(Kind::Range) || !range.aggregate->isNdrange)
    fail(error::kSyntax, "qd.grouped needs a container or qd.ndrange. Only 'qd.ndrange' is allowed in 'qd.static(qd.grouped(...))'.");
  if (operand.isObject()) return makeObject(operand.object.attr("grouped")());
  range.aggregate = std::make_shared<Aggregate>(*range.aggregate);
  range.aggregate->isGrouped = true;
  return range;
}

Value FunctionBuilder::callBuiltin(llvm::StringRef name, const Value &callee, Arguments &arguments) {
  using Given = std::vector<Value>;
  struct Function {
    llvm::StringLiteral parameters;
    Value (*call)(FunctionBuilder &builder, llvm::StringRef name, const Given &given);
  };
  static constexpr auto kSame = [](FunctionBuilder &builder, llvm::StringRef, const Given &given) { return builder.load(given[0]); };
  static constexpr auto kRound = [](FunctionBuilder &builder, llvm::StringRef name, const Given &given) {
    Type type = builder.scalarTypeOf(given[1], "qd." + name);
    Value result = builder.unary(*ir::findKind<ir::UnaryKind>(name), given[0], name);
    return type ? builder.callCast(result, type) : result;
  };
  static constexpr auto kFill = [](FunctionBuilder &builder, llvm::StringRef name, const Given &given) {
    return makeComputed(builder.convert(builder.constant(name == "one", builder.session.types.i32), builder.emit(given[0]).getType()));
  };
  static const llvm::StringMap<Function> kFunctions = {
      {"assume_in_range", {"val base low high", kSame}},
      {"loop_unique", {"val covers?", kSame}},
      {"volatile_load", {"target", [](auto &builder, auto name, auto &given) { return builder.loadVolatile(given[0], name); }}},
      {"floor", {"x dtype?", kRound}},
      {"ceil", {"x dtype?", kRound}},
      {"round", {"x dtype?", kRound}},
      {"trunc", {"x dtype?", kRound}},
      {"zero", {"x", kFill}},
      {"one", {"x", kFill}},
      {"global_thread_idx",
       {"",
        [](auto &builder, auto, auto &) {
          if (builder.isTopLevel()) builder.fail(error::kRuntime, "qd.global_thread_idx() is only valid within loops");
          return makeComputed(builder.template create<ir::ThreadIndexOp>(builder.session.types.i32));
        }}},
      {"grouped", {"x", [](auto &builder, auto, auto &given) { return builder.makeGrouped(given[0]); }}},
      {"ldexp",
       {"x n",
        [](auto &builder, auto name, auto &given) {
          mlir::Value x = builder.emit(given[0]), n = builder.emit(given[1]);
          if (ir::isFloatScalar(ir::getScalar(n.getType()))) builder.fail(error::kType, "qd.ldexp takes an integer as its second argument");
          Type scalar = ir::getScalar(x.getType());
          return makeComputed(builder.binaryTyped(BinaryKind::ldexp, x, ir::isFloatScalar(scalar) ? builder.cast(n, scalar) : n, name));
        }}},
      {"fma", {"x y z", [](auto &builder, auto, auto &given) { return builder.fuseMultiplyAdd(given[0], given[1], given[2]); }}},
      {"select", {"cond x1 x2", [](auto &builder, auto, auto &given) { return builder.select(given[0], given[1], given[2]); }}},
      {"static_assert",
       {"cond msg?",
        [](auto &builder, auto, auto &given) {
          if (!builder.toPython(given[0])) builder.fail(error::kType, "Static assert with non-static condition");
          builder.session.isLastMistake = !builder.isTrue(given[0]); // the code after it must not be compiled
          std::string text = given[1].isNone() ? "static assertion failed" : toText(nb::str(builder.known(given[1]))).str();
          if (!builder.isTrue(given[0])) builder.fail(error::kCompilation, "AssertionError: " + text);
          return makeObject(nb::none());
        }}},
      {"cast",
       {"obj dtype",
        [](auto &builder, auto, auto &given) {
          Type type = builder.scalarTypeOf(given[1], "qd.cast");
          if (!type) builder.fail(error::kType, "qd.cast needs a data type");
          return builder.callCast(given[0], type);
        }}},
      {"bit_cast",
       {"obj dtype",
        [](auto &builder, auto, auto &given) {
          Type type = builder.scalarTypeOf(given[1], "qd.bit_cast");
          mlir::Value value = builder.emit(given[0], type);
          auto size = [](Type scalar) { return support::getByteSize(ir::getScalarType(scalar)); };
          if (!type || size(ir::getScalar(value.getType())) != size(type))
            builder.fail(error::kType, "bit_cast needs types of equal size, got '" + ir::describe(value.getType()) + "' and '" +
                                           (type ? ir::describe(type) : "none") + "'");
          return makeComputed(builder.template create<ir::BitCastOp>(ir::withScalar(value.getType(), type), value));
        }}},
      {"random",
       {"dtype?",
        [](auto &builder, auto, auto &given) {
          Type type = builder.scalarTypeOf(given[0], "qd.random");
          return makeComputed(builder.template create<ir::RandomOp>(type ? type : builder.session.types.defaultFloat));
        }}},
      {"frexp",
       {"x",
        [](auto &builder, auto name, auto &given) {
          Value operand = makeComputed(builder.emit(given[0]));
          return makeTuple({builder.unary(UnaryKind::mantissa, operand, name), builder.unary(UnaryKind::exponent, operand, name)});
        }}},
  };
  if (auto found = kFunctions.find(name); found != kFunctions.end())
    return found->second.call(*this, name, bind("qd." + name, arguments, found->second.parameters));
  if (name.consume_front("simt.")) return callSimt(name, arguments);
  if (name == "static") return callStatic(arguments);
  if (name == "static_print") return callStaticPrint(arguments);
  if (name == "ndrange") return makeNdrange(arguments);
  if (name == "zip") return makeZip(arguments);
  if (name == "Vector" || name == "Matrix") return rounded(makeMatrix(arguments, name));
  if (name == "Struct") return makeAnonymousStruct(arguments);
  if (name == "loop_config") configureLoop(arguments);
  if (name == "outer")
    fail(error::kType, "qd.outer(a, b) does not support composition: it stands alone on the right of `tile += ` or `tile -= `");
  if (name == "is_differentiated") return makeObject(nb::bool_(session.request.mode != support::AutodiffMode::None));
  if (name == "stop_grad") {
    stopGradient(bind("qd.stop_grad", arguments, "x")[0]);
    return makeObject(nb::none());
  }
  if (name == "loop_config" || name == "block_local" || name == "cache_read_only" || name == "no_activate") return makeObject(nb::none());
  if (name.starts_with("atomic_")) return callOrdered(name, arguments, [&] { return callAtomic(name, arguments); });
  auto kind = ir::findKind<ir::BinaryKind>(name);
  if (kind == BinaryKind::max || kind == BinaryKind::min) {
    if (arguments.positional.empty()) fail(error::kType, "qd." + name + "() takes one or more values");
    if (arguments.positional.size() == 1) return makeComputed(emit(arguments.positional[0]));
    return callMinMax(*kind, arguments, name);
  }
  if (auto function = ir::findKind<ir::UnaryKind>(name)) return unary(*function, bind("qd." + name, arguments, "x")[0], name);
  if (!kind) fail(error::kSyntax, "'qd." + name + "' is not supported in kernels; " + describe(callee));
  std::vector<Value> given = bind("qd." + name, arguments, name == "pow" ? "base exponent" : "x1 x2");
  return binary(*kind, load(given[0]), given[1], name);
}

Value FunctionBuilder::callReduction(llvm::StringRef name, Arguments &arguments) {
  const Value &operand = arguments.positional[0];
  if (operand.isTyped() && isa<VectorType>(operand.type) && arguments.positional.size() == 1) return callMatrixMethod(operand, name, {});
  std::vector<Value> items = listItems(operand, "reduce");
  if (name == "sum") {
    if (arguments.positional.size() > 1) items.insert(items.begin(), arguments.positional[1]);
    if (items.empty()) return makeObject(nb::int_(0));
    if (items.size() == 1 && findType(items[0]) == session.types.u1) return callCast(items[0], session.types.defaultInteger);
    return std::accumulate(items.begin() + 1, items.end(), items[0],
                           [&](const Value &total, const Value &item) { return binary(BinaryKind::add, total, item, "+"); });
  }
  mlir::Value result = constant(name == "all", session.types.u1);
  for (const Value &item : items)
    result = create<ir::BinaryOp>(name == "all" ? BinaryKind::bit_and : BinaryKind::bit_or, result, truth(item, name));
  return makeComputed(result);
}

Value FunctionBuilder::combineSequences(llvm::StringRef name, const std::vector<Value> &given) {
  std::vector<std::vector<Value>> columns;
  for (const Value &value : llvm::ArrayRef(given).take_front(name == "zip" ? given.size() : 1))
    columns.push_back(listItems(value, "iterate over"));
  if (name == "reversed") std::reverse(columns[0].begin(), columns[0].end());
  if (name != "zip" && name != "enumerate") {
    Value result = makeAggregate(Kind::Sequence, std::move(columns[0]));
    result.aggregate->isTuple = name != "list";
    return result;
  }
  if (name == "enumerate") {
    std::vector<Value> &numbers = *columns.emplace(columns.begin());
    int64_t start = given.size() > 1 ? nb::cast<int64_t>(known(given[1])) : 0;
    for (size_t index = 0; index < columns[1].size(); ++index) numbers.push_back(makeObject(nb::int_(start + int64_t(index))));
  }
  std::vector<Value> rows;
  for (size_t row = 0; llvm::all_of(columns, [&](const auto &column) { return row < column.size(); }); ++row)
    rows.push_back(makeTuple(listValues(columns, [&](const auto &column) { return column[row]; })));
  return makeTuple(std::move(rows));
}

Value FunctionBuilder::mapItemsOf(const std::vector<Value> &given, bool isFilter) {
  std::vector<std::vector<Value>> columns;
  for (const Value &value : llvm::ArrayRef(given).drop_front()) columns.push_back(listItems(value, "iterate over"));
  std::vector<Value> results;
  for (size_t row = 0; llvm::all_of(columns, [&](const auto &column) { return row < column.size(); }); ++row) {
    Arguments arguments;
    arguments.positional = listValues(columns, [&](const auto &column) { return column[row]; });
    Value result = isFilter && given[0].isNone() ? columns[0][row] : call(given[0], arguments, node);
    if (!isFilter)
      results.push_back(load(result));
    else if (!isConstant(result))
      fail(error::kType, "what filter() asks for must be known while compiling, got " + describe(result));
    else if (isTrue(result))
      results.push_back(columns[0][row]);
  }
  return makeTuple(std::move(results));
}

Value FunctionBuilder::sortItems(const Value &list, Arguments &arguments) {
  Value reverse = bind("sorted", arguments, "items reverse?")[1];
  std::vector<Value> items = listItems(makeComputed(emit(list)), "sort"); // converts the items to one type
  // Odd-even transposition sort: as many rounds as items.
  for (size_t round = 0; round < items.size(); ++round)
    for (size_t index = round % 2; index + 1 < items.size(); index += 2) {
      Value low = binary(BinaryKind::min, items[index], items[index + 1], "sorted");
      items[index + 1] = binary(BinaryKind::max, items[index], items[index + 1], "sorted");
      items[index] = low;
    }
  if (!reverse.isNone() && isTrue(reverse)) std::reverse(items.begin(), items.end());
  return makeAggregate(Kind::Sequence, std::move(items));
}

Value FunctionBuilder::standIn(const Value &value) {
  if (value.is(Kind::Instance)) return makeObject(makeEmptyInstance(value));
  if (value.is(Kind::Sequence)) return makeObject(value.aggregate->isTuple ? nb::object(nb::make_tuple()) : nb::object(nb::list()));
  return value.is(Kind::Dictionary) ? makeObject(nb::dict()) : value;
}

bool FunctionBuilder::matchesClass(const Value &value, nb::handle type) {
  nb::object members = findAttribute(type, nb::str("__match_args__"));
  if (PyTuple_Check(type.ptr())) { // a sequence pattern
    bool isVector =
        value.isTyped() ? isa<VectorType>(value.type) : value.isObject() && session.python.isInstance(value.object, session.python.matrix);
    if (isVector || value.isTyped() || value.is(Kind::Struct)) return isVector;
  }
  if (value.is(Kind::Struct)) return members && members.equal(nb::tuple(nb::cast(value.aggregate->names)));
  if (!PyType_Check(type.ptr()) && !PyTuple_Check(type.ptr())) { // a struct type: it matches structs from outside the kernel by members
    auto items = members ? findNamedItems(value) : std::nullopt;
    nb::list given;
    if (items)
      for (const auto &[name, item] : *items) given.append(name);
    return items && members.equal(nb::tuple(given));
  }
  if (value.isTyped()) {
    mlir::Type found = isa<VectorType>(value.type) ? mlir::Type() : value.type;
    if (type.is(reinterpret_cast<PyObject *>(&PyBool_Type))) return found == session.types.u1;
    if (type.is(reinterpret_cast<PyObject *>(&PyLong_Type))) return found && isa<IntegerType>(found);
    return type.is(reinterpret_cast<PyObject *>(&PyFloat_Type)) && found && ir::isFloatScalar(found);
  }
  Value object = standIn(value);
  if (!object.isObject()) return false;
  int fits = PyObject_IsInstance(object.object.ptr(), type.ptr());
  if (fits < 0) nb::raise_python_error();
  return fits == 1;
}

Value FunctionBuilder::callPythonBuiltin(llvm::StringRef name, const Value &callee, Arguments &arguments) {
  std::vector<Value> &given = arguments.positional;
  size_t count = arguments.named.empty() ? given.size() : 0;
  auto is = [&](std::initializer_list<llvm::StringRef> list) { return llvm::is_contained(list, name); };
  if (name == "range") return makeRange(arguments);
  bool isKnown = llvm::all_of(given, [&](const Value &value) { return bool(toPython(value)) && !value.is(Kind::Tensor); }) &&
                 llvm::all_of(arguments.named, [&](const auto &named) { return bool(toPython(named.second)); });
  bool hasMatrix = llvm::any_of(
      given, [&](const Value &value) { return value.isObject() && session.python.isInstance(value.object, session.python.matrix); });
  bool isCombined = is({"tuple", "list", "reversed", "enumerate", "zip"}) && count > 0;
  if (isCombined && !(isKnown && given[0].isObject() && !given[0].path && !hasMatrix)) return combineSequences(name, given);
  bool callsFunc = count > 1 && (given[0].is(Kind::Method) || session.python.isInstance(given[0].object, session.python.func) ||
                                 session.python.isInstance(given[0].object, session.python.boundFunc));
  if (is({"map", "filter"}) && count > 1 && (callsFunc || !isKnown)) return mapItemsOf(given, name == "filter");
  if (name == "len" && count == 1) {
    const Value &operand = given[0];
    auto type = operand.isTyped() ? dyn_cast<VectorType>(operand.type) : VectorType();
    if (type) return makeObject(nb::int_(type.getDimSize(0)));
    if (operand.is(Kind::Sequence) || operand.is(Kind::Dictionary)) return makeObject(nb::int_(operand.aggregate->items.size()));
    if (operand.is(Kind::Instance))
      if (std::optional<Value> length = callSpecial(operand, "__len__", {})) return *length;
    if (operand.is(Kind::View) || isTensor(operand))
      return subscriptSequence(getAttributeOf(operand, names().shape), makeObject(nb::int_(0)));
  }
  if (name == "isinstance" && count == 3) { // a class pattern of `match`
    nb::object type = toPython(given[1]);
    if (!type) fail(error::kType, "called match pattern must be a class, got " + describe(given[1]));
    return makeObject(nb::bool_(matchesClass(given[0], type)));
  }
  if (name == "isinstance" && count == 2 && given[0].isTyped()) return makeObject(nb::bool_(false));
  if (name == "isinstance" && count == 2) {
    given[0] = standIn(given[0]);
    isKnown = bool(toPython(given[0])) && bool(toPython(given[1]));
  }
  bool hasMembers = count > 0 && (given[0].is(Kind::Struct) || given[0].is(Kind::Instance));
  if (is({"hasattr", "getattr"}) && count >= 2 && hasMembers && given[1].isObject()) {
    bool exists = findMember(given[0], given[1].object) || (given[0].is(Kind::Instance) && findAttribute(given[0].object, given[1].object));
    if (name == "hasattr") return makeObject(nb::bool_(exists));
    return exists || count == 2 ? getAttributeOf(given[0], given[1].object) : given[2];
  }
  if (name == "type" && count == 1 && given[0].is(Kind::Instance)) return makeObject(given[0].object, given[0].path);
  if (is({"hasattr", "getattr"}) && count >= 2 && given[0].isObject() && given[1].isObject()) {
    bool isQuery = name == "hasattr";
    if (!findAttribute(given[0].object, given[1].object)) {
      session.tracker.depend(session.tracker.getStep(given[0].path, artifact::PathStep::Kind::Attribute, toText(given[1].object)),
                             artifact::Dependency::Kind::Absent);
      if (isQuery || count == 3) return isQuery ? makeObject(nb::bool_(false)) : given[2];
    }
    Value member = getAttributeOf(given[0], given[1].object);
    return isQuery ? makeObject(nb::bool_(true)) : member;
  }
  if (is({"max", "min"}) && count > 0) return callMinMax(*ir::findKind<BinaryKind>(name), arguments, name);
  bool readsFrame = is({"globals", "locals", "help"}) || (is({"vars", "dir"}) && given.empty());
  if (readsFrame || is({"eval", "exec", "open", "input"})) fail(error::kSyntax, "'" + name + "' cannot be called in kernels");
  if (name == "breakpoint") return callPython(callee, arguments);
  if (isKnown && !hasMatrix) return runPython(callee.object, callee, name.str(), arguments);
  if (name == "sorted" && given.size() == 1) return sortItems(given[0], arguments);
  if (name == "abs" && count == 1) return unary(UnaryKind::abs, given[0], name);
  if (name == "pow" && count == 2) return binary(BinaryKind::pow, load(given[0]), given[1], "**");
  if (name == "round" && count == 1) return callCast(unary(UnaryKind::round, given[0], name), session.types.defaultInteger);
  if (name == "divmod" && count == 2) {
    Value first = load(given[0]), second = load(given[1]);
    return makeTuple({binary(BinaryKind::floor_div, first, second, "//"), binary(BinaryKind::mod, first, second, "%")});
  }
  if ((name == "sum" && count <= 2 && count > 0) || (is({"any", "all"}) && count == 1)) return callReduction(name, arguments);
  if (!isKnown) failRuntimeOperands(callee.object, name.str());
  return runPython(callee.object, callee, name.str(), arguments);
}

} // namespace qd::frontend
