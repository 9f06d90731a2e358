// collections.cpp: lists, tuples, dicts, sets and comprehensions
//
// In:   the syntax node of a display or comprehension, or a list or dict and the method that is called.
// Out:  a value with items; ops for the items that are known at run time only.
// Here: lists and dicts exist only during compilation. Only the block that declares one adds or removes items.
#include "frontend/builder.h"

using namespace mlir;

namespace qd::frontend {

std::vector<Operand> Collections::listItems(const Operand &value, llvm::StringRef purpose) {
  std::vector<Operand> items;
  if (value.is(Kind::Sequence) || value.is(Kind::Struct)) return value.aggregate->items;
  if (value.is(Kind::Dictionary)) {
    for (const nb::object &name : value.aggregate->names) items.push_back(makeObject(name));
    return items;
  }
  if (session.python.isInstance(value.getObject(), session.python.groupedRange)) {
    for (nb::handle index : getAttribute(value.object, names().r)) items.push_back(indexVector(index));
    return items;
  }
  if (value.isIndex)
    return listValues(getAttribute(value.object, names()._array).attr("tolist")(), [](nb::handle item) { return makeObject(item); });
  if (session.python.isInstance(value.getObject(), session.python.matrix))
    return listItems(makeComputed(conversions.emitHostMatrix(value.object)), purpose);
  nb::object iterator;
  if (value.isObject() && !session.python.isTensor(value.object) && !session.python.isNumber(value.object))
    iterator = nb::steal(PyObject_GetIter(value.object.ptr()));
  if (PyErr_Occurred() && !PyErr_ExceptionMatches(PyExc_TypeError)) throw nb::python_error(); // raised by the object's __iter__
  if (iterator) {
    bool hasItems = PyList_Check(value.object.ptr()) || PyTuple_Check(value.object.ptr());
    auto step = [&] { return hasItems ? session.tracker.getStep(value.path, PathStep::Kind::Item, "", int64_t(items.size())) : nullptr; };
    while (nb::object item = nb::steal(PyIter_Next(iterator.ptr()))) {
      session.tracker.read(step(), item);
      items.push_back(conversions.fromPython(item, step()));
    }
    if (PyErr_Occurred()) throw nb::python_error();
    session.tracker.depend(step(), artifact::Dependency::Kind::Absent);
    return items;
  }
  PyErr_Clear();
  auto type = dyn_cast_if_present<VectorType>(value.getType());
  if (!type && purpose == "unpack") fail(error::kSyntax, "Cannot unpack type: " + conversions.describe(value));
  if (!type) fail(error::kType, "cannot " + purpose + " " + conversions.describe(value));
  // All components are loaded before any target is assigned.
  mlir::Value whole = conversions.emit(value);
  int64_t columns = type.getRank() == 2 ? type.getDimSize(1) : 1;
  if (columns != 1 && purpose == "unpack") fail(error::kSyntax, "Matrices with more than one columns cannot be unpacked");
  for (int64_t row = 0; row < type.getDimSize(0); ++row) {
    SmallVector<mlir::Value> components;
    for (int64_t column = 0; column < columns; ++column) components.push_back(emitter.extract(whole, row * columns + column));
    items.push_back(
        makeComputed(columns == 1 ? components[0] : emitter.makeVector(components, VectorType::get({columns}, type.getElementType()))));
  }
  return items;
}

Operand Collections::indexVector(nb::handle index) {
  if (nb::len(index) == 0) return makeTuple({});
  Operand vector = makeObject(session.python.vector(nb::list(index), nb::module_::import_("quadrants._base.dtypes").attr("i32")));
  vector.isIndex = true;
  return vector;
}

void Collections::materialize(const Operand &container, const AssignmentCount &use) {
  if (!container.is(Kind::Sequence) && !container.is(Kind::Dictionary)) return;
  Aggregate &aggregate = *container.aggregate;
  if (aggregate.isTuple || aggregate.isUnpacked || aggregate.ownerBlock) return;
  aggregate.ownerBlock = builder.getInsertionBlock();
  for (Operand &item : aggregate.items)
    if (item.is(Kind::Computed) ? use.hasItemAssigned || use.hasItemPassed
                                : use.hasItemAssigned && session.python.isNumber(item.getObject()))
      item = variables().declare(item, false);
}

Operand *Collections::findItem(const Operand &container, const Operand &key) {
  if (container.is(Kind::Dictionary)) return findKey(container, knownKey(key));
  std::vector<Operand> &items = container.aggregate->items;
  std::optional<int64_t> position = subscripts().findPosition(key);
  if (!position) return nullptr;
  return &items[size_t(subscripts().wrapIndex(*position, int64_t(items.size()), "a list of " + std::to_string(items.size())))];
}

void Collections::assignItem(const Operand &container, const Operand &key, const Operand &value) {
  Arguments item;
  item.positional = {key, value};
  callSequenceMethod(container, "__setitem__", item);
}

Operand Collections::callSequenceMethod(const Operand &receiver, llvm::StringRef name, Arguments &arguments) {
  Aggregate &aggregate = *receiver.aggregate;
  if (aggregate.structType && name == "_asdict") {
    Operand dictionary = makeAggregate(Kind::Dictionary, aggregate.items);
    dictionary.aggregate->names = aggregate.names;
    return dictionary;
  }
  if (aggregate.structType && name == "_replace") {
    Operand result = mapItems(receiver, [](const Operand &item) { return item; });
    for (auto &[key, value] : arguments.named) {
      nb::str field(key.c_str());
      auto found = llvm::find_if(aggregate.names, [&](const nb::object &known) { return known.equal(field); });
      if (found == aggregate.names.end()) fail(error::kType, "'" + key + "' is no field of " + conversions.describe(receiver));
      result.aggregate->items[size_t(found - aggregate.names.begin())] = copyElement(value);
    }
    return result;
  }
  bool isReadingOnly = llvm::is_contained({"copy", "count", "get", "index", "items", "keys", "values"}, name);
  if (aggregate.ownerBlock && aggregate.ownerBlock != builder.getInsertionBlock() && !isReadingOnly)
    fail(error::kSyntax, "'" + name + "' would change a list or dict from outside of this run-time branch or loop, once, while compiling");
  if (name == "append" && !aggregate.isTuple && receiver.is(Kind::Sequence) && arguments.positional.size() == 1) {
    aggregate.items.push_back(conversions.load(arguments.positional[0]));
    return makeObject(nb::none());
  }
  // A list, tuple or dict of Python runs the method, with stand-ins for run-time values.
  std::vector<Operand> boxed;
  auto box = [&](const Operand &value) -> nb::object {
    nb::handle object = value.object;
    bool isPlain = value.isObject() && (session.python.isNumber(object) || PyUnicode_Check(object.ptr()) || object.is_none());
    if (isPlain) return value.object;
    boxed.push_back(conversions.load(value));
    return session.python.standIn(boxed.size() - 1, conversions.describe(value).c_str());
  };
  auto boxAll = [&](const std::vector<Operand> &items) {
    nb::list list;
    for (const Operand &item : items) list.append(box(item));
    return list;
  };
  std::function<Operand(nb::handle)> unbox = [&](nb::handle object) -> Operand {
    if (session.python.isInstance(object, session.python.standIn)) return boxed[nb::cast<size_t>(getAttribute(object, names().index))];
    PyObject *ptr = object.ptr();
    if (!PyList_Check(ptr) && !PyTuple_Check(ptr) && !PyDictViewSet_Check(ptr) && !PyDictValues_Check(ptr)) return makeObject(object);
    Operand items = makeAggregate(Kind::Sequence, {});
    items.aggregate->isTuple = !PyList_Check(ptr);
    for (nb::handle item : object) items.aggregate->items.push_back(unbox(item));
    return items;
  };
  nb::object container = boxAll(aggregate.items);
  if (aggregate.isTuple) container = nb::tuple(container);
  if (receiver.is(Kind::Dictionary)) {
    nb::dict dict;
    for (auto [key, item] : llvm::zip(aggregate.names, container)) dict[key] = item;
    container = dict;
  }
  nb::object method = findAttribute(container, nb::str(name.data(), name.size()));
  if (!method) fail(error::kCompilation, "'" + conversions.describe(receiver) + "' has no method '" + name + "' in kernels");
  nb::list given;
  for (const Operand &argument : arguments.positional)
    given.append(name == "extend" ? nb::object(boxAll(listItems(argument, "extend with"))) : box(argument));
  nb::object returned;
  try {
    returned = method(*given);
  } catch (nb::python_error &problem) { session.failFromPython(problem); }
  Operand result = unbox(returned);
  if (aggregate.isTuple) return result;
  aggregate.items = unbox(receiver.is(Kind::Dictionary) ? container.attr("values")() : container).aggregate->items;
  if (receiver.is(Kind::Dictionary)) {
    aggregate.names.clear();
    for (nb::handle key : nb::list(container)) aggregate.names.push_back(nb::borrow(key));
  }
  return result;
}

std::vector<Operand> Collections::visitAll(nb::handle nodes, llvm::function_ref<Operand(nb::handle)> visitOne) {
  std::vector<Operand> values;
  for (nb::handle at : nodes) {
    if (kindOf(at) != NodeKind::Starred)
      values.push_back(visitOne(at));
    else
      llvm::append_range(values, listItems(expressions().visit(getAttribute(at, names().value)), "unpack"));
  }
  return values;
}

/// The copy of a value that a list, tuple or dict stores.
Operand Collections::copyElement(const Operand &value) {
  return value.is(Kind::Struct) ? variables().declare(value, false) : conversions.load(value);
}

Operand Collections::visitDisplay(nb::handle at, bool isTuple) {
  Operand value = makeAggregate(Kind::Sequence, visitAll(getAttribute(at, names().elts),
                                                         [&](nb::handle element) { return copyElement(expressions().visit(element)); }));
  for (Operand &item : value.aggregate->items) // places that are items of unpacked lists
    if (item.is(Kind::Place)) item = conversions.load(item);
  value.aggregate->isTuple = isTuple;
  return value;
}

Operand Collections::makeSet(const Operand &items) {
  nb::object set = nb::steal(PySet_New(nullptr));
  for (const Operand &item : items.aggregate->items) {
    nb::object known = conversions.toPython(item);
    if (!known) fail(error::kSyntax, "the items of a set must be known while compiling, got " + conversions.describe(item));
    if (PySet_Add(set.ptr(), known.ptr()) != 0) throw nb::python_error();
  }
  return makeObject(set);
}

nb::object Collections::knownKey(const Operand &value) {
  nb::object key = conversions.toPython(value);
  if (!key) fail(error::kSyntax, "the keys of a dict must be known while compiling, got " + conversions.describe(value));
  return key;
}

Operand *Collections::findKey(const Operand &dictionary, nb::handle key) {
  for (auto [name, item] : llvm::zip(dictionary.aggregate->names, dictionary.aggregate->items))
    if (name.equal(key)) return &item;
  return nullptr;
}

void Collections::put(const Operand &dictionary, nb::object key, Operand value) {
  if (Operand *item = findKey(dictionary, key)) {
    *item = std::move(value);
    return;
  }
  dictionary.aggregate->names.push_back(std::move(key));
  dictionary.aggregate->items.push_back(std::move(value));
}

std::vector<std::pair<nb::object, Operand>> Collections::listPairs(const Operand &value) {
  auto pairs = structs().findNamedItems(value);
  if (!pairs) fail(error::kType, "'**' needs a dict, got " + conversions.describe(value));
  return std::move(*pairs);
}

Operand Collections::visitDictionary(nb::handle at) {
  Operand result = makeAggregate(Kind::Dictionary, {});
  nb::object values = getAttribute(at, names().values);
  size_t index = 0;
  for (nb::handle keyNode : getAttribute(at, names().keys)) {
    Operand value = copyElement(expressions().visit(nb::object(values[index++])));
    if (keyNode.is_none())
      for (auto &[key, item] : listPairs(value)) put(result, key, item);
    else
      put(result, knownKey(expressions().visit(keyNode)), value);
  }
  return result;
}

void Collections::emitComprehension(nb::handle generators, size_t level, const std::function<void()> &emitElement) {
  if (level == nb::len(generators)) return emitElement();
  nb::object generator = generators[level];
  for (const Operand &item : listItems(expressions().visit(getAttribute(generator, names().iter)), "iterate in a comprehension over")) {
    scopes.push();
    loops().bindLoopVariable(getAttribute(generator, names().target), item);
    bool isWanted = true;
    for (nb::handle condition : getAttribute(generator, names().ifs)) {
      nb::object test = conversions.toPython(expressions().visit(condition));
      if (!test) fail(error::kSyntax, "the filter of a comprehension must be known while compiling");
      isWanted = isWanted && conversions.isTrue(makeObject(test));
    }
    if (isWanted) emitComprehension(generators, level + 1, emitElement);
    scopes.pop();
  }
}

Operand Collections::visitComprehension(nb::handle at) {
  bool isDict = kindOf(at) == NodeKind::DictComp;
  Operand result = makeAggregate(isDict ? Kind::Dictionary : Kind::Sequence, {});
  emitComprehension(getAttribute(at, names().generators), 0, [&] {
    if (isDict) {
      nb::object key = knownKey(expressions().visit(getAttribute(at, names().key)));
      put(result, key, copyElement(expressions().visit(getAttribute(at, names().value))));
    } else {
      result.aggregate->items.push_back(copyElement(expressions().visit(getAttribute(at, names().elt))));
    }
  });
  return result;
}

} // namespace qd::frontend
