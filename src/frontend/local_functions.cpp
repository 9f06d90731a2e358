// local_functions.cpp: `def` and `lambda` inside a kernel or func
//
// A local function is part of each statement that calls it: its body is emitted there, in a scope of its own. It sees the variables around
// it and cannot assign them; its parameters are copies.
#include "frontend/builder.h"

using namespace mlir;

namespace qd::frontend {

using Kind = Value::Kind;

Value FunctionBuilder::makeLocalFunction(nb::handle at) {
  nb::object arguments = getAttribute(at, names().args);
  for (const char *kind : {"posonlyargs", "kwonlyargs", "defaults"})
    if (nb::len(nb::object(arguments.attr(kind))) != 0)
      fail(error::kSyntax, "a local function takes plain parameters only");
  if (!nb::object(arguments.attr("vararg")).is_none() || !nb::object(arguments.attr("kwarg")).is_none())
    fail(error::kSyntax, "a local function takes plain parameters only");
  Value value = makeAggregate(Kind::Method, {});
  value.object = nb::borrow(at);
  return value;
}

Value FunctionBuilder::callLocal(nb::handle at, Arguments &arguments) {
  bool isLambda = kindOf(at) == NodeKind::Lambda;
  std::string name = isLambda ? "lambda" : toText(getAttribute(at, names().name)).str();
  std::vector<nb::object> parameters;
  for (nb::handle parameter : getAttribute(getAttribute(at, names().args), names().args))
    parameters.push_back(getAttribute(parameter, names().arg));
  std::vector<std::optional<Value>> bound(parameters.size());
  for (size_t index = 0; index < arguments.positional.size(); ++index) {
    if (index >= bound.size())
      fail(error::kSyntax, "Too many arguments. '" + name + "' takes " + std::to_string(bound.size()));
    bound[index] = arguments.positional[index];
  }
  for (const auto &[key, value] : arguments.named) {
    auto found = llvm::find_if(parameters, [&](const nb::object &parameter) { return toText(parameter) == key; });
    if (found == parameters.end())
      fail(error::kSyntax, "Unexpected argument '" + key + "'.");
    bound[size_t(found - parameters.begin())] = value;
  }
  if (++session.callDepth > 200)
    fail(error::kCompilation, "'" + name + "' is recursive: a local function cannot call itself");
  scopes.push();
  // What it assigns is its own, whatever the names mean outside.
  if (!isLambda)
    for (nb::handle inner : nb::module_::import_("ast").attr("walk")(at))
      if (kindOf(inner) == NodeKind::Name && toText(nb::object(inner.attr("ctx").attr("__class__").attr("__name__"))) == "Store") {
        Binding hidden;
        hidden.kind = Binding::Kind::Partial;
        scopes.bind(getAttribute(inner, names().id).ptr(), std::move(hidden));
      }
  for (size_t index = 0; index < bound.size(); ++index) {
    if (!bound[index])
      fail(error::kSyntax, "Missing argument '" + toText(parameters[index]) + "'.");
    Value value = copy(*bound[index]);
    Binding binding;
    bool isVariable = canEmit(value) || value.is(Kind::Struct);
    if (!isVariable)
      binding.kind = Binding::Kind::Static;
    else
      value = declare(value, uses->lookup(parameters[index].ptr()) == 0);
    binding.value = value;
    scopes.bind(parameters[index].ptr(), std::move(binding));
  }
  Value result = makeObject(nb::none());
  if (isLambda) {
    result = copy(visit(getAttribute(at, names().body)));
  } else {
    localCalls.push_back({runtimeDepth, result});
    std::vector<Loop> outer = std::exchange(loops, {});
    visitBody(getAttribute(at, names().body));
    loops = std::move(outer);
    terminated = false;
    result = localCalls.back().result;
    localCalls.pop_back();
  }
  scopes.pop();
  --session.callDepth;
  return result;
}

} // namespace qd::frontend
