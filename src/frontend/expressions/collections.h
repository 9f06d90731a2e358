// collections.h: lists, tuples, dicts and comprehensions of the compiled program
#pragma once

#include "frontend/function_part.h"

namespace qd::frontend {

class Collections : FunctionPart {
public:
  using FunctionPart::FunctionPart;

  std::vector<Operand> listItems(const Operand &value, llvm::StringRef purpose);
  Operand visitDisplay(nb::handle node, bool isTuple);
  Operand visitDictionary(nb::handle node);
  Operand makeDictionary(const Arguments &arguments); ///< a call of `dict`
  /// The values of a list of nodes; a starred node contributes its items.
  std::vector<Operand> visitAll(nb::handle nodes, llvm::function_ref<Operand(nb::handle)> visitOne);
  /// Keys and items of a dict or struct.
  std::vector<std::pair<nb::object, Operand>> listPairs(const Operand &value);
  /// Keys and items of a Python dict. The keys in their order are a dependency.
  std::vector<std::pair<nb::object, Operand>> listEntries(const PythonObject &dict);
  /// Records what the length of a collection of other than plain data depends on, or only whether it has items.
  void dependOnLength(const PythonObject &collection, bool isTruth);
  /// Fails for a wrapper of other than plain data, whose items have paths only by their keys.
  void requirePlainWrapper(const PythonObject &object);
  /// The path of an item of a dict. Items of plain data are no dependencies: the value of the whole dict is one.
  const PathNode *findKeyPath(const PythonObject &dict, nb::handle key);
  Operand *findKey(Dictionary &dictionary, nb::handle key);        ///< null if there is none
  Operand *findItem(const Operand &container, const Operand &key); ///< in a list or dict; null if there is none
  void assignItem(const Operand &container, const Operand &key, const Operand &value);
  /// Calls `change` for the item at an index that is known at run time, under a condition for each item of the list.
  void changeItem(const Operand &list, const Operand &index, const std::function<void(const Operand &)> &change);
  void assignSlice(const Operand &list, const Slice &slice, const Operand &value);
  /// Makes the current block the owner of a list or dict and of those in it. Their items of compiled code become variables if the function
  /// assigns them.
  void materialize(const Operand &container, const AssignmentCount &use);
  /// Fails for a method that changes a collection of Python which is captured, or which another block has named.
  void requireOwner(const PythonObject &collection, llvm::StringRef method);
  Operand copyElement(const Operand &value);
  Operand visitComprehension(nb::handle node);
  Operand callSequenceMethod(const Operand &receiver, llvm::StringRef name, Arguments &arguments);

private:
  [[noreturn]] void failOwner(llvm::StringRef method);
  Operand indexVector(nb::handle index); ///< the loop variable of an unrolled loop, from a tuple of numbers
  void emitComprehension(nb::handle generators, size_t level, const Operand &isPresent, const std::function<void(const Operand &)> &emit);
};

} // namespace qd::frontend
