// dependency_tracker.h: every look at a Python object goes through here and leaves a trace in the artifact
#pragma once

#include "artifact/artifact.h"
#include "frontend/values.h"

#include <map>

namespace qd::frontend {

/// How an object was reached; shared prefixes are shared nodes, so that equal paths are one pointer.
struct PathNode {
  const PathNode *parent = nullptr; ///< null: a root
  artifact::Path::Root root = artifact::Path::Root::Kernel;
  uint32_t argument = 0;
  artifact::PathStep step;
};

class DependencyTracker {
public:
  DependencyTracker(const PythonObjects &python, artifact::Artifact &artifact) : python(python), artifact(artifact) {}

  const PathNode *getKernel();
  const PathNode *getArgument(uint32_t position, llvm::StringRef name);
  const PathNode *getStep(const PathNode *parent, artifact::PathStep::Kind kind, llvm::StringRef name, int64_t index = 0);

  /// Records that compilation depends on `object`, found at `path`: what is recorded depends on what it is. Containers are recorded when
  /// they are used.
  void read(const PathNode *path, nb::handle object);
  void depend(const PathNode *path, artifact::Dependency::Kind kind);

  /// The path under which the globals of a function are known: functions of one module share it.
  const PathNode *getFunctionRoot(nb::handle function, const PathNode *path);

  /// The path under which a closure's variable is known: functions defined side by side share it.
  const PathNode *getCellRoot(nb::handle cell, const PathNode *path);

  /// Remembers where a struct type, and the types of its members, are found: their methods have globals and closures of their own.
  /// `isClass`: the path leads to the dataclass that the type stands for.
  void noteType(nb::handle structType, const PathNode *path, bool isClass = false);
  /// The path of a function among the `kind` ("methods" or "statics") of a struct type; null when nobody knows where the type came from.
  const PathNode *getTypeMember(nb::handle structType, const char *kind, llvm::StringRef name);

  /// Number of the input of a value of this type read from `path` at each launch.
  uint32_t addValue(const PathNode *path, mlir::Type type);
  /// Number of the input of a container found at `path`; `object` tells which inputs share memory.
  /// Finds arrays that are updated and share memory.
  void markOverlaps();
  uint32_t addTensor(const PathNode *path, nb::handle object, layout::TensorLayout layout, bool isField);

  /// A container that is an input.
  struct Container {
    nb::object object;
    const PathNode *path;
    uint32_t input;
  };
  const std::vector<Container> &getContainers() const { return containers; }

  const artifact::Input &getInput(uint32_t number) const { return number < kShared ? artifact.inputs[number] : shared; }
  /// Numbers from here on are those of shared arrays, which no launch hands over.
  static constexpr uint32_t kShared = 1u << 31;
  uint32_t addShared() { return kShared + sharedCount++; }
  /// Something was used that no path describes: the kernel is not kept on disk.
  void refuseCache() { artifact.cacheable = false; }

  static std::string describe(const PathNode *path);
  /// Whether it leads to an attribute `grad` or `dual`.
  static bool isShadow(const PathNode *path);

private:
  static artifact::Input makeShared() {
    artifact::Input input;
    input.name = "the shared array";
    input.isField = true;
    return input;
  }
  artifact::Path makePath(const PathNode *node) const;
  uint32_t place(artifact::Input input, uint32_t bytes);

  const PythonObjects &python;
  artifact::Artifact &artifact;
  std::map<std::tuple<const PathNode *, artifact::PathStep::Kind, std::string, int64_t>, std::unique_ptr<PathNode>> steps;
  std::map<uint32_t, std::unique_ptr<PathNode>> arguments;
  std::unique_ptr<PathNode> kernel;
  artifact::Input shared = makeShared();
  uint32_t sharedCount = 0;
  llvm::DenseMap<const PathNode *, uint32_t> values, tensors;
  std::vector<Container> containers;
  llvm::DenseMap<PyObject *, const PathNode *> functionRoots, cellRoots;
  llvm::DenseMap<PyObject *, std::pair<const PathNode *, bool>> typePaths; ///< struct types; true: the path is that of the class
  std::map<std::pair<const PathNode *, artifact::Dependency::Kind>, bool> dependencies;
};

} // namespace qd::frontend
