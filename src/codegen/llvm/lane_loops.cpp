// lane_loops.cpp: what loops that run in lanes inside of code with one lane require when they begin
//
// In:   a loop that passes/compactions.cpp marked.
// Out:  the condition that its lanes may run at the same time: the containers that it writes share no memory with others that it accesses,
//       and where it removes elements in place, the counter is not ahead of the loop.
// Here: if it does not hold, the loop runs like any other (loops.cpp); otherwise row_loops.cpp emits it.
#include "codegen/llvm/body.h"
#include "ir/attributes.h"
#include "ir/memory.h"

#include "llvm/ADT/MapVector.h"
#include "llvm/IR/Constants.h"

using namespace mlir;

namespace qd::codegen {

/// The counter that is a part of an index; null if there is none.
static ir::LoadOp findCounter(Value index) {
  if (auto load = index.getDefiningOp<ir::LoadOp>())
    return llvm::any_of(load.getRef().getUsers(), [](Operation *user) { return user->hasAttr(ir::kCompacts); }) ? load : ir::LoadOp();
  auto sum = index.getDefiningOp<ir::BinaryOp>();
  if (!sum) return {};
  ir::LoadOp left = findCounter(sum.getLhs());
  return left ? left : findCounter(sum.getRhs());
}

namespace {

class LaneConditions {
public:
  LaneConditions(BodyEmitter &in, ir::ForOp op) : in(in), at(in.builder), op(op) {}

  llvm::Value *emit() {
    op.getBody().walk([&](ir::ElementOp element) {
      ir::TensorArgumentOp container = ir::findContainer(element);
      Uses &own = uses.try_emplace(container.getOffset(), Uses{container, {}, false}).first->second;
      for (Operation *user : element->getUsers())
        isa<ir::StoreOp>(user) ? void(own.store = cast<ir::StoreOp>(user)) : void(own.isRead = true);
    });
    for (auto &[offset, own] : uses) {
      if (!own.store) continue;
      if (own.isRead) require(isBehind(own.store));
      for (auto &[other, others] : uses)
        if (other != offset && !(own.container.getField() && others.container.getField()) && (other > offset || !others.store))
          require(areApart(own.container, others.container));
    }
    return all;
  }

private:
  struct Uses {
    ir::TensorArgumentOp container;
    ir::StoreOp store;
    bool isRead;
  };

  void require(llvm::Value *condition) {
    if (condition) all = all ? at.CreateAnd(all, condition) : condition;
  }

  llvm::Value *widen(const Component &number, Type type) { return in.castIndex(number, type, at.getInt64Ty()).value; }

  /// Whether a counter is not ahead of the loop. An own element of each iteration is read by no other one.
  llvm::Value *isBehind(ir::StoreOp store) {
    if (!store->hasAttr(ir::kCompacts)) return nullptr;
    ir::LoadOp counter = findCounter(ir::findElement(store.getRef()).getIndices()[0]);
    llvm::Value *first = widen(in.memory.load(in.values.getPlace(counter.getRef()))[0], counter.getType());
    return at.CreateICmpSLE(first, widen(in.values.getScalar(op.getLower()[0]), op.getLower()[0].getType()));
  }

  /// The addresses of the first byte of a container and behind its last one.
  std::pair<llvm::Value *, llvm::Value *> getRange(ir::TensorArgumentOp container) {
    Tensor tensor = in.values.getTensor(container);
    Type element = tensor.type.getElement();
    llvm::Value *first = at.CreatePtrToInt(tensor.data, at.getInt64Ty()), *last = first, *none = at.getInt64(0);
    for (auto [axis, stride] : llvm::enumerate(in.memory.getStrides(tensor))) {
      llvm::Value *span = at.CreateMul(at.CreateSub(in.memory.getExtent(tensor, int64_t(axis)), at.getInt64(1)), stride);
      first = at.CreateAdd(first, at.CreateBinaryIntrinsic(llvm::Intrinsic::smin, span, none));
      last = at.CreateAdd(last, at.CreateBinaryIntrinsic(llvm::Intrinsic::smax, span, none));
    }
    const int64_t components = ir::getComponentCount(element) - 1, size = in.module.getByteSize(ir::getScalar(element));
    return {first, at.CreateAdd(last, at.getInt64(uint64_t(components * tensor.type.getComponentStride() + size)))};
  }

  llvm::Value *areApart(ir::TensorArgumentOp a, ir::TensorArgumentOp b) {
    auto [first, end] = getRange(a);
    auto [otherFirst, otherEnd] = getRange(b);
    return at.CreateOr(at.CreateICmpULE(end, otherFirst), at.CreateICmpULE(otherEnd, first));
  }

  BodyEmitter &in;
  llvm::IRBuilder<> &at;
  ir::ForOp op;
  llvm::MapVector<uint32_t, Uses> uses; ///< by the offset of the container
  llvm::Value *all = nullptr;
};

} // namespace

llvm::Value *ControlFlow::findLaneCondition(ir::ForOp op) { return LaneConditions(body, op).emit(); }

} // namespace qd::codegen
