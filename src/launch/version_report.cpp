// version_report.cpp: makes the entry of a version in reports
//
// In:   a new artifact, the objects that it depends on, and how long it took.
// Out:  an entry of quadrants._session.records of texts and numbers, which keeps no object alive.
#include "launch/version_report.h"

#include "launch/kernel.h"
#include "launch/state.h"

namespace qd::launch {

using artifact::Dependency;
using artifact::Input;

/// The object at the end of a path; empty when it leads nowhere.
static Ref resolve(const artifact::Path &path, const Roots &roots) {
  return takeSteps(path.root == artifact::Path::Root::Argument ? roots.arguments[path.argument] : roots.function, path.steps);
}

/// Formats numbers as a tuple. The bits of `manyAxes` and `fewAxes` mark axes of which only that is known.
static std::string formatNumbers(const std::vector<int64_t> &numbers, uint32_t manyAxes = 0, uint32_t fewAxes = 0) {
  std::string text;
  for (size_t axis = 0; axis < numbers.size(); ++axis) {
    std::string number = numbers[axis] == layout::kDynamic ? "any" : std::to_string(numbers[axis]);
    if (axis < 32 && manyAxes >> axis & 1) number = std::to_string(artifact::kManyElements) + " or more";
    if (axis < 32 && fewAxes >> axis & 1) number = "fewer than " + std::to_string(artifact::kManyElements);
    text += (text.empty() ? "" : ", ") + number;
  }
  return "(" + text + (numbers.size() == 1 ? ",)" : ")");
}

/// Describes the properties of an input that the code is specialized for.
static std::string describeInput(const Input &input) {
  const layout::TensorLayout &layout = input.layout;
  if (input.kind == Input::Kind::Value) return layout::describe(input.type);
  std::string text = (input.isField ? "field of " : "array of ") + layout::describe(layout.element) + " " +
                     formatNumbers(layout.extents, input.manyAxes, input.fewAxes);
  if (!layout.origin.empty()) text += " from " + formatNumbers(layout.origin);
  // The extents of arrays are not known, and packed arrays have no strides in their layout.
  bool isPacked = input.isField ? layout.strides == layout::computePackedStrides(layout.element, layout.extents) : layout.strides.empty();
  if (!isPacked) text += input.isField ? " with strides " + formatNumbers(layout.strides) : ", strided";
  if (layout.hasWideStrides) text += ", with strides of more than 32 bits";
  if (!layout.tilings.empty()) text += ", in tiles";
  if (input.isUnaliased) text += ", sharing memory with no other input";
  return text + (input.mayAlias ? ", sharing memory with another input" : "");
}

/// A list of (path, kind of dependency, the object or a text, digest) for everything that the version depends on.
static Ref listReads(const artifact::Artifact &artifact, const Roots &roots) {
  static const char *kKinds[] = {"value", "function", "type", "identity", "absent"};
  Ref list = Ref::adopt(PyList_New(0));
  for (const Dependency &dependency : artifact.dependencies) {
    Ref object = resolve(dependency.path, roots);
    append(list,
           Ref::adopt(Py_BuildValue("(ssOy#)", describe(dependency.path).c_str(), kKinds[size_t(dependency.kind)],
                                    object ? object.get() : Py_None, dependency.digest.data(), Py_ssize_t(dependency.digest.size()))));
  }
  for (const Input &input : artifact.inputs)
    append(list, Ref::adopt(Py_BuildValue("(sssy)", describe(input.path).c_str(), "input", describeInput(input).c_str(), "")));
  return list;
}

static artifact::SourceLocation getInnermost(const std::vector<artifact::SourceLocation> &frames) {
  return frames.empty() ? artifact::SourceLocation() : frames.back();
}

static Ref listLoops(const artifact::Artifact &artifact) {
  Ref list = Ref::adopt(PyList_New(0));
  for (const artifact::LoopReport &loop : artifact.report.loops) {
    artifact::SourceLocation location = getInnermost(loop.frames);
    append(list, Ref::adopt(Py_BuildValue("(sIIsIIL)", location.file.c_str(), location.line, loop.lanes, loop.whyScalar.c_str(),
                                          loop.registers, loop.copies, (long long)loop.chunk)));
  }
  return list;
}

static Ref listCheckpoints(const artifact::Artifact &artifact) {
  Ref list = Ref::adopt(PyList_New(0));
  for (const artifact::CheckpointReport &checkpoints : artifact.report.checkpoints) {
    artifact::SourceLocation location = getInnermost(checkpoints.frames);
    append(list, Ref::adopt(Py_BuildValue("(sIIIO)", location.file.c_str(), location.line, checkpoints.states, checkpoints.bytes,
                                          checkpoints.keepsAll ? Py_True : Py_False)));
  }
  return list;
}

Ref reportVersion(KernelObject &kernel, const artifact::Artifact &artifact, const Roots &roots, const Origin &origin) {
  Ref reads = listReads(artifact, roots), loops = listLoops(artifact), checkpoints = listCheckpoints(artifact);
  return call("quadrants._session.records", "record", "OKOsdnIOOO", &kernel, static_cast<unsigned long long>(getState().epoch),
              origin.stages ? origin.stages : Py_None, origin.miss.c_str(), origin.seconds, Py_ssize_t(artifact.binary.size()),
              artifact.report.operations, loops.get(), checkpoints.get(), reads.get());
}

} // namespace qd::launch
