// runtime_dicts.cpp: dicts and sets with keys that are known at run time only
//
// In:   a dict, and a key or pair of which at least one key is known at run time only.
// Out:  entries with conditions; selects and comparisons of the keys.
// Here: keys that are equal at run time are one entry, as in Python: it has the position of the first and the value of the last. The entry
//       of the first is present, and those of the others are absent. Each new key is compared with all before it.
#include "frontend/builder.h"

using namespace mlir;

namespace qd::frontend {

static constexpr size_t kMostEntries = 64;
static constexpr llvm::StringLiteral kAtRunTime = " with keys that are known at run time only";

/// The items of a dict with run-time keys that one entry consists of.
static auto toTriples(std::vector<Operand> &items) {
  return llvm::map_range(llvm::seq<size_t>(items.size() / 3), [&](size_t entry) { return MutableArrayRef(items).slice(3 * entry, 3); });
}

Operand RuntimeDicts::combine(BinaryKind kind, const Operand &one, const Operand &other) {
  for (auto [known, rest] : {std::pair(&one, &other), std::pair(&other, &one)})
    if (conversions.isConstant(*known)) return conversions.isTrue(*known) == (kind == BinaryKind::bit_or) ? *known : *rest;
  return operators().binary(kind, one, other, "in");
}

std::vector<RuntimeDicts::Entry> RuntimeDicts::listEntries(const Operand &dict) {
  std::vector<Entry> entries;
  if (auto *dictionary = dict.find<Dictionary>(); dictionary && dictionary->hasRuntimeKeys)
    for (auto triple : toTriples(dictionary->items)) entries.push_back({triple[0], triple[1], triple[2]});
  else
    for (auto &[key, value] : collections().listPairs(dict)) entries.push_back({makeObject(key), value, makeKnown(true)});
  return entries;
}

std::vector<OptionalItem> RuntimeDicts::listItems(const Operand &collection, llvm::StringRef purpose) {
  std::vector<OptionalItem> items;
  auto *view = collection.find<DictView>();
  if (!view && !hasRuntimeKeys(collection)) {
    for (Operand &item : collections().listItems(collection, purpose)) items.push_back({std::move(item), makeKnown(true)});
    return items;
  }
  llvm::StringRef part = view ? toText(view->names[0]) : "dict_keys";
  for (auto &[key, value, isPresent] : listEntries(view ? view->items[0] : collection))
    items.push_back({part == "dict_items" ? makeTuple({key, value}) : part == "dict_values" ? value : key, isPresent});
  return items;
}

std::vector<Operand> RuntimeDicts::listItemsOr(const Operand &neutral, const Operand &collection, llvm::StringRef purpose) {
  std::vector<Operand> items;
  for (const auto &[value, isPresent] : listItems(collection, purpose)) {
    if (isAlways(isPresent)) {
      items.push_back(value);
      continue;
    }
    const Type type = conversions.findType(value); // so that the sum of small integers stays one
    const Operand other = !neutral.isGiven() ? items[0] : type ? makeComputed(conversions.convert(neutral, type)) : neutral;
    items.push_back(choose(isPresent, value, other));
  }
  return items;
}

Operand RuntimeDicts::count(const Operand &collection) {
  Operand total = makeObject(nb::int_(0));
  for (const auto &[value, isPresent] : listItems(collection, "count"))
    total = operators().binary(BinaryKind::add, total, isAlways(isPresent) ? makeObject(nb::int_(1)) : isPresent, "len");
  return total;
}

Operand RuntimeDicts::makeView(const Operand &dict, const llvm::Twine &name) {
  DictView view;
  view.items = {dict};
  view.names = {nb::steal(PyUnicode_InternFromString(name.str().c_str()))};
  session.functions.keptAlive.push_back(view.names[0]);
  return view;
}

Operand RuntimeDicts::makeList(const std::vector<OptionalItem> &items) {
  Dictionary rows;
  rows.hasRuntimeKeys = true;
  for (const auto &[value, isPresent] : items) rows.items.insert(rows.items.end(), {value, makeObject(nb::none()), isPresent});
  if (!llvm::all_of(items, [&](const OptionalItem &item) { return isAlways(item.isPresent); })) return makeView(rows, "list");
  return makeSequence(listOperands(items, [](const OptionalItem &item) { return item.value; }));
}

Operand RuntimeDicts::makeSet(const Operand &given) {
  const std::vector<OptionalItem> items = listItems(given, "make a set of");
  if (llvm::all_of(items, [&](const OptionalItem &item) { return isAlways(item.isPresent) && conversions.toPython(item.value); })) {
    nb::object set = nb::steal(PySet_New(nullptr));
    for (const OptionalItem &item : items)
      if (PySet_Add(set.ptr(), conversions.toPython(item.value).ptr()) != 0) throw nb::python_error();
    return makeObject(set);
  }
  Dictionary dict;
  for (const auto &[value, isPresent] : items) put(dict, value, makeObject(nb::none()), isPresent);
  return makeView(dict, "set");
}

Operand RuntimeDicts::visitIf(const Operand &condition, nb::handle node) {
  if (isAlways(condition)) return collections().copyElement(expressions().visit(node));
  Operand value;
  std::function<Operand(const Operand &)> zero = [&](const Operand &item) -> Operand {
    if (item.is<Struct>()) return mapItems(item, zero);
    return makeComputed(emitter.convert(emitter.constant(0, session.types.u1), conversions.emit(item).getType()));
  };
  auto visitValue = [&] {
    value = collections().copyElement(expressions().visit(node));
    requireChoosable(value);
    if (value.isObject()) value = makeComputed(conversions.emit(value));
    return value;
  };
  return expressions().chooseBranch(conversions.emit(condition), visitValue, [&] { return zero(value); });
}

bool RuntimeDicts::hasRuntimeKeys(const Operand &value) {
  auto *view = value.find<DictView>();
  llvm::StringRef part = view ? toText(view->names[0]) : "";
  if (part == "dict_keys" || part == "set") return hasRuntimeKeys(view->items[0]);
  auto *dictionary = value.find<Dictionary>();
  return dictionary && dictionary->hasRuntimeKeys;
}

void RuntimeDicts::requireKnownKeys(const Operand &dict, const llvm::Twine &purpose) {
  if (hasRuntimeKeys(dict)) fail(error::kType, "a dict" + kAtRunTime + " " + purpose);
}

bool RuntimeDicts::isChosen(const Operand &dict, const Operand &key) { return hasRuntimeKeys(dict) || !conversions.toPython(key); }

Operand RuntimeDicts::keyOf(const Operand &value) {
  Operand key = conversions.load(value);
  nb::object known = conversions.toPython(key);
  if (known && PyObject_Hash(known.ptr()) == -1) throw nb::python_error();
  auto *tuple = key.find<Sequence>();
  if (!known && tuple && tuple->isTuple) return mapItems(key, [&](const Operand &item) { return keyOf(item); });
  if (!known && (!key.isTyped() || isa<VectorType>(key.getType())))
    fail(error::kType, "a key that is known at run time only is a number or a tuple, got " + conversions.describe(key));
  return key;
}

/// The known key as a constant of a scalar type; null if no value of the type is equal to it.
mlir::Value RuntimeDicts::literalKey(const nb::object &known, Type type) {
  if (!session.python.isNumber(known)) return {};
  nb::object number = session.python.toPlainNumber(known), integer = number;
  if (!isFloat(type)) {
    if (PyFloat_Check(number.ptr())) {
      if (!nb::cast<bool>(number.attr("is_integer")())) return {};
      integer = checked(PyLong_FromDouble(PyFloat_AS_DOUBLE(number.ptr())));
    }
    return emitter.holds(type, integer) ? emitter.constantNumber(integer, type) : mlir::Value();
  }
  const double wide = PyFloat_AsDouble(number.ptr());
  if (wide == -1.0 && PyErr_Occurred()) { // an integer beyond the range of all floats
    PyErr_Clear();
    return {};
  }
  bool isRounded = false;
  APFloat rounded(wide);
  rounded.convert(cast<FloatType>(type).getFloatSemantics(), APFloat::rmNearestTiesToEven, &isRounded);
  if (isRounded && PyFloat_Check(number.ptr())) {
    const std::string text = toText(nb::repr(number)).str(), name = ir::describe(type);
    fail(error::kType, "the key " + text + " is no value of '" + name + "', the type of a key that it is compared with: write qd." + name +
                           "(" + text + ")");
  }
  return isRounded || !number.equal(nb::float_(wide)) ? mlir::Value() : emitter.constantFloat(wide, type);
}

/// Whether each value of one type is equal to one value of their common type at most.
static bool areComparable(Type one, Type other) {
  if (one == other || one.isInteger(1) || other.isInteger(1)) return true;
  if (ir::isFloatScalar(one) || ir::isFloatScalar(other)) return ir::isFloatScalar(one) && ir::isFloatScalar(other);
  if (one.isSignedInteger() == other.isSignedInteger()) return true;
  if (one.isSignedInteger()) std::swap(one, other);
  return one.getIntOrFloatBitWidth() < other.getIntOrFloatBitWidth();
}

Operand RuntimeDicts::isSame(const Operand &key, const Operand &other) {
  nb::object known = conversions.toPython(key), otherKnown = conversions.toPython(other);
  if (known && otherKnown) return makeKnown(known.equal(otherKnown));
  if (known) return isSame(other, key);
  if (isList(key) || isList(other)) {
    if (!isList(key) || !isList(other)) return makeKnown(false);
    const std::vector<Operand> items = collections().listItems(key, "compare"), others = collections().listItems(other, "compare");
    Operand areSame = makeKnown(items.size() == others.size());
    for (const auto &[item, otherItem] : llvm::zip(items, others)) areSame = combine(BinaryKind::bit_and, areSame, isSame(item, otherItem));
    return areSame;
  }
  mlir::Value left = conversions.emit(key), right = otherKnown ? literalKey(otherKnown, left.getType()) : conversions.emit(other);
  if (!right) return makeKnown(false);
  if (!areComparable(left.getType(), right.getType()))
    fail(error::kType, "keys of the types '" + ir::describe(left.getType()) + "' and '" + ir::describe(right.getType()) +
                           "' are not compared: neither type has all values of the other; convert the keys to one type");
  return makeComputed(emitter.binaryTyped(BinaryKind::eq, left, right, "=="));
}

void RuntimeDicts::requireChoosable(const Operand &value) {
  if (!conversions.canEmit(value) && !value.is<Struct>())
    fail(error::kType, "what is chosen by a key that is known at run time only is a number, vector, matrix or struct, got " +
                           conversions.describe(value));
}

Operand RuntimeDicts::choose(const Operand &condition, const Operand &first, const Operand &second) {
  if (conversions.isConstant(condition)) return conversions.isTrue(condition) ? first : second;
  if (first.isNone() && second.isNone()) return second; // of a set
  auto *tuple = first.find<Sequence>(), *otherTuple = second.find<Sequence>();
  if (tuple && otherTuple && tuple->isTuple && otherTuple->isTuple && tuple->items.size() == otherTuple->items.size()) {
    auto item = otherTuple->items.begin();
    return mapItems(first, [&](const Operand &one) { return choose(condition, one, *item++); });
  }
  requireChoosable(first);
  requireChoosable(second);
  return operators().select(condition, first, second);
}

void RuntimeDicts::putAll(Dictionary &dict, const Operand &pairs) {
  for (const auto &[key, value, isPresent] : listEntries(pairs)) put(dict, key, collections().copyElement(value), isPresent);
}

void RuntimeDicts::put(Dictionary &dict, const Operand &givenKey, const Operand &givenValue, const Operand &condition) {
  const Operand key = keyOf(givenKey);
  if (nb::object known = conversions.toPython(key); known && !dict.hasRuntimeKeys && isAlways(condition)) {
    if (Operand *item = collections().findKey(dict, known)) {
      *item = givenValue;
      return;
    }
    dict.names.push_back(known);
    dict.items.push_back(givenValue);
    return;
  }
  if (!std::exchange(dict.hasRuntimeKeys, true)) {
    std::vector<Operand> triples;
    for (auto [name, item] : llvm::zip(dict.names, dict.items))
      triples.insert(triples.end(), {makeObject(name), conversions.copy(item), makeKnown(true)});
    dict.items = std::move(triples);
    dict.names.clear();
  }
  const Operand value = conversions.copy(givenValue);
  Operand isFound = makeKnown(false);
  for (auto triple : toTriples(dict.items)) {
    const Operand isHere = combine(BinaryKind::bit_and, condition, combine(BinaryKind::bit_and, triple[2], isSame(triple[0], key)));
    triple[1] = choose(isHere, value, triple[1]);
    isFound = combine(BinaryKind::bit_or, isFound, isHere);
  }
  const Operand isNew = combine(BinaryKind::bit_and, condition, operators().logicalNot(isFound));
  if (isNever(isNew)) return;
  if (dict.items.size() >= 3 * kMostEntries)
    fail(error::kSyntax, "a dict or set" + kAtRunTime + " has at most " + llvm::Twine(kMostEntries) +
                             " entries, because each is compared with all others: use arrays, and qd.algorithms.sort");
  dict.items.insert(dict.items.end(), {key, value, isNew});
}

/// The value of the entry with a key, and whether there is one. `otherwise`: the value if there is none; not given: any.
std::pair<Operand, Operand> RuntimeDicts::find(const Operand &dict, const Operand &given, Operand otherwise) {
  const Operand key = keyOf(given);
  Operand isFound = makeKnown(false), found = std::move(otherwise);
  for (const auto &[entryKey, value, isPresent] : listEntries(dict)) {
    const Operand isHere = combine(BinaryKind::bit_and, isPresent, isSame(entryKey, key));
    if (!isNever(isHere)) found = found.isGiven() ? choose(isHere, value, found) : value;
    isFound = combine(BinaryKind::bit_or, isFound, isHere);
  }
  return {conversions.load(found), isFound};
}

Operand RuntimeDicts::subscript(const Operand &dict, const Operand &key) {
  const auto [value, isFound] = find(dict, key, {});
  if (!value.isGiven()) {
    nb::object known = conversions.toPython(key);
    fail(error::kIndex, "the dict has no key " + (known ? toText(nb::repr(known)).str() : "of type " + conversions.describe(key)));
  }
  if (!conversions.isConstant(isFound)) statements().require(conversions.emit(isFound), "the dict has no key", conversions.load(key));
  return value;
}

Operand RuntimeDicts::get(const Operand &dict, const Arguments &arguments) {
  const std::vector<Operand> given = calls().bind("get", arguments, "key default?");
  if (given[1].isNone()) fail(error::kType, "a key that is known at run time only may be missing: write get(key, default)");
  return find(dict, given[0], conversions.load(given[1])).first;
}

std::optional<Operand> RuntimeDicts::callMethod(const Operand &dict, llvm::StringRef name, const Arguments &arguments) {
  auto &dictionary = dict.get<Dictionary>();
  if (llvm::is_contained({"items", "keys", "values"}, name) && arguments.positional.empty()) return makeView(dict, "dict_" + name);
  const bool isUpdate = name == "update";
  auto concerns = [&](const Operand &value) { return isUpdate ? hasRuntimeKeys(value) : !conversions.toPython(value); };
  const bool hasKey = llvm::is_contained({"get", "pop", "setdefault", "__setitem__", "__delitem__"}, name);
  if (!dictionary.hasRuntimeKeys && !((hasKey || isUpdate) && !arguments.positional.empty() && concerns(arguments.positional[0])))
    return std::nullopt;
  if (name == "get") return get(dict, arguments);
  if (name == "copy") {
    Dictionary copy = dictionary;
    copy.ownerBlock = nullptr;
    return copy;
  }
  if (isUpdate) {
    for (const Operand &pairs : arguments.positional) putAll(dictionary, pairs);
    for (const auto &[key, value] : arguments.named) put(dictionary, makeObject(nb::str(key.c_str())), value, makeKnown(true));
    return makeObject(nb::none());
  }
  if (name == "setdefault" || name == "__setitem__") {
    const std::vector<Operand> given = calls().bind(name, arguments, "key value");
    const Operand value =
        name == "setdefault" ? find(dict, given[0], conversions.load(given[1])).first : collections().copyElement(given[1]);
    put(dictionary, given[0], value, makeKnown(true));
    return value;
  }
  fail(error::kSyntax, (name == "__delitem__" ? "'del'" : "'" + name + "'") + " is not supported for a dict" + kAtRunTime +
                           ": make another dict, or use arrays");
}

} // namespace qd::frontend
