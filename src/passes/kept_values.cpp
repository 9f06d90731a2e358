// kept_values.cpp: values that a parallel loop keeps in memory of the launch for a loop behind it
//
// In:   a parallel loop, `for i: g = ...; for j: x[j] += f(i, j, g)`, where g takes too long to compute for each j.
// Out:  `for i: g = ...; kept[i] = g` and `for i: g = kept[i]; for j: x[j] += f(i, j, g)`.
// Here: gather_updates.cpp exchanges the loops of the second one. The memory is a qd.tensor_argument (kExtentsOf) that the launcher adds.
#include "passes/kept_values.h"

#include "ir/attributes.h"
#include "ir/code.h"
#include "ir/memory.h"
#include "passes/accesses.h"
#include "passes/demote_atomics.h"
#include "passes/merge_nested_loops.h"

#include "llvm/ADT/SetVector.h"

using namespace mlir;
using namespace qd::ir;

namespace qd::passes {

/// With more values, storing and loading them would cost what is saved.
constexpr size_t kMostValues = 4;

static int64_t getBits(Type type) { return getComponentCount(type) * getScalar(type).getIntOrFloatBitWidth(); }

/// The type of a value, or of a variable's content.
static Type getValueType(Value value) {
  auto place = dyn_cast<RefType>(value.getType());
  return place ? place.getPointee() : value.getType();
}

/// An element that each iteration accesses before `user` and no other one does, in a container whose elements are no smaller than `type`,
/// and that has not many more elements than the loop has iterations, as far as both are known.
static ElementOp findOwnElement(ForOp source, Operation *user, int64_t bits) {
  Block &body = source.getBody().front();
  for (auto element : body.getOps<ElementOp>()) {
    auto type = cast<ir::TensorType>(element.getTensor().getType());
    llvm::SmallDenseSet<Value, 4> found;
    for (Value index : element.getIndices())
      if (auto own = findShiftedIndex(index, &body)) found.insert(own->index);
    bool isAccessed = llvm::any_of(element->getUsers(), [&](Operation *op) { return op->getBlock() == &body; });
    if (!findContainer(element) || !isAccessed || !element->isBeforeInBlock(user) || getBits(type.getElement()) < bits ||
        found.size() != source.getRank() || type.getRank() != source.getRank() || !getTilings(type).empty())
      continue;
    double elements = 1;
    for (int64_t extent : type.getExtents()) elements *= extent == layout::kDynamic ? 1 : double(extent);
    if (elements <= 2 * findIterations(source).value_or(elements)) return element;
  }
  return {};
}

/// Whether a value is computed from indices of the loop only.
static bool isOfIndices(Value value, ForOp loop) {
  if (!loop.getBody().isAncestor(value.getParentRegion()) || isa<BlockArgument>(value)) return true;
  Operation *op = value.getDefiningOp();
  return isPure(op) && op->getNumRegions() == 0 && llvm::all_of(op->getOperands(), [&](Value part) { return isOfIndices(part, loop); });
}

Value copyInto(OpBuilder &builder, Value value, ForOp loop, IRMapping &map) {
  if (map.contains(value) || !loop.getBody().isAncestor(value.getParentRegion())) return map.lookupOrDefault(value);
  for (Value operand : value.getDefiningOp()->getOperands()) copyInto(builder, operand, loop, map);
  builder.clone(*value.getDefiningOp(), map);
  return map.lookup(value);
}

/// The only operation of a loop's body that writes to containers, if it is a serial loop.
static ForOp findWriter(ForOp part) {
  ForOp writer;
  for (Operation &op : part.getBody().front().without_terminator()) {
    if (!containsOp(&op, writesContainer)) continue;
    if (writer || !isa<ForOp>(op)) return {};
    writer = cast<ForOp>(op);
  }
  return writer;
}

KeptValues::Kept &KeptValues::keep(Value value, Operation *user, ElementOp like, Type type) {
  for (Kept &known : all)
    if (known.value == value && known.user == user) return known;
  auto kernel = user->getParentOfType<KernelOp>();
  auto from = cast<ir::TensorType>(like.getTensor().getType());
  auto own = ir::TensorType::get(type.getContext(), type, from.getExtents(), {}, getBits(type) / 8, from.getOrigin(), {});
  const uint32_t offset = kernel.getArgumentBytes();
  kernel.setArgumentBytes(offset + 8 * uint32_t(1 + llvm::count(from.getExtents(), layout::kDynamic)));
  OpBuilder builder = OpBuilder::atBlockBegin(&kernel.getBody().front());
  auto memory = TensorArgumentOp::create(builder, user->getLoc(), own, offset, "kept", 0, /*field=*/true);
  memory->setAttr(kExtentsOf, builder.getI32IntegerAttr(int32_t(findContainer(like).getOffset())));
  return all.emplace_back(Kept{value, user, memory, like});
}

ForOp KeptValues::makeReader(ForOp source, ForOp part, const IRMapping &map, const llvm::DenseSet<uint64_t> &written) {
  ForOp writer = findWriter(part);
  if (!writer || writer.getParallel() || !writer.getStep().empty() || containsOp(part, llvm::IsaPred<BreakOp, ContinueOp>)) return {};
  llvm::SetVector<Value> repeated, values; // of the part
  bool isPossible = true;
  writer->walk([&](Operation *op) {
    auto access = dyn_cast<MemoryAccessOpInterface>(op);
    Root root = access ? findRoot(access.getRef()) : Root();
    if (access && !writesContainer(op) && root.kind != Root::Kind::Local)
      isPossible &= root.kind == Root::Kind::Tensor && !written.contains(root.id);
    for (Value operand : op->getOperands()) {
      if (operand.getParentRegion() != &part.getBody() || isa<BlockArgument>(operand)) continue;
      bool isVariable = operand.getDefiningOp<LocalOp>() != nullptr;
      if (!isVariable && isOfIndices(operand, part)) {
        repeated.insert(operand);
        continue;
      }
      values.insert(operand);
      Type type = getValueType(operand);
      isPossible &= isVariable ? isa<LoadOp>(op) : !isa<RefType>(operand.getType());
      isPossible &= isScalar(type) && getBits(type) >= 32;
    }
  });
  if (!isPossible || values.empty() || values.size() > kMostValues) return {};
  llvm::DenseMap<Value, Value> sources;
  for (auto [before, after] : map.getValueMap()) sources[after] = before; // of what was erased, too
  Operation *user = nullptr;
  for (auto [before, after] : map.getOperationMap())
    if (after == writer) user = before;
  auto isCopied = [&](Value value) {
    Value from = sources.lookup(value); // not of a load that has the place of an update
    return from && from.getDefiningOp()->getName() == value.getDefiningOp()->getName();
  };
  int64_t widest = 0;
  for (Value value : values) widest = std::max(widest, getBits(getValueType(value)));
  ElementOp like = user ? findOwnElement(source, user, widest) : ElementOp();
  if (!like || !llvm::all_of(values, isCopied)) return {};

  OpBuilder builder(source->getContext());
  builder.setInsertionPointAfter(source);
  auto reader = ForOp::create(builder, source.getLoc(), source.getLower(), source.getUpper(), ValueRange(), /*parallel=*/true,
                              IntegerAttr(), IntegerAttr(), source.getNameAttr());
  reader->setDiscardableAttrs(source->getDiscardableAttrDictionary());
  Block &body = reader.getBody().emplaceBlock();
  IRMapping ofPart, ofSource;
  for (auto [own, from] : llvm::zip(part.getBody().getArguments(), source.getBody().getArguments())) {
    Value index = body.addArgument(own.getType(), own.getLoc());
    ofPart.map(own, index), ofSource.map(from, index);
  }
  builder.setInsertionPointToStart(&body);
  builder.setInsertionPoint(YieldOp::create(builder, source.getLoc()));
  for (Value value : repeated) copyInto(builder, value, part, ofPart);
  for (Value value : values) {
    Type type = getValueType(value);
    Kept &kept = keep(sources.lookup(value), user, like, type);
    auto indices = llvm::map_to_vector(kept.like.getIndices(), [&](Value index) { return copyInto(builder, index, source, ofSource); });
    Value place = ElementOp::create(builder, source.getLoc(), RefType::get(type), kept.memory, indices);
    Value loaded = LoadOp::create(builder, source.getLoc(), type, place);
    ofPart.map(value, loaded);
  }
  Operation *copy = builder.clone(*writer, ofPart);
  SmallVector<LoadOp> loads; // of variables
  copy->walk([&](LoadOp load) {
    if (!isa<RefType>(load->getOperand(0).getType())) loads.push_back(load);
  });
  for (LoadOp load : loads) load->replaceAllUsesWith(load->getOperands()), load->erase();
  return reader;
}

void KeptValues::store() {
  for (Kept &kept : all) {
    if (std::exchange(kept.isStored, true)) continue;
    OpBuilder builder(kept.user);
    Code code(builder, kept.user->getLoc());
    Value value = isa<RefType>(kept.value.getType()) ? code.load(kept.value) : kept.value;
    code.store(value, ElementOp::create(builder, code.loc, RefType::get(value.getType()), kept.memory, kept.like.getIndices()));
  }
}

void KeptValues::drop() {
  llvm::erase_if(all, [](const Kept &kept) { return !kept.isStored; });
}

} // namespace qd::passes
