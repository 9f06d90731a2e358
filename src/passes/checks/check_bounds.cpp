// check_bounds.cpp: assertions before accesses that may be out of bounds
//
// In:   the frontend's IR.
// Out:  a qd.assert before each element and run-time component whose indices are not known to be within bounds; without debug mode only
//       before elements marked kChecked.
// Here: first, while loops and their bounds are as the user wrote them: an index needs no check if the bounds of its loop keep it, or its
//       sum with a constant, within the container.
#include "ir/attributes.h"
#include "ir/code.h"
#include "passes/checks/assert_text.h"
#include "passes/checks/index_range.h"

#include "mlir/IR/Builders.h"
#include "mlir/IR/BuiltinOps.h"
#include "mlir/Pass/Pass.h"
#include "llvm/ADT/StringExtras.h"

using namespace mlir;
using namespace qd::ir;

namespace qd::passes {

#define GEN_PASS_DECL_CHECKBOUNDS
#define GEN_PASS_DEF_CHECKBOUNDS
#include "passes/passes.h.inc"

namespace {

class Checker : Code {
public:
  Checker(OpBuilder &builder, ModuleOp module, bool checksAll)
      : Code(builder, module.getLoc()), module(module), checksAll(checksAll), wide(builder.getIntegerType(64, /*isSigned=*/true)) {}

  void run() {
    SmallVector<Operation *> found;
    module.walk([&](Operation *op) {
      if (checksAll ? isa<ElementOp, ComponentOp, ExtractAtOp>(op) : isa<ElementOp>(op) && op->hasAttr(kChecked)) found.push_back(op);
    });
    for (Operation *op : found) {
      builder.setInsertionPoint(op);
      loc = op->getLoc();
      if (auto element = dyn_cast<ElementOp>(op))
        checkElement(element);
      else if (auto component = dyn_cast<ComponentOp>(op))
        checkComponent(mlir::cast<RefType>(component.getRef().getType()).getPointee(), component.getIndices());
      else if (auto extract = dyn_cast<ExtractAtOp>(op))
        checkComponent(extract.getOperand().getType(), extract.getIndices());
    }
  }

private:
  /// Whether the index is within the axis: a good constant, or limited by the bounds of its loop.
  static bool isWithin(Value index, int64_t first, int64_t extent, Value tensor, unsigned axis) {
    std::optional<IndexRange> range = findIndexRange(index);
    if (!range || range->lower < first) return false;
    if (range->tensor) return range->tensor == tensor && range->axis == axis && range->end <= first;
    return extent != layout::kDynamic && range->end - first <= extent;
  }

  Value getExtent(Type type, int64_t extent, Value tensor, unsigned axis) {
    return extent != layout::kDynamic ? integer(type, extent) : cast(ExtentOp::create(builder, loc, wide, tensor, axis), type);
  }

  /// `first <= index < first + extent` on each axis where that is unknown, as one unsigned comparison. Null if all axes are known.
  Value checkIndices(ValueRange indices, ArrayRef<int64_t> origin, ArrayRef<int64_t> extents, Value tensor) {
    Value isGood;
    for (auto [axis, index] : llvm::enumerate(indices)) {
      int64_t first = origin.empty() ? 0 : origin[axis], extent = extents[axis];
      if (isWithin(index, first, extent, tensor, unsigned(axis))) continue;
      // Subtracting the origin from an unsigned index may wrap around: 64 bits are needed.
      bool wraps = first != 0 && index.getType().isUnsignedInteger();
      bool isNarrow = index.getType().getIntOrFloatBitWidth() <= 32 && !wraps && extent != layout::kDynamic && extent <= INT32_MAX;
      Type type = builder.getIntegerType(isNarrow ? 32 : 64, /*isSigned=*/false);
      Value unsignedIndex = cast(index, type);
      if (first != 0) unsignedIndex = sub(unsignedIndex, integer(type, isNarrow ? int64_t(uint32_t(first)) : first));
      Value isBelow = binary(BinaryKind::lt, unsignedIndex, getExtent(type, extent, tensor, unsigned(axis)));
      isGood = isGood ? binary(BinaryKind::bit_and, isGood, isBelow) : isBelow;
    }
    return isGood;
  }

  void checkElement(ElementOp element) {
    auto tensor = mlir::cast<ir::TensorType>(element.getTensor().getType());
    Value isGood = checkIndices(element.getIndices(), tensor.getOrigin(), tensor.getExtents(), element.getTensor());
    if (!isGood) return;
    SmallVector<Value> extents;
    for (unsigned axis = 0; axis < tensor.getRank(); ++axis)
      extents.push_back(getExtent(wide, tensor.getExtents()[axis], element.getTensor(), axis));
    auto argument = element.getTensor().getDefiningOp<TensorArgumentOp>();
    AssertText text(builder.getContext());
    if (llvm::is_contained(tensor.getExtents(), layout::kDynamic)) {
      text << "Out of bound access to ndarray";
      if (argument) text << " at arg " + Twine(argument.getPosition());
      text.list(element.getIndices(), " with indices [", "]").list(extents, " of shape [", "]");
    } else {
      text << "Accessing field (" + (argument ? argument.getName() : StringRef("field")) + ")";
      text.list(extents, " of size (", ")");
      if (!tensor.getOrigin().empty())
        text << " offset (" + llvm::join(llvm::map_range(tensor.getOrigin(), [](int64_t first) { return std::to_string(first); }), ", ") +
                    ")";
      text.list(element.getIndices(), " with indices (", ")");
    }
    text.addAssert(builder, loc, isGood, artifact::Site::Kind::Bounds);
  }

  void checkComponent(Type of, ValueRange indices) {
    auto type = mlir::cast<VectorType>(of);
    Value isGood = checkIndices(indices, {}, type.getShape(), Value());
    if (!isGood) return;
    std::string shape = std::to_string(type.getDimSize(0));
    if (type.getRank() == 2) shape += ", " + std::to_string(type.getDimSize(1));
    AssertText text(builder.getContext());
    text << "Out of bound access to a [" + shape + "] matrix";
    text.list(indices, " with index [", "]");
    text.addAssert(builder, loc, isGood, artifact::Site::Kind::Bounds);
  }

  ModuleOp module;
  const bool checksAll;
  Type wide;
};

struct CheckBoundsPass : impl::CheckBoundsBase<CheckBoundsPass> {
  using Base = impl::CheckBoundsBase<CheckBoundsPass>;
  using Base::Base;
  void runOnOperation() override {
    OpBuilder builder(&getContext());
    Checker(builder, getOperation(), all).run();
  }
};

} // namespace

} // namespace qd::passes
