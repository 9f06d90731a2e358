// check_barriers.cpp: refuse barriers that some threads of a block never reach
//
// In:   the frontend's IR.
// Out:  an error at each block barrier in a branch or loop whose condition or bounds differ between the threads of the first block, and at
//       each operation that requires blocks of another size.
// Here: a value is computed for each thread of that block if it depends on constants and the thread's number only; what is not known, such
//       as a value from memory, is never an error.
#include "ir/attributes.h"
#include "ir/call_graph.h"
#include "ir/dialect.h"

#include "mlir/IR/BuiltinOps.h"
#include "mlir/Pass/Pass.h"

using namespace mlir;
using namespace qd::ir;

namespace qd::passes {

#define GEN_PASS_DECL_CHECKBARRIERS
#define GEN_PASS_DEF_CHECKBARRIERS
#include "passes/passes.h.inc"

namespace {

/// Threads of a block if the loop sets no size: any number that all backends reach.
constexpr int64_t kFewestThreads = 32;
/// Operations that the value of a condition may take, so that the check stays cheap.
constexpr int kMaxSteps = 64;

std::optional<int64_t> compute(BinaryKind kind, int64_t x, int64_t y) {
  auto floorDiv = [&] { return x / y - (x % y != 0 && (x < 0) != (y < 0)); };
  bool isQuotient = y != 0 && y != -1;
  switch (kind) {
  case BinaryKind::add: return x + y;
  case BinaryKind::sub: return x - y;
  case BinaryKind::mul: return x * y;
  case BinaryKind::min: return std::min(x, y);
  case BinaryKind::max: return std::max(x, y);
  case BinaryKind::bit_and: return x & y;
  case BinaryKind::bit_or: return x | y;
  case BinaryKind::bit_xor: return x ^ y;
  case BinaryKind::lt: return x < y;
  case BinaryKind::le: return x <= y;
  case BinaryKind::gt: return x > y;
  case BinaryKind::ge: return x >= y;
  case BinaryKind::eq: return x == y;
  case BinaryKind::ne: return x != y;
  case BinaryKind::shr: return y >= 0 && y < 32 ? std::optional(x >> y) : std::nullopt;
  case BinaryKind::floor_div: return isQuotient ? std::optional(floorDiv()) : std::nullopt;
  case BinaryKind::mod: return isQuotient ? std::optional(x - floorDiv() * y) : std::nullopt;
  case BinaryKind::raw_div: return isQuotient ? std::optional(x / y) : std::nullopt;
  case BinaryKind::raw_mod: return isQuotient ? std::optional(x % y) : std::nullopt;
  default: return std::nullopt;
  }
}

/// A number without an overflow: within half of the range of 32 bits, unless the type is smaller.
bool isPlain(Type type, int64_t value) {
  auto integer = dyn_cast<IntegerType>(type);
  if (!integer) return false;
  unsigned bits = std::min(31u, integer.getWidth() - unsigned(integer.isSigned()));
  return value < (int64_t(1) << bits) && value >= (integer.isSigned() ? -(int64_t(1) << bits) : 0);
}

/// One thread of the first block of a loop.
struct Thread {
  ForOp loop;
  int64_t number, blockSize;
  int steps = 0;

  std::optional<int64_t> find(Value value) {
    std::optional<int64_t> found = ++steps < kMaxSteps ? findAny(value) : std::nullopt;
    return found && isPlain(value.getType(), *found) ? found : std::nullopt;
  }

private:
  std::optional<int64_t> findAny(Value value) {
    if (auto argument = dyn_cast<BlockArgument>(value)) {
      if (argument.getOwner()->getParentOp() != loop || loop.getRank() != 1 || !loop.getStep().empty()) return std::nullopt;
      std::optional<int64_t> first = findInteger(loop.getLower()[0]);
      return first ? std::optional(*first + number) : std::nullopt;
    }
    Operation *op = value.getDefiningOp();
    if (isa<ThreadOp>(op)) return number;
    if (auto block = dyn_cast<BlockOp>(op)) return block.getSize() ? blockSize : block.getCount() ? std::optional<int64_t>() : 0;
    if (auto cast = dyn_cast<CastOp>(op)) {
      std::optional<int64_t> from = find(cast.getOperand());
      return from && value.getType().isInteger(1) ? *from != 0 : from;
    }
    if (auto unary = dyn_cast<UnaryOp>(op); unary && unary.getUnaryKind() == UnaryKind::logical_not) {
      std::optional<int64_t> from = find(unary.getOperand());
      return from ? std::optional<int64_t>(*from == 0) : std::nullopt;
    }
    if (auto binary = dyn_cast<BinaryOp>(op)) {
      std::optional<int64_t> x = find(binary.getLhs()), y = x ? find(binary.getRhs()) : std::nullopt;
      return y ? compute(binary.getBinaryKind(), *x, *y) : std::nullopt;
    }
    if (auto load = dyn_cast<LoadOp>(op)) return findStored(load);
    if (auto constant = dyn_cast<ConstantOp>(op); constant && value.getType().isInteger(1))
      if (auto number = dyn_cast<IntegerAttr>(constant.getValue())) return int64_t(number.getValue().getZExtValue());
    return findInteger(value);
  }

  /// The value of a variable that is assigned once.
  std::optional<int64_t> findStored(LoadOp load) {
    auto local = load.getRef().getDefiningOp<LocalOp>();
    StoreOp only;
    if (!local) return std::nullopt;
    for (Operation *user : local->getUsers()) {
      auto store = dyn_cast<StoreOp>(user);
      if (!isa<LoadOp>(user) && (!store || store.getValue() == local.getResult() || std::exchange(only, store))) return std::nullopt;
    }
    return only ? find(only.getValue()) : std::nullopt;
  }
};

/// Whether the value is known for all threads of the first block, and differs.
bool isDivergent(ForOp loop, ValueRange values) {
  int64_t size = loop.getBlockDim() ? int64_t(*loop.getBlockDim()) : kFewestThreads, count = size;
  if (loop.getRank() == 1) count = std::min(count, findLength(loop, 0).value_or(count));
  for (Value value : values) {
    std::optional<int64_t> first;
    bool differs = false;
    for (int64_t number = 0; number < count; ++number) {
      std::optional<int64_t> found = Thread{loop, number, size}.find(value);
      if (!found) {
        differs = false;
        break;
      }
      differs |= first && *first != *found;
      first = found;
    }
    if (differs) return true;
  }
  return false;
}

struct CheckBarriersPass : impl::CheckBarriersBase<CheckBarriersPass> {
  using Base = impl::CheckBarriersBase<CheckBarriersPass>;
  using Base::Base;

  /// Reports the first operation of a loop that needs blocks of another size.
  void checkBlocks(ForOp loop, const CallGraph &calls) {
    int64_t size = loop.getBlockDim() ? int64_t(*loop.getBlockDim()) : int64_t(block);
    auto differs = [size](Operation *op) {
      auto required = op->getAttrOfType<IntegerAttr>(kRequired);
      return required && required.getInt() != size;
    };
    loop.walk([&](Operation *op) {
      FuncOp callee = calls.lookup(op);
      if (!differs(op) && !(callee && calls.contains(callee.getBody(), differs))) return WalkResult::advance();
      op->emitError() << "block_dim must be a positive multiple of subgroup size, and the same as that of the loop, " << size;
      signalPassFailure();
      return WalkResult::interrupt();
    });
  }

  void runOnOperation() override {
    const CallGraph calls(getOperation());
    getOperation().walk([&](ForOp loop) {
      if (loop.getParallel()) checkBlocks(loop, calls);
    });
    getOperation().walk([](BlockOp op) {
      if (op->hasAttr(kRequired)) op.erase();
    });
    auto waits = [](Operation *op) {
      auto barrier = dyn_cast<BarrierOp>(op);
      return barrier && !barrier.getGroup();
    };
    getOperation().walk([&](Operation *barrier) {
      FuncOp callee = calls.lookup(barrier);
      if (!waits(barrier) && !(callee && calls.contains(callee.getBody(), waits))) return;
      SmallVector<std::pair<Operation *, ValueRange>> around;
      Operation *op = barrier->getParentOp();
      for (; op && !(isa<ForOp>(op) && cast<ForOp>(op).getParallel()); op = op->getParentOp()) {
        if (auto branch = dyn_cast<IfOp>(op)) around.emplace_back(op, ValueRange(branch->getOperands()));
        if (auto inner = dyn_cast<ForOp>(op)) around.emplace_back(op, ValueRange(inner->getOperands()));
      }
      auto loop = dyn_cast_or_null<ForOp>(op);
      if (!loop) return;
      for (auto [outer, values] : around)
        if (isDivergent(loop, values)) {
          barrier->emitError() << "some threads of a block never reach this barrier, for which the others wait: move it out of the "
                               << (isa<IfOp>(outer) ? "branch" : "loop");
          return signalPassFailure();
        }
    });
  }
};

} // namespace

} // namespace qd::passes
