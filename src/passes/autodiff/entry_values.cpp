// entry_values.cpp: choose the containers whose entry values the gradient of a replayed call reads
//
// A tape saves what a call overwrites, so the gradient may read the entry values of a container, but only of a whole container.
// In:   a kernel whose gradient replays a call (mode `replay`): prepareReplay; later its gradient, whose loads have marks: useEntryValues.
// Out:  fewer loads, because stored values are forwarded, and then kReadsEntryValues, the containers of which entry values suffice.
#include "passes/autodiff/entry_values.h"

#include "ir/attributes.h"
#include "ir/memory.h"
#include "passes/autodiff/overwritten_primals.h"
#include "passes/autodiff/same_elements.h"
#include "passes/demote_atomics.h"

#include "llvm/ADT/MapVector.h"

using namespace mlir;
using namespace qd::ir;

namespace qd::passes {

namespace {

/// Replaces loads of an element that was stored before by the stored value (store-to-load forwarding).
class Forwarder {
  using Known = SmallVector<std::pair<ElementOp, Value>>;

public:
  explicit Forwarder(ModuleOp module) : elements(module) {
    module.walk([&](TensorArgumentOp argument) { hasShadow[argument.getOffset()] |= argument->hasAttr(kShadow); });
  }

  void run(Block &block, Known known = {}) {
    for (Operation &op : llvm::make_early_inc_range(block)) {
      auto loop = dyn_cast<ForOp>(op);
      if (!isa<IfOp>(op)) forgetWritten(known, op); // a round of a loop follows the other ones
      for (Region &region : op.getRegions())
        if (!region.empty()) run(region.front(), loop && loop.getParallel() ? Known() : known);
      if (isa<IfOp>(op)) forgetWritten(known, op);
      if (auto load = dyn_cast<LoadOp>(op)) {
        if (Value stored = find(known, load)) {
          load.replaceAllUsesWith(stored);
          load.erase();
        }
      } else if (auto store = dyn_cast<StoreOp>(op)) {
        auto element = store.getRef().getDefiningOp<ElementOp>();
        if (element && mayForward(element, store.getValue())) known.push_back({element, store.getValue()});
      }
    }
  }

private:
  /// Drops elements that the operation, or one within it, may write.
  void forgetWritten(Known &known, Operation &within) const {
    within.walk([&](Operation *op) {
      auto access = dyn_cast<MemoryAccessOpInterface>(op);
      if (isa<CallOp>(op) || (access && access.isAtomic())) known.clear();
      auto store = dyn_cast<StoreOp>(op);
      ElementOp element = store ? findElement(store.getRef()) : ElementOp();
      if (!element) return;
      // A container with another name may alias this one.
      llvm::erase_if(known, [&](auto &entry) {
        return entry.first.getTensor() != element.getTensor() ||
               !elements.isAnotherElement(splitIndices(entry.first), splitIndices(element));
      });
    });
  }

  Value find(const Known &known, LoadOp load) const {
    auto element = load.getRef().getDefiningOp<ElementOp>();
    for (auto [stored, value] : known)
      if (element && stored.getTensor() == element.getTensor() && elements.isSameElement(splitIndices(stored), splitIndices(element)))
        return value;
    return {};
  }

  /// Whether the value may be forwarded: loads of floats from a container without a gradient are constants and must stay loads.
  bool mayForward(ElementOp element, Value value) {
    TensorArgumentOp container = findContainer(element);
    return container && (hasShadow.lookup(container.getOffset()) || !isFloatScalar(getScalar(value.getType())));
  }

  SameElements elements;
  DenseMap<uint32_t, bool> hasShadow;
};

} // namespace

void prepareReplay(ModuleOp module, KernelOp kernel) {
  demoteOwnUpdates(module);
  Forwarder(module).run(kernel.getBody().front());
}

void useEntryValues(ModuleOp module) {
  for (KernelOp kernel : module.getOps<KernelOp>()) {
    auto mode = dyn_cast_or_null<StringAttr>(kernel->removeAttr(kDerivative));
    if (!mode || mode.getValue() != "replay") continue;
    llvm::MapVector<uint32_t, SmallVector<Operation *>> loads;
    DenseSet<uint32_t> wanted, impossible;
    module.walk([&](LoadOp load) {
      TensorArgumentOp container = findContainer(load.getRef());
      if (!container) return;
      uint32_t offset = container.getOffset();
      loads[offset].push_back(load);
      if (!load->hasAttr(kIsEntryValue)) impossible.insert(offset);
      if ((load->hasAttr(kOverwritten) || load->hasAttr(kMayBeOverwritten)) && load->hasAttr(kIsEntryValue)) wanted.insert(offset);
    });
    SmallVector<int32_t> chosen;
    for (auto &[offset, ops] : loads) {
      if (!wanted.contains(offset) || impossible.contains(offset)) continue;
      chosen.push_back(int32_t(offset));
      for (Operation *load : ops)
        for (StringRef mark : {kOverwritten, kMayBeOverwritten}) load->removeAttr(mark);
    }
    if (!chosen.empty()) kernel->setAttr(kReadsEntryValues, DenseI32ArrayAttr::get(kernel.getContext(), chosen));
  }
}

} // namespace qd::passes
