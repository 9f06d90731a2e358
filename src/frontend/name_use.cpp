// name_use.cpp: which names of a function need a place
//
// A name that is assigned once, and is never the target of `+=`, of a component's or member's assignment, or an argument that a func may
// take by reference, stands for its value: no variable, no loads, no stores.
#include "frontend/builder.h"

namespace qd::frontend {

nb::object FunctionBuilder::resolveCallee(nb::handle at) {
  if (kindOf(at) == NodeKind::Name) {
    nb::object globals = getAttribute(function.object, names().__globals__), name = getAttribute(at, names().id);
    PyObject *found = PyDict_GetItem(globals.ptr(), name.ptr());
    if (!found) found = PyDict_GetItem(session.python.builtins.ptr(), name.ptr());
    return nb::borrow(found);
  }
  if (kindOf(at) != NodeKind::Attribute) return {};
  nb::object base = resolveCallee(getAttribute(at, names().value));
  // Attributes of instances may be computed; those of modules are plain.
  return base && session.python.isInstance(base, session.python.moduleClass) ? findAttribute(base, getAttribute(at, names().attr))
                                                                             : nb::object();
}

void FunctionBuilder::collectAssignments() {
  auto &known = session.nameUses[tree.ptr()];
  if (known) {
    uses = known;
    return;
  }
  uses = known = std::make_shared<NameUse>();
  session.kept.push_back(tree);
  auto addRoot = [&](nb::object at) {
    for (NodeKind kind = kindOf(at); kind == NodeKind::Attribute || kind == NodeKind::Subscript || kind == NodeKind::Starred;
         kind = kindOf(at))
      at = getAttribute(at, names().value);
    if (kindOf(at) == NodeKind::Name) (*uses)[getAttribute(at, names().id).ptr()] += 2;
  };
  auto takesReferences = [&](nb::handle callee) {
    nb::object found = resolveCallee(callee);
    if (!found || session.python.isInstance(found, session.python.func) || session.python.isInstance(found, session.python.functionClass))
      return true;
    nb::object builtin = findAttribute(found, names()._qd_builtin);
    return builtin && PyUnicode_Check(builtin.ptr()) && toText(builtin).starts_with("atomic");
  };
  std::vector<nb::object> pending{tree};
  while (!pending.empty()) {
    nb::object at = std::move(pending.back());
    pending.pop_back();
    if (PyList_Check(at.ptr())) {
      for (nb::handle item : at) pending.push_back(nb::borrow(item));
      continue;
    }
    NodeKind kind = kindOf(at);
    if (kind == NodeKind::Constant) continue;
    nb::object dict = findAttribute(at, nb::str("__dict__"));
    if (!dict || !PyDict_Check(dict.ptr())) continue;
    if (kind == NodeKind::Name) {
      if (toText(getAttribute(nb::handle(reinterpret_cast<PyObject *>(Py_TYPE(getAttribute(at, names().ctx).ptr()))), names().__name__)) ==
          "Store")
        (*uses)[getAttribute(at, names().id).ptr()] += 1;
      continue;
    }
    if (kind == NodeKind::Return) (*uses)[tree.ptr()] += 1;
    if (kind == NodeKind::AugAssign) {
      addRoot(getAttribute(at, names().target));
    } else if (kind == NodeKind::Assign) {
      for (nb::handle target : getAttribute(at, names().targets))
        if (kindOf(target) == NodeKind::Attribute || kindOf(target) == NodeKind::Subscript) addRoot(nb::borrow(target));
    } else if (kind == NodeKind::Tuple || kind == NodeKind::List) {
      // Targets inside an unpacking assignment; in expressions this only costs a variable.
      for (nb::handle element : getAttribute(at, names().elts))
        if (kindOf(element) == NodeKind::Attribute || kindOf(element) == NodeKind::Subscript) addRoot(nb::borrow(element));
    } else if (kind == NodeKind::Call) {
      nb::object callee = getAttribute(at, names().func);
      if (takesReferences(callee)) {
        addRoot(callee);
        for (nb::handle argument : getAttribute(at, names().args)) addRoot(nb::borrow(argument));
        for (nb::handle keyword : getAttribute(at, names().keywords)) addRoot(getAttribute(keyword, names().value));
      }
    }
    for (auto [key, value] : nb::borrow<nb::dict>(dict))
      if (PyList_Check(value.ptr()) || kindOf(value) != NodeKind::Unknown || toText(key) == "args") pending.push_back(nb::borrow(value));
  }
}

} // namespace qd::frontend
