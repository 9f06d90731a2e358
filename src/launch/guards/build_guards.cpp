// build_guards.cpp: builds the guards of a version
//
// In:   an artifact, the kernel's function and the arguments of one call.
// Out:  the steps of a LaunchGuards. Paths with a common prefix share its steps.
// Here: artifacts of the compiler and of the disk cache both pass through this code; for the latter, a digest that differs rejects them.
#include "launch/containers/external_array.h"
#include "launch/containers/tensor_object.h"
#include "launch/guards/launch_guards.h"
#include "runtime/tensor.h"
#include "support/error.h"

#include <algorithm>
#include <map>

namespace qd::launch {

using artifact::Dependency;
using artifact::Input;
using artifact::Path;
using artifact::PathStep;
using support::Digest;

/// A builtin of the language is identified by its name, even if the compiler recorded only its class.
static Dependency::Kind getKind(const Dependency &dependency, PyObject *object) {
  return dependency.kind == Dependency::Kind::Type && object && isBuiltin(object) ? Dependency::Kind::Value : dependency.kind;
}

class GuardBuilder {
public:
  /// An object on a path; paths with a common prefix share it.
  struct Node {
    uint16_t slot;
    Ref object;                      ///< the current object
    bool isOfModules;                ///< reached by names of modules only
    bool isInLaunch;                 ///< steps of each launch fill its slot
    MemberSource *members = nullptr; ///< set if members are read
    std::map<std::pair<int, std::string>, std::unique_ptr<Node>> children{};
  };
  GuardBuilder(LaunchGuards &made, artifact::Artifact &artifact, const Roots &roots)
      : made(made), program(made.program), artifact(artifact), roots(roots) {}
  Node &getRoot(const Path &path);
  /// The node at the end of a path; null when the path leads to no object.
  Node *find(const Path &path, bool mayBeMissing);
  void useInLaunch(Node &node);
  bool guard(Dependency &dependency, bool isFresh);
  void input(const Input &input);
  bool isReadThroughObject(const Path &path, uint16_t &ownerSlot);
  void finish() {
    if (made.aliases.isNeeded()) made.writer.trackEnds();
    program.captured.resize(program.slotCount);
    // Captured names start at the kernel's own function.
    if (auto found = tops.find(kKernel); found != tops.end()) program.captured[found->second.slot] = roots.function;
  }

private:
  static constexpr int64_t kKernel = -1;
  Node *addChild(Node &parent, const PathStep &path, bool mayBeMissing);
  Node makeNode(Ref object, bool isOfModules, int32_t parent, std::string step);

  LaunchGuards &made;
  GuardProgram &program;
  artifact::Artifact &artifact;
  const Roots &roots;
  std::map<int64_t, Node> tops;
};

GuardBuilder::Node GuardBuilder::makeNode(Ref object, bool isOfModules, int32_t parent, std::string step) {
  if (program.slotCount >= UINT16_MAX)
    throw support::Error(support::ErrorKind::Runtime, "a kernel that reads more than 65535 different objects is not supported");
  program.origins.push_back({parent, std::move(step), isOfModules});
  return Node{uint16_t(program.slotCount++), std::move(object), isOfModules, !isOfModules};
}

GuardBuilder::Node &GuardBuilder::getRoot(const Path &path) {
  bool isArgument = path.root == Path::Root::Argument;
  if (isArgument && path.argument >= roots.argumentCount)
    throw support::Error(support::ErrorKind::Format, "a path starts at an argument that does not exist");
  int64_t key = isArgument ? path.argument : kKernel;
  if (auto found = tops.find(key); found != tops.end()) return found->second;
  Ref object = Ref::borrow(isArgument ? roots.arguments[path.argument] : roots.function);
  Node &node = tops.emplace(key, makeNode(std::move(object), !isArgument, -1, std::to_string(key))).first->second;
  if (isArgument) program.steps.push_back({.kind = GuardStep::Kind::Argument, .slot = node.slot, .index = path.argument});
  return node;
}

void GuardBuilder::useInLaunch(Node &node) {
  if (node.isInLaunch) return;
  program.steps.push_back({.kind = GuardStep::Kind::Captured, .slot = node.slot});
  node.isInLaunch = true;
}

GuardBuilder::Node *GuardBuilder::addChild(Node &parent, const PathStep &path, bool mayBeMissing) {
  const bool isEntry = path.kind == PathStep::Kind::Entry, isNumbered = isEntry || (path.kind == PathStep::Kind::Item && path.name.empty());
  auto key = std::make_pair(int(path.kind), isNumbered ? "#" + std::to_string(path.index) + path.name : path.name);
  if (auto found = parent.children.find(key); found != parent.children.end()) return found->second.get();
  static constexpr GuardStep::Kind kKinds[] = {GuardStep::Kind::Attribute, GuardStep::Kind::Item, GuardStep::Kind::Global,
                                               GuardStep::Kind::Cell, GuardStep::Kind::Entry};
  GuardStep step{.kind = kKinds[size_t(path.kind)], .mayBeMissing = mayBeMissing, .slot = 0, .source = parent.slot};
  step.path = &path;
  if (!isNumbered) step.name = Ref::adopt(PyUnicode_InternFromString(path.name.c_str()));
  Ref object = takeStep(parent.object.get(), path, step.name.get());
  if (!object && !mayBeMissing) return nullptr;
  if (PyObject *value; isEntry && object) step.name = Ref::borrow(findEntry(parent.object.get(), path.index, &value));
  if (step.kind == GuardStep::Kind::Cell) step.index = findCell(getFunction(parent.object.get()), step.name.get());
  bool isModule = step.kind == GuardStep::Kind::Attribute && PyModule_CheckExact(parent.object.get()) &&
                  (!object || PyDict_GetItemWithError(PyModule_GetDict(parent.object.get()), step.name.get()));
  bool isOfModules = parent.isOfModules && (step.kind == GuardStep::Kind::Global || isModule);
  if (isOfModules && isModule) {
    step.kind = GuardStep::Kind::ModuleMember;
  } else if (step.kind == GuardStep::Kind::Attribute) {
    if (!parent.members) parent.members = &program.sources.emplace_back();
    step.members = parent.members;
  }
  if (!isOfModules) useInLaunch(parent);
  auto node = std::make_unique<Node>(makeNode(std::move(object), isOfModules, parent.slot, std::to_string(key.first) + key.second));
  step.slot = node->slot;
  (isOfModules ? program.captureSteps : program.steps).push_back(std::move(step));
  return parent.children.emplace(key, std::move(node)).first->second.get();
}

GuardBuilder::Node *GuardBuilder::find(const Path &path, bool mayBeMissing) {
  Node *node = &getRoot(path);
  for (size_t i = 0; node && i < path.steps.size(); ++i) {
    if (!node->object) return nullptr;
    node = addChild(*node, path.steps[i], mayBeMissing && i + 1 == path.steps.size());
  }
  return node;
}

bool GuardBuilder::guard(Dependency &dependency, bool isFresh) {
  bool isAbsent = dependency.kind == Dependency::Kind::Absent;
  Node *node = find(dependency.path, isAbsent);
  if (!node && isAbsent) return true; // an object on the path is missing; a dependency of its own covers that
  if (!node || bool(node->object) == isAbsent) {
    if (isFresh) throw support::Error(support::ErrorKind::Runtime, describe(dependency.path) + " changed while the kernel was compiled");
    return false;
  }
  PyObject *object = node->object.get();
  Dependency::Kind kind = getKind(dependency, object);
  Guard guard{.dependency = &dependency, .kind = kind};
  if (std::optional<Digest> digest = fingerprintDependency(kind, object, program.placement)) {
    guard.digest = guard.digestOfText = *digest;
    guard.hasDigest = true;
    if (kind == Dependency::Kind::Function && program.placement == Placement::Included)
      guard.digestOfText = *fingerprintDependency(kind, object, Placement::Ignored);
  }
  if (isFresh && guard.hasDigest)
    dependency.digest.assign(guard.digest.begin(), guard.digest.end());
  else if (isFresh)
    artifact.cacheable = false;
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
    guard.hold(object);
  } else {
    isConstant = !object;
  }
  bool isCapture = node->isOfModules && isConstant;
  if (!isCapture) useInLaunch(*node);
  if (isCapture && guard.code) program.capturedFunctions.push_back(program.guards.size());
  (isCapture ? program.captureSteps : program.steps)
      .push_back({.kind = GuardStep::Kind::Guard, .slot = node->slot, .index = Py_ssize_t(program.guards.size())});
  program.guards.push_back(std::move(guard));
  return true;
}

/// Whether a value is a member of an object whose class declares that members are read at each launch, or is reached through such an
/// object; `ownerSlot` is the slot of that object.
bool GuardBuilder::isReadThroughObject(const Path &path, uint16_t &ownerSlot) {
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

void GuardBuilder::input(const Input &input) {
  Node *node = find(input.path, false);
  if (!node) throw support::Error(support::ErrorKind::Format, "the input " + input.name + " is missing");
  useInLaunch(*node);
  if (input.kind == Input::Kind::Value) {
    program.steps.push_back({.kind = GuardStep::Kind::Value, .slot = node->slot, .index = Py_ssize_t(made.writer.addValue(input))});
    uint16_t ownerSlot;
    if (support::isInteger(input.type.scalar) && input.type.rank == 0 && isReadThroughObject(input.path, ownerSlot))
      made.writer.markMember(ownerSlot);
    return;
  }
  size_t index = made.writer.addTensor(input, node->slot);
  program.steps.push_back({.kind = GuardStep::Kind::Tensor, .slot = node->slot, .index = Py_ssize_t(index)});
  made.aliases.add(input, node->slot);
}

std::unique_ptr<LaunchGuards> LaunchGuards::build(artifact::Artifact &artifact, const Roots &roots, bool isFresh,
                                                  std::string &guardFailure) {
  bool readsPlaces = !artifact.sites.empty() || !artifact.report.warnings.empty() || !artifact.report.assumptions.empty() ||
                     !artifact.libraryFolder.empty();
  std::unique_ptr<LaunchGuards> made(new LaunchGuards(readsPlaces ? Placement::Included : Placement::Ignored));
  GuardBuilder builder(*made, artifact, roots);
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
  builder.finish();
  // An artifact from the disk may be for containers of other layouts.
  if (!isFresh && !made->fits(roots.arguments, artifact.argumentBytes)) {
    guardFailure = made->getGuardFailure();
    return nullptr;
  }
  return made;
}

} // namespace qd::launch
