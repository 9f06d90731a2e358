// input_effects.cpp: effects of a kernel on its inputs, and facts about the inputs of the launch that caused the compilation
//
// In:   the complete module, and the containers that the compilation has used.
// Out:  `isWritten`, `isUpdated`, `isSpread` and `mayAlias` of the artifact's inputs; the attributes kOverlaps, kManyAxes, kShares,
//       kRowLength and kWideStrides.
// Here: launches refuse read-only memory only for inputs that are written. Atomic updates through two arrays in the same memory must stay
//       atomic. Kernels with serial loops are specialized for extents and for arrays that share memory.
#include "frontend/session.h"
#include "ir/attributes.h"
#include "ir/call_graph.h"
#include "ir/memory.h"

using namespace mlir;

namespace qd::frontend {

/// Whether iterations of a parallel loop may execute the operation. A func may be called from such a loop.
static bool isInParallel(Operation *op) {
  for (; op; op = op->getParentOp())
    if (auto loop = dyn_cast<ir::ForOp>(op); isa<ir::FuncOp>(op) || (loop && loop.getParallel())) return true;
  return false;
}

void Session::markWrittenInputs() {
  llvm::DenseSet<mlir::Value> written, updated, spread;
  SmallVector<ir::CallOp> calls;
  ir::CallGraph functions(*module);
  module->walk([&](Operation *op) {
    auto access = dyn_cast<ir::MemoryAccessOpInterface>(op);
    if (access && access.writes()) {
      mlir::Value base = ir::findBase(access.getRef());
      (access.isAtomic() ? updated : written).insert(base);
      if (isInParallel(op)) spread.insert(base);
    } else if (!access && !ir::listWrittenPlaces(op).empty()) {
      calls.push_back(cast<ir::CallOp>(op));
    }
  });
  // A func that writes its parameter writes the argument of each call. Chains of calls take as many rounds as they have calls.
  for (bool changed = true; changed;) {
    changed = false;
    for (ir::CallOp call : calls)
      for (auto [operand, parameter] : llvm::zip(call.getArguments(), functions.lookup(call).getBody().getArguments()))
        for (llvm::DenseSet<mlir::Value> *found : {&written, &updated, &spread})
          if (isa<ir::RefType>(operand.getType()) && found->contains(parameter) && (found != &spread || isInParallel(call)))
            changed |= found->insert(ir::findBase(operand)).second;
  }
  for (auto [op, input] : tensorArguments) {
    bool isUpdated = updated.contains(op.getResult());
    artifact.inputs[input].isUpdated |= isUpdated;
    artifact.inputs[input].isSpread |= spread.contains(op.getResult());
    artifact.inputs[input].isWritten |= isUpdated || written.contains(op.getResult());
  }
  tracker.markOverlaps();
  for (auto [op, input] : tensorArguments) {
    // A field without axes looks like an array of which nothing is known.
    bool isArray = !artifact.inputs[input].isField || cast<ir::TensorType>(op.getType()).getExtents().empty();
    if (artifact.inputs[input].mayAlias && isArray) op->setAttr(ir::kOverlaps, UnitAttr::get(&ctx));
  }
}

static bool hasSerialLoops(Block &block) {
  return llvm::any_of(block, [](Operation &op) {
    if (auto loop = dyn_cast<ir::ForOp>(op)) return !loop.getParallel();
    return isa<ir::RepeatOp, ir::IfOp>(op) &&
           llvm::any_of(op.getRegions(), [](Region &region) { return !region.empty() && hasSerialLoops(region.front()); });
  });
}

/// The memory of sparse fields has margins, of the size of the field, which Buffer::reserve leaves on each side.
void Session::markMargins() {
  constexpr int64_t kMost = 1 << 30; // less than Buffer::kMaxMargin, and farther than lanes are apart
  llvm::DenseMap<uint32_t, int64_t> margins;
  for (const DependencyTracker::Container &container : tracker.getContainers()) {
    nb::object cells = findAttribute(unwrapTensor(container.object), python.names._cells);
    if (!cells || cells.is_none()) continue;
    layout::ByteRange range = layout::computeByteRange(tracker.getInput(container.input).layout);
    margins[container.input] = std::min(range.end - range.begin, kMost);
  }
  for (auto [op, input] : tensorArguments)
    if (auto found = margins.find(input); found != margins.end()) op->setAttr(ir::kMargin, Builder(&ctx).getI64IntegerAttr(found->second));
}

void Session::addSpecializationFacts() {
  constexpr int64_t kShortRow = 8; // lanes that are farther apart gather
  if (llvm::any_of(artifact.inputs, [](const artifact::Input &input) { return input.layout.hasWideStrides; }))
    (*module)->setAttr(ir::kWideStrides, UnitAttr::get(&ctx));
  if (request.mode != support::AutodiffMode::None) return; // serial loops of derived kernels stay serial
  auto kernels = module->getOps<ir::KernelOp>();
  bool areSerial = llvm::any_of(kernels, [](ir::KernelOp kernel) { return hasSerialLoops(kernel.getBody().front()); });
  bool haveArrays = llvm::any_of(tensorArguments, [](auto pair) { return !pair.first.getField(); });
  if (!areSerial && !haveArrays) return;
  nb::list objects;
  llvm::DenseMap<uint32_t, uint32_t> manyAxes;
  llvm::DenseMap<uint32_t, int64_t> rowLengths;
  llvm::DenseSet<uint32_t> shared;
  for (const DependencyTracker::Container &container : tracker.getContainers()) {
    nb::handle object = unwrapTensor(container.object);
    objects.append(object);
    const layout::TensorLayout &layout = tracker.getInput(container.input).layout;
    bool isOfLanguage = python.isTensor(object);
    auto extents = isOfLanguage ? readLayout(object).extents : readNumbers(findAttribute(object, python.names.shape));
    uint32_t &axes = manyAxes[container.input];
    for (size_t axis = 0; axis < std::min<size_t>(layout.extents.size(), 32); ++axis)
      axes |= uint32_t(extents[axis] >= artifact::kManyElements) << axis;
    const bool hasRows = extents.size() > 1 && layout.extents.size() == extents.size() && layout.strides.empty();
    if (hasRows && extents.back() > 1 && extents.back() * layout.element.componentCount() <= kShortRow)
      rowLengths[container.input] = extents.back();
    // With strides of another library, several indices may refer to one element.
    if (!isOfLanguage && !layout.strides.empty()) shared.insert(container.input);
  }
  for (nb::handle number : python.containers.listShared(objects)) shared.insert(tracker.getContainers()[nb::cast<size_t>(number)].input);
  Builder builder(&ctx);
  for (auto [op, input] : tensorArguments) {
    if (areSerial) op->setAttr(ir::kManyAxes, builder.getI32IntegerAttr(int32_t(manyAxes.lookup(input))));
    if (auto found = rowLengths.find(input); found != rowLengths.end() && !op.getField())
      op->setAttr(ir::kRowLength, builder.getI64IntegerAttr(found->second));
    if (shared.contains(input)) op->setAttr(ir::kShares, UnitAttr::get(&ctx));
  }
}

} // namespace qd::frontend
