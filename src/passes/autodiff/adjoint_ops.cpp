// adjoint_ops.cpp: the backward sweep of adjoints, operation by operation
//
// In:   operations of the original in reverse order, and the values of the forward sweep.
// Out:  for each operation on active values, code that adds to the adjoints of its operands.
// Here: one function per kind of operation; loops are in adjoint_loops.cpp.
#include "passes/autodiff/adjoint_builder.h"

#include "ir/attributes.h"
#include "ir/memory.h"
#include "passes/autodiff/derivatives.h"

#include "llvm/ADT/TypeSwitch.h"

using namespace mlir;
using namespace qd::ir;

namespace qd::passes {

//--- Adjoints of values and places ---

/// Whether the adjoint of a value is a local: inner blocks, or operations on single components, add to it.
static bool needsPlace(Value value) {
  Block *definingBlock = value.getParentBlock();
  return llvm::any_of(value.getUsers(),
                      [&](Operation *user) { return user->getBlock() != definingBlock || isa<ExtractOp, ExtractAtOp>(user); });
}

void AdjointBuilder::declareShadow(Value value, Type type, Run &run) {
  auto ref = dyn_cast<RefType>(type);
  if (!ref && !needsPlace(value)) return;
  Code code(builder, value.getLoc());
  Type pointee = ref ? ref.getPointee() : type;
  Value place = code.local(pointee);
  code.store(makeZero(builder, code.loc, pointee), place);
  shadows[value] = {place, run.parallelDepth};
}

void AdjointBuilder::declareShadows(Block &source, Run &run) {
  for (Operation &op : source)
    for (Value result : op.getResults())
      if (activity.isActive(result) && !isa<PlaceOpInterface, TensorArgumentOp>(op)) declareShadow(result, result.getType(), run);
}

Value AdjointBuilder::getShadow(Value place, Run &run) {
  if (auto container = place.getDefiningOp<TensorArgumentOp>()) return containerShadows.get(builder, *entry, container);
  auto part = place.getDefiningOp<PlaceOpInterface>();
  if (!part) return shadows.lookup(place).place;
  Value base = getShadow(part.getBase(), run);
  return base ? getSamePart(builder, part, base, useAll(part.getIndices(), run)) : Value();
}

/// Whether other iterations may add to the adjoint of the place concurrently.
bool AdjointBuilder::isShared(Value place, Run &run) {
  Value base = findBase(place);
  return !base.getDefiningOp<LocalOp>() || shadows.lookup(base).parallelDepth < run.parallelDepth;
}

void AdjointBuilder::addTo(Value shadow, Value amount, bool isShared) {
  Code code(builder, amount.getLoc());
  if (isShared)
    AtomicOp::create(builder, code.loc, amount.getType(), AtomicKind::add, shadow, amount);
  else
    code.store(code.add(code.load(shadow), amount), shadow);
}

void AdjointBuilder::accumulate(Value value, Value amount, Run &run) {
  if (!amount || !activity.isActive(value)) return;
  if (auto shadow = shadows.find(value); shadow != shadows.end())
    return addTo(shadow->second.place, amount, shadow->second.parallelDepth < run.parallelDepth);
  Value &sum = adjoints[value];
  sum = sum ? BinaryOp::create(builder, amount.getLoc(), BinaryKind::add, sum, amount) : amount;
}

Value AdjointBuilder::loadAdjoint(Value value, Run &run) {
  if (auto shadow = shadows.find(value); shadow != shadows.end()) return Code(builder, value.getLoc()).load(shadow->second.place);
  return adjoints.lookup(value);
}

Value AdjointBuilder::loadAdjointOrZero(Value value, Run &run) {
  Value found = loadAdjoint(value, run);
  return found ? found : makeZero(builder, value.getLoc(), value.getType());
}

void AdjointBuilder::refuse(Operation *op, const Twine &why) {
  functions.hasFailed = true;
  op->emitError(why);
}

//--- The sweep ---

bool AdjointBuilder::usesActive(Operation *op) {
  return containsOp(op, [&](Operation *inner) {
    return functions.usesActive(activity.calls.lookup(inner)) ||
           llvm::any_of(inner->getOperands(), [&](Value value) { return activity.isActive(value); });
  });
}

void AdjointBuilder::sweepBackward(Block &source, Run &run) {
  for (Operation &op : llvm::reverse(source))
    if (!op.hasTrait<OpTrait::IsTerminator>() && !op.hasAttr(kPrepares)) emitBackward(&op, run);
}

void AdjointBuilder::emitBackward(Operation *op, Run &run) {
  llvm::TypeSwitch<Operation *>(op)
      .Case([&](IfOp branch) { emitBackwardIf(branch, run); })
      .Case<ForOp, WhileOp>([&](Operation *) { emitBackwardLoop(op, run); })
      .Case([&](CallOp call) { emitBackwardCall(call, run); })
      .Case([&](StoreOp store) { emitBackwardStore(store, run); })
      .Case([&](AtomicOp atomic) { emitBackwardAtomic(atomic, run); })
      .Case([&](LoadOp load) {
        if (!activity.isActive(load)) return;
        Value adjoint = loadAdjoint(load, run), shadow = adjoint ? getShadow(load.getRef(), run) : Value();
        if (shadow) addTo(shadow, adjoint, isShared(load.getRef(), run));
      })
      .Case([&](MemoryAccessOpInterface access) {
        if (activity.isActive(findBase(access.getRef())))
          refuse(op, "an atomic " + op->getName().stripDialect() + " of something that has a gradient cannot be differentiated");
      })
      .Default([&](Operation *) {
        if (op->getNumResults() != 1 || !isDifferentiable(op) || !activity.isActive(op->getResult(0))) return;
        if (Value adjoint = loadAdjoint(op->getResult(0), run)) emitBackwardValue(op, adjoint, run);
      });
}

void AdjointBuilder::emitBackwardIf(IfOp op, Run &run) {
  if (op->hasAttr(kLoopExit) || !usesActive(op)) return;
  auto made = IfOp::create(builder, op.getLoc(), use(op.getCondition(), run));
  for (auto [source, target] : llvm::zip(op->getRegions(), made->getRegions())) {
    if (source.empty()) continue;
    OpBuilder::InsertionGuard guard(builder);
    builder.setInsertionPointToStart(&target.emplaceBlock());
    declareShadows(source.front(), run);
    sweepBackward(source.front(), run);
    YieldOp::create(builder, op.getLoc());
  }
}

void AdjointBuilder::emitBackwardStore(StoreOp op, Run &run) {
  if (!activity.isActive(findBase(op.getRef()))) return;
  Value shadow = getShadow(op.getRef(), run);
  if (!shadow) return;
  Code code = at(op);
  Type type = op.getValue().getType();
  Value zero = makeZero(builder, code.loc, type);
  if (!activity.isActive(op.getValue())) return code.store(zero, shadow);
  // If several iterations write an element, exactly one of them gets its adjoint.
  if (isShared(op.getRef(), run))
    return accumulate(op.getValue(), AtomicOp::create(builder, code.loc, type, AtomicKind::exchange, shadow, zero), run);
  Value adjoint = code.load(shadow);
  code.store(zero, shadow);
  accumulate(op.getValue(), adjoint, run);
}

void AdjointBuilder::emitBackwardAtomic(AtomicOp op, Run &run) {
  if (!activity.isActive(findBase(op.getRef()))) return;
  Value shadow = getShadow(op.getRef(), run);
  if (!shadow) return;
  Code code = at(op);
  bool isActive = activity.isActive(op.getValue());
  Value oldAdjoint = op->use_empty() || !activity.isActive(op) ? Value() : loadAdjoint(op, run);
  AtomicKind kind = op.getAtomicKind();
  if (op.isSum()) {
    if (isActive) {
      bool isLoss = functions.isFused && isOfContainer(op.getRef());
      Value adjoint = isLoss ? makeFloat(builder, code.loc, op.getType(), 1) : code.load(shadow);
      accumulate(op.getValue(), kind == AtomicKind::add ? adjoint : UnaryOp::create(builder, code.loc, UnaryKind::neg, adjoint), run);
    }
    if (oldAdjoint) addTo(shadow, oldAdjoint, isShared(op.getRef(), run));
  } else if (kind == AtomicKind::exchange) {
    Value rest = oldAdjoint ? oldAdjoint : makeZero(builder, code.loc, op.getType());
    accumulate(op.getValue(), AtomicOp::create(builder, code.loc, op.getType(), AtomicKind::exchange, shadow, rest), run);
  } else if (kind == AtomicKind::mul && !isActive && !oldAdjoint) {
    AtomicOp::create(builder, code.loc, op.getType(), AtomicKind::mul, shadow, use(op.getValue(), run));
  } else if ((kind == AtomicKind::min || kind == AtomicKind::max) && !oldAdjoint && !op->hasAttr(kOverwritten) &&
             isOfContainer(op.getRef())) {
    emitBackwardExtremum(op, shadow, run);
  } else {
    if (TensorArgumentOp container = findContainer(op.getRef())) functions.updated.push_back(container.getOffset());
    refuse(op, "an atomic " + Twine(getOpInfo(kind).name) +
                   " of something that has a gradient cannot be differentiated: its adjoint needs the values in between; compute it in a "
                   "serial loop on a local variable");
  }
}

/// An iteration whose value became the extremum takes the adjoint. If no iteration takes it, it belongs to the older value.
void AdjointBuilder::emitBackwardExtremum(AtomicOp op, Value shadow, Run &run) {
  Code code = at(op);
  Type type = op.getType(), scalar = getScalar(type);
  if (isa<VectorType>(type)) return refuse(op, "an atomic extremum of vectors cannot be differentiated: take their components one by one");
  Value isKept = code.binary(BinaryKind::eq, use(op.getValue(), run), code.load(use(op.getRef(), run)));
  Value amount = code.local(scalar), zero = makeZero(builder, code.loc, scalar);
  code.store(zero, amount);
  code.when(isKept, [&] { code.store(AtomicOp::create(builder, code.loc, type, AtomicKind::exchange, shadow, zero), amount); });
  accumulate(op.getValue(), code.load(amount), run);
}

void AdjointBuilder::emitBackwardCall(CallOp op, Run &run) {
  FuncOp callee = activity.calls.lookup(op);
  if (!functions.usesActive(callee)) return;
  Block &body = callee.getBody().front();
  auto last = cast<ReturnOp>(body.back());
  Code code = at(op);
  SmallVector<Value> operands, ofPlaces, ofResults, receivers;
  ArrayRef<Value> savedPlaces = run.savedPlaces[op];
  for (auto [operand, parameter] : llvm::zip(op.getArguments(), body.getArguments())) {
    bool isPlace = isa<RefType>(operand.getType());
    operands.push_back(isPlace ? savedPlaces.front() : use(operand, run));
    if (isPlace) savedPlaces = savedPlaces.drop_front();
    if (!activity.isActive(parameter)) continue;
    if (!isPlace) {
      receivers.push_back(operand);
      continue;
    }
    Value shadow = getShadow(operand, run);
    if (!shadow) {
      Type pointee = cast<RefType>(operand.getType()).getPointee();
      shadow = code.local(pointee);
      code.store(makeZero(builder, code.loc, pointee), shadow);
    }
    ofPlaces.push_back(shadow);
  }
  for (auto [value, output] : llvm::zip(last.getValues(), op.getOutputs()))
    if (activity.isActive(value)) ofResults.push_back(loadAdjointOrZero(output, run));
  operands.append(ofPlaces);
  operands.append(ofResults);
  FuncOp adjoint = functions.getAdjoint(callee);
  auto call = CallOp::create(builder, op.getLoc(), adjoint.getResultTypes(), adjoint.getSymName(), operands);
  for (auto [receiver, amount] : llvm::zip(receivers, call.getResults())) accumulate(receiver, amount, run);
}

//--- Values ---

static Value makeVector(OpBuilder &builder, Location loc, Type type, ArrayRef<Value> components) {
  return VectorOp::create(builder, loc, type, components);
}

void AdjointBuilder::emitBackwardValue(Operation *op, Value adjoint, Run &run) {
  Code code = at(op);
  auto isActive = [&](Value value) { return activity.isActive(value); };
  llvm::TypeSwitch<Operation *>(op)
      .Case<UnaryOp, BinaryOp, FmaOp>([&](Operation *) {
        SmallVector<Partial, 2> partials = computePartials(builder, op, useAll(op->getOperands(), run), use(op->getResult(0), run));
        for (auto [operand, partial] : llvm::zip(op->getOperands(), partials))
          if (isActive(operand)) accumulate(operand, scale(builder, code.loc, partial, adjoint), run);
      })
      .Case([&](CastOp cast) { accumulate(cast.getOperand(), code.cast(adjoint, cast.getOperand().getType()), run); })
      .Case([&](SelectOp select) {
        Value condition = use(select.getCondition(), run), zero = makeZero(builder, code.loc, adjoint.getType());
        if (isActive(select.getTrueValue())) accumulate(select.getTrueValue(), code.select(condition, adjoint, zero), run);
        if (isActive(select.getFalseValue())) accumulate(select.getFalseValue(), code.select(condition, zero, adjoint), run);
      })
      .Case([&](VectorOp vector) {
        for (auto [position, component] : llvm::enumerate(vector.getComponents()))
          if (isActive(component)) accumulate(component, code.extract(adjoint, int64_t(position)), run);
      })
      .Case([&](BroadcastOp broadcast) {
        Value sum = ReduceOp::create(builder, code.loc, getScalar(adjoint.getType()), BinaryKind::add, adjoint);
        accumulate(broadcast.getOperand(), sum, run);
      })
      .Case([&](ExtractOp extract) {
        const Shadow &whole = shadows.lookup(extract.getOperand());
        auto type = mlir::cast<VectorType>(extract.getOperand().getType());
        int64_t columns = type.getRank() == 2 ? type.getDimSize(1) : 1, position = extract.getComponent();
        SmallVector<Value> indices{code.integer(position / columns)};
        if (type.getRank() == 2) indices.push_back(code.integer(position % columns));
        addTo(code.component(whole.place, indices), adjoint, whole.parallelDepth < run.parallelDepth);
      })
      .Case([&](ExtractAtOp extract) {
        const Shadow &whole = shadows.lookup(extract.getOperand());
        addTo(code.component(whole.place, useAll(extract.getIndices(), run)), adjoint, whole.parallelDepth < run.parallelDepth);
      })
      .Case([&](ReduceOp reduce) { emitBackwardReduce(reduce, adjoint, run); })
      .Case([&](MatmulOp product) { emitBackwardMatmul(product, adjoint, run); })
      .Case([&](TransposeOp transpose) {
        auto from = mlir::cast<VectorType>(transpose.getOperand().getType()), to = mlir::cast<VectorType>(adjoint.getType());
        SmallVector<Value> components;
        int64_t rows = from.getDimSize(0), columns = from.getRank() == 2 ? from.getDimSize(1) : 1;
        for (int64_t i = 0; i < rows; ++i)
          for (int64_t k = 0; k < columns; ++k) components.push_back(code.extract(adjoint, to.getRank() == 2 ? k * rows + i : i));
        accumulate(transpose.getOperand(), makeVector(builder, code.loc, from, components), run);
      });
}

/// Component by component, in the order of the reduction.
void AdjointBuilder::emitBackwardReduce(ReduceOp op, Value adjoint, Run &run) {
  Code code = at(op);
  Type type = op.getOperand().getType();
  if (op.getBinaryKind() == BinaryKind::add) return accumulate(op.getOperand(), BroadcastOp::create(builder, code.loc, type, adjoint), run);
  Value operand = use(op.getOperand(), run);
  SmallVector<Value> components, sums;
  for (int64_t i = 0; i < getComponentCount(type); ++i) {
    components.push_back(code.extract(operand, i));
    sums.push_back(i == 0 ? components[0] : code.binary(op.getBinaryKind(), sums.back(), components.back()));
  }
  SmallVector<Value> amounts(components.size());
  for (size_t i = components.size(); i-- > 1;) {
    SmallVector<Partial, 2> partials = computePartials(builder, sums[i].getDefiningOp(), ValueRange{sums[i - 1], components[i]}, sums[i]);
    amounts[i] = scale(builder, code.loc, partials[1], adjoint);
    adjoint = scale(builder, code.loc, partials[0], adjoint);
  }
  amounts[0] = adjoint;
  accumulate(op.getOperand(), makeVector(builder, code.loc, type, amounts), run);
}

/// C = A B: the adjoints of A and B are C' Bᵀ and Aᵀ C', component by component. A vector on the left is a row, on the right a column.
void AdjointBuilder::emitBackwardMatmul(MatmulOp op, Value adjoint, Run &run) {
  Code code = at(op);
  auto left = cast<VectorType>(op.getLhs().getType()), right = cast<VectorType>(op.getRhs().getType());
  int64_t rows = left.getRank() == 2 ? left.getDimSize(0) : 1, inner = left.getDimSize(left.getRank() - 1);
  int64_t columns = right.getRank() == 2 ? right.getDimSize(1) : 1;
  // A column times a matrix with one row: an outer product.
  if (left.getRank() == 1 && right.getRank() == 2 && right.getDimSize(0) != inner) std::swap(rows, inner);
  auto product = [&](VectorType type, int64_t n, int64_t m, int64_t count, auto first, auto second) {
    SmallVector<Value> components;
    for (int64_t i = 0; i < n; ++i)
      for (int64_t k = 0; k < m; ++k) {
        Value sum;
        for (int64_t j = 0; j < count; ++j) {
          Value term = code.binary(BinaryKind::mul, first(i, k, j), second(i, k, j));
          sum = sum ? code.add(sum, term) : term;
        }
        components.push_back(sum);
      }
    return makeVector(builder, code.loc, type, components);
  };
  Value lhs = use(op.getLhs(), run), rhs = use(op.getRhs(), run);
  if (activity.isActive(op.getLhs()))
    accumulate(op.getLhs(),
               product(
                   left, rows, inner, columns, [&](int64_t i, int64_t, int64_t j) { return code.extract(adjoint, i * columns + j); },
                   [&](int64_t, int64_t k, int64_t j) { return code.extract(rhs, k * columns + j); }),
               run);
  if (activity.isActive(op.getRhs()))
    accumulate(op.getRhs(),
               product(
                   right, inner, columns, rows, [&](int64_t i, int64_t, int64_t j) { return code.extract(lhs, j * inner + i); },
                   [&](int64_t, int64_t k, int64_t j) { return code.extract(adjoint, j * columns + k); }),
               run);
}

} // namespace qd::passes
