// differentiate_forward.cpp: forward mode: a kernel also computes tangents
//
// In:   a kernel marked `forward` whose containers name their tangents (kShadow).
// Out:  the same kernel, with the operation on the tangent after each operation on an active value. Functions take the tangents of active
//       parameters after their parameters, and return the tangents of active results after their results.
// Here: before tasks are split: the added code is then compiled like any other.
#include "ir/attributes.h"
#include "ir/memory.h"
#include "passes/autodiff/adjoint_builder.h"
#include "passes/autodiff/derivatives.h"
#include "passes/demote_atomics.h"

#include "mlir/Pass/Pass.h"
#include "llvm/ADT/TypeSwitch.h"

#include <deque>
#include <set>

using namespace mlir;
using namespace qd::ir;

namespace qd::passes {
#define GEN_PASS_DEF_DIFFERENTIATEFORWARD
#include "passes/passes.h.inc"

namespace {

class TangentBuilder {
public:
  TangentBuilder(DerivedFunctions &functions)
      : functions(functions), activity(functions.activity), builder(functions.module.getContext()) {}

  bool runOnKernel(KernelOp kernel) {
    entry = &kernel.getBody().front();
    walk(*entry);
    return !hasFailed;
  }

  bool runOnFunction(FuncOp function) {
    entry = &function.getBody().front();
    SmallVector<Type> inputs(function.getArgumentTypes()), results(function.getFunctionType().getResults());
    for (BlockArgument parameter : SmallVector<BlockArgument>(entry->getArguments())) {
      if (!activity.isActive(parameter)) continue;
      inputs.push_back(parameter.getType());
      tangents[parameter] = entry->addArgument(parameter.getType(), parameter.getLoc());
    }
    for (size_t position : findActiveResults(function)) results.push_back(results[position]);
    walk(*entry);
    function.setFunctionType(FunctionType::get(function.getContext(), inputs, results));
    return !hasFailed;
  }

private:
  SmallVector<size_t> findActiveResults(FuncOp function) {
    std::set<size_t> active;
    function.walk([&](ReturnOp op) {
      // The tangents that were appended to the values are not active themselves.
      for (auto [position, value] : llvm::enumerate(op.getValues()))
        if (activity.isActive(value)) active.insert(position);
    });
    return llvm::to_vector(active);
  }

  void walk(Block &block) {
    for (Operation &op : llvm::make_early_inc_range(block)) {
      builder.setInsertionPointAfter(&op);
      visit(&op);
      for (Region &region : op.getRegions())
        if (!region.empty()) walk(region.front());
    }
  }

  Code at(Operation *op) { return {builder, op->getLoc()}; }

  Value get(Value value) {
    Value found = tangents.lookup(value);
    return found ? found : makeZero(builder, value.getLoc(), value.getType());
  }

  void refuse(Operation *op, const Twine &why) {
    hasFailed = true;
    op->emitError(why);
  }

  void visit(Operation *op) {
    llvm::TypeSwitch<Operation *>(op)
        .Case([&](LocalOp local) {
          if (!activity.isActive(local)) return;
          Code code = at(op);
          Type pointee = cast<RefType>(local.getType()).getPointee();
          tangents[local] = code.local(pointee);
          code.store(makeZero(builder, code.loc, pointee), tangents[local]);
        })
        .Case([&](PlaceOpInterface part) {
          auto container = part.getBase().getDefiningOp<TensorArgumentOp>();
          bool hasShadow = container && activity.isActive(op->getResult(0));
          Value base = hasShadow ? shadows.get(builder, *entry, container) : tangents.lookup(part.getBase());
          if (base) tangents[op->getResult(0)] = getSamePart(builder, part, base, part.getIndices());
        })
        .Case([&](LoadOp load) {
          if (Value place = tangents.lookup(load.getRef())) tangents[load] = at(op).load(place);
        })
        .Case([&](StoreOp store) {
          if (Value place = tangents.lookup(store.getRef())) at(op).store(get(store.getValue()), place);
        })
        .Case([&](AtomicOp atomic) { visitAtomic(atomic); })
        .Case([&](MemoryAccessOpInterface access) {
          if (tangents.contains(access.getRef()))
            refuse(op, "an atomic " + op->getName().stripDialect() + " of something that has a tangent cannot be differentiated");
        })
        .Case([&](CallOp call) { visitCall(call); })
        .Case([&](ReturnOp last) { visitReturn(last); })
        .Default([&](Operation *) {
          if (op->getNumResults() == 1 && activity.isActive(op->getResult(0)) && isDifferentiable(op))
            tangents[op->getResult(0)] = differentiate(op);
        });
  }

  void visitAtomic(AtomicOp op) {
    Value place = tangents.lookup(op.getRef());
    if (!place) return;
    Code code = at(op);
    AtomicKind kind = op.getAtomicKind();
    Value change = get(op.getValue());
    if (op.isSum() || kind == AtomicKind::exchange) {
      tangents[op] = AtomicOp::create(builder, code.loc, op.getType(), kind, place, change);
      return;
    }
    // Value and tangent are two places. They change together because the loops around are serial (serializeNonlinearUpdates).
    Value old = code.load(place), now = code.binary(*findKind<BinaryKind>(getOpInfo(kind).name), op, op.getValue());
    SmallVector<Partial, 2> partials = computePartials(builder, now.getDefiningOp(), ValueRange{op, op.getValue()}, now);
    code.store(sum(code, partials, {old, change}), place);
    tangents[op] = old;
  }

  /// The sum of `partial * change`.
  Value sum(Code code, ArrayRef<Partial> partials, ArrayRef<Value> changes) {
    Value total;
    for (auto [partial, change] : llvm::zip(partials, changes)) {
      Value part = change ? scale(builder, code.loc, partial, change) : Value();
      if (part && partial.kind == Partial::Kind::Factor) {
        // The change may be infinite: 0 * inf must stay 0.
        Value isZero = code.binary(BinaryKind::eq, partial.value, makeFloat(builder, code.loc, part.getType(), 0));
        part = code.select(isZero, makeZero(builder, code.loc, part.getType()), part);
      }
      if (part) total = total ? code.add(total, part) : part;
    }
    return total ? total : makeZero(builder, code.loc, changes[0] ? changes[0].getType() : changes[1].getType());
  }

  Value differentiate(Operation *op) {
    Code code = at(op);
    Location loc = code.loc;
    Type type = op->getResult(0).getType();
    return llvm::TypeSwitch<Operation *, Value>(op)
        .Case<UnaryOp, BinaryOp, FmaOp>([&](Operation *) {
          SmallVector<Value, 2> changes =
              llvm::map_to_vector<2>(op->getOperands(), [&](Value operand) { return tangents.lookup(operand); });
          return sum(code, computePartials(builder, op, op->getOperands(), op->getResult(0)), changes);
        })
        .Case([&](CastOp cast) { return code.cast(get(cast.getOperand()), type); })
        .Case([&](SelectOp select) { return code.select(select.getCondition(), get(select.getTrueValue()), get(select.getFalseValue())); })
        .Case([&](ReduceOp reduce) { return differentiateReduce(reduce); })
        .Case([&](MatmulOp product) {
          Value left = MatmulOp::create(builder, loc, type, get(product.getLhs()), product.getRhs());
          return code.add(left, MatmulOp::create(builder, loc, type, product.getLhs(), get(product.getRhs())));
        })
        .Default([&](Operation *) -> Value {
          // Linear operations: apply the same operation to the tangents.
          Operation *copy = op->clone();
          for (OpOperand &operand : copy->getOpOperands())
            if (isFloatScalar(getScalar(operand.get().getType()))) operand.set(get(operand.get()));
          return builder.insert(copy)->getResult(0);
        });
  }

  Value differentiateReduce(ReduceOp op) {
    Code code = at(op);
    Value change = get(op.getOperand());
    if (op.getBinaryKind() == BinaryKind::add) return ReduceOp::create(builder, code.loc, op.getType(), BinaryKind::add, change);
    Value value = code.extract(op.getOperand(), 0), tangent = code.extract(change, 0);
    for (int64_t i = 1; i < getComponentCount(op.getOperand().getType()); ++i) {
      Value next = code.extract(op.getOperand(), i), both = code.binary(op.getBinaryKind(), value, next);
      SmallVector<Partial, 2> partials = computePartials(builder, both.getDefiningOp(), ValueRange{value, next}, both);
      tangent = sum(code, partials, {tangent, code.extract(change, i)});
      value = both;
    }
    return tangent;
  }

  void visitCall(CallOp op) {
    FuncOp callee = activity.calls.lookup(op);
    if (!functions.usesActive(callee)) return;
    Code code = at(op);
    SmallVector<Value> operands(op.getArguments());
    for (auto [operand, parameter] : llvm::zip(op.getArguments(), callee.getBody().getArguments())) {
      if (!activity.isActive(parameter)) continue;
      Value tangent = tangents.lookup(operand);
      if (auto ref = dyn_cast<RefType>(operand.getType()); ref && !tangent) {
        // A place without a tangent: the tangent that the function stores is dropped.
        tangent = code.local(ref.getPointee());
        code.store(makeZero(builder, code.loc, ref.getPointee()), tangent);
      }
      operands.push_back(tangent ? tangent : get(operand));
    }
    SmallVector<Type> results(op.getResultTypes());
    SmallVector<size_t> active = findActiveResults(callee);
    for (size_t position : active) results.push_back(results[position]);
    auto call = CallOp::create(builder, code.loc, results, op.getCallee(), operands);
    for (auto [index, position] : llvm::enumerate(active))
      tangents[call.getResult(unsigned(position))] = call.getResult(unsigned(op.getNumResults() + index));
    for (unsigned position = 0; position < op.getNumResults(); ++position) {
      if (Value tangent = tangents.lookup(call.getResult(position))) tangents[op.getResult(position)] = tangent;
      replaced.push_back({op.getResult(position), call.getResult(position)});
    }
    calls.push_back(op);
  }

  void visitReturn(ReturnOp op) {
    auto function = dyn_cast<FuncOp>(entry->getParentOp());
    if (!function) return;
    builder.setInsertionPoint(op);
    SmallVector<Value> values(op.getValues());
    for (size_t position : findActiveResults(function)) values.push_back(get(op.getValues()[position]));
    op.getValuesMutable().assign(values);
  }

public:
  /// Erases the original calls. They are erased last because activity is known for their values only.
  void finish() {
    for (auto [from, to] : replaced) from.replaceAllUsesWith(to);
    for (CallOp call : calls) call.erase();
  }

private:
  DerivedFunctions &functions;
  const Activity &activity;
  OpBuilder builder;
  Block *entry = nullptr;
  DenseMap<Value, Value> tangents;
  Shadows shadows{".dual"};
  std::vector<std::pair<Value, Value>> replaced;
  std::vector<CallOp> calls;
  bool hasFailed = false;
};

/// Makes loops with an atomic operation on an active place other than addition or exchange serial: its value and its tangent are two
/// places, which cannot be updated in one atomic step.
LogicalResult serializeNonlinearUpdates(KernelOp kernel, const Activity &activity) {
  auto isNonlinear = [&](Operation *op) {
    auto atomic = dyn_cast<AtomicOp>(op);
    return atomic && !atomic.isSum() && atomic.getAtomicKind() != AtomicKind::exchange && activity.isActive(atomic.getRef());
  };
  SmallVector<ForOp> found;
  kernel.walk([&](ForOp loop) {
    if (loop.getParallel() && activity.calls.contains(loop.getBody(), isNonlinear)) found.push_back(loop);
  });
  for (ForOp loop : found) loop.removeParallelAttr();
  if (found.empty()) return success();
  auto walked = kernel->getParentOp()->walk([](Operation *op) {
    if (!isOfBlock(op)) return WalkResult::advance();
    op->emitError("threads that work together cannot take turns, as extrema and products of something that has a tangent need");
    return WalkResult::interrupt();
  });
  return failure(walked.wasInterrupted());
}

struct DifferentiateForwardPass : impl::DifferentiateForwardBase<DifferentiateForwardPass> {
  void runOnOperation() override {
    ModuleOp module = getOperation();
    SmallVector<KernelOp> kernels;
    for (KernelOp kernel : module.getOps<KernelOp>()) {
      auto mode = kernel->getAttrOfType<StringAttr>(kDerivative);
      if (mode && mode.getValue() == "forward") kernels.push_back(kernel);
    }
    if (kernels.empty()) return;
    demoteOwnAtomics(module);
    Activity activity(module);
    DerivedFunctions functions(module, activity);
    SmallVector<FuncOp> differentiated;
    for (FuncOp function : module.getOps<FuncOp>())
      if (functions.usesActive(function)) differentiated.push_back(function);
    std::deque<TangentBuilder> builders;
    bool isGood = true;
    for (FuncOp function : differentiated) isGood &= builders.emplace_back(functions).runOnFunction(function);
    for (KernelOp kernel : kernels) {
      if (failed(serializeNonlinearUpdates(kernel, activity))) return signalPassFailure();
      isGood &= builders.emplace_back(functions).runOnKernel(kernel);
      kernel->removeAttr(kDerivative);
    }
    for (TangentBuilder &builder : builders) builder.finish();
    if (!isGood) return signalPassFailure();
  }
};

} // namespace

} // namespace qd::passes
