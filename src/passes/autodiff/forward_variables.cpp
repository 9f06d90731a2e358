// forward_variables.cpp: loads of variables in derived kernels become the values stored before
//
// In:   derived kernels. An adjoint is a variable: most blocks load it, clear it, and store a sum with the -0.0 that it was cleared to.
// Out:  within each block, values instead of loads after stores, and no store that is never read.
// Here: LLVM would find the same, but the passes on loops come before it: now they see that the adjoint of a sum, which a loop adds to, is
//       the same in all iterations.
#include "passes/autodiff/forward_variables.h"

#include "ir/attributes.h"
#include "ir/memory.h"

using namespace mlir;
using namespace qd::ir;

namespace qd::passes {

namespace {

/// What is known about a variable at a place in a block.
struct Known {
  Value value;  ///< that it holds; null: unknown
  StoreOp last; ///< stored that value, and nothing may have read it since
  Value before; ///< what it held before that store
};

/// Whether all accesses of a place are loads and stores of a whole variable.
bool isPlain(Value place) {
  return place.getDefiningOp<LocalOp>() && llvm::all_of(place.getUsers(), [&](Operation *user) {
           bool isAccess = isa<LoadOp, StoreOp>(user);
           return isAccess && !user->hasAttr(kVolatile) && !user->hasAttr(kGuards) && !user->hasAttr(kGuarded);
         });
}

bool isNegativeZero(Value value) {
  auto constant = value.getDefiningOp<ConstantOp>();
  if (!constant) return false;
  if (auto number = dyn_cast<FloatAttr>(constant.getValue())) return number.getValue().isNegZero();
  auto all = dyn_cast<DenseFPElementsAttr>(constant.getValue());
  return all && all.isSplat() && all.getSplatValue<APFloat>().isNegZero();
}

class Forwarder {
public:
  void run(Block &block) {
    llvm::DenseMap<Value, Known> known;
    for (Operation &op : llvm::make_early_inc_range(block)) {
      for (Region &region : op.getRegions())
        for (Block &inner : region) run(inner);
      if (op.getNumRegions() > 0) forget(op, known);
      if (auto load = dyn_cast<LoadOp>(op); load && isKnown(load.getRef()))
        visitLoad(load, known[load.getRef()]);
      else if (auto store = dyn_cast<StoreOp>(op); store && isKnown(store.getRef()))
        visitStore(store, known[store.getRef()]);
      else if (auto sum = dyn_cast<BinaryOp>(op); sum && sum.getBinaryKind() == BinaryKind::add)
        simplify(sum);
    }
    for (auto &[place, about] : known)
      if (about.last && place.getParentBlock() == &block) about.last.erase();
  }

private:
  bool isKnown(Value place) {
    auto [entry, isNew] = plain.try_emplace(place, false);
    return isNew ? entry->second = isPlain(place) : entry->second;
  }

  static void visitLoad(LoadOp load, Known &known) {
    if (!known.value) return void(known.value = load);
    load.replaceAllUsesWith(known.value);
    load.erase();
  }

  static void visitStore(StoreOp store, Known &known) {
    Value before = known.last ? known.before : known.value;
    if (known.last) known.last.erase();
    bool isSame = before == store.getValue();
    known = {store.getValue(), isSame ? StoreOp() : store, before};
    if (isSame) store.erase();
  }

  static void simplify(BinaryOp sum) {
    for (auto [operand, other] : {std::pair(sum.getLhs(), sum.getRhs()), std::pair(sum.getRhs(), sum.getLhs())})
      if (isNegativeZero(operand) && other.getType() == sum.getType()) {
        sum.replaceAllUsesWith(other);
        return sum.erase();
      }
  }

  /// Drops what does not hold behind an operation with regions: it may store to variables, read them, or leave the block.
  static void forget(Operation &op, llvm::DenseMap<Value, Known> &known) {
    for (auto &[place, about] : known) about.last = {};
    op.walk([&](StoreOp store) { known.erase(store.getRef()); });
  }

  llvm::DenseMap<Value, bool> plain;
};

} // namespace

void forwardVariables(ModuleOp module) {
  Forwarder forwarder;
  for (Operation &function : *module.getBody())
    for (Region &region : function.getRegions())
      for (Block &block : region) forwarder.run(block);
}

} // namespace qd::passes
