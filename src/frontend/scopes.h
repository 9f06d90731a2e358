// scopes.h: the names of one function and their meanings
#pragma once

#include "frontend/operand.h"

#include "llvm/ADT/DenseMap.h"
#include "llvm/ADT/DenseSet.h"

namespace qd::frontend {

/// The meaning of a name in a scope.
struct Binding {
  enum class Kind : uint8_t {
    Variable,     ///< a place, or the value of a name that is assigned once
    Static,       ///< a compile-time object or container
    Parameter,    ///< parameter of a kernel; cannot be assigned
    LoopVariable, ///< cannot be assigned
    Merged,       ///< assigned in both branches of an earlier `if`; becomes a variable when it is used
    Partial       ///< assigned on some paths only; its use is an error
  };
  Kind kind = Kind::Variable;
  Operand value;
  unsigned scope = 0;
  unsigned runtimeDepth = 0; ///< Static: number of enclosing run-time blocks
  std::shared_ptr<struct Merge> merge;
  int64_t line = 0;         ///< Partial: line of the `if` with a branch that does not assign it, or of the loop that declares its own
  const char *missing = ""; ///< Partial: the branch that does not assign it, as text; null: `line` is that of a loop
};

/// A name that both branches of an `if` assign, with its value at the end of each.
struct Merge {
  ir::IfOp branches;
  Operand values[2];
  bool isTerminated[2] = {false, false};
};

/// The names of one function and their bindings.
class Scopes {
public:
  void push() { opened.emplace_back(); }
  /// Closes the innermost scope and returns its bindings in order.
  std::vector<std::pair<PyObject *, Binding>> pop();
  Binding *find(PyObject *name);
  Binding &bind(PyObject *name, Binding binding) { return bind(name, std::move(binding), depth()); }
  /// The same in an enclosing scope, in which and inside of which the name has no meaning.
  Binding &bind(PyObject *name, Binding binding, unsigned scope);
  /// The name of the variable in this place, or null.
  PyObject *findName(mlir::Value place) const;
  unsigned depth() const { return unsigned(opened.size()); }
  std::vector<std::string> listNames() const;
  /// Marks a name that an erroneous statement assigns. Until it is bound again, its use is not reported as a mistake.
  void poison(PyObject *name) { poisoned.insert(name); }
  bool isPoisoned(PyObject *name) const { return poisoned.contains(name); }
  /// The variables of the enclosing loops, outermost first.
  std::vector<std::pair<PyObject *, Operand>> listLoopVariables() const;

private:
  llvm::DenseSet<PyObject *> poisoned;
  llvm::DenseMap<PyObject *, std::vector<Binding>> bindings;
  std::vector<std::vector<PyObject *>> opened;
};

} // namespace qd::frontend
