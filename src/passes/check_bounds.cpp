// check_bounds.cpp: assertions ahead of what may go wrong at run time
//
// In:   the frontend's IR.
// Out:  a qd.assert ahead of each element, run-time component and integer division whose operands are not known to be good.
// Here: first, while loops and their bounds are as the user wrote them: an index that its loop keeps within the container needs no check.
#include "artifact/artifact.h"
#include "ir/dialect.h"

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

/// The text of an assertion: literals and operands in turn.
struct Text {
  SmallVector<Attribute> pieces;
  SmallVector<Value> values;
  Builder builder;

  explicit Text(MLIRContext *ctx) : builder(ctx) {}
  Text &operator<<(const Twine &text) {
    pieces.push_back(builder.getStringAttr(text));
    return *this;
  }
  Text &operator<<(Value value) {
    pieces.push_back(builder.getStrArrayAttr({""}));
    values.push_back(value);
    return *this;
  }
  Text &list(ValueRange items, StringRef left, StringRef right) {
    *this << left;
    for (auto [i, item] : llvm::enumerate(items)) *this << (i == 0 ? "" : ", ") << item;
    return *this << right;
  }
};

class Checker {
public:
  Checker(ModuleOp module, bool bounds, bool divisions)
      : module(module), bounds(bounds), divisions(divisions), builder(module.getContext()) {}

  void run() {
    SmallVector<Operation *> found;
    module.walk([&](Operation *op) {
      if (isa<ElementOp, ComponentOp, ExtractAtOp, BinaryOp>(op)) found.push_back(op);
    });
    for (Operation *op : found) {
      builder.setInsertionPoint(op);
      if (auto element = dyn_cast<ElementOp>(op); element && bounds)
        checkElement(element);
      else if (auto component = dyn_cast<ComponentOp>(op); component && bounds)
        checkComponent(component, cast<VectorType>(cast<RefType>(component.getRef().getType()).getPointee()), component.getIndices());
      else if (auto extract = dyn_cast<ExtractAtOp>(op); extract && bounds)
        checkComponent(extract, cast<VectorType>(extract.getOperand().getType()), extract.getIndices());
      else if (auto binary = dyn_cast<BinaryOp>(op); binary && divisions)
        checkDivision(binary);
    }
  }

private:
  /// Whether a constant, or the loop that the index belongs to, keeps it within the axis.
  static bool isWithin(Value index, int64_t first, int64_t extent, Value tensor, unsigned axis) {
    if (auto constant = findInteger(index)) return *constant >= first && extent != layout::kDynamic && *constant - first < extent;
    auto argument = dyn_cast<BlockArgument>(index);
    auto loop = argument ? dyn_cast<ForOp>(argument.getOwner()->getParentOp()) : ForOp();
    if (!loop || !loop.getStep().empty()) return false;
    std::optional<int64_t> lower = findInteger(loop.getLower()[argument.getArgNumber()]);
    Value upper = loop.getUpper()[argument.getArgNumber()];
    if (!lower || *lower < first) return false;
    if (auto whole = upper.getDefiningOp<ExtentOp>(); whole && whole.getTensor() == tensor && whole.getAxis() == axis) return true;
    std::optional<int64_t> last = findInteger(upper);
    return last && extent != layout::kDynamic && *last - first <= extent;
  }

  Value convert(Location loc, Value value, Type type) {
    return value.getType() == type ? value : CastOp::create(builder, loc, type, value).getResult();
  }

  Value getExtent(Location loc, IntegerType type, int64_t extent, Value tensor, unsigned axis) {
    if (extent != layout::kDynamic) return ConstantOp::create(builder, loc, builder.getIntegerAttr(type, extent));
    return convert(loc, ExtentOp::create(builder, loc, IntegerType::get(builder.getContext(), 64, IntegerType::Signed), tensor, axis),
                   type);
  }

  /// `first <= index < first + extent` on each axis where it is not known, as one comparison of unsigned numbers. Null when all is known.
  Value checkIndices(Location loc, ValueRange indices, ArrayRef<int64_t> origin, ArrayRef<int64_t> extents, Value tensor) {
    Value isGood;
    for (auto [axis, index] : llvm::enumerate(indices)) {
      int64_t first = origin.empty() ? 0 : origin[axis], extent = extents[axis];
      if (isWithin(index, first, extent, tensor, unsigned(axis))) continue;
      // A large unsigned number is no negative one.
      bool wraps = first != 0 && index.getType().isUnsignedInteger();
      bool isNarrow = index.getType().getIntOrFloatBitWidth() <= 32 && !wraps && extent != layout::kDynamic && extent <= INT32_MAX;
      auto type = IntegerType::get(builder.getContext(), isNarrow ? 32 : 64, IntegerType::Unsigned);
      Value unsignedIndex = convert(loc, index, type);
      if (first != 0)
        unsignedIndex =
            BinaryOp::create(builder, loc, BinaryKind::sub, unsignedIndex,
                             ConstantOp::create(builder, loc, builder.getIntegerAttr(type, isNarrow ? int64_t(uint32_t(first)) : first)));
      Value isBelow = BinaryOp::create(builder, loc, BinaryKind::lt, unsignedIndex, getExtent(loc, type, extent, tensor, unsigned(axis)));
      isGood = isGood ? BinaryOp::create(builder, loc, BinaryKind::bit_and, isGood, isBelow) : isBelow;
    }
    return isGood;
  }

  void checkElement(ElementOp element) {
    auto tensor = cast<ir::TensorType>(element.getTensor().getType());
    Location loc = element.getLoc();
    Value isGood = checkIndices(loc, element.getIndices(), tensor.getOrigin(), tensor.getExtents(), element.getTensor());
    if (!isGood) return;
    SmallVector<Value> extents;
    auto type = IntegerType::get(builder.getContext(), 64, IntegerType::Signed);
    for (unsigned axis = 0; axis < tensor.getRank(); ++axis)
      extents.push_back(getExtent(loc, type, tensor.getExtents()[axis], element.getTensor(), axis));
    auto argument = element.getTensor().getDefiningOp<TensorArgumentOp>();
    Text text(builder.getContext());
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
    addAssert(loc, isGood, artifact::Site::Kind::Bounds, text);
  }

  void checkComponent(Operation *op, VectorType type, ValueRange indices) {
    Value isGood = checkIndices(op->getLoc(), indices, {}, type.getShape(), Value());
    if (!isGood) return;
    std::string shape = std::to_string(type.getDimSize(0));
    if (type.getRank() == 2) shape += ", " + std::to_string(type.getDimSize(1));
    Text text(builder.getContext());
    text << "Out of bound access to a [" + shape + "] matrix";
    text.list(indices, " with index [", "]");
    addAssert(op->getLoc(), isGood, artifact::Site::Kind::Bounds, text);
  }

  void checkDivision(BinaryOp binary) {
    BinaryKind kind = binary.getBinaryKind();
    bool isRemainder = kind == BinaryKind::mod || kind == BinaryKind::raw_mod;
    bool isDivision = isRemainder || kind == BinaryKind::floor_div || kind == BinaryKind::raw_div;
    Type type = binary.getRhs().getType(), scalar = getScalar(type);
    if (!isDivision || !isIntegerScalar(scalar)) return;
    if (std::optional<int64_t> divisor = findInteger(binary.getRhs()); divisor && *divisor != 0) return;
    Location loc = binary.getLoc();
    Attribute zero = builder.getIntegerAttr(scalar, 0);
    auto vector = dyn_cast<VectorType>(type);
    TypedAttr zeros = vector ? TypedAttr(DenseElementsAttr::get(vector, zero)) : cast<TypedAttr>(zero);
    Value isGood = BinaryOp::create(builder, loc, BinaryKind::ne, binary.getRhs(), ConstantOp::create(builder, loc, zeros));
    if (vector) isGood = ReduceOp::create(builder, loc, builder.getI1Type(), BinaryKind::bit_and, isGood);
    Text text(builder.getContext());
    text << (isRemainder ? "Modulo by zero: " : "Division by zero: ") << binary.getLhs() << (isRemainder ? " % " : " // ")
         << binary.getRhs();
    addAssert(loc, isGood, artifact::Site::Kind::DivisionByZero, text);
  }

  void addAssert(Location loc, Value condition, artifact::Site::Kind kind, const Text &text) {
    AssertOp::create(builder, loc, condition, uint32_t(kind), builder.getArrayAttr(text.pieces), text.values);
  }

  ModuleOp module;
  bool bounds, divisions;
  OpBuilder builder;
};

struct CheckBoundsPass : impl::CheckBoundsBase<CheckBoundsPass> {
  using Base = impl::CheckBoundsBase<CheckBoundsPass>;
  using Base::Base;
  void runOnOperation() override { Checker(getOperation(), bounds, divisions).run(); }
};

} // namespace

} // namespace qd::passes
