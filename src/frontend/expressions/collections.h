// collections.h: lists, tuples, dicts and comprehensions of the compiled program
#pragma once

#include "frontend/function_part.h"

namespace qd::frontend {

class Collections : FunctionPart {
public:
  using FunctionPart::FunctionPart;

  std::vector<Value> listItems(const Value &value, llvm::StringRef purpose);
  Value visitDisplay(nb::handle node, bool isTuple);
  Value makeSet(const Value &items); ///< requires known items
  Value visitDictionary(nb::handle node);
  /// The values of a list of nodes; a starred node contributes its items.
  std::vector<Value> visitAll(nb::handle nodes, llvm::function_ref<Value(nb::handle)> visitOne);
  /// Keys and items of a dict or struct.
  std::vector<std::pair<nb::object, Value>> listPairs(const Value &value);
  nb::object knownKey(const Value &value);
  Value *findKey(const Value &dictionary, nb::handle key);   ///< null if there is none
  Value *findItem(const Value &container, const Value &key); ///< in a list or dict; null if there is none
  void assignItem(const Value &container, const Value &key, const Value &value);
  /// Makes the current block the owner of a list or dict. Items of compiled code become variables if the function assigns items.
  void materialize(const Value &container, const AssignmentCount &use);
  Value copyElement(const Value &value);
  Value visitComprehension(nb::handle node);
  Value callSequenceMethod(const Value &receiver, llvm::StringRef name, Arguments &arguments);

private:
  Value indexVector(nb::handle index); ///< the loop variable of an unrolled loop, from a tuple of numbers
  void put(const Value &dictionary, nb::object key, Value value);
  void emitComprehension(nb::handle generators, size_t level, const std::function<void()> &emit);
};

} // namespace qd::frontend
