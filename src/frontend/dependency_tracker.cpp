// dependency_tracker.cpp: paths, dependencies and inputs of a compilation
//
// In:   Python objects with the paths under which the compilation reaches them.
// Out:  the artifact's inputs (values and containers, with their offsets in the argument block) and its dependencies.
// Here: a version of a kernel is valid exactly while the recorded dependencies hold, so all reads of Python objects pass through here.
#include "frontend/dependency_tracker.h"

#include <algorithm>

using namespace qd::artifact;

namespace qd::frontend {

const PathNode *DependencyTracker::getKernel() {
  if (!kernel) kernel = std::make_unique<PathNode>();
  return kernel.get();
}

const PathNode *DependencyTracker::getArgument(uint32_t position, llvm::StringRef name) {
  std::unique_ptr<PathNode> &node = arguments[position];
  if (!node) {
    node = std::make_unique<PathNode>();
    node->root = Path::Root::Argument;
    node->argument = position;
    node->step.name = name.str(); // a root has no step; the name is for messages
  }
  return node.get();
}

const PathNode *DependencyTracker::getStep(const PathNode *parent, PathStep::Kind kind, llvm::StringRef name, int64_t index) {
  if (!parent) return nullptr;
  std::unique_ptr<PathNode> &node = steps[{parent, kind, name.str(), index}];
  if (!node) {
    node = std::make_unique<PathNode>();
    node->parent = parent;
    node->step = {kind, name.str(), index};
  }
  return node.get();
}

Path DependencyTracker::makePath(const PathNode *node) const {
  Path path;
  for (; node->parent; node = node->parent) path.steps.push_back(node->step);
  std::reverse(path.steps.begin(), path.steps.end());
  path.root = node->root;
  path.argument = node->argument;
  return path;
}

void DependencyTracker::depend(const PathNode *path, Dependency::Kind kind) {
  if (!path || !dependencies.try_emplace({path, kind}, true).second) return;
  Dependency dependency;
  dependency.kind = kind;
  dependency.path = makePath(path);
  artifact.dependencies.push_back(std::move(dependency));
}

void DependencyTracker::read(const PathNode *path, nb::handle object) {
  if (!path || python.isTensor(object)) return;
  if (python.isInstance(object, python.values.structType)) recordType(object, path);
  bool isOfLanguage = python.isInstance(object, python.values.structType) || python.isInstance(object, python.values.arrayType) ||
                      python.isInstance(object, python.host.module) || PyType_Check(object.ptr());
  if (isOfLanguage || python.isPlainData(object)) return depend(path, Dependency::Kind::Value);
  if (python.isInstance(object, python.functions.func) || python.isInstance(object, python.functions.boundFunc) ||
      python.isInstance(object, python.host.function) || python.isInstance(object, python.host.method) || PyCFunction_Check(object.ptr()))
    return depend(path, Dependency::Kind::Function);
  if (python.isOfPackage(object) && findAttribute(object, python.names._qd_builtin)) return depend(path, Dependency::Kind::Value);
  depend(path, Dependency::Kind::Type);
}

const PathNode *DependencyTracker::findFirstPath(const PathNode *path, nb::handle object) {
  const PathNode *first = path ? firstPaths.try_emplace(object.ptr(), path).first->second : path;
  if (first != path)
    for (const PathNode *one : {first, path}) depend(getStep(one, PathStep::Kind::Attribute, "serial"), Dependency::Kind::Value);
  return first;
}

const PathNode *DependencyTracker::getFunctionRoot(nb::handle function, const PathNode *path) {
  nb::object globals = findAttribute(function, python.names.__globals__);
  if (!globals || !path) return globals ? functionRoots.lookup(globals.ptr()) : nullptr;
  return functionRoots.try_emplace(globals.ptr(), path).first->second;
}

const PathNode *DependencyTracker::getCellRoot(nb::handle cell, const PathNode *path) {
  return path ? cellRoots.try_emplace(cell.ptr(), path).first->second : cellRoots.lookup(cell.ptr());
}

void DependencyTracker::recordType(nb::handle structType, const PathNode *path, bool isClass) {
  if (!path || !typePaths.try_emplace(structType.ptr(), path, isClass).second) return;
  if (isClass) return;
  const PathNode *members = getStep(path, PathStep::Kind::Attribute, "members");
  for (auto [name, member] : nb::borrow<nb::dict>(getAttribute(structType, python.names.members)))
    if (python.isInstance(member, python.values.structType)) recordType(member, getStep(members, PathStep::Kind::Item, toText(name)));
}

const PathNode *DependencyTracker::getTypeMember(nb::handle structType, const char *kind, llvm::StringRef name) {
  auto [path, isClass] = typePaths.lookup(structType.ptr());
  if (isClass) return getStep(path, PathStep::Kind::Attribute, name);
  return getStep(getStep(path, PathStep::Kind::Attribute, kind), PathStep::Kind::Item, name);
}

uint32_t DependencyTracker::addInput(Input input, uint32_t bytes) {
  input.offset = artifact.argumentBytes;
  artifact.argumentBytes += (bytes + 7) / 8 * 8;
  artifact.inputs.push_back(std::move(input));
  return uint32_t(artifact.inputs.size() - 1);
}

uint32_t DependencyTracker::addValue(const PathNode *path, mlir::Type type) {
  auto found = values.find(path);
  if (found != values.end()) return found->second;
  Input input;
  input.kind = Input::Kind::Value;
  input.path = makePath(path);
  input.name = describe(path);
  input.type = ir::getValueType(type);
  auto bytes = uint32_t(input.type.componentCount() * int64_t(support::getByteSize(input.type.scalar)));
  return values[path] = addInput(std::move(input), bytes);
}

uint32_t DependencyTracker::addTensor(const PathNode *path, nb::handle object, layout::TensorLayout layout, bool isField) {
  auto found = tensors.find(path);
  if (found != tensors.end()) return found->second;
  Input input;
  input.kind = Input::Kind::Tensor;
  input.path = makePath(path);
  input.name = describe(path);
  auto dynamic = uint32_t(std::count(layout.extents.begin(), layout.extents.end(), layout::kDynamic));
  dynamic += uint32_t(std::count(layout.strides.begin(), layout.strides.end(), layout::kDynamic));
  input.layout = std::move(layout);
  input.isField = isField;
  uint32_t number = addInput(std::move(input), 8 + 8 * dynamic);
  // Two arrays may always share memory. A field overlaps another input only if `mayOverlap` finds it now.
  for (const auto &[other, otherPath, otherNumber] : containers)
    if ((isField || artifact.inputs[otherNumber].isField) && nb::cast<bool>(python.containers.mayOverlap(object, other))) {
      artifact.inputs[number].mayAlias = true;
      artifact.inputs[otherNumber].mayAlias = true;
    }
  containers.push_back({nb::borrow(object), path, number});
  return tensors[path] = number;
}

void DependencyTracker::markOverlaps() {
  nb::list updated;
  std::vector<uint32_t> numbers;
  for (const Container &container : containers) {
    if (!artifact.inputs[container.input].isUpdated) continue;
    updated.append(container.object);
    numbers.push_back(container.input);
  }
  for (nb::handle number : python.containers.listShared(updated)) artifact.inputs[numbers[nb::cast<size_t>(number)]].mayAlias = true;
}

bool DependencyTracker::isShadow(const PathNode *path) {
  return path && path->parent && path->step.kind == PathStep::Kind::Attribute && (path->step.name == "grad" || path->step.name == "dual");
}

std::string DependencyTracker::describe(const PathNode *path) {
  if (!path->parent) return path->root == Path::Root::Argument ? path->step.name : "";
  std::string parent = describe(path->parent);
  switch (path->step.kind) {
  case PathStep::Kind::Attribute: return path->step.name == "_words" ? parent : parent + "." + path->step.name; // of a quantized field
  case PathStep::Kind::Item:
    return parent + "[" + (path->step.name.empty() ? std::to_string(path->step.index) : "'" + path->step.name + "'") + "]";
  case PathStep::Kind::Entry: return parent + "[" + path->step.name + "]";
  case PathStep::Kind::FunctionGlobal:
  case PathStep::Kind::FunctionClosure: return path->step.name;
  }
  return parent;
}

} // namespace qd::frontend
