// builtin_calls.cpp: calls of the functions of quadrants._language.builtins and of Python's builtins
//
// In:   the name of a function and its arguments as operands.
// Out:  ops, or the compile-time result if Python can compute it.
// Here: what each function of the language compiles to; their parameters are those of quadrants._language.builtins. Then Python's builtins
//       with a meaning of their own in kernels.
#include "frontend/builder.h"
#include "ir/attributes.h"

#include "llvm/ADT/StringExtras.h"

#include <numeric>

using namespace mlir;

namespace qd::frontend {

Operand BuiltinCalls::callStatic(Arguments &arguments) {
  Operand limit;
  if (arguments.named.size() == 1 && arguments.named[0].first == "max_unroll") limit = arguments.named[0].second;
  if (arguments.positional.empty() || (limit.isGiven() ? 1u : 0u) != arguments.named.size())
    fail(error::kSyntax, "qd.static takes compile-time values, and max_unroll");
  auto check = [&](const Operand &value) {
    if (value.isTyped()) {
      std::string what = value.is<Argument>()
                             ? "<class 'Expr'>: it is a runtime kernel argument and cannot be used inside qd.static()"
                             : "<class 'Expr'> ('" + ir::describe(value.getType()) + "'); assign it with qd.static if it is constant";
      fail(value.is<Argument>() ? error::kSyntax : error::kCompilation,
           "Input to qd.static must be compile-time constants or global pointers, instead of " + what);
    }
    auto *containers = value.find<Containers>();
    if (value.is<Range>() || (containers && containers->items.size() != 1))
      fail(error::kType, "TypeError when calling `range`: 'Quadrants Expression' object cannot be interpreted as an integer.");
  };
  for (const Operand &value : arguments.positional) check(value);
  nb::object given = getAttribute(context.node, names().args);
  bool isNested = nb::len(given) == 1 && kindOf(nb::object(given[0])) == NodeKind::Call && arguments.positional[0].isStatic;
  if (isNested && !conversions.canEmit(arguments.positional[0])) fail(error::kSyntax, "'qd.static' cannot be nested");
  Operand result = arguments.positional.size() == 1 ? arguments.positional[0] : makeSequence(arguments.positional);
  // A loop of more than max_unroll iterations is not unrolled.
  result.isStatic =
      !limit.isGiven() || int64_t(collections().listItems(result, "loop over").size()) <= nb::cast<int64_t>(conversions.known(limit));
  return result;
}

Operand BuiltinCalls::callMinMax(BinaryKind kind, Arguments &arguments, llvm::StringRef name) {
  std::vector<Operand> operands = arguments.positional;
  bool isScalar = operands.size() == 1 && operands[0].getType() && !isa<VectorType>(operands[0].getType());
  if (operands.size() == 1 && !isScalar) operands = runtimeDicts().listItemsOr({}, operands[0], "compare the items of");
  if (operands.empty()) fail(error::kType, name + "() needs at least one value");
  if (llvm::all_of(operands, [&](const Operand &value) { return conversions.isConstant(value) && value.isObject(); })) {
    nb::list list;
    for (const Operand &value : operands) list.append(value.getObject());
    nb::object function = nb::borrow(PyDict_GetItemString(session.python.host.builtins.ptr(), kind == BinaryKind::min ? "min" : "max"));
    return makeObject(function(list));
  }
  mlir::Value result = conversions.emit(operands[0], operands.size() > 1 ? conversions.findType(operands[1]) : Type());
  for (size_t index = 1; index < operands.size(); ++index)
    result = emitter.binaryTyped(kind, result, conversions.emit(operands[index], result.getType()), name);
  return makeComputed(result);
}

/// Calls an atomic operation with `order=` and `scope=`. The operation itself is relaxed; fences before and after it enforce the order.
Operand BuiltinCalls::callOrdered(llvm::StringRef name, Arguments &arguments, llvm::function_ref<Operand()> call) {
  auto take = [&](llvm::StringRef keyword, ArrayRef<llvm::StringRef> words) -> size_t {
    auto given = llvm::find_if(arguments.named, [&](const auto &argument) { return argument.first == keyword; });
    if (given == arguments.named.end()) return 0;
    nb::object value = conversions.toPython(given->second);
    auto word = llvm::find(words, value && PyUnicode_Check(value.ptr()) ? toText(value) : "");
    if (word == words.end())
      fail(error::kType, "'" + keyword + "' of " + name + "() is one of " + llvm::join(words, ", ") + ", got " +
                             (value ? toText(nb::repr(value)).str() : conversions.describe(given->second)));
    arguments.named.erase(given);
    return size_t(word - words.begin());
  };
  size_t order = take("order", {"relaxed", "acquire", "release", "acq_rel", "seq_cst"});
  bool isBlock = take("scope", {"device", "block", "system"}) == 1;
  if (order >= 2) create<ir::FenceOp>(isBlock);
  Operand result = call();
  if (order && order != 2) create<ir::FenceOp>(isBlock);
  return result;
}

Operand BuiltinCalls::callAtomic(llvm::StringRef name, const std::vector<Operand> &given) {
  llvm::StringRef operation = name.drop_front(7); // without "atomic_"
  const Operand &place = given[0];
  auto *single = place.find<Place>();
  if (operation == "load")
    return (single && single->isElement) || conversions.isTensor(place) ? loadVolatile(place, name) : conversions.load(place);
  bool isLvalue = (single || place.is<Components>()) && !place.isReadOnly();
  if (!isLvalue)
    fail(error::kSyntax, (conversions.isTensor(place) ? "cannot use a Field directly as the first operand of '"
                                                      : "cannot use a non-writable target as the first operand of '") +
                             name.str() + "': an lvalue (a variable or an element) is needed");
  Type type = place.getType();
  if (operation == "cas") {
    if (!single || isa<VectorType>(type))
      fail(error::kType, "'atomic_cas' on tensor (vector / matrix) destinations is not supported: it takes a component");
    if (single->packed) fail(error::kType, "qd.atomic_cas does not take an element of a quantized field, which is a part of a word");
    sparseCells().activate(place);
    return makeComputed(emitter.widened(create<ir::CompareExchangeOp>(type, single->ref, conversions.convert(given[1], type),
                                                                      conversions.convert(given[2], type),
                                                                      /*part=*/mlir::Value(), /*stores=*/false)));
  }
  bool isStore = operation == "store";
  if (isStore) operation = "exchange";
  bool isBitwise = operation == "and" || operation == "or" || operation == "xor";
  std::optional<ir::AtomicKind> kind = ir::findKind<ir::AtomicKind>((isBitwise ? "bit_" : "") + operation.str());
  Type scalar = ir::getScalar(type);
  mlir::Value operand = conversions.emit(given[1], type);
  if (ir::getOpInfo(*kind).operand == ir::OperandClass::Integer &&
      (ir::isFloatScalar(scalar) || ir::isFloatScalar(ir::getScalar(operand.getType()))))
    fail(error::kType,
         "'" + name + "' requires integer operands, got '" + ir::describe(type) + "' and '" + ir::describe(operand.getType()) + "'");
  operand = emitter.convert(operand, type);
  kind = Emitter::getAtomicKind(*kind, scalar);
  SmallVector<mlir::Value> old;
  variables().forEachPlace(place, operand,
                           [&](const Place &one, mlir::Value part) { old.push_back(variables().update(*kind, one, part)); });
  if (isStore) return makeObject(nb::none());
  return makeComputed(emitter.widened(single ? old[0] : emitter.makeVector(old, type)));
}

Operand BuiltinCalls::loadVolatile(const Operand &target, llvm::StringRef name) {
  if (conversions.isTensor(target)) fail(error::kSyntax, "cannot pass a Field directly to '" + name + "': it reads an element");
  if (!target.is<Place>() && !target.is<Components>()) {
    nb::object given = getAttribute(context.node, names().args);
    bool isLocal = target.is<Computed>() && nb::len(given) == 1 && kindOf(nb::object(given[0])) == NodeKind::Name;
    fail(isLocal ? error::kType : error::kSyntax,
         "'volatile_load' requires an lvalue (field / ndarray subscript), got " + conversions.describe(target) +
             (isLocal ? ": variables and function-scope local arrays are not visible to other threads" : ""));
  }
  auto read = [&](const Operand &operand) -> mlir::Value {
    auto *place = operand.find<Place>();
    if (!place || !place->isElement)
      fail(error::kType, "'volatile_load': variables and function-scope local arrays are not visible to other threads");
    if (place->packed) fail(error::kType, "'volatile_load' does not take an element of a quantized field, which is a part of a word");
    auto load = create<ir::LoadOp>(place->getType(), place->ref);
    load->setAttr(ir::kVolatile, UnitAttr::get(&session.ctx));
    return load;
  };
  if (target.is<Place>()) return makeComputed(read(target));
  const auto &parts = target.get<Components>();
  SmallVector<mlir::Value> components;
  for (size_t position = 0; position < size_t(ir::getComponentCount(parts.type)); ++position)
    components.push_back(read(subscripts().componentPlace(parts, position)));
  return makeComputed(emitter.makeVector(components, parts.type));
}

Operand BuiltinCalls::callStaticPrint(Arguments &arguments) {
  for (Operand &value : arguments.positional)
    if (!conversions.toPython(value)) value = makeObject(nb::str(conversions.describe(value).c_str()));
  nb::object print = nb::borrow(PyDict_GetItemString(session.python.host.builtins.ptr(), "print"));
  for (const auto &[key, value] : arguments.named)
    if (!conversions.toPython(value)) pythonCalls().failRuntimeOperands(print, "print");
  return pythonCalls().runPython(print, makeObject(print), "print", arguments);
}

Operand BuiltinCalls::makeGrouped(const Operand &operand) {
  if (operand.isStatic) fail(error::kSyntax, "'qd.static' is not allowed inside 'qd.grouped'");
  if (loopRanges().isContainer(operand)) return makeAggregate<Containers>({operand});
  Operand iterable = operand.isObject() ? loopRanges().toRange(operand) : operand;
  auto *containers = iterable.find<Containers>();
  auto *range = iterable.find<Range>();
  if ((containers && containers->items.size() == 1) || (range && range->isNdrange && range->isGrouped))
    fail(error::kSyntax, "'qd.grouped' cannot be nested");
  if (!range || !range->isNdrange)
    fail(error::kSyntax, "qd.grouped needs a container or qd.ndrange. Only 'qd.ndrange' is allowed in 'qd.static(qd.grouped(...))'.");
  if (operand.isObject()) return makeObject(operand.getObject().attr("grouped")());
  Range grouped = *range;
  grouped.isGrouped = true;
  return grouped;
}

Operand BuiltinCalls::callBuiltin(llvm::StringRef name, const PythonObject &callee, Arguments &arguments) {
  using Given = std::vector<Operand>;
  using Function = Operand (*)(BuiltinCalls &self, llvm::StringRef name, const Given &given);
  static constexpr auto kSame = [](BuiltinCalls &self, llvm::StringRef, const Given &given) { return self.conversions.load(given[0]); };
  static constexpr auto kRound = [](BuiltinCalls &self, llvm::StringRef name, const Given &given) {
    Type type = self.calls().scalarTypeOf(given[1], "qd." + name);
    Operand result = self.operators().unary(*ir::findKind<UnaryKind>(name), given[0], name);
    if (!type) return result;
    // An integer is not rounded; as a float it might be.
    Operand number = makeComputed(self.conversions.emit(given[0]));
    return self.conversions.callCast(ir::isFloatScalar(ir::getScalar(number.getType())) ? result : number, type);
  };
  static constexpr auto kFill = [](BuiltinCalls &self, llvm::StringRef name, const Given &given) {
    return makeComputed(
        self.emitter.convert(self.emitter.constant(name == "one", self.session.types.i32), self.conversions.emit(given[0]).getType()));
  };
  static const llvm::StringMap<Function> kFunctions = {
      {"assume_in_range", kSame},
      {"loop_unique", kSame},
      {"volatile_load", [](auto &self, auto name, auto &given) { return self.loadVolatile(given[0], name); }},
      {"floor", kRound},
      {"ceil", kRound},
      {"round", kRound},
      {"trunc", kRound},
      {"zero", kFill},
      {"one", kFill},
      {"global_thread_idx",
       [](auto &self, auto, auto &) {
         if (self.context.isTopLevel()) self.fail(error::kRuntime, "qd.global_thread_idx() is only valid within loops");
         return makeComputed(self.template create<ir::ThreadIndexOp>(self.session.types.i32));
       }},
      {"grouped", [](auto &self, auto, auto &given) { return self.makeGrouped(given[0]); }},
      {"ldexp",
       [](auto &self, auto name, auto &given) {
         mlir::Value x = self.conversions.emit(given[0]), n = self.conversions.emit(given[1]);
         if (ir::isFloatScalar(ir::getScalar(n.getType()))) self.fail(error::kType, "qd.ldexp takes an integer as its second argument");
         Type scalar = ir::getScalar(x.getType());
         return makeComputed(
             self.emitter.binaryTyped(BinaryKind::ldexp, x, ir::isFloatScalar(scalar) ? self.emitter.cast(n, scalar) : n, name));
       }},
      {"fma", [](auto &self, auto, auto &given) { return self.operators().fuseMultiplyAdd(given[0], given[1], given[2]); }},
      {"select", [](auto &self, auto, auto &given) { return self.operators().select(given[0], given[1], given[2]); }},
      {"static_assert",
       [](auto &self, auto, auto &given) {
         if (!self.conversions.toPython(given[0])) self.fail(error::kType, "Static assert with non-static condition");
         self.session.isLastMistake = !self.conversions.isTrue(given[0]); // the code after it must not be compiled
         std::string text = given[1].isNone() ? "static assertion failed" : toText(nb::str(self.conversions.known(given[1]))).str();
         if (!self.conversions.isTrue(given[0])) self.fail(error::kCompilation, "AssertionError: " + text);
         return makeObject(nb::none());
       }},
      {"cast",
       [](auto &self, auto, auto &given) {
         Type type = self.calls().scalarTypeOf(given[1], "qd.cast");
         if (!type) self.fail(error::kType, "qd.cast needs a data type");
         return self.conversions.callCast(given[0], type);
       }},
      {"bit_cast",
       [](auto &self, auto, auto &given) {
         Type type = self.calls().scalarTypeOf(given[1], "qd.bit_cast");
         mlir::Value value = self.conversions.emit(given[0], type);
         auto size = [](Type scalar) { return support::getByteSize(ir::getScalarType(scalar)); };
         if (!type || size(ir::getScalar(value.getType())) != size(type))
           self.fail(error::kType, "bit_cast needs types of equal size, got '" + ir::describe(value.getType()) + "' and '" +
                                       (type ? ir::describe(type) : "none") + "'");
         return makeComputed(self.template create<ir::BitCastOp>(ir::withScalar(value.getType(), type), value));
       }},
      {"random",
       [](auto &self, auto, auto &given) {
         Type type = self.calls().scalarTypeOf(given[0], "qd.random");
         self.session.artifact.drawsRandom = true;
         return makeComputed(self.template create<ir::RandomOp>(type ? type : self.session.types.defaultFloat));
       }},
      {"clock_counter", [](auto &self, auto, auto &) { return makeComputed(self.template create<ir::ClockOp>(self.session.types.i64)); }},
      {"frexp",
       [](auto &self, auto name, auto &given) {
         Operand operand = makeComputed(self.conversions.emit(given[0]));
         return makeTuple(
             {self.operators().unary(UnaryKind::mantissa, operand, name), self.operators().unary(UnaryKind::exponent, operand, name)});
       }},
  };
  std::string parameters = calls().getParameters(callee.object);
  auto bindAll = [&] { return calls().bind("qd." + name, arguments, parameters); };
  if (auto found = kFunctions.find(name); found != kFunctions.end()) return found->second(*this, name, bindAll());
  if (name.consume_front("simt.")) return simt().callSimt(name, arguments, parameters);
  if (name == "static") return callStatic(arguments);
  if (name == "static_print") return callStaticPrint(arguments);
  if (name == "ndrange") return loopRanges().makeNdrange(arguments);
  if (name == "zip") return loopRanges().makeZip(arguments);
  if (name == "Vector" || name == "Matrix") return conversions.rounded(matrixMethods().makeMatrix(arguments, name));
  if (name == "Struct") return structs().makeAnonymousStruct(arguments);
  if (name == "loop_config") loops().configureLoop(arguments);
  if (name == "outer")
    fail(error::kType, "qd.outer(a, b) does not support composition: it stands alone on the right of `tile += ` or `tile -= `");
  if (name == "is_differentiated") return makeKnown(session.request.mode != support::AutodiffMode::None);
  if (name == "stop_grad") {
    stoppedGradients().stopGradient(bindAll()[0]);
    return makeObject(nb::none());
  }
  if (name == "no_activate") sparseCells().assumeActive(arguments.positional);
  if (name == "loop_config" || name == "block_local" || name == "cache_read_only" || name == "no_activate") return makeObject(nb::none());
  if (name.starts_with("atomic_")) return callOrdered(name, arguments, [&] { return callAtomic(name, bindAll()); });
  auto kind = ir::findKind<BinaryKind>(name);
  if (kind == BinaryKind::max || kind == BinaryKind::min) {
    if (arguments.positional.empty()) fail(error::kType, "qd." + name + "() takes one or more values");
    if (arguments.positional.size() == 1) return makeComputed(conversions.emit(arguments.positional[0]));
    return callMinMax(*kind, arguments, name);
  }
  if (auto function = ir::findKind<UnaryKind>(name)) return operators().unary(*function, bindAll()[0], name);
  if (!kind) fail(error::kSyntax, "'qd." + name + "' is not supported in kernels; " + conversions.describe(callee));
  std::vector<Operand> given = bindAll();
  return operators().binary(*kind, conversions.load(given[0]), given[1], name);
}

Operand BuiltinCalls::callReduction(llvm::StringRef name, Arguments &arguments) {
  const Operand &operand = arguments.positional[0];
  if (isa_and_nonnull<VectorType>(operand.getType()) && arguments.positional.size() == 1)
    return matrixMethods().callMatrixMethod(operand, name, {});
  const Operand neutral = name == "sum" ? makeObject(nb::int_(0)) : makeKnown(name == "all");
  std::vector<Operand> items = runtimeDicts().listItemsOr(neutral, operand, "reduce");
  if (name == "sum") {
    if (arguments.positional.size() > 1) items.insert(items.begin(), arguments.positional[1]);
    if (items.empty()) return makeObject(nb::int_(0));
    if (items.size() == 1 && conversions.findType(items[0]) == session.types.u1)
      return conversions.callCast(items[0], session.types.defaultInteger);
    return std::accumulate(items.begin() + 1, items.end(), items[0], [&](const Operand &total, const Operand &item) {
      return operators().binary(BinaryKind::add, total, item, "+");
    });
  }
  mlir::Value result = emitter.constant(name == "all", session.types.u1);
  for (const Operand &item : items)
    result = create<ir::BinaryOp>(name == "all" ? BinaryKind::bit_and : BinaryKind::bit_or, result, operators().truth(item, name));
  return makeComputed(result);
}

Operand BuiltinCalls::combineSequences(llvm::StringRef name, const std::vector<Operand> &given) {
  std::vector<std::vector<Operand>> columns;
  for (const Operand &value : llvm::ArrayRef(given).take_front(name == "zip" ? given.size() : 1))
    columns.push_back(collections().listItems(value, "iterate over"));
  if (name == "reversed") std::reverse(columns[0].begin(), columns[0].end());
  if (name != "zip" && name != "enumerate") return makeSequence(std::move(columns[0]), /*isTuple=*/name != "list");
  if (name == "enumerate") {
    std::vector<Operand> &numbers = *columns.emplace(columns.begin());
    int64_t start = given.size() > 1 ? nb::cast<int64_t>(conversions.known(given[1])) : 0;
    for (size_t index = 0; index < columns[1].size(); ++index) numbers.push_back(makeObject(nb::int_(start + int64_t(index))));
  }
  std::vector<Operand> rows;
  for (size_t row = 0; llvm::all_of(columns, [&](const auto &column) { return row < column.size(); }); ++row)
    rows.push_back(makeTuple(listOperands(columns, [&](const auto &column) { return column[row]; })));
  return makeTuple(std::move(rows));
}

Operand BuiltinCalls::mapItemsOf(const std::vector<Operand> &given, bool isFilter) {
  std::vector<std::vector<Operand>> columns;
  for (const Operand &value : llvm::ArrayRef(given).drop_front()) columns.push_back(collections().listItems(value, "iterate over"));
  std::vector<Operand> results;
  Enter inside(context);
  nesting.staticDepth += isFilter;
  for (size_t row = 0; llvm::all_of(columns, [&](const auto &column) { return row < column.size(); }); ++row) {
    Arguments arguments;
    arguments.positional = listOperands(columns, [&](const auto &column) { return column[row]; });
    Operand result = isFilter && given[0].isNone() ? columns[0][row] : calls().call(given[0], arguments, context.node);
    if (!isFilter)
      results.push_back(conversions.load(result));
    else if (!conversions.isConstant(result))
      fail(error::kType, "what filter() asks for must be known while compiling, got " + conversions.describe(result));
    else if (conversions.isTrue(result))
      results.push_back(columns[0][row]);
  }
  return makeTuple(std::move(results));
}

Operand BuiltinCalls::sortItems(const Operand &list, Arguments &arguments) {
  Operand reverse = calls().bind("sorted", arguments, "items reverse?")[1];
  if (RuntimeDicts::hasRuntimeKeys(list)) return sortItems(makeTuple(collections().listItems(list, "sort")), arguments);
  std::vector<Operand> items = collections().listItems(makeComputed(conversions.emit(list)), "sort"); // converts the items to one type
  // Odd-even transposition sort: as many rounds as items.
  for (size_t round = 0; round < items.size(); ++round)
    for (size_t index = round % 2; index + 1 < items.size(); index += 2) {
      Operand low = operators().binary(BinaryKind::min, items[index], items[index + 1], "sorted");
      items[index + 1] = operators().binary(BinaryKind::max, items[index], items[index + 1], "sorted");
      items[index] = low;
    }
  if (!reverse.isNone() && conversions.isTrue(reverse)) std::reverse(items.begin(), items.end());
  return makeSequence(std::move(items));
}

Operand BuiltinCalls::standIn(const Operand &value) {
  if (auto *instance = value.find<Instance>()) return makeObject(instances().makeEmptyInstance(*instance));
  if (auto *sequence = value.find<Sequence>()) return makeObject(sequence->isTuple ? nb::object(nb::make_tuple()) : nb::object(nb::list()));
  return value.is<Dictionary>() ? makeObject(nb::dict()) : value;
}

bool BuiltinCalls::matchesClass(const Operand &value, nb::handle type) {
  nb::object members = findAttribute(type, nb::str("__match_args__"));
  if (PyTuple_Check(type.ptr())) { // a sequence pattern
    bool isVector =
        value.isTyped() ? isa<VectorType>(value.getType()) : session.python.isInstance(value.getObject(), session.python.values.matrix);
    if (isVector || value.isTyped() || value.is<Struct>()) return isVector;
  }
  if (auto *structure = value.find<Struct>()) return members && members.equal(nb::tuple(nb::cast(structure->names)));
  if (!PyType_Check(type.ptr()) && !PyTuple_Check(type.ptr())) { // a struct type: it matches structs from outside the kernel by members
    auto items = members ? structs().findNamedItems(value) : std::nullopt;
    nb::list given;
    if (items)
      for (const auto &[name, item] : *items) given.append(name);
    return items && members.equal(nb::tuple(given));
  }
  if (value.isTyped()) {
    Type found = isa<VectorType>(value.getType()) ? Type() : value.getType();
    if (type.is(reinterpret_cast<PyObject *>(&PyBool_Type))) return found == session.types.u1;
    if (type.is(reinterpret_cast<PyObject *>(&PyLong_Type))) return found && isa<IntegerType>(found);
    return type.is(reinterpret_cast<PyObject *>(&PyFloat_Type)) && found && ir::isFloatScalar(found);
  }
  Operand object = standIn(value);
  if (!object.isObject()) return false;
  int fits = PyObject_IsInstance(object.getObject().ptr(), type.ptr());
  if (fits < 0) nb::raise_python_error();
  return fits == 1;
}

Operand BuiltinCalls::callPythonBuiltin(llvm::StringRef name, const PythonObject &callee, Arguments &arguments) {
  std::vector<Operand> &given = arguments.positional;
  if (name == "enumerate" && given.size() == 1 && arguments.named.size() == 1 && arguments.named[0].first == "start") {
    given.push_back(arguments.named[0].second);
    arguments.named.clear();
  }
  size_t count = arguments.named.empty() ? given.size() : 0;
  auto is = [&](std::initializer_list<llvm::StringRef> list) { return llvm::is_contained(list, name); };
  if (name == "range") return loopRanges().makeRange(arguments);
  if (name == "next" && count > 0 && given[0].isObject()) collections().requireOwner(given[0].get<PythonObject>(), name);
  if (is({"setattr", "delattr"}) && !given.empty() && given[0].isObject() && given[0].get<PythonObject>().path)
    variables().failCaptured(DependencyTracker::describe(given[0].get<PythonObject>().path));
  if (name == "dict" && llvm::all_of(given, [](const Operand &value) { return value.is<Dictionary>(); }))
    return collections().makeDictionary(arguments);
  bool isKnown = llvm::all_of(given, [&](const Operand &value) { return bool(conversions.toPython(value)) && !value.is<Tensor>(); }) &&
                 llvm::all_of(arguments.named, [&](const auto &named) { return bool(conversions.toPython(named.second)); });
  bool hasMatrix =
      llvm::any_of(given, [&](const Operand &value) { return session.python.isInstance(value.getObject(), session.python.values.matrix); });
  if (auto *range = count == 1 ? given[0].find<Range>() : nullptr; range && name == "reversed") return loopRanges().reverse(*range);
  bool isCombined = is({"tuple", "list", "reversed", "enumerate", "zip"}) && count > 0;
  bool hasPath = isCombined && given[0].isObject() && given[0].get<PythonObject>().path;
  if (isCombined && !(isKnown && given[0].isObject() && !hasPath && !hasMatrix)) return combineSequences(name, given);
  if (is({"set", "frozenset"}) && count == 1 && !isKnown) return runtimeDicts().makeSet(given[0]);
  bool callsFunc = count > 1 && (given[0].is<Method>() || session.python.isInstance(given[0].getObject(), session.python.functions.func) ||
                                 session.python.isInstance(given[0].getObject(), session.python.functions.boundFunc));
  if (is({"map", "filter"}) && count > 1 && (callsFunc || !isKnown)) return mapItemsOf(given, name == "filter");
  if (name == "len" && count == 1) {
    const Operand &operand = given[0];
    auto type = dyn_cast_if_present<VectorType>(operand.getType());
    if (type) return makeObject(nb::int_(type.getDimSize(0)));
    if (operand.is<DictView>() || RuntimeDicts::hasRuntimeKeys(operand)) return runtimeDicts().count(operand);
    if (operand.is<Sequence>() || operand.is<Dictionary>()) return makeObject(nb::int_(operand.findBase<Aggregate>()->items.size()));
    if (operand.isObject() && operand.getObject()) collections().dependOnLength(operand.get<PythonObject>(), /*isTruth=*/false);
    if (operand.is<Instance>() || operand.is<Struct>())
      if (std::optional<Operand> length = instances().callSpecial(operand, "__len__", {})) return *length;
    if (operand.is<View>() || conversions.isTensor(operand))
      return subscripts().subscriptSequence(attributes().getAttributeOf(operand, names().shape), makeObject(nb::int_(0)));
  }
  if (name == "isinstance" && count == 3) { // a class pattern of `match`
    nb::object type = conversions.toPython(given[1]);
    if (!type) fail(error::kType, "called match pattern must be a class, got " + conversions.describe(given[1]));
    return makeKnown(matchesClass(given[0], type));
  }
  if (name == "isinstance" && count == 2 && given[0].isTyped()) return makeKnown(false);
  if (name == "isinstance" && count == 2) {
    given[0] = standIn(given[0]);
    isKnown = bool(conversions.toPython(given[0])) && bool(conversions.toPython(given[1]));
  }
  auto *instance = count > 0 ? given[0].find<Instance>() : nullptr;
  bool hasMembers = instance || (count > 0 && given[0].is<Struct>());
  const nb::object attribute = is({"hasattr", "getattr"}) && count >= 2 ? given[1].getObject() : nb::object();
  if (attribute && hasMembers) {
    bool exists = findMember(*given[0].findBase<NamedAggregate>(), attribute) || (instance && findAttribute(instance->type, attribute));
    if (name == "hasattr") return makeKnown(exists);
    return exists || count == 2 ? attributes().getAttributeOf(given[0], attribute) : given[2];
  }
  if (name == "type" && count == 1 && instance) return makeObject(instance->type, instance->path);
  if (attribute && given[0].isObject()) {
    const auto &owner = given[0].get<PythonObject>();
    bool isQuery = name == "hasattr";
    if (!findAttribute(owner.object, attribute)) {
      session.tracker.depend(session.tracker.getStep(owner.path, PathStep::Kind::Attribute, toText(attribute)),
                             artifact::Dependency::Kind::Absent);
      if (isQuery || count == 3) return isQuery ? makeKnown(false) : given[2];
    }
    Operand member = attributes().getAttributeOf(given[0], attribute);
    return isQuery ? makeKnown(true) : member;
  }
  if (is({"max", "min"}) && count > 0) return callMinMax(*ir::findKind<BinaryKind>(name), arguments, name);
  bool readsFrame = is({"globals", "locals", "help"}) || (is({"vars", "dir"}) && given.empty());
  if (readsFrame || is({"eval", "exec", "open", "input"})) fail(error::kSyntax, "'" + name + "' cannot be called in kernels");
  if (name == "breakpoint") return pythonCalls().callPython(callee, arguments);
  if (isKnown && !hasMatrix) return pythonCalls().runPython(callee.object, callee, name.str(), arguments);
  if (name == "sorted" && given.size() == 1) return sortItems(given[0], arguments);
  if (name == "abs" && count == 1) return operators().unary(UnaryKind::abs, given[0], name);
  if (name == "pow" && count == 2) return operators().binary(BinaryKind::pow, conversions.load(given[0]), given[1], "**");
  if (name == "round" && count == 1)
    return conversions.callCast(operators().unary(UnaryKind::round, given[0], name), session.types.defaultInteger);
  const std::optional<int64_t> digits = name == "round" && count == 2 ? conversions.findInteger(given[1]) : std::nullopt;
  if (digits && *digits >= 0) {
    if (Type type = conversions.findType(given[0]); type && !isFloat(type)) return conversions.load(given[0]);
    const Operand scale = makeObject(nb::float_(std::pow(10.0, double(*digits))));
    const Operand scaled = operators().binary(BinaryKind::mul, conversions.load(given[0]), scale, name);
    return operators().binary(BinaryKind::div, operators().unary(UnaryKind::round, scaled, name), scale, name);
  }
  if (name == "divmod" && count == 2) {
    Operand first = conversions.load(given[0]), second = conversions.load(given[1]);
    return makeTuple(
        {operators().binary(BinaryKind::floor_div, first, second, "//"), operators().binary(BinaryKind::mod, first, second, "%")});
  }
  if ((name == "sum" && count <= 2 && count > 0) || (is({"any", "all"}) && count == 1)) return callReduction(name, arguments);
  if (!isKnown) pythonCalls().failRuntimeOperands(callee.object, name.str());
  return pythonCalls().runPython(callee.object, callee, name.str(), arguments);
}

} // namespace qd::frontend
