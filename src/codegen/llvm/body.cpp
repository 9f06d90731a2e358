// body.cpp: walks structured IR and hands each operation to the class of its subject
//
// In:   a block of lowered IR, with facts of the uniformity analysis.
// Out:  LLVM instructions in one function; long blocks are marked as outlined regions.
#include "codegen/llvm/body.h"
#include "codegen/llvm/lane_rules.h"
#include "ir/attributes.h"

#include "llvm/ADT/TypeSwitch.h"
#include "llvm/IR/Constants.h"
#include "llvm/IR/InlineAsm.h"
#include "llvm/Support/SaveAndRestore.h"

using namespace mlir;

namespace qd::codegen {

void BodyEmitter::beginRegion() {
  regionStarts.push_back({makeBlock("outlined"), emittedSize});
  continueAt(regionStarts.back().call);
  continueAt(makeBlock("outlined.first"));
}

void BodyEmitter::endRegion() {
  auto [call, sizeBefore] = regionStarts.pop_back_val();
  module.outlinedRegions[function].push_back({call, &function->back()});
  emittedSize = sizeBefore;
  // End the region with a block even if this point is unreachable: an enclosing region ends with that block.
  bool isReachable = !isTerminated();
  continueAt(makeBlock("outlined.end"));
  if (!isReachable) builder.CreateUnreachable();
}

void BodyEmitter::emitBlock(Block &block) {
  int64_t size = module.functions.getSize(*block.getParent()), pieceSize = module.options.pieceSize;
  bool outerCuts = std::exchange(cutsBlocks, cutsBlocks || (pieceSize > 0 && size > 2 * pieceSize && !module.traits.hasGrids));
  bool isCut = cutsBlocks && size > pieceSize;
  if (isCut) beginRegion();
  llvm::DebugLoc around = builder.getCurrentDebugLocation();
  // Continues after the rest of this block, which is skipped if no lane is active.
  llvm::BasicBlock *end = nullptr;
  for (Operation &op : block) {
    if (isCut && emittedSize - regionStarts.back().sizeBefore > pieceSize) {
      endRegion();
      beginRegion();
    }
    emitOp(&op);
    emittedSize += isa<ir::CallOp>(op) ? 1 : module.functions.getSize(&op);
    if (isTerminated()) {
      if (&op == &block.back()) break;
      // The rest is unreachable, but must be emitted to define every value.
      moveTo(makeBlock("dead"));
    }
    if (facts->loseLanes.contains(&op) && &op != &block.back() && !control.isCheap({std::next(op.getIterator()), block.end()})) {
      if (!end) end = makeBlock("rest.end");
      llvm::BasicBlock *rest = makeBlock("rest");
      builder.CreateCondBr(isAny(getMask()), rest, end);
      moveTo(rest);
    }
  }
  if (isCut) endRegion();
  cutsBlocks = outerCuts;
  builder.SetCurrentDebugLocation(around);
  if (!end) return;
  // The block was created inside a region.
  end->moveAfter(&function->back());
  continueAt(end);
}

llvm::Value *BodyEmitter::readClock() {
  // No instruction, but a barrier for the compiler: accesses of memory stay before or behind the clock.
  auto *type = llvm::FunctionType::get(builder.getVoidTy(), false);
  auto keepOrder = [&] { builder.CreateCall(llvm::InlineAsm::get(type, "", "~{memory}", /*hasSideEffects=*/true)); };
  keepOrder();
  llvm::Value *clock =
      builder.CreateIntrinsic(module.traits.hasCycleCounter ? llvm::Intrinsic::readcyclecounter : llvm::Intrinsic::readsteadycounter, {});
  keepOrder();
  return clock;
}

/// The part of `start + position` whose tile is that of the sum: `start` is a multiple of the length of tiles, and `position` the index of
/// a loop over a part of a tile. Null for other indices.
static Value findTileStart(Value index, int64_t length) {
  auto sum = index.getDefiningOp<ir::BinaryOp>();
  if (!sum || sum.getBinaryKind() != ir::BinaryKind::add) return {};
  auto position = dyn_cast<BlockArgument>(sum.getRhs());
  auto loop = position ? dyn_cast<ir::ForOp>(position.getOwner()->getParentOp()) : ir::ForOp();
  if (!loop || !loop.getStep().empty()) return {};
  std::optional<int64_t> lower = ir::findInteger(loop.getLower()[position.getArgNumber()]),
                         upper = ir::findInteger(loop.getUpper()[position.getArgNumber()]);
  auto start = sum.getLhs().getDefiningOp<ir::BinaryOp>();
  if (!start || start.getBinaryKind() != ir::BinaryKind::mul || !lower || *lower < 0 || !upper || *upper > length) return {};
  std::optional<int64_t> factor = ir::findInteger(start.getRhs());
  return factor && *factor % length == 0 ? sum.getLhs() : Value();
}

/// Whether a place and its components are only loaded.
static bool isOnlyLoaded(Operation *place) {
  return llvm::all_of(place->getUsers(), [](Operation *user) {
    return (isa<ir::LoadOp>(user) && !user->hasAttr(ir::kVolatile)) || (isa<ir::ComponentOp>(user) && isOnlyLoaded(user));
  });
}

/// The place of an element. A tile that is the same for all lanes becomes an axis of its own, so that lanes along a row of the tile access
/// consecutive elements.
static MemoryPlace getElement(BodyEmitter &body, ir::ElementOp element) {
  Tensor tensor = body.values.getTensor(element.getTensor());
  Components indices = body.values.getScalars(element.getIndices());
  llvm::SmallVector<Type, 4> types(element.getIndices().getTypes());
  ir::TensorType type = tensor.type;
  if (type.getTiles().empty() || !type.getOrigin().empty()) return body.memory.getElement(tensor, indices, types, isOnlyLoaded(element));
  llvm::SmallVector<int64_t, 4> extents(type.getExtents()), strides(type.getStrides()), tiles;
  for (const layout::Tiling &tiling : ir::getTilings(type)) {
    auto axis = size_t(tiling.axis);
    Value start = indices[axis].kind.isUniform() ? Value() : findTileStart(element.getIndices()[axis], tiling.length);
    Component first = start ? body.values.getScalar(start) : Component();
    if (!start || !first.kind.isUniform()) {
      tiles.append({tiling.axis, tiling.length, tiling.jump});
      continue;
    }
    auto *length = llvm::ConstantInt::get(first.value->getType(), uint64_t(tiling.length));
    indices.push_back({body.builder.CreateUDiv(first.value, length)});
    types.push_back(types[axis]);
    extents.push_back(extents[axis] / tiling.length);
    strides.push_back(tiling.jump);
  }
  tensor.type =
      ir::TensorType::get(type.getContext(), type.getElement(), extents, strides, type.getComponentStride(), type.getOrigin(), tiles);
  return body.memory.getElement(tensor, indices, types, isOnlyLoaded(element));
}

/// A store at a counter, or one that advances it: as if the active lanes did so one after the other.
void BodyEmitter::emitCompaction(ir::StoreOp op) {
  const Place &place = values.getPlace(op.getRef());
  const auto *element = std::get_if<MemoryPlace>(&place);
  const bool clobbers = !isPartialVector && op->getParentOfType<ir::ForOp>()->hasAttr(ir::kClobbers);
  if (element) return memory.compress(*element, values.getScalar(op.getValue()), clobbers);
  llvm::Value *before = memory.load(place)[0].value,
              *count = builder.CreateIntCast(countActive(getMask(), lanes), before->getType(), /*isSigned=*/false);
  memory.store(place, {{builder.CreateAdd(before, count)}}, /*masked=*/false);
}

bool BodyEmitter::isLoadedBefore(ir::LoadOp op) {
  auto element = op.getRef().getDefiningOp<ir::ElementOp>();
  if (lanes == 1 || !element || op->hasAttr(ir::kVolatile)) return false;
  llvm::SmallVector<void *, 4> key = {element.getTensor().getAsOpaquePointer()};
  for (Value index : element.getIndices()) key.push_back(index.getAsOpaquePointer());
  auto around = dyn_cast<ir::ForOp>(op->getParentOp());
  if (around && around.getParallel() && mask == iterationMask) loadedElements.insert(key);
  return loadedElements.count(key) != 0;
}

/// The type of an array, with rows of the length that they had at the launch that caused the compilation.
static ir::TensorType getShortRows(ir::TensorArgumentOp argument) {
  auto type = cast<ir::TensorType>(argument.getType());
  auto length = argument->getAttrOfType<IntegerAttr>(ir::kRowLength);
  if (!length) return type;
  llvm::SmallVector<int64_t, 4> extents(type.getExtents());
  extents.back() = length.getInt();
  return ir::TensorType::get(type.getContext(), type.getElement(), extents, {}, type.getComponentStride(), type.getOrigin(), {});
}

void BodyEmitter::emitOp(Operation *op) {
  auto give = [&](Components components) { values.setValue(op->getResult(0), std::move(components)); };
  if (module.lines) builder.SetCurrentDebugLocation(module.lines->find(op->getLoc(), sites.inlinedCalls));
  if (isElementwise(op)) return give(operators.emitElementwise(op));
  llvm::TypeSwitch<Operation *>(op)
      .Case([&](ir::ConstantOp constant) { give(operators.emitConstant(constant.getValue())); })
      .Case([&](ir::ArgumentOp argument) {
        give(memory.loadPacked(argument.getType(), offsetBy(launch.getField(kArguments), argument.getOffset()), /*invariant=*/true));
      })
      .Case([&](ir::TensorArgumentOp argument) {
        llvm::Value *descriptor = offsetBy(launch.getField(kArguments), argument.getOffset());
        llvm::Value *data = launch.loadAddress(descriptor);
        Tensor tensor{takesRowLengths ? getShortRows(argument) : cast<ir::TensorType>(argument.getType()), descriptor, data,
                      module.aliases.getScope(argument)};
        tensor.isInterleaved = module.aliases.interleaved.contains(argument);
        if (auto margin = argument->getAttrOfType<IntegerAttr>(ir::kMargin)) tensor.margin = margin.getInt();
        values.setTensor(argument, tensor);
      })
      .Case([&](ir::SharedOp shared) { blocks.emitShared(shared); })
      .Case<ir::BarrierOp, ir::FenceOp, ir::ThreadOp, ir::BlockOp, ir::ShuffleOp, ir::CombineOp, ir::PinOp, ir::BallotOp, ir::ActiveOp>(
          [&](Operation *) { blocks.emitBlockOp(op); })
      .Case([&](ir::ScratchOp scratch) {
        MemoryPlace place{cast<ir::RefType>(scratch.getType()).getPointee(), offsetBy(launch.getField(kScratch), scratch.getOffset())};
        place.componentStride = module.getByteSize(ir::getScalar(place.pointee));
        place.scope = module.aliases.getScratchScope();
        values.setPlace(scratch, place);
      })
      .Case([&](ir::LocalOp local) {
        Type pointee = cast<ir::RefType>(local.getType()).getPointee();
        const LocalStorage *storage = memory.makeLocal(pointee, facts->locals.lookup(local), "local");
        values.setPlace(local, LocalPlace{pointee, storage});
        // Store undef: no value is carried over from the previous iteration, so LLVM needs no register for it.
        if (storage->array) return;
        for (llvm::Value *slot : storage->slots)
          builder.CreateStore(llvm::UndefValue::get(cast<llvm::AllocaInst>(slot)->getAllocatedType()), slot);
      })
      .Case([&](ir::ElementOp element) { values.setPlace(element, getElement(*this, element)); })
      .Case([&](ir::ComponentOp component) {
        Components indices = values.getScalars(component.getIndices());
        values.setPlace(component, memory.getComponent(values.getPlace(component.getRef()), indices, component.getIndices().getTypes()));
      })
      .Case([&](ir::ExtentOp extent) {
        llvm::Value *value = memory.getExtent(values.getTensor(extent.getTensor()), extent.getAxis());
        give({{builder.CreateIntCast(value, module.getType(extent.getType()), /*isSigned=*/true)}});
      })
      .Case([&](ir::LoadOp op) {
        llvm::SaveAndRestore all(mask, isLoadedBefore(op) ? iterationMask : mask);
        give(memory.load(values.getPlace(op.getRef()), op->hasAttr(ir::kVolatile)));
      })
      .Case([&](ir::StoreOp op) {
        if (lanes > 1 && compacts && op->hasAttr(ir::kCompacts)) return emitCompaction(op);
        llvm::SaveAndRestore all(mask, facts->masksByCondition.contains(op) && mask ? condition : mask);
        memory.store(values.getPlace(op.getRef()), Components(values.getValue(op.getValue())), facts->divergent.contains(op));
        if (module.grid && op->hasAttr(ir::kAsync)) module.grid->copyAsync(builder);
      })
      .Case([&](ir::MemoryAccessOpInterface op) { give(atomics.emit(op)); })
      .Case([&](ir::RandomOp op) { give({random.draw(op.getType())}); })
      .Case([&](ir::ThreadIndexOp) { give({makeVarying(splat(blocks.emitThreadIndex()))}); })
      .Case([&](ir::ClockOp) { give({makeVarying(splat(readClock()))}); })
      .Case<ir::VectorOp, ir::BroadcastOp, ir::ExtractOp, ir::ExtractAtOp, ir::ReduceOp, ir::MatmulOp, ir::TransposeOp>(
          [&](Operation *) { give(operators.emitVectorOp(op)); })
      .Case([&](ir::IfOp op) { control.emitIf(op); })
      .Case([&](ir::ForOp op) { control.emitFor(op); })
      .Case([&](ir::WhileOp op) { control.emitWhile(op); })
      .Case([&](ir::BreakOp op) { control.emitBreak(op); })
      .Case([&](ir::ContinueOp op) { control.emitContinue(op); })
      .Case([&](ir::ReturnOp op) { calls.emitReturn(op); })
      .Case<ir::YieldOp, ir::ConditionOp>([](Operation *) {})
      .Case([&](ir::CallOp op) { calls.emitCall(op); })
      .Case([&](ir::PrintOp op) { sites.emitPrint(op); })
      .Case([&](ir::AssertOp op) { sites.emitAssert(op); })
      .Case([&](ir::ClaimOp op) { sites.emitClaim(op); })
      .Default([&](Operation *op) { module.reportError(op->getLoc()) << "the LLVM emitter does not know " << op->getName(); });
}

} // namespace qd::codegen
