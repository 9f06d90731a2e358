// scopes.cpp: the names of one function and their bindings
//
// In:   names with their meanings, in the order in which scopes open and close.
// Out:  the innermost binding of a name.
#include "frontend/scopes.h"

namespace qd::frontend {

std::vector<std::pair<PyObject *, Binding>> Scopes::pop() {
  std::vector<std::pair<PyObject *, Binding>> closed;
  for (PyObject *name : opened.back()) {
    std::vector<Binding> &stack = bindings[name];
    closed.emplace_back(name, std::move(stack.back()));
    stack.pop_back();
  }
  opened.pop_back();
  return closed;
}

Binding *Scopes::find(PyObject *name) {
  auto found = bindings.find(name);
  return found == bindings.end() || found->second.empty() ? nullptr : &found->second.back();
}

Binding &Scopes::bind(PyObject *name, Binding binding, unsigned scope) {
  poisoned.erase(name);
  binding.scope = scope;
  std::vector<Binding> &stack = bindings[name];
  if (!stack.empty() && stack.back().scope == scope) return stack.back() = std::move(binding);
  opened[scope - 1].push_back(name);
  return stack.emplace_back(std::move(binding));
}

PyObject *Scopes::findName(mlir::Value place) const {
  std::function<bool(const Operand &)> holds = [&](const Operand &value) {
    if (auto *variable = value.find<Place>()) return variable->ref == place;
    auto *aggregate = value.findBase<Aggregate>();
    return aggregate && llvm::any_of(aggregate->items, holds);
  };
  for (const auto &[name, stack] : bindings)
    if (llvm::any_of(stack, [&](const Binding &binding) { return holds(binding.value); })) return name;
  return nullptr;
}

std::vector<std::string> Scopes::listNames() const {
  std::vector<std::string> names;
  for (const auto &[name, stack] : bindings)
    if (!stack.empty()) names.push_back(toText(name).str());
  return names;
}

std::vector<std::pair<PyObject *, Operand>> Scopes::listLoopVariables() const {
  std::vector<std::pair<PyObject *, Operand>> variables;
  for (const std::vector<PyObject *> &scope : opened)
    for (PyObject *name : scope)
      if (const Binding &binding = bindings.find(name)->second.back(); binding.kind == Binding::Kind::LoopVariable)
        variables.emplace_back(name, binding.value);
  return variables;
}

} // namespace qd::frontend
