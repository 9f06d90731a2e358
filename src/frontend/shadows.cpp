// shadows.cpp: inputs for the gradients or tangents of a kernel's containers
//
// In:   the containers of a kernel that is compiled to be differentiated.
// Out:  an input for each shadow, and the attributes kShadow and kDerivative.
// Here: a shadow is an input like its container, one step further along the same path. A container without shadow receives no gradient; the
//       absence of the shadow is a dependency.
#include "frontend/session.h"
#include "ir/attributes.h"

#include "mlir/IR/Builders.h"

#include <map>

using namespace mlir;

namespace qd::frontend {

using artifact::Dependency;
using support::AutodiffMode;

/// Whether the container is an argument annotated with `needs_grad=False`.
static bool ignoresGradient(const PathNode *path, nb::handle parameters) {
  if (path->parent || path->root != artifact::Path::Root::Argument) return false;
  nb::object annotation = findAttribute(parameters[path->argument], nb::str("annotation"));
  nb::object wanted = annotation ? findAttribute(annotation, nb::str("needs_grad")) : nb::object();
  return wanted && wanted.is(nb::handle(Py_False));
}

void Session::addShadows() {
  static const std::map<AutodiffMode, const char *> derivatives{{AutodiffMode::Forward, "forward"},
                                                                {AutodiffMode::Reverse, "reverse"},
                                                                {AutodiffMode::Replay, "replay"},
                                                                {AutodiffMode::Fused, "fused"}};
  auto derivative = derivatives.find(request.mode);
  if (derivative == derivatives.end()) return;
  const bool isReverse = request.mode != AutodiffMode::Forward;
  const char *name = isReverse ? "grad" : "dual";
  llvm::DenseMap<uint32_t, uint32_t> shadows;
  std::string first;                                                                    // container without a shadow
  const std::vector<DependencyTracker::Container> containers = tracker.getContainers(); // a copy: shadows are added to the list
  for (const auto &[object, path, input] : containers) {
    layout::TensorLayout layout = tracker.getInput(input).layout;
    if (!path || support::isInteger(layout.element.scalar) || ignoresGradient(path, request.parameters)) continue;
    if (DependencyTracker::isShadow(path) && isReverse)
      fail(error::kRuntime,
           "Cannot automatically differentiate through a grad tensor: the kernel uses " + DependencyTracker::describe(path));
    bool isTensor = python.isTensor(object);
    // The shadow of a field may be declared and have no memory.
    nb::str which((isTensor ? llvm::Twine("_placed_") + name : llvm::Twine(name)).str().c_str());
    nb::object shadow = findAttribute(object, which);
    if (!shadow || shadow.is_none()) {
      if (first.empty()) first = tracker.getInput(input).name;
      // Arrays of other libraries have no such attribute, or None.
      tracker.depend(tracker.getStep(path, PathStep::Kind::Attribute, toText(which)),
                     shadow && isTensor ? Dependency::Kind::Value : Dependency::Kind::Absent);
      continue;
    }
    bool isField = isTensor && python.isInstance(shadow, python.containers.field);
    if (isTensor)
      layout = readInputLayout(shadow);
    else
      nb::cast<bool>(shadow.attr("is_contiguous")()) ? layout.strides.clear()
                                                     : layout.strides.assign(layout.extents.size(), layout::kDynamic);
    uint32_t number = tracker.addTensor(tracker.getStep(path, PathStep::Kind::Attribute, name), shadow, std::move(layout), isField);
    artifact.inputs[number].isWritten = artifact.inputs[number].isUpdated = artifact.inputs[number].isSpread = true;
    shadows[input] = number;
  }
  if (request.mode == AutodiffMode::Reverse && shadows.empty()) artifact.ungraded = first;
  Builder builder(&ctx);
  for (auto [op, input] : tensorArguments) {
    auto found = shadows.find(input);
    if (found == shadows.end()) continue;
    const artifact::Input &shadow = tracker.getInput(found->second);
    // The shadow of a field that is seen as blocks is seen as the same blocks.
    const bool isWhole = op.getType() == ir::getType(&ctx, tracker.getInput(input).layout);
    const Type type = isWhole ? Type(ir::getType(&ctx, shadow.layout)) : op.getType();
    op->setAttr(ir::kShadow, builder.getArrayAttr({builder.getI32IntegerAttr(int32_t(shadow.offset)), TypeAttr::get(type),
                                                   builder.getBoolAttr(shadow.isField && !shadow.mayAlias)}));
  }
  for (auto kernel : module->getOps<ir::KernelOp>()) {
    kernel.setArgumentBytes(artifact.argumentBytes);
    kernel->setAttr(ir::kDerivative, builder.getStringAttr(derivative->second));
  }
}

} // namespace qd::frontend
