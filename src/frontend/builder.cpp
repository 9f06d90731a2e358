// builder.cpp: scopes, source locations, and the kernel itself
//
// In:   the source of a kernel and a Session.
// Out:  one qd.kernel with all its statements; funcs that it calls are emitted by builders of their own (functions.cpp).
// Here: state and helpers that all methods of FunctionBuilder use; the methods are in files by subject.
#include "frontend/builder.h"

using namespace mlir;

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

Binding &Scopes::bind(PyObject *name, Binding binding) {
  poisoned.erase(name);
  binding.scope = depth();
  std::vector<Binding> &stack = bindings[name];
  if (!stack.empty() && stack.back().scope == depth()) return stack.back() = std::move(binding);
  opened.back().push_back(name);
  return stack.emplace_back(std::move(binding));
}

PyObject *Scopes::findName(mlir::Value place) const {
  std::function<bool(const Value &)> holds = [&](const Value &value) {
    return value.ir == place || (value.aggregate && llvm::any_of(value.aggregate->items, holds));
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

std::vector<std::pair<PyObject *, Value>> Scopes::listLoopVariables() const {
  std::vector<std::pair<PyObject *, Value>> variables;
  for (const std::vector<PyObject *> &scope : opened)
    for (PyObject *name : scope)
      if (const Binding &binding = bindings.find(name)->second.back(); binding.kind == Binding::Kind::LoopVariable)
        variables.emplace_back(name, binding.value);
  return variables;
}

FunctionBuilder::FunctionBuilder(Session &session, nb::object source, Value function, FunctionBuilder *caller)
    : session(session), caller(caller), source(source), function(std::move(function)), builder(&session.ctx) {
  const auto &names = session.python.names;
  tree = getAttribute(source, names.tree);
  file = toText(getAttribute(source, names.file)).str();
  functionName = toText(getAttribute(tree, names.name)).str();
  node = tree;
  collectAssignments();
  session.current = this; // last, because no destructor resets it if the constructor throws
}

FunctionBuilder::~FunctionBuilder() { session.current = caller; }

artifact::SourceLocation FunctionBuilder::locationOf(nb::handle at) const {
  artifact::SourceLocation place;
  place.file = file;
  place.function = functionName;
  if (!at || !nb::hasattr(at, names().lineno)) return place;
  place.line = uint32_t(readInteger(at, names().lineno));
  place.column = uint32_t(readInteger(at, names().col_offset));
  place.endLine = uint32_t(readInteger(at, names().end_lineno));
  place.endColumn = uint32_t(readInteger(at, names().end_col_offset));
  return place;
}

void FunctionBuilder::appendFrames(std::vector<artifact::SourceLocation> &frames) const {
  if (caller) caller->appendFrames(frames);
  frames.push_back(locationOf(node));
}

Location FunctionBuilder::loc() {
  if (cachedLoc) return cachedLoc;
  artifact::SourceLocation place = locationOf(node);
  Location range = FileLineColRange::get(StringAttr::get(&session.ctx, file), place.line, place.column, place.endLine, place.endColumn);
  Location named = NameLoc::get(StringAttr::get(&session.ctx, functionName), range);
  cachedLoc = isInlined ? Location(CallSiteLoc::get(named, caller->loc())) : named;
  return Location(cachedLoc);
}

void FunctionBuilder::buildKernel() {
  const auto &names = session.python.names;
  resultTypes = session.request.results ? nb::borrow(session.request.results) : nb::none();
  OpBuilder atModule = OpBuilder::atBlockEnd(session.module->getBody());
  std::vector<Type> results = listResultTypes();
  auto typeAttributes = llvm::map_to_vector(results, [](Type type) -> Attribute { return TypeAttr::get(type); });
  ++session.symbolCounts[functionName]; // a func may have the kernel's name
  ir::KernelOp kernel =
      ir::KernelOp::create(atModule, loc(), llvm::StringRef(functionName), uint32_t(0), uint32_t(0), atModule.getArrayAttr(typeAttributes));
  kernel.getBody().emplaceBlock();
  body = std::make_shared<Body>();
  body->entry = &kernel.getBody().front();
  builder.setInsertionPointToStart(body->entry);
  isKernelLevel = true;
  scopes.push();
  bindKernelParameters();
  scopes.push();
  visitBody(getAttribute(tree, names.body));
  session.throwMistakes();
  if (!resultTypes.is_none() && !terminated) {
    node = tree;
    cachedLoc = {};
    fail(error::kSyntax,
         "Kernel has a return type but does not have a return statement" + llvm::Twine(returns.empty() ? "" : " on every path"));
  }
  scopes.pop();
  scopes.pop();
  kernel.setArgumentBytes(session.artifact.argumentBytes);
  // A container that is reached by two paths may overlap other inputs.
  for (auto [op, input] : session.tensorArguments)
    if (session.tracker.getInput(input).mayAlias) op.setField(false);
}

} // namespace qd::frontend
