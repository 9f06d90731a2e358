// special_methods.cpp: operators of users' classes, such as `__add__`
//
// In:   an operator and its operands, of which one is an object of a user's class.
// Out:  the result of the method, or none if there is no such method.
// Here: the order of methods is Python's: first that of the left operand, then the reflected method of the right operand; vice versa if
//       the class of the right operand is derived from that of the left. The methods are compiled as any others.
#include "frontend/builder.h"

using namespace mlir;

namespace qd::frontend {

nb::object Instances::findUserClass(const Operand &value) {
  if (auto *instance = value.find<Instance>()) return instance->type;
  PyObject *object = value.getObject().ptr();
  if (!object || !PyType_HasFeature(Py_TYPE(object), Py_TPFLAGS_HEAPTYPE)) return {}; // numbers and texts
  auto type = nb::borrow(reinterpret_cast<PyObject *>(Py_TYPE(object)));
  return isUserClass(type) ? type : nb::object();
}

nb::object Instances::findSpecial(const Operand &value, const std::string &name) {
  if (auto *structure = value.find<Struct>()) {
    PyObject *found =
        structure->type ? PyDict_GetItemString(nb::object(getAttribute(structure->type, names().methods)).ptr(), name.c_str()) : nullptr;
    return nb::borrow(found);
  }
  nb::object type = findUserClass(value);
  if (!type) return {};
  nb::object found = nb::module_::import_("inspect").attr("getattr_static")(type, name.c_str(), nb::none());
  bool isFunction =
      session.python.isInstance(found, session.python.functions.func) || session.python.isInstance(found, session.python.host.function);
  return isFunction ? found : nb::object();
}

bool Instances::hasSpecial(const Operand &value, const std::string &name) { return bool(findSpecial(value, name)); }

std::optional<Operand> Instances::callSpecial(const Operand &value, const std::string &name, std::vector<Operand> operands) {
  nb::object found = findSpecial(value, name);
  if (!found) return std::nullopt;
  auto *instance = value.find<Instance>();
  auto *structure = value.find<Struct>();
  auto *object = value.find<PythonObject>();
  const PathNode *classPath = object     ? session.tracker.getStep(object->path, PathStep::Kind::Attribute, "__class__")
                              : instance ? instance->path
                                         : nullptr;
  const PathNode *path = structure ? session.tracker.getTypeMember(structure->type, "methods", name)
                                   : session.tracker.getStep(classPath, PathStep::Kind::Attribute, name);
  if (!structure) session.tracker.depend(path, artifact::Dependency::Kind::Function);
  Arguments arguments;
  arguments.positional = std::move(operands);
  Operand result = calls().callMethod(makeMethod(value, found, path), arguments, context.node);
  return result.getObject().ptr() == Py_NotImplemented ? std::nullopt : std::optional(result);
}

namespace {
struct SpecialName {
  NodeKind node;
  llvm::StringLiteral name, reflected;
};
} // namespace

static const SpecialName kSpecialNames[] = {
    {NodeKind::Add, "__add__", "__radd__"},
    {NodeKind::Sub, "__sub__", "__rsub__"},
    {NodeKind::Mult, "__mul__", "__rmul__"},
    {NodeKind::MatMult, "__matmul__", "__rmatmul__"},
    {NodeKind::Div, "__truediv__", "__rtruediv__"},
    {NodeKind::FloorDiv, "__floordiv__", "__rfloordiv__"},
    {NodeKind::Mod, "__mod__", "__rmod__"},
    {NodeKind::Pow, "__pow__", "__rpow__"},
    {NodeKind::LShift, "__lshift__", "__rlshift__"},
    {NodeKind::RShift, "__rshift__", "__rrshift__"},
    {NodeKind::BitAnd, "__and__", "__rand__"},
    {NodeKind::BitOr, "__or__", "__ror__"},
    {NodeKind::BitXor, "__xor__", "__rxor__"},
    {NodeKind::Lt, "__lt__", "__gt__"},
    {NodeKind::LtE, "__le__", "__ge__"},
    {NodeKind::Gt, "__gt__", "__lt__"},
    {NodeKind::GtE, "__ge__", "__le__"},
    {NodeKind::Eq, "__eq__", "__eq__"},
    {NodeKind::NotEq, "__ne__", "__ne__"},
};

std::optional<Operand> Instances::callOperator(NodeKind node, const Operand &lhs, const Operand &rhs) {
  nb::object left = findUserClass(lhs), right = findUserClass(rhs);
  if (!left && !right && !lhs.is<Struct>() && !rhs.is<Struct>()) return std::nullopt;
  const SpecialName *special = llvm::find_if(kSpecialNames, [&](const SpecialName &known) { return known.node == node; });
  if (special == std::end(kSpecialNames)) return std::nullopt;
  auto callLeft = [&] { return callSpecial(lhs, special->name.str(), {collections().copyElement(rhs)}); };
  auto callRight = [&] { return callSpecial(rhs, special->reflected.str(), {collections().copyElement(lhs)}); };
  bool isDerived = left && right && !left.is(right) && PyObject_IsSubclass(right.ptr(), left.ptr()) == 1;
  std::optional<Operand> result = isDerived ? callRight() : callLeft();
  if (!result && !(left && left.is(right) && special->name == special->reflected)) result = isDerived ? callLeft() : callRight();
  if (result || node != NodeKind::NotEq) return result;
  std::optional<Operand> isEqual = callOperator(NodeKind::Eq, lhs, rhs);
  return isEqual ? std::optional(operators().logicalNot(*isEqual)) : std::nullopt;
}

std::optional<Operand> Instances::callInPlace(NodeKind node, const Operand &target, const Operand &value) {
  const SpecialName *special = llvm::find_if(kSpecialNames, [&](const SpecialName &known) { return known.node == node; });
  if (special == std::end(kSpecialNames)) return std::nullopt;
  std::optional<Operand> result = callSpecial(target, ("__i" + special->name.drop_front(2)).str(), {value});
  return result ? result : callOperator(node, target, value);
}

std::optional<Operand> Instances::truthOfInstance(const Operand &value) {
  if (auto *view = value.find<DictView>()) return truthOfInstance(view->items[0]);
  if (auto *dictionary = value.find<Dictionary>()) return makeKnown(!dictionary->items.empty());
  if (!value.is<Instance>()) return std::nullopt;
  if (std::optional<Operand> truth = callSpecial(value, "__bool__", {})) return truth;
  std::optional<Operand> length = callSpecial(value, "__len__", {});
  return length ? length : makeKnown(true);
}

} // namespace qd::frontend
