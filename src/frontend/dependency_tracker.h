// dependency_tracker.h: records in the artifact which Python objects a compilation has read
#pragma once

#include "artifact/artifact.h"
#include "frontend/operand.h"

#include <map>

namespace qd::frontend {

using artifact::PathStep;

/// The path of an object. Paths with a common prefix share its nodes, so that equal paths are equal pointers.
struct PathNode {
  const PathNode *parent = nullptr; ///< null: a root
  artifact::Path::Root root = artifact::Path::Root::Kernel;
  uint32_t argument = 0;
  PathStep step;
};

class DependencyTracker {
public:
  DependencyTracker(const PythonObjects &python, artifact::Artifact &artifact) : python(python), artifact(artifact) {}

  const PathNode *getKernel();
  const PathNode *getArgument(uint32_t position, llvm::StringRef name);
  const PathNode *getStep(const PathNode *parent, PathStep::Kind kind, llvm::StringRef name, int64_t index = 0);

  /// Records that compilation depends on `object`, found at `path`. The kind of the dependency follows from the object's class. Containers
  /// are recorded when they are used.
  void read(const PathNode *path, nb::handle object);
  void depend(const PathNode *path, artifact::Dependency::Kind kind);

  /// The path of a function's globals; functions of one module share it.
  const PathNode *getFunctionRoot(nb::handle function, const PathNode *path);

  /// The path of a closure's variable; functions that capture the same variable share it.
  const PathNode *getCellRoot(nb::handle cell, const PathNode *path);

  /// Records the paths of a struct type and of its members' types, whose methods have their own globals and closures.
  /// `isClass`: the path leads to the dataclass that the type represents.
  void recordType(nb::handle structType, const PathNode *path, bool isClass = false);
  /// The path of a function in the attribute `kind` ("methods" or "statics") of a struct type; null if the type's path is unknown.
  const PathNode *getTypeMember(nb::handle structType, const char *kind, llvm::StringRef name);

  /// The number of the input for a value of this type, which each launch reads from `path`.
  uint32_t addValue(const PathNode *path, mlir::Type type);
  /// Sets `mayAlias` for arrays that are updated atomically and share memory.
  void markOverlaps();
  /// The number of the input for the container `object` at `path`. Sets `mayAlias` for a field that shares memory with another input.
  uint32_t addTensor(const PathNode *path, nb::handle object, layout::TensorLayout layout, bool isField);

  /// A container that is an input.
  struct Container {
    nb::object object;
    const PathNode *path;
    uint32_t input;
  };
  const std::vector<Container> &getContainers() const { return containers; }

  const artifact::Input &getInput(uint32_t number) const { return number < kBlockArrays ? artifact.inputs[number] : blockArray; }
  /// Numbers from here on belong to arrays in block memory, which are no inputs of a launch.
  static constexpr uint32_t kBlockArrays = 1u << 31;
  uint32_t addBlockArray() { return kBlockArrays + blockArrayCount++; }
  /// Excludes the kernel from the disk cache, because no path describes something that it uses.
  void refuseCache() { artifact.cacheable = false; }

  static std::string describe(const PathNode *path);
  /// Whether the path ends with an attribute `grad` or `dual`.
  /// The path under which the compilation reached an object first. That all its paths lead to one object is a dependency.
  const PathNode *findFirstPath(const PathNode *path, nb::handle object);
  static bool isShadow(const PathNode *path);

private:
  static artifact::Input makeBlockArray() {
    artifact::Input input;
    input.name = "the shared array";
    input.isField = true;
    return input;
  }
  artifact::Path makePath(const PathNode *node) const;
  uint32_t addInput(artifact::Input input, uint32_t bytes);

  const PythonObjects &python;
  artifact::Artifact &artifact;
  std::map<std::tuple<const PathNode *, PathStep::Kind, std::string, int64_t>, std::unique_ptr<PathNode>> steps;
  std::map<uint32_t, std::unique_ptr<PathNode>> arguments;
  std::unique_ptr<PathNode> kernel;
  artifact::Input blockArray = makeBlockArray();
  uint32_t blockArrayCount = 0;
  llvm::DenseMap<const PathNode *, uint32_t> values, tensors;
  std::vector<Container> containers;
  llvm::DenseMap<PyObject *, const PathNode *> functionRoots, cellRoots, firstPaths;
  llvm::DenseMap<PyObject *, std::pair<const PathNode *, bool>> typePaths; ///< of struct types; true: path of the class
  std::map<std::pair<const PathNode *, artifact::Dependency::Kind>, bool> dependencies;
};

} // namespace qd::frontend
