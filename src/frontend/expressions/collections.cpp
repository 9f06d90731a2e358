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
  if (value.is<DictView>() || RuntimeDicts::hasRuntimeKeys(value)) {
    for (const auto &[item, isPresent] : runtimeDicts().listItems(value, purpose)) {
      if (!runtimeDicts().isAlways(isPresent))
        fail(error::kType, "cannot " + purpose + " " + conversions.describe(value) +
                               " whose length is known at run time only: loop over it with `for` or in a comprehension, or use sum(), "
                               "min(), max(), any(), all(), len() and `in`");
      items.push_back(item);
    }
    return items;
  }
  if (auto *dictionary = value.find<Dictionary>())
    return listOperands(dictionary->names, [](const nb::object &name) { return makeObject(name); });
  if (value.is<Sequence>() || value.is<Struct>()) return value.findBase<Aggregate>()->items;
  auto *known = value.find<PythonObject>();
  if (known && known->object && hasDictOrder(known->object))
    return listOperands(listEntries(*known), [](const auto &entry) { return makeObject(entry.first); });
  if (session.python.isInstance(value.getObject(), session.python.language.groupedRange)) {
    for (nb::handle index : getAttribute(known->object, names().r)) items.push_back(indexVector(index));
    return items;
  }
  if (known && known->isIndex)
    return listOperands(getAttribute(known->object, names()._array).attr("tolist")(), [](nb::handle item) { return makeObject(item); });
  if (session.python.isInstance(value.getObject(), session.python.values.matrix))
    return listItems(makeComputed(conversions.emitHostMatrix(known->object)), purpose);
  nb::object iterator;
  if (known) requirePlainWrapper(*known);
  if (known && !session.python.isTensor(known->object) && !session.python.isNumber(known->object))
    iterator = nb::steal(PyObject_GetIter(known->object.ptr()));
  if (PyErr_Occurred() && !PyErr_ExceptionMatches(PyExc_TypeError)) throw nb::python_error(); // raised by the object's __iter__
  if (iterator && iterator.is(known->object)) requireOwner(*known, "next");
  if (iterator) {
    auto step = [&] {
      return hasIndexedItems(value) ? session.tracker.getStep(known->path, PathStep::Kind::Item, "", int64_t(items.size())) : nullptr;
    };
    while (nb::object item = nb::steal(PyIter_Next(iterator.ptr()))) {
      session.tracker.read(step(), item);
      items.push_back(conversions.fromPython(item, step()));
    }
    if (PyErr_Occurred()) throw nb::python_error();
    session.tracker.depend(step(), artifact::Dependency::Kind::Absent);
    if (PyDict_Check(known->object.ptr()) && !session.python.isPlainData(known->object)) { // an OrderedDict, whose entries have no order
      for (nb::handle key : nb::borrow<nb::dict>(known->object).keys())
        session.tracker.depend(findKeyPath(*known, key), artifact::Dependency::Kind::Type);
      session.tracker.depend(session.tracker.getStep(known->path, PathStep::Kind::Entry, "", int64_t(items.size())),
                             artifact::Dependency::Kind::Absent);
    }
    return items;
  }
  PyErr_Clear();
  auto type = dyn_cast_if_present<VectorType>(value.getType());
  if (!type && purpose == "unpack") fail(error::kSyntax, "Cannot unpack type: " + conversions.describe(value));
  const char *remedy = conversions.isTensor(value) ? ": loop over its indices, `for i in x`" : "";
  if (!type) fail(error::kType, "cannot " + purpose + " " + conversions.describe(value) + remedy);
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
  Operand vector = makeObject(session.python.values.vector(nb::list(index), nb::module_::import_("quadrants._base.dtypes").attr("i32")));
  vector.get<PythonObject>().isIndex = true;
  return vector;
}

void Collections::materialize(const Operand &container, const AssignmentCount &use) {
  auto *sequence = container.find<Sequence>();
  Collection *collection = sequence ? sequence : static_cast<Collection *>(container.find<Dictionary>());
  mlir::Block *block = builder.getInsertionBlock();
  if (!collection || (collection->ownerBlock && collection->ownerBlock != block) || (sequence && sequence->isUnpacked)) return;
  const bool isTuple = sequence && sequence->isTuple;
  if (!isTuple) collection->ownerBlock = block;
  if (RuntimeDicts::hasRuntimeKeys(container)) return;
  AssignmentCount part;
  part.hasItemAssigned = part.hasPartAssigned = use.hasPartAssigned;
  for (Operand &item : collection->items) {
    materialize(item, part);
    bool isAssigned =
        item.is<Computed>() ? use.hasItemAssigned || use.hasItemPassed : use.hasItemAssigned && session.python.isNumber(item.getObject());
    if (isAssigned && !isTuple) item = variables().declare(item, false);
  }
}

Operand *Collections::findItem(const Operand &container, const Operand &key) {
  if (container.is<Dictionary>())
    return runtimeDicts().isChosen(container, key) ? nullptr : findKey(container.get<Dictionary>(), conversions.toPython(key));
  const llvm::StringRef kind = container.get<Sequence>().isUnpacked ? "an unpacked vector (out of bounds) of " : "a list of ";
  std::vector<Operand> &items = container.get<Sequence>().items;
  std::optional<int64_t> position = subscripts().findPosition(key);
  if (!position) return nullptr;
  return &items[size_t(subscripts().wrapIndex(*position, int64_t(items.size()), kind + std::to_string(items.size())))];
}

void Collections::assignItem(const Operand &container, const Operand &key, const Operand &value) {
  Arguments item;
  item.positional = {key, value};
  callSequenceMethod(container, "__setitem__", item);
}

void Collections::changeItem(const Operand &list, const Operand &index, const std::function<void(const Operand &)> &change) {
  auto &sequence = list.get<Sequence>();
  if (session.options.checksBounds) subscripts().subscriptSequence(list, index);
  auto getType = [&](const Operand &item) { return conversions.findType(item); };
  if (!llvm::all_equal(llvm::map_range(sequence.items, getType)))
    fail(error::kType, "a list whose items are assigned at an index that is known at run time has items of one type");
  for (auto [position, item] : llvm::enumerate(sequence.items)) {
    if (!item.is<Place>() && sequence.ownerBlock != builder.getInsertionBlock()) failOwner("__setitem__");
    if (!item.is<Place>()) item = variables().declare(item, false);
    Operand isHere = operators().binary(BinaryKind::eq, index, makeObject(nb::int_(position)), "[]");
    statements().emitIf(conversions.emit(isHere), [&] { change(item); }, {});
  }
}

void Collections::assignSlice(const Operand &list, const Slice &slice, const Operand &value) {
  auto &sequence = list.get<Sequence>();
  std::vector<Operand> values = listOperands(listItems(value, "assign"), [&](const Operand &item) { return copyElement(item); });
  std::vector<int64_t> positions = subscripts().sliceComponents(slice, int64_t(sequence.items.size()));
  bool isSameLength = positions.size() == values.size();
  bool isOwner = !sequence.ownerBlock || sequence.ownerBlock == builder.getInsertionBlock();
  for (size_t index = 0; isSameLength && index < values.size(); ++index) {
    Operand &item = sequence.items[size_t(positions[index])];
    if (item.is<Place>() || item.is<Struct>())
      variables().store(item, values[index]);
    else if (isOwner)
      item = values[index];
    else
      failOwner("__setitem__");
  }
  if (isSameLength) return;
  if (!isOwner) failOwner("__setitem__");
  if (!slice.items[2].isNone())
    fail(error::kType, "attempt to assign sequence of size " + std::to_string(values.size()) + " to extended slice of size " +
                           std::to_string(positions.size()));
  const auto begin = nb::cast<int64_t>(subscripts().makeSlice(slice).attr("indices")(sequence.items.size())[0]);
  auto first = sequence.items.erase(sequence.items.begin() + begin, sequence.items.begin() + begin + int64_t(positions.size()));
  sequence.items.insert(first, values.begin(), values.end());
}

void Collections::failOwner(llvm::StringRef method) {
  fail(error::kSyntax,
       "'" + method +
           "' would change a list or dict, or step an iterator, from outside of this func, run-time branch or loop, once, while compiling: "
           "elements that are made at run time go to a field or an array");
}

/// Whether an object is one of Python's collections, or an iterator, which its own methods change.
static bool isChangeable(nb::handle object) {
  PyObject *ptr = object.ptr();
  return PyList_Check(ptr) || PyDict_Check(ptr) || PyAnySet_Check(ptr) || PyByteArray_Check(ptr) || PyIter_Check(ptr) ||
         llvm::StringRef(Py_TYPE(ptr)->tp_name) == "collections.deque";
}

void Collections::requireOwner(const PythonObject &collection, llvm::StringRef method) {
  // Between spaces.
  static constexpr llvm::StringLiteral kChanging =
      " add append appendleft clear difference_update discard extend extendleft insert intersection_update move_to_end next pop popitem "
      "popleft remove reverse rotate setdefault sort subtract symmetric_difference_update update ";
  PyObject *object = collection.object.ptr();
  if (!isChangeable(collection.object) || !kChanging.contains((" " + method + " ").str()) || nesting.staticDepth > 0) return;
  if (collection.path) variables().failCaptured(DependencyTracker::describe(collection.path));
  auto owner = session.functions.collectionOwners.find(object);
  if (owner != session.functions.collectionOwners.end() && owner->second != builder.getInsertionBlock()) failOwner(method);
}

/// Whether a value is the given list or dict, or a list, tuple or dict with it at any depth.
static bool holds(const Operand &value, const Collection &part) {
  if (auto *view = value.find<DictView>()) return holds(view->items[0], part);
  auto *collection = value.is<Sequence>() || value.is<Dictionary>() ? value.findBase<Collection>() : nullptr;
  return collection && (collection == &part || llvm::any_of(collection->items, [&](const Operand &item) { return holds(item, part); }));
}

Operand Collections::callSequenceMethod(const Operand &receiver, llvm::StringRef name, Arguments &arguments) {
  Collection &collection = *receiver.findBase<Collection>();
  auto *sequence = receiver.find<Sequence>();
  bool isTuple = sequence && sequence->isTuple, isNamedTuple = sequence && sequence->type;
  if (isNamedTuple && name == "_asdict") {
    Dictionary dictionary;
    dictionary.items = sequence->items;
    dictionary.names = sequence->names;
    return dictionary;
  }
  if (isNamedTuple && name == "_replace") {
    Sequence result = *sequence;
    for (auto &[key, value] : arguments.named) {
      nb::str field(key.c_str());
      auto found = llvm::find_if(result.names, [&](const nb::object &known) { return known.equal(field); });
      if (found == result.names.end()) fail(error::kType, "'" + key + "' is no field of " + conversions.describe(receiver));
      result.items[size_t(found - result.names.begin())] = copyElement(value);
    }
    return result;
  }
  bool isReadingOnly = llvm::is_contained({"copy", "count", "get", "index", "items", "keys", "values"}, name);
  if (collection.ownerBlock && collection.ownerBlock != builder.getInsertionBlock() && !isReadingOnly) failOwner(name);
  auto holdsItself = [&](const Operand &value) { return holds(value, collection); };
  if (!isReadingOnly &&
      (llvm::any_of(arguments.positional, holdsItself) || llvm::any_of(llvm::make_second_range(arguments.named), holdsItself)))
    fail(error::kSyntax, "a list or dict of a kernel cannot be stored in itself");
  if (receiver.is<Dictionary>())
    if (std::optional<Operand> result = runtimeDicts().callMethod(receiver, name, arguments)) return *result;
  if (name == "append" && sequence && !isTuple && arguments.positional.size() == 1) {
    sequence->items.push_back(conversions.load(arguments.positional[0]));
    return makeObject(nb::none());
  }
  // A list, tuple or dict of Python runs the method, with stand-ins for run-time values.
  std::vector<Operand> boxed;
  auto box = [&](const Operand &value, bool isOwnItem = false) -> nb::object {
    const nb::object &object = value.getObject();
    if (object && (session.python.isNumber(object) || PyUnicode_Check(object.ptr()) || object.is_none())) return object;
    boxed.push_back(isOwnItem ? value : conversions.load(value)); // own items that are variables stay these
    return session.python.language.standIn(boxed.size() - 1, conversions.describe(value).c_str());
  };
  auto boxAll = [&](const std::vector<Operand> &items, bool areOwn) {
    nb::list list;
    for (const Operand &item : items) list.append(box(item, areOwn));
    return list;
  };
  std::function<Operand(nb::handle)> unbox = [&](nb::handle object) -> Operand {
    if (session.python.isInstance(object, session.python.language.standIn))
      return boxed[nb::cast<size_t>(getAttribute(object, names().index))];
    PyObject *ptr = object.ptr();
    if (!PyList_Check(ptr) && !PyTuple_Check(ptr) && !PyDictViewSet_Check(ptr) && !PyDictValues_Check(ptr)) return makeObject(object);
    std::vector<Operand> items;
    for (nb::handle item : object) items.push_back(unbox(item));
    return makeSequence(std::move(items), /*isTuple=*/!PyList_Check(ptr));
  };
  nb::object container = boxAll(collection.items, /*areOwn=*/true);
  if (isTuple) container = nb::tuple(container);
  if (!sequence) {
    nb::dict dict;
    for (auto [key, item] : llvm::zip(collection.names, container)) dict[key] = item;
    container = dict;
  }
  nb::object method = findAttribute(container, nb::str(name.data(), name.size()));
  if (!method) fail(error::kCompilation, "'" + conversions.describe(receiver) + "' has no method '" + name + "' in kernels");
  auto boxArgument = [&](const Operand &argument) -> nb::object {
    if (name == "extend") return boxAll(listItems(argument, "extend with"), /*areOwn=*/false);
    if (name != "update" || !argument.is<Dictionary>()) return box(argument);
    nb::dict dict;
    for (auto &[key, item] : listPairs(argument)) dict[key] = box(item);
    return dict;
  };
  nb::list given;
  nb::dict named;
  for (const Operand &argument : arguments.positional) given.append(boxArgument(argument));
  for (const auto &[key, argument] : arguments.named) named[key.c_str()] = argument.isObject() ? argument.getObject() : box(argument);
  nb::object returned;
  try {
    returned = method(*given, **named);
  } catch (nb::python_error &problem) { session.failFromPython(problem); }
  Operand result = unbox(returned);
  if (isTuple) return result;
  collection.items = unbox(sequence ? container : container.attr("values")()).get<Sequence>().items;
  if (!sequence) {
    collection.names.clear();
    for (nb::handle key : nb::list(container)) collection.names.push_back(nb::borrow(key));
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
  return value.is<Struct>() ? variables().declare(value, false) : conversions.load(value);
}

Operand Collections::visitDisplay(nb::handle at, bool isTuple) {
  std::vector<Operand> items =
      visitAll(getAttribute(at, names().elts), [&](nb::handle element) { return copyElement(expressions().visit(element)); });
  for (Operand &item : items) // places that are items of unpacked lists
    if (item.is<Place>()) item = conversions.load(item);
  return makeSequence(std::move(items), isTuple);
}

/// Whether the text of a key is the same in every process, and tells it from all others.
static bool hasPlainText(nb::handle key, nb::handle enumeration) {
  if (PyTuple_CheckExact(key.ptr())) return llvm::all_of(key, [&](nb::handle item) { return hasPlainText(item, enumeration); });
  PyTypeObject *type = Py_TYPE(key.ptr());
  return llvm::is_contained({&PyUnicode_Type, &PyLong_Type, &PyBool_Type, &PyFloat_Type, Py_TYPE(Py_None)}, type) ||
         type->tp_repr == reinterpret_cast<PyTypeObject *>(enumeration.ptr())->tp_repr;
}

void Collections::dependOnLength(const PythonObject &collection, bool isTruth) {
  requirePlainWrapper(collection);
  const bool isDict = PyDict_Check(collection.object.ptr());
  if (!isDict && !hasIndexedItems(collection)) return;
  if (session.python.isPlainData(collection.object)) return; // compared as a whole, as an empty collection is
  auto length = int64_t(nb::len(collection.object));
  auto depend = [&](int64_t index, artifact::Dependency::Kind kind) {
    session.tracker.depend(session.tracker.getStep(collection.path, isDict ? PathStep::Kind::Entry : PathStep::Kind::Item, "", index),
                           kind);
  };
  depend(isTruth ? 0 : length - 1, artifact::Dependency::Kind::Type);
  if (!isTruth) depend(length, artifact::Dependency::Kind::Absent);
}

void Collections::requirePlainWrapper(const PythonObject &object) {
  if (object.path && session.python.isWrapper(object.object) && !session.python.isPlainData(object.object))
    fail(error::kType,
         "'" + llvm::Twine(Py_TYPE(object.object.ptr())->tp_name) +
             "' of other than numbers, strings and collections of them is indexed with strings and integers only: use a dict or list");
}

const PathNode *Collections::findKeyPath(const PythonObject &dict, nb::handle key) {
  const bool isWrapper = session.python.isWrapper(dict.object);
  if (!isWrapper && !PyDict_Check(dict.object.ptr())) return nullptr;
  if (PyUnicode_CheckExact(key.ptr()) && !toText(key).empty()) return session.tracker.getStep(dict.path, PathStep::Kind::Item, toText(key));
  int overflow = 0;
  const int64_t number = PyLong_CheckExact(key.ptr()) ? PyLong_AsLongLongAndOverflow(key.ptr(), &overflow) : 0;
  if (PyLong_CheckExact(key.ptr()) && !overflow) return session.tracker.getStep(dict.path, PathStep::Kind::Item, "", number);
  if (isWrapper) requirePlainWrapper(dict);
  if (isWrapper) return nullptr;
  int64_t position = 0;
  for (auto [known, item] : nb::borrow<nb::dict>(dict.object)) {
    if (known.equal(key)) {
      if (!hasPlainText(known, session.python.host.enumeration) && !session.python.isPlainData(dict.object)) session.tracker.refuseCache();
      return session.tracker.getStep(dict.path, PathStep::Kind::Entry, toText(nb::repr(known)), position);
    }
    ++position;
  }
  return nullptr;
}

std::vector<std::pair<nb::object, Operand>> Collections::listEntries(const PythonObject &dict) {
  std::vector<std::pair<nb::object, Operand>> entries;
  const bool isPlain = session.python.isPlainData(dict.object);
  auto getEntry = [&](const std::string &text) {
    return isPlain ? nullptr : session.tracker.getStep(dict.path, PathStep::Kind::Entry, text, int64_t(entries.size()));
  };
  for (auto [key, item] : nb::borrow<nb::dict>(dict.object)) {
    session.tracker.depend(getEntry(toText(nb::repr(key)).str()), artifact::Dependency::Kind::Type);
    const PathNode *path = findKeyPath(dict, key);
    if (!isPlain) session.tracker.read(path, item);
    entries.emplace_back(nb::borrow(key), conversions.fromPython(item, path));
  }
  session.tracker.depend(getEntry(""), artifact::Dependency::Kind::Absent);
  return entries;
}

Operand *Collections::findKey(Dictionary &dictionary, nb::handle key) {
  for (auto [name, item] : llvm::zip(dictionary.names, dictionary.items))
    if (name.equal(key)) return &item;
  return nullptr;
}

std::vector<std::pair<nb::object, Operand>> Collections::listPairs(const Operand &value) {
  auto pairs = structs().findNamedItems(value);
  if (!pairs) fail(error::kType, "'**' needs a dict, got " + conversions.describe(value));
  return std::move(*pairs);
}

Operand Collections::visitDictionary(nb::handle at) {
  Dictionary result;
  nb::object values = getAttribute(at, names().values);
  size_t index = 0;
  for (nb::handle keyNode : getAttribute(at, names().keys)) {
    nb::object valueNode = values[index++];
    Operand key = keyNode.is_none() ? Operand() : conversions.load(expressions().visit(keyNode)), value = expressions().visit(valueNode);
    if (keyNode.is_none())
      runtimeDicts().putAll(result, value);
    else
      runtimeDicts().put(result, key, copyElement(value), makeKnown(true));
  }
  return result;
}

Operand Collections::makeDictionary(const Arguments &arguments) {
  Dictionary result;
  for (const Operand &dict : arguments.positional) runtimeDicts().putAll(result, dict);
  for (const auto &[name, item] : arguments.named)
    runtimeDicts().put(result, makeObject(nb::str(name.c_str())), copyElement(item), makeKnown(true));
  return result;
}

void Collections::emitComprehension(nb::handle generators, size_t level, const Operand &isPresent,
                                    const std::function<void(const Operand &)> &emitElement) {
  if (level == nb::len(generators)) return emitElement(isPresent);
  if (!runtimeDicts().isAlways(isPresent)) // what follows is evaluated for absent items, too
    fail(error::kSyntax, "only the last `for` of a comprehension loops over a dict with keys that are known at run time only");
  nb::object generator = generators[level];
  Operand iterable = expressions().visit(getAttribute(generator, names().iter));
  for (const auto &[item, isItemPresent] : runtimeDicts().listItems(iterable, "iterate in a comprehension over")) {
    scopes.push();
    loops().bindLoopVariable(getAttribute(generator, names().target), item);
    bool isWanted = true;
    for (nb::handle condition : getAttribute(generator, names().ifs)) {
      nb::object test = conversions.toPython(expressions().visit(condition));
      if (!test) fail(error::kSyntax, "the filter of a comprehension must be known while compiling");
      isWanted = isWanted && conversions.isTrue(makeObject(test));
    }
    if (isWanted) emitComprehension(generators, level + 1, isItemPresent, emitElement);
    scopes.pop();
  }
}

Operand Collections::visitComprehension(nb::handle at) {
  bool isDict = kindOf(at) == NodeKind::DictComp;
  Dictionary dictionary;
  std::vector<OptionalItem> items;
  emitComprehension(getAttribute(at, names().generators), 0, makeKnown(true), [&](const Operand &isPresent) {
    auto visitPart = [&](const nb::object &name) { return runtimeDicts().visitIf(isPresent, getAttribute(at, name)); };
    if (!isDict) return items.push_back({visitPart(names().elt), isPresent});
    Operand key = visitPart(names().key);
    runtimeDicts().put(dictionary, key, visitPart(names().value), isPresent);
  });
  return isDict ? Operand(dictionary) : runtimeDicts().makeList(items);
}

} // namespace qd::frontend
