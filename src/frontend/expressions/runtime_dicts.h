// runtime_dicts.h: dicts and sets with keys that are known at run time only
#pragma once

#include "frontend/function_part.h"

namespace qd::frontend {

/// An item of a collection, and a condition.
struct OptionalItem {
  Operand value;
  Operand isPresent; ///< u1, or a known bool
};

class RuntimeDicts : FunctionPart {
public:
  using FunctionPart::FunctionPart;

  bool isAlways(const Operand &condition) { return conversions.isConstant(condition) && conversions.isTrue(condition); }
  bool isNever(const Operand &condition) { return conversions.isConstant(condition) && !conversions.isTrue(condition); }
  /// The conjunction or disjunction of two conditions.
  Operand combine(BinaryKind kind, const Operand &one, const Operand &other);
  /// The items of a collection of any kind. Those of a dict or set with run-time keys may be absent; its first item is present.
  std::vector<OptionalItem> listItems(const Operand &collection, llvm::StringRef purpose);
  /// The same, with another value in place of absent items: `neutral`, or the first item if it is not given.
  std::vector<Operand> listItemsOr(const Operand &neutral, const Operand &collection, llvm::StringRef purpose);
  Operand count(const Operand &collection);
  Operand makeList(const std::vector<OptionalItem> &items);
  Operand makeSet(const Operand &items);
  Operand makeView(const Operand &dict, const llvm::Twine &name);
  /// The value of an expression that is evaluated under a condition; otherwise any value of its type.
  Operand visitIf(const Operand &condition, nb::handle node);

  /// Whether an operand has keys that are known at run time only: a dict, its keys, or a set.
  static bool hasRuntimeKeys(const Operand &value);
  /// Fails for a dict with run-time keys.
  void requireKnownKeys(const Operand &dict, const llvm::Twine &purpose);
  /// Whether it is known at run time only which entry has the key.
  bool isChosen(const Operand &dict, const Operand &key);
  Operand isSame(const Operand &key, const Operand &other);
  /// Adds the pairs of a dict or struct.
  void putAll(Dictionary &dict, const Operand &pairs);
  void put(Dictionary &dict, const Operand &key, const Operand &value, const Operand &condition);
  Operand subscript(const Operand &dict, const Operand &key); ///< fails the launch if there is none
  Operand get(const Operand &dict, const Arguments &arguments);
  /// Calls a method of a dict if it concerns run-time keys.
  std::optional<Operand> callMethod(const Operand &dict, llvm::StringRef name, const Arguments &arguments);

private:
  struct Entry {
    Operand key, value, isPresent;
  };
  std::vector<Entry> listEntries(const Operand &dict);
  std::pair<Operand, Operand> find(const Operand &dict, const Operand &key, Operand otherwise);
  Operand choose(const Operand &condition, const Operand &first, const Operand &second);
  void requireChoosable(const Operand &value);
  Operand keyOf(const Operand &value);
  mlir::Value literalKey(const nb::object &known, mlir::Type type);
};

} // namespace qd::frontend
