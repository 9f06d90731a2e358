// assignment_counts.cpp: what the text of a function tells before it is compiled: which names need a place, whether its loops are tasks
//
// A name that is assigned once, and is never the target of `+=`, of a component's or member's assignment, or an argument that a func may
// take by reference, stands for its value: no variable, no loads, no stores.
#include "frontend/builder.h"

namespace qd::frontend {

/// What `ask` returns, or nothing where Python code of the user raised: the text is looked through before the compiler gets to its
/// statements, and the statement that asks the same object tells of the exception at its own line.
template <typename Ask> static auto lookAhead(const Ask &ask) -> decltype(ask()) {
  try {
    return ask();
  } catch (const nb::python_error &problem) {
    if (!problem.matches(PyExc_Exception)) throw; // Ctrl-C
    return {};
  }
}

nb::object FunctionBuilder::resolveCallee(nb::handle at) {
  if (kindOf(at) == NodeKind::Name) {
    nb::object globals = getAttribute(function.object, names().__globals__), name = getAttribute(at, names().id);
    PyObject *found = PyDict_GetItem(globals.ptr(), name.ptr());
    if (!found) found = PyDict_GetItem(session.python.builtins.ptr(), name.ptr());
    nb::object captured = getAttribute(getAttribute(function.object, names().__code__), names().co_freevars);
    Py_ssize_t cell = found ? -1 : PySequence_Index(captured.ptr(), name.ptr());
    if (cell >= 0) return nb::steal(PyCell_Get(nb::object(getAttribute(function.object, names().__closure__)[cell]).ptr()));
    PyErr_Clear();
    return nb::borrow(found);
  }
  if (kindOf(at) != NodeKind::Attribute) return {};
  nb::object base = resolveCallee(getAttribute(at, names().value));
  // Attributes of instances may be computed; those of modules are plain.
  if (!base || !session.python.isInstance(base, session.python.moduleClass)) return {};
  return lookAhead([&] { return findAttribute(base, getAttribute(at, names().attr)); });
}

std::string FunctionBuilder::builtinName(nb::handle object) {
  nb::object name = object ? lookAhead([&] { return findAttribute(object, names()._qd_builtin); }) : nb::object();
  return name && PyUnicode_Check(name.ptr()) ? toText(name).str() : "";
}

bool FunctionBuilder::isStaticCall(nb::handle at) {
  return kindOf(at) == NodeKind::Call && builtinName(resolveCallee(getAttribute(at, names().func))) == "static";
}

bool FunctionBuilder::mayContainTasks(nb::handle statements) {
  for (nb::handle statement : statements) {
    NodeKind kind = kindOf(statement);
    if (kind == NodeKind::For) {
      // An unrolled loop is no task; its body may hold some.
      if (!isStaticCall(getAttribute(statement, names().iter)) || mayContainTasks(getAttribute(statement, names().body))) return true;
    } else if (kind == NodeKind::While) {
      nb::object test = getAttribute(statement, names().test);
      if (kindOf(test) == NodeKind::Call && builtinName(resolveCallee(getAttribute(test, names().func))) == "graph_do_while") return true;
    } else if (kind == NodeKind::If && isStaticCall(getAttribute(statement, names().test))) {
      if (mayContainTasks(getAttribute(statement, names().body)) || mayContainTasks(getAttribute(statement, names().orelse))) return true;
    } else if (kind == NodeKind::Expr || kind == NodeKind::Assign) {
      nb::object value = getAttribute(statement, names().value);
      if (kindOf(value) != NodeKind::Call) continue;
      nb::object callee = getAttribute(value, names().func), found = resolveCallee(callee);
      if (found ? session.python.isInstance(found, session.python.func) : kind == NodeKind::Expr && kindOf(callee) == NodeKind::Attribute)
        return true;
    }
  }
  return false;
}

/// A compile-time `if` is told by its call: of qd.static, or of what Python asks about types.
bool FunctionBuilder::isCompileTimeTest(nb::handle test) {
  if (isStaticCall(test)) return true;
  if (kindOf(test) != NodeKind::Call) return false;
  nb::object callee = getAttribute(test, names().func);
  if (kindOf(callee) != NodeKind::Name) return false;
  nb::object name = getAttribute(callee, names().id);
  return llvm::is_contained({"isinstance", "issubclass", "hasattr", "callable"}, toText(name));
}

bool FunctionBuilder::returnsEarly(nb::handle statements, bool isNested) {
  for (nb::handle statement : statements) {
    NodeKind kind = kindOf(statement);
    if (kind == NodeKind::Return && isNested) return true;
    if (kind != NodeKind::If && kind != NodeKind::For && kind != NodeKind::While) continue;
    bool isInner = isNested || kind != NodeKind::If || !isCompileTimeTest(getAttribute(statement, names().test));
    if (returnsEarly(getAttribute(statement, names().body), isInner) || returnsEarly(getAttribute(statement, names().orelse), isInner))
      return true;
  }
  return false;
}

bool FunctionBuilder::returnsAtEnd() { return !returnsEarly(getAttribute(tree, names().body), false); }

bool FunctionBuilder::containsTasks() {
  nb::object statements = getAttribute(tree, names().body);
  return mayContainTasks(statements) && !returnsEarly(statements, false);
}

bool FunctionBuilder::isAssignedIn(nb::handle body, nb::handle name) {
  auto isName = [&](nb::handle at) { return kindOf(at) == NodeKind::Name && getAttribute(at, names().id).equal(name); };
  // `name[i].x` is a part of `name`.
  auto isPart = [&](nb::object at) {
    while (kindOf(at) == NodeKind::Attribute || kindOf(at) == NodeKind::Subscript) at = getAttribute(at, names().value);
    return isName(at);
  };
  auto isHandedOn = [&](nb::handle call) {
    nb::object callee = resolveCallee(getAttribute(call, names().func));
    if (!callee) return false;
    size_t position = 0;
    for (nb::handle argument : getAttribute(call, names().args)) {
      if (isPart(nb::borrow(argument)) && mayTakeReference(makeObject(callee), position, nb::none())) return true;
      ++position;
    }
    for (nb::handle keyword : getAttribute(call, names().keywords))
      if (isPart(getAttribute(keyword, names().value)) && mayTakeReference(makeObject(callee), 0, getAttribute(keyword, names().arg)))
        return true;
    return false;
  };
  nb::object walk = nb::module_::import_("ast").attr("walk");
  for (nb::handle statement : body)
    for (nb::handle part : walk(statement)) {
      NodeKind kind = kindOf(part);
      bool isTarget = (kind == NodeKind::Name || kind == NodeKind::Attribute || kind == NodeKind::Subscript) && isPart(nb::borrow(part)) &&
                      kindOf(getAttribute(part, names().ctx)) == NodeKind::Store;
      if (isTarget || (kind == NodeKind::Call && isHandedOn(part))) return true;
    }
  return false;
}

void FunctionBuilder::collectAssignments() {
  auto &known = session.assignmentCounts[tree.ptr()];
  if (known) {
    assignmentCounts = known;
    return;
  }
  assignmentCounts = known = std::make_shared<AssignmentCounts>();
  session.keptAlive.push_back(tree);
  auto addRoot = [&](nb::object at, bool isAssigned = false) {
    bool isItem = false;
    for (NodeKind kind = kindOf(at); kind == NodeKind::Attribute || kind == NodeKind::Subscript || kind == NodeKind::Starred;
         kind = kindOf(at)) {
      isItem |= kind == NodeKind::Subscript;
      at = getAttribute(at, names().value);
    }
    if (kindOf(at) != NodeKind::Name) return;
    Assignments &use = (*assignmentCounts)[getAttribute(at, names().id).ptr()];
    use.count += 2;
    use.hasItemAssigned |= isItem && isAssigned;
    use.hasItemPassed |= isItem && !isAssigned;
  };
  auto takesReferences = [&](nb::handle callee) {
    nb::object found = resolveCallee(callee);
    if (!found) return true;
    if (std::string builtin = builtinName(found); !builtin.empty()) return llvm::StringRef(builtin).starts_with("atomic");
    return !PyType_Check(found.ptr()) && !PyCFunction_Check(found.ptr()) && !session.python.isInstance(found, session.python.structType);
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
    nb::object fields = findAttribute(at, nb::str("_fields"));
    if (!fields || !PyTuple_Check(fields.ptr())) continue;
    if (kind == NodeKind::Name) {
      if (kindOf(getAttribute(at, names().ctx)) == NodeKind::Store) ++(*assignmentCounts)[getAttribute(at, names().id).ptr()].count;
      continue;
    }
    if (kind == NodeKind::FunctionDef && !at.is(tree)) {
      // A function inside may read its captures at any time: each has a place.
      for (nb::handle name : session.python.freeNames(at)) (*assignmentCounts)[name.ptr()].count += 2;
      continue;
    }
    if (kind == NodeKind::Return) ++(*assignmentCounts)[tree.ptr()].count;
    if (kind == NodeKind::AugAssign) addRoot(getAttribute(at, names().target), true);
    if (kind == NodeKind::Attribute || kind == NodeKind::Subscript) {
      if (kindOf(getAttribute(at, names().ctx)) == NodeKind::Store) addRoot(at, true);
    } else if (kind == NodeKind::Call) {
      nb::object callee = getAttribute(at, names().func);
      if (takesReferences(callee)) {
        addRoot(callee);
        bool isAtomic = llvm::StringRef(builtinName(resolveCallee(callee))).starts_with("atomic");
        for (nb::handle argument : getAttribute(at, names().args)) addRoot(nb::borrow(argument), isAtomic);
        for (nb::handle keyword : getAttribute(at, names().keywords)) addRoot(getAttribute(keyword, names().value));
      }
    }
    // Fields only: debuggers and notebooks hang attributes of their own on nodes, some of which Python shares between all trees.
    for (nb::handle name : fields) {
      nb::object value = findAttribute(at, name);
      if (value && (PyList_Check(value.ptr()) || kindOf(value) != NodeKind::Unknown || name.is(names().args))) pending.push_back(value);
    }
  }
}

} // namespace qd::frontend
