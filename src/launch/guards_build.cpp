// guards_build.cpp: builds the guards of a version
//
// In:   an artifact, the kernel's function and the arguments of one call.
// Out:  the steps of a LaunchGuards. Paths with a common prefix share its steps.
// Here: artifacts of the compiler and of the disk cache both pass through this code; for the latter, a digest that differs rejects them.
#include "launch/external_array.h"
#include "launch/guards_parts.h"
#include "launch/tensor_object.h"
#include "runtime/tensor.h"
#include "support/error.h"

#include <algorithm>
#include <map>

namespace qd::launch {

using artifact::Dependency;
using artifact::Input;
using artifact::Path;
using artifact::PathStep;
using layout::kDynamic;
using support::Digest;

/// A builtin of the language is identified by its name, even if the compiler recorded only its class.
static Dependency::Kind getKind(const Dependency &dependency, PyObject *object) {
  return dependency.kind == Dependency::Kind::Type && object && isBuiltin(object) ? Dependency::Kind::Value : dependency.kind;
}

struct LaunchGuards::Node {
  uint16_t slot;
  Ref object;       ///< the current object
  bool isOfModules; ///< reached by names of modules only
  bool isInLaunch;  ///< steps of each launch fill its slot
  std::map<std::pair<int, std::string>, std::unique_ptr<Node>> children;
};

class LaunchGuards::Builder {
public:
  Builder(LaunchGuards &made, const Roots &roots) : made(made), roots(roots) {}
  Node &getRoot(const Path &path);
  /// The node at the end of a path; null when the path leads to no object.
  Node *find(const Path &path, bool mayBeMissing);
  void useInLaunch(Node &node);
  bool guard(Dependency &dependency, bool isFresh);
  void input(const Input &input);
  bool isReadThroughObject(const Path &path, uint16_t &ownerSlot);
  /// Stores the kernel's own function, where captured names start.
  void finish() {
    if (auto found = tops.find(kKernel); found != tops.end()) made.captured[found->second.slot] = roots.function;
  }

private:
  static constexpr int64_t kKernel = -1;
  Node *addChild(Node &parent, const PathStep &path, bool mayBeMissing);
  Node makeNode(Ref object, bool isOfModules, int32_t parent, std::string step);

  LaunchGuards &made;
  const Roots &roots;
  std::map<int64_t, Node> tops;
};

LaunchGuards::Node LaunchGuards::Builder::makeNode(Ref object, bool isOfModules, int32_t parent, std::string step) {
  if (made.slotCount >= UINT16_MAX)
    throw support::Error(support::ErrorKind::Runtime, "a kernel that reads more than 65535 different objects is not supported");
  made.origins.push_back({parent, std::move(step), isOfModules});
  return Node{uint16_t(made.slotCount++), std::move(object), isOfModules, !isOfModules, {}};
}

LaunchGuards::Node &LaunchGuards::Builder::getRoot(const Path &path) {
  bool isArgument = path.root == Path::Root::Argument;
  if (isArgument && path.argument >= roots.argumentCount)
    throw support::Error(support::ErrorKind::Format, "a path starts at an argument that does not exist");
  int64_t key = isArgument ? path.argument : kKernel;
  if (auto found = tops.find(key); found != tops.end()) return found->second;
  Ref object = Ref::borrow(isArgument ? roots.arguments[path.argument] : roots.function);
  Node &node = tops.emplace(key, makeNode(std::move(object), !isArgument, -1, std::to_string(key))).first->second;
  if (isArgument) made.steps.push_back({.kind = StepKind::Argument, .slot = node.slot, .index = path.argument});
  return node;
}

void LaunchGuards::Builder::useInLaunch(Node &node) {
  if (node.isInLaunch) return;
  made.steps.push_back({.kind = StepKind::Captured, .slot = node.slot});
  node.isInLaunch = true;
}

LaunchGuards::Node *LaunchGuards::Builder::addChild(Node &parent, const PathStep &path, bool mayBeMissing) {
  auto key =
      std::make_pair(int(path.kind), path.kind == PathStep::Kind::Item && path.name.empty() ? "#" + std::to_string(path.index) : path.name);
  if (auto found = parent.children.find(key); found != parent.children.end()) return found->second.get();
  static constexpr StepKind kKinds[] = {StepKind::Attribute, StepKind::Item, StepKind::Global, StepKind::Cell};
  Step step{.kind = kKinds[size_t(path.kind)], .mayBeMissing = mayBeMissing, .slot = 0, .source = parent.slot};
  step.path = &path;
  if (path.kind != PathStep::Kind::Item || !path.name.empty()) step.name = Ref::adopt(PyUnicode_InternFromString(path.name.c_str()));
  Ref object = takeStep(parent.object.get(), path, step.name.get());
  if (!object && !mayBeMissing) return nullptr;
  if (step.kind == StepKind::Cell) step.index = findCell(getFunction(parent.object.get()), step.name.get());
  bool isModule = step.kind == StepKind::Attribute && PyModule_CheckExact(parent.object.get()) &&
                  (!object || PyDict_GetItemWithError(PyModule_GetDict(parent.object.get()), step.name.get()));
  bool isOfModules = parent.isOfModules && (step.kind == StepKind::Global || isModule);
  if (!isOfModules) useInLaunch(parent);
  auto node = std::make_unique<Node>(makeNode(std::move(object), isOfModules, parent.slot, std::to_string(key.first) + key.second));
  step.slot = node->slot;
  made.usesDicts |= !isOfModules && step.kind == StepKind::Attribute;
  (isOfModules ? made.captureSteps : made.steps).push_back(std::move(step));
  return parent.children.emplace(key, std::move(node)).first->second.get();
}

LaunchGuards::Node *LaunchGuards::Builder::find(const Path &path, bool mayBeMissing) {
  Node *node = &getRoot(path);
  for (size_t i = 0; node && i < path.steps.size(); ++i) {
    if (!node->object) return nullptr;
    node = addChild(*node, path.steps[i], mayBeMissing && i + 1 == path.steps.size());
  }
  return node;
}

bool LaunchGuards::Builder::guard(Dependency &dependency, bool isFresh) {
  bool isAbsent = dependency.kind == Dependency::Kind::Absent;
  Node *node = find(dependency.path, isAbsent);
  if (!node && isAbsent) return true; // an object on the path is missing; a dependency of its own covers that
  if (!node || bool(node->object) == isAbsent) {
    if (isFresh) throw support::Error(support::ErrorKind::Runtime, describe(dependency.path) + " changed while the kernel was compiled");
    return false;
  }
  PyObject *object = node->object.get();
  Dependency::Kind kind = getKind(dependency, object);
  Guard guard{.dependency = &dependency, .artifact = made.artifact, .kind = kind};
  if (std::optional<Digest> digest = fingerprintDependency(kind, object, getPlacement(*made.artifact))) {
    guard.digest = *digest;
    guard.hasDigest = true;
  }
  if (isFresh && guard.hasDigest)
    dependency.digest.assign(guard.digest.begin(), guard.digest.end());
  else if (isFresh)
    made.artifact->cacheable = false;
  else if (!guard.hasDigest || !std::equal(guard.digest.begin(), guard.digest.end(), dependency.digest.begin(), dependency.digest.end()))
    return false;
  bool isConstant = true; // the guard holds as long as it is the same object
  if (object && kind == Dependency::Kind::Type) {
    guard.held = Ref::borrow(PyType_Check(object) ? object : reinterpret_cast<PyObject *>(Py_TYPE(object)));
  } else if (object && (kind == Dependency::Kind::Identity || !guard.hasDigest)) {
    if (PyObject *weak = PyWeakref_NewRef(object, nullptr))
      guard.weak = Ref::adopt(weak);
    else
      guard.held = Ref::borrow(object); // has no weak references: it is recognized by holding it
    PyErr_Clear();
  } else if (object && (kind == Dependency::Kind::Function || isImmutable(object))) {
    guard.held = Ref::borrow(object);
  } else {
    isConstant = !object;
  }
  bool isCapture = node->isOfModules && isConstant;
  if (!isCapture) useInLaunch(*node);
  (isCapture ? made.captureSteps : made.steps)
      .push_back({.kind = StepKind::Guard, .slot = node->slot, .index = Py_ssize_t(made.guards.size())});
  made.guards.push_back(std::move(guard));
  return true;
}

/// Whether a value is a member of an object whose class declares that members are read at each launch, or is reached through such an
/// object; `ownerSlot` is the slot of that object.
bool LaunchGuards::Builder::isReadThroughObject(const Path &path, uint16_t &ownerSlot) {
  Path owner = path;
  for (owner.steps.clear(); owner.steps.size() < path.steps.size(); owner.steps.push_back(path.steps[owner.steps.size()])) {
    Node *node = find(owner, false);
    if (!node) return false;
    ownerSlot = node->slot;
    Ref declared = findAttribute(reinterpret_cast<PyObject *>(Py_TYPE(node->object.get())), "_qd_template_primitives");
    if (declared) return PyObject_IsTrue(declared.get()) == 0;
  }
  return false;
}

void LaunchGuards::Builder::input(const Input &input) {
  Node *node = find(input.path, false);
  if (!node) throw support::Error(support::ErrorKind::Format, "the input " + input.name + " is missing");
  useInLaunch(*node);
  if (input.kind == Input::Kind::Value) {
    made.steps.push_back({.kind = StepKind::Value, .slot = node->slot, .index = Py_ssize_t(made.values.size())});
    ValueInput value{.input = &input, .offset = input.offset};
    value.isMember = support::isInteger(input.type.scalar) && input.type.rank == 0 && isReadThroughObject(input.path, value.ownerSlot);
    made.values.push_back(std::move(value));
    return;
  }
  const layout::TensorLayout &layout = input.layout;
  TensorInput tensor{.input = &input, .offset = input.offset, .rank = layout.rank(), .isWritten = input.isWritten};
  tensor.hasStrides = std::find(layout.strides.begin(), layout.strides.end(), kDynamic) != layout.strides.end();
  tensor.key = input.isField ? layout::computeFieldKey(layout) : layout::computeArrayKey(layout, !tensor.hasStrides);
  tensor.isStatic = std::find(layout.extents.begin(), layout.extents.end(), kDynamic) == layout.extents.end();
  tensor.hasKnownExtents =
      !input.isField && std::any_of(layout.extents.begin(), layout.extents.end(), [](int64_t extent) { return extent != kDynamic; });
  tensor.isExclusive = !input.mayAlias && (input.isField || input.isUpdated || input.isUnaliased);
  made.hasExclusive |= tensor.isExclusive && (input.isField || input.isUnaliased || ++made.updatedArrays > 1);
  PyObject *object = node->object.get();
  tensor.seesGradients = !isTensor(object) && isTorchTensor(object) && PyObject_IsTrue(findAttribute(object, "requires_grad").get()) == 1;
  tensor.hasExtentLimits = (input.manyAxes | input.fewAxes) != 0;
  made.steps.push_back({.kind = StepKind::Tensor, .slot = node->slot, .index = Py_ssize_t(made.tensors.size())});
  made.tensors.push_back(std::move(tensor));
  made.tensorSlots.push_back(node->slot);
}

std::unique_ptr<LaunchGuards> LaunchGuards::build(artifact::Artifact &artifact, const Roots &roots, bool isFresh,
                                                  std::string &guardFailure) {
  std::unique_ptr<LaunchGuards> made(new LaunchGuards);
  made->artifact = &artifact;
  Builder builder(*made, roots);
  try {
    // Guards come first: they check the types of the objects on an input's path before the path is walked.
    for (Dependency &dependency : artifact.dependencies) {
      if (builder.guard(dependency, isFresh)) continue;
      guardFailure = describe(dependency.path);
      return nullptr;
    }
    for (const Input &input : artifact.inputs) builder.input(input);
  } catch (const support::Error &error) {
    if (!isFresh && error.kind == support::ErrorKind::Format) return nullptr;
    throw;
  }
  made->captured.resize(made->slotCount);
  builder.finish();
  // An artifact from the disk may be for containers of other layouts.
  if (!isFresh && !made->fits(roots.arguments)) {
    guardFailure = made->getGuardFailure();
    return nullptr;
  }
  return made;
}

bool LaunchGuards::fits(PyObject *const *arguments) {
  std::vector<unsigned char> block(artifact->argumentBytes + 1);
  std::vector<PyObject *> memory(3 * slotCount + 1);
  GuardFrame frame;
  frame.block = block.data();
  frame.place(memory.data(), slotCount);
  return read(arguments, frame) != GuardResult::Failed;
}

} // namespace qd::launch
