// function_syntax.cpp: analysis of a function's syntax tree before it is compiled: which names need a place, whether its loops are tasks
//
// In:   the syntax tree of a function, and the globals that its calls name.
// Out:  how often each name is assigned, and answers to `containsTasks`, `returnsAtEnd` and `isAssignedIn`.
// Here: a name needs no place, loads or stores if it is assigned once and is never the target of `+=` or of a component's or member's
//       assignment, nor an argument that a func may take by reference.
#include "frontend/builder.h"

namespace qd::frontend {

/// The result of `query`, or an empty one if Python code of the user raised. The analysis precedes the compilation of the statements; the
/// statement that reads the same object reports the exception at its own line.
template <typename Query> static auto tryQuery(const Query &query) -> decltype(query()) {
  try {
    return query();
  } catch (const nb::python_error &problem) {
    if (!problem.matches(PyExc_Exception)) throw; // Ctrl-C
    return {};
  }
}

nb::object FunctionSyntax::resolveCallee(nb::handle at) {
  if (kindOf(at) == NodeKind::Name) {
    nb::object globals = getAttribute(context.source.function.object, names().__globals__), name = getAttribute(at, names().id);
    PyObject *found = PyDict_GetItem(globals.ptr(), name.ptr());
    if (!found) found = PyDict_GetItem(session.python.host.builtins.ptr(), name.ptr());
    nb::object captured = getAttribute(getAttribute(context.source.function.object, names().__code__), names().co_freevars);
    Py_ssize_t cell = found ? -1 : PySequence_Index(captured.ptr(), name.ptr());
    if (cell >= 0) return nb::steal(PyCell_Get(nb::object(getAttribute(context.source.function.object, names().__closure__)[cell]).ptr()));
    PyErr_Clear();
    return nb::borrow(found);
  }
  if (kindOf(at) != NodeKind::Attribute) return {};
  nb::object base = resolveCallee(getAttribute(at, names().value));
  // Reading an attribute of an instance may run user code; reading one of a module does not.
  if (!base || !session.python.isInstance(base, session.python.host.module)) return {};
  return tryQuery([&] { return findAttribute(base, getAttribute(at, names().attr)); });
}

std::string FunctionSyntax::builtinName(nb::handle object) {
  nb::object name = object ? tryQuery([&] { return findAttribute(object, names()._qd_builtin); }) : nb::object();
  return name && PyUnicode_Check(name.ptr()) ? toText(name).str() : "";
}

bool FunctionSyntax::isStaticCall(nb::handle at) {
  return kindOf(at) == NodeKind::Call && builtinName(resolveCallee(getAttribute(at, names().func))) == "static";
}

bool FunctionSyntax::mayContainTasks(nb::handle statements) {
  for (nb::handle statement : statements) {
    NodeKind kind = kindOf(statement);
    if (kind == NodeKind::For) {
      // An unrolled loop is no task, but its body may contain tasks.
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
      if (found ? session.python.isInstance(found, session.python.functions.func)
                : kind == NodeKind::Expr && kindOf(callee) == NodeKind::Attribute)
        return true;
    }
  }
  return false;
}

/// Whether the test is a call of qd.static or of one of Python's type queries.
bool FunctionSyntax::isCompileTimeTest(nb::handle test) {
  if (isStaticCall(test)) return true;
  if (kindOf(test) != NodeKind::Call) return false;
  nb::object callee = getAttribute(test, names().func);
  if (kindOf(callee) != NodeKind::Name) return false;
  nb::object name = getAttribute(callee, names().id);
  return llvm::is_contained({"isinstance", "issubclass", "hasattr", "callable"}, toText(name));
}

bool FunctionSyntax::returnsEarly(nb::handle statements, bool isNested) {
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

bool FunctionSyntax::returnsAtEnd() { return !returnsEarly(getAttribute(context.source.tree, names().body), false); }

bool FunctionSyntax::isKept(nb::handle name) {
  std::function<bool(nb::handle)> isOrHolds = [&](nb::handle value) {
    NodeKind kind = kindOf(value);
    if (kind == NodeKind::Name) return getAttribute(value, names().id).equal(name);
    if (kind != NodeKind::Tuple && kind != NodeKind::List) return false;
    nb::object items = getAttribute(value, names().elts);
    return std::any_of(items.begin(), items.end(), isOrHolds);
  };
  nb::object parts = nb::module_::import_("ast").attr("walk")(context.source.tree);
  return std::any_of(parts.begin(), nb::iterator::sentinel(), [&](nb::handle part) {
    NodeKind kind = kindOf(part);
    return (kind == NodeKind::Return || kind == NodeKind::Assign) && isOrHolds(getAttribute(part, names().value));
  });
}

bool FunctionSyntax::containsTasks() {
  nb::object statements = getAttribute(context.source.tree, names().body);
  return mayContainTasks(statements) && !returnsEarly(statements, false);
}

bool FunctionSyntax::isAssignedIn(nb::handle body, nb::handle name) {
  auto isName = [&](nb::handle at) { return kindOf(at) == NodeKind::Name && getAttribute(at, names().id).equal(name); };
  // `name`, or a part of it such as `name[i].x`.
  auto isPart = [&](nb::object at) {
    while (kindOf(at) == NodeKind::Attribute || kindOf(at) == NodeKind::Subscript) at = getAttribute(at, names().value);
    return isName(at);
  };
  auto isPassed = [&](nb::handle call) {
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
      if (isTarget || (kind == NodeKind::Call && isPassed(part))) return true;
    }
  return false;
}

void FunctionSyntax::collectAssignments() {
  auto &known = session.functions.assignmentCounts[context.source.tree.ptr()];
  if (known) {
    context.assignmentCounts = known;
    return;
  }
  context.assignmentCounts = known = std::make_shared<AssignmentCounts>();
  session.functions.keptAlive.push_back(context.source.tree);
  auto addRoot = [&](nb::object at, bool isAssigned = false) {
    unsigned subscripts = 0;
    for (NodeKind kind = kindOf(at); kind == NodeKind::Attribute || kind == NodeKind::Subscript || kind == NodeKind::Starred;
         kind = kindOf(at)) {
      subscripts += kind == NodeKind::Subscript;
      at = getAttribute(at, names().value);
    }
    if (kindOf(at) != NodeKind::Name) return;
    AssignmentCount &use = (*context.assignmentCounts)[getAttribute(at, names().id).ptr()];
    use.count += 2;
    use.hasItemAssigned |= subscripts > 0 && isAssigned;
    use.hasPartAssigned |= subscripts > 1 && isAssigned;
    use.hasItemPassed |= subscripts > 0 && !isAssigned;
  };
  auto takesReferences = [&](nb::handle callee) {
    nb::object found = resolveCallee(callee);
    if (!found) return true;
    if (std::string builtin = builtinName(found); !builtin.empty()) return llvm::StringRef(builtin).starts_with("atomic");
    return !PyType_Check(found.ptr()) && !PyCFunction_Check(found.ptr()) &&
           !session.python.isInstance(found, session.python.values.structType);
  };
  std::vector<nb::object> pending{context.source.tree};
  while (!pending.empty()) {
    nb::object at = std::move(pending.back());
    pending.pop_back();
    if (PyList_Check(at.ptr())) {
      for (nb::handle item : at) pending.push_back(nb::borrow(item));
      continue;
    }
    NodeKind kind = kindOf(at);
    if (kind == NodeKind::Constant) continue;
    nb::object fields = findAttribute(at, names()._fields);
    if (!fields || !PyTuple_Check(fields.ptr())) continue;
    if (kind == NodeKind::Name) {
      if (kindOf(getAttribute(at, names().ctx)) == NodeKind::Store) ++(*context.assignmentCounts)[getAttribute(at, names().id).ptr()].count;
      continue;
    }
    if (kind == NodeKind::FunctionDef && !at.is(context.source.tree)) {
      // A nested function may read its captured variables at any time, so each needs a place.
      for (nb::handle name : session.python.functions.freeNames(at)) (*context.assignmentCounts)[name.ptr()].count += 2;
      continue;
    }
    if (kind == NodeKind::Return) ++(*context.assignmentCounts)[context.source.tree.ptr()].count;
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
    // Only `_fields`: debuggers and notebooks add attributes to nodes, and Python shares some nodes between all trees.
    for (nb::handle name : fields) {
      nb::object value = findAttribute(at, name);
      if (value && (PyList_Check(value.ptr()) || kindOf(value) != NodeKind::Unknown || name.is(names().args))) pending.push_back(value);
    }
  }
}

bool FunctionSyntax::mayTakeReference(const Operand &callee, size_t position, nb::handle name) {
  const PythonObjects &python = session.python;
  auto *method = callee.find<Method>();
  nb::object func = method ? method->callee : callee.getObject();
  bool hasSelf = method;
  if (func && python.isInstance(func, python.functions.boundFunc)) {
    func = getAttribute(func, names().func);
    hasSelf = true;
  }
  if (!func || !python.isInstance(func, python.functions.func)) {
    if (std::string builtin = builtinName(func); !builtin.empty())
      return position == 0 && (llvm::StringRef(builtin).starts_with("atomic_") || builtin == "volatile_load");
    return !callee.isObject() ||
           (!PyType_Check(func.ptr()) && !PyCFunction_Check(func.ptr()) && !python.isInstance(func, python.values.structType));
  }
  hasSelf = hasSelf && !python.isInstance(func, python.functions.localFunc);
  nb::object parameters = getAttribute(func, names().parameters);
  for (size_t index = 0; index < nb::len(parameters); ++index) {
    nb::object parameter = parameters[index];
    const bool isRest = nb::cast<int>(getAttribute(parameter, names().stars)) == (name.is_none() ? 1 : 2);
    if (!isRest && (name.is_none() ? index != position + hasSelf : !getAttribute(parameter, names().name).equal(name))) continue;
    std::string kind = readText(parameter, names().kind);
    return kind == "template" || kind == "ref";
  }
  return true;
}

} // namespace qd::frontend
