// tasks.cpp: what tasks on the processor and on grids have in common
//
// In:   a parallel loop, its reductions, and the emitter of the function in which it runs.
// Out:  the numbers of its iterations, its indices, and the places that it combines.
// Here: cpu/ and grid/ divide the iterations in their own ways; what an iteration and a reduction are does not depend on that.
#include "codegen/llvm/tasks.h"

#include "llvm/IR/Constants.h"

using namespace mlir;

namespace qd::codegen {

void setUpReturns(BodyEmitter &body, std::function<void()> leave) {
  body.calls.leaveKernel = [&body, leave = std::move(leave)](ir::ReturnOp op) {
    llvm::Value *block = body.launch.getField(kResult);
    for (auto [value, result] : llvm::zip(op.getValues(), body.module.artifact.results))
      body.memory.storePacked(value.getType(), Components(body.values.getValue(value)), body.offsetBy(block, result.offset));
    leave();
  };
}

bool setUpRandom(BodyEmitter &body, Region &region) {
  if (!body.module.calls.contains(region, llvm::IsaPred<ir::RandomOp>)) return false;
  body.random.makeCounter();
  body.random.reset();
  return true;
}

//--- Axes ---

ir::ForOp findLoop(ModuleEmitter &module, ir::TaskOp task) {
  for (ir::ForOp found : task.getBody().front().getOps<ir::ForOp>())
    if (found.getParallel()) return found;
  module.reportError(task.getLoc()) << "is parallel but has no parallel loop";
  return {};
}

std::optional<int64_t> findStep(ir::ForOp loop, unsigned axis) {
  return loop.getStep().empty() ? std::optional<int64_t>(1) : ir::findInteger(loop.getStep()[axis]);
}

llvm::SmallVector<Axis, 4> getAxes(BodyEmitter &in, ir::ForOp loop) {
  llvm::SmallVector<Axis, 4> axes;
  llvm::IRBuilder<> &at = in.builder;
  for (unsigned a = 0; a < loop.getRank(); ++a) {
    Axis axis;
    axis.type = loop.getLower()[a].getType();
    axis.lower = in.values.getScalar(loop.getLower()[a]);
    llvm::Value *upper = in.values.getUniform(loop.getUpper()[a]);
    llvm::Type *type = axis.lower.value->getType();
    axis.step = loop.getStep().empty() ? Component{llvm::ConstantInt::get(type, 1)} : in.values.getScalar(loop.getStep()[a]);
    bool isSigned = axis.type.isSignedInteger();
    auto wide = [&](llvm::Value *value) { return at.CreateIntCast(value, at.getInt64Ty(), isSigned); };
    llvm::Value *low = wide(axis.lower.value), *high = wide(upper), *step = wide(axis.step.value);
    llvm::Value *zero = at.getInt64(0), *one = at.getInt64(1);
    llvm::Value *isDown = isSigned ? at.CreateICmpSLT(step, zero) : at.getFalse();
    llvm::Value *first = at.CreateSelect(isDown, high, low), *last = at.CreateSelect(isDown, low, high);
    llvm::Value *length = getUnsignedMax(at, at.CreateSelect(isDown, at.CreateNeg(step), step), one);
    llvm::Value *rounds = at.CreateSub(last, first);
    auto constant = dyn_cast<llvm::ConstantInt>(length);
    if (!constant || !constant->isOne()) rounds = at.CreateAdd(at.CreateUDiv(at.CreateSub(rounds, one), length), one);
    axis.extent = at.CreateSelect(isSigned ? at.CreateICmpSGE(first, last) : at.CreateICmpUGE(first, last), zero, rounds);
    axes.push_back(axis);
  }
  return axes;
}

/// Upper bound of a loop's iterations, as far as its bounds are known at compile time. The axes of one container together have at most as
/// many iterations as the container has elements, all of which are in memory.
static double boundIterations(ir::ForOp loop) {
  double maxCount = 1;
  Value container;
  llvm::SmallDenseSet<uint32_t> extents;
  for (unsigned axis = 0; axis < loop.getRank(); ++axis) {
    Value upper = loop.getUpper()[axis];
    std::optional<int64_t> first = ir::findInteger(loop.getLower()[axis]), last = ir::findInteger(upper);
    auto extent = upper.getDefiningOp<ir::ExtentOp>();
    if (first && last) {
      maxCount *= std::abs(double(*last) - double(*first)) / std::max(1.0, std::abs(double(findStep(loop, axis).value_or(1))));
    } else if (extent && first.value_or(-1) >= 0 && (!container || container == extent.getTensor()) &&
               extents.insert(extent.getAxis()).second) {
      maxCount *= container ? 1 : 0x1p62;
      container = extent.getTensor();
    } else {
      maxCount *= std::ldexp(1, int(upper.getType().getIntOrFloatBitWidth()) - (first.value_or(-1) >= 0));
    }
  }
  return maxCount;
}

// An axis has fewer iterations than the power of two that bounds it.
bool mayHaveTooManyIterations(ir::ForOp loop) { return boundIterations(loop) > 0x1p63; }

llvm::Value *hasTooManyIterations(BodyEmitter &in, ir::ForOp loop, llvm::ArrayRef<Axis> axes) {
  if (!mayHaveTooManyIterations(loop)) return nullptr;
  llvm::IRBuilder<> &at = in.builder;
  llvm::Value *total = at.getInt64(1), *overflows = at.getFalse(), *isEmpty = at.getFalse();
  for (const Axis &axis : axes) {
    llvm::Value *product = at.CreateBinaryIntrinsic(llvm::Intrinsic::umul_with_overflow, total, axis.extent);
    total = at.CreateExtractValue(product, 0);
    overflows = at.CreateOr(overflows, at.CreateExtractValue(product, 1));
    isEmpty = at.CreateOr(isEmpty, at.CreateIsNull(axis.extent));
  }
  overflows = at.CreateOr(overflows, at.CreateICmpSLT(total, at.getInt64(0)));
  return at.CreateAnd(overflows, at.CreateNot(isEmpty));
}

llvm::SmallVector<llvm::Value *, 4> unflatten(llvm::IRBuilder<> &at, llvm::Value *flat, ArrayRef<llvm::Value *> extents) {
  llvm::SmallVector<llvm::Value *, 4> digits(extents.size());
  for (size_t axis = extents.size(); axis-- > 0;) {
    digits[axis] = axis == 0 ? flat : at.CreateURem(flat, extents[axis]);
    if (axis > 0) flat = at.CreateUDiv(flat, extents[axis]);
  }
  return digits;
}

//--- Reductions ---

llvm::Value *getElementCount(BodyEmitter &in, const Tensor &target) {
  llvm::Value *count = in.builder.getInt64(1);
  for (int64_t axis = 0; axis < target.type.getRank(); ++axis) count = in.builder.CreateMul(count, in.memory.getExtent(target, axis));
  return count;
}

Tensor makePacked(BodyEmitter &in, const Tensor &target, llvm::Value *data) {
  Tensor result = target;
  Type element = target.type.getElement();
  result.type = ir::TensorType::get(element.getContext(), element, target.type.getExtents(), {},
                                    in.module.getByteSize(ir::getScalar(element)), target.type.getOrigin(), {});
  result.data = data;
  result.margin = 0;
  result.scope = -1;
  return result;
}

/// The container as one axis, if its elements are stored contiguously.
static std::optional<ir::TensorType> getFlatType(ir::TensorType type) {
  if (!type.getTiles().empty()) return std::nullopt;
  int64_t count = 1;
  for (int64_t axis = type.getRank() - 1; axis >= 0; --axis) {
    int64_t extent = type.getExtents()[size_t(axis)];
    if (!type.isPacked() && (extent == layout::kDynamic || type.getStrides()[size_t(axis)] == layout::kDynamic ||
                             type.getStrides()[size_t(axis)] != type.getStrides().back() * count))
      return std::nullopt;
    count = extent == layout::kDynamic || count == layout::kDynamic ? layout::kDynamic : count * extent;
  }
  llvm::SmallVector<int64_t, 1> strides;
  if (!type.isPacked()) strides.push_back(type.getStrides().back());
  return ir::TensorType::get(type.getContext(), type.getElement(), {count}, strides, type.getComponentStride(), {}, {});
}

MemoryPlace getElementAt(BodyEmitter &in, const Tensor &tensor, const Component &element) {
  llvm::IRBuilder<> &at = in.builder;
  Type indexType = IntegerType::get(in.module.source.getContext(), 64, IntegerType::Signed);
  if (std::optional<ir::TensorType> flat = getFlatType(tensor.type)) {
    Tensor row = tensor;
    row.type = *flat;
    return in.memory.getElement(row, {element}, {indexType});
  }
  // The indices below count from 0, without the origin.
  Tensor plain = tensor;
  plain.type = ir::TensorType::get(tensor.type.getContext(), tensor.type.getElement(), tensor.type.getExtents(), tensor.type.getStrides(),
                                   tensor.type.getComponentStride(), {}, tensor.type.getTiles());
  llvm::SmallVector<llvm::Value *, 4> extents;
  for (int64_t axis = 0; axis < tensor.type.getRank(); ++axis) extents.push_back(in.splat(in.memory.getExtent(tensor, axis)));
  Components indices;
  for (llvm::Value *digit : unflatten(at, in.toVector(element), extents)) indices.push_back(in.makeVarying(digit));
  return in.memory.getElement(plain, indices, llvm::SmallVector<Type, 4>(indices.size(), indexType));
}

LocalPlace makeSum(BodyEmitter &in, Type type, LaneKind kind, llvm::Value *value) {
  size_t count = size_t(ir::getComponentCount(type));
  LocalPlace place{type, in.memory.makeLocal(type, LaneKinds(count, kind), "sum")};
  in.memory.store(place, Components(count, {value}), /*masked=*/false);
  return place;
}

Type getSumType(ir::AtomicKind kind, Type element) {
  auto type = dyn_cast<FloatType>(ir::getScalar(element));
  bool isRounded = type && type.getWidth() == 16 && (kind == ir::AtomicKind::add || kind == ir::AtomicKind::mul);
  return isRounded ? ir::withScalar(element, Float32Type::get(type.getContext())) : element;
}

void combineInto(BodyEmitter &in, ir::AtomicKind kind, const Place &place, Type type, Components more) {
  Type element = std::visit([](const auto &own) { return own.pointee; }, place);
  Type own = ir::getScalar(element), wide = ir::getScalar(getSumType(kind, element));
  more = in.operators.castAll(ir::getScalar(type), wide, std::move(more));
  Components sum = in.operators.combineAll(kind, wide, in.operators.castAll(own, wide, in.memory.load(place)), more);
  in.memory.store(place, in.operators.castAll(wide, own, std::move(sum)), /*masked=*/false);
}

} // namespace qd::codegen
