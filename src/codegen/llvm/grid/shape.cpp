// shape.cpp: chooses how the iterations of a loop are divided among the threads of a grid
//
// In:   a parallel loop, with its reductions, and what the device has.
// Out:  a GridShape. Nothing is emitted; the choice depends on the IR only, never on addresses, so it is the same at each launch.
// A thread takes several iterations at a time (lanes: neighboring rows, or one block's width apart) to wait for many loads at once. If the
// body accesses containers only at constant offsets from its own index, it also takes several columns of its rows.
#include "codegen/llvm/grid/shape.h"

#include "codegen/llvm/grid/task.h"
#include "ir/attributes.h"
#include "ir/memory.h"
#include "passes/accesses.h"

using namespace mlir;

namespace qd::codegen {

/// Bodies up to this size take several iterations at a time, so that a thread has this many bytes of loads in flight.
constexpr int64_t kShortBody = 64;
constexpr int64_t kBytesInFlight = 32;
constexpr unsigned kMaxLanes = 4;
/// Bytes that a thread loads for its rows; neighboring rows read much of the same data.
constexpr int64_t kBytesOfRows = 128;
/// Number of threads that fill a large device; shorter loops are better spread over more threads.
constexpr int64_t kFullGrid = 1 << 17;
constexpr unsigned kMaxRows = 8;
/// Maximum number of rows if a thread also takes several columns.
constexpr unsigned kRowsOfColumns = 4;
/// Larger bodies are not repeated for each column, nor are those that reach more elements, which would take too many registers.
constexpr int64_t kColumnBody = 48;
constexpr size_t kColumnElements = 6;
/// Cells of blocks whose axes are divided as those of a block.
constexpr int64_t kLargestBlock = 1 << 13;
/// Iterations that follow each other in memory, so that the threads of a subgroup reach whole sectors.
constexpr int64_t kShortestRun = 16;
/// Shorter rows would leave too many threads without a column.
constexpr int64_t kRowOfColumns = 1024;

/// Size of a scalar if elements along the last axis are contiguous and rows may all be aligned; 0 otherwise.
int64_t getContiguousSize(ModuleEmitter &module, ir::ElementOp element) {
  auto type = cast<ir::TensorType>(element.getTensor().getType());
  int64_t size = module.getByteSize(ir::getScalar(type.getElement()));
  bool isPlain = element.getTensor().getDefiningOp<ir::TensorArgumentOp>() && type.getRank() > 0 && ir::getTilings(type).empty();
  if (!isPlain || ir::getComponentCount(type.getElement()) != 1) return 0;
  auto mayBeAligned = [](int64_t bytes) { return bytes == layout::kDynamic || bytes % kBytesOfAccess == 0; };
  int64_t columns = type.getExtents().back();
  if (type.isPacked()) return type.getRank() == 1 || columns == layout::kDynamic || mayBeAligned(columns * size) ? size : 0;
  return type.getStrides().back() == size && llvm::all_of(type.getStrides().drop_back(), mayBeAligned) ? size : 0;
}

/// Number of columns per thread: as many as one access holds, if all accesses are at constant offsets from the index; 1 otherwise.
/// Functions are not repeated: four rows of four columns took twice as long as four rows, and eight times as long to compile.
static unsigned countColumns(ModuleEmitter &module, ir::ForOp loop) {
  unsigned last = loop.getRank() - 1;
  BlockArgument index = loop.getBody().getArgument(last);
  if (module.options.lanes || !module.grid->hasWideAccesses() || module.functions.getSize(loop.getBody()) > kColumnBody) return 1;
  if (ir::containsOp(loop, ir::isLongFunction)) return 1;
  if (findStep(loop, last) != 1 || !findLower(loop, last)) return 1;
  if (findRounds(loop, last).value_or(kRowOfColumns) < kRowOfColumns) return 1;
  int64_t widest = 0;
  llvm::SmallVector<ir::ElementOp, 8> reached;
  for (ir::ElementOp element : loop.getBody().getOps<ir::ElementOp>()) {
    if (llvm::none_of(element.getIndices(), [&](Value part) { return ir::dependsOn(part, index); })) continue;
    int64_t size = getContiguousSize(module, element);
    bool isAround = ir::isShifted(element.getIndices().back(), index) &&
                    llvm::none_of(element.getIndices().drop_back(), [&](Value part) { return ir::dependsOn(part, index); });
    if (!size || !isAround) return 1;
    if (llvm::none_of(reached, [&](ir::ElementOp other) { return other->getOperands() == element->getOperands(); }))
      reached.push_back(element);
    widest = std::max(widest, size);
  }
  return widest >= 4 && reached.size() <= kColumnElements ? unsigned(kBytesOfAccess / widest) : 1;
}

/// The axis, other than the last, along which an access of the loop is contiguous while the last axis strides through memory: a transposed
/// access. Nothing if there is none.
static std::optional<unsigned> findTransposedAxis(ir::ForOp loop) {
  unsigned last = loop.getRank() - 1;
  auto depends = [&](Value part, unsigned axis) { return ir::dependsOn(part, loop.getBody().getArgument(axis)); };
  for (ir::ElementOp element : loop.getBody().getOps<ir::ElementOp>()) {
    OperandRange indices = element.getIndices();
    if (indices.size() < 2 || !element.getTensor().getDefiningOp<ir::TensorArgumentOp>()) continue;
    if (depends(indices.back(), last) || llvm::none_of(indices.drop_back(), [&](Value part) { return depends(part, last); })) continue;
    for (unsigned axis = 0; axis < last; ++axis)
      if (ir::isShifted(indices.back(), loop.getBody().getArgument(axis))) return axis;
  }
  return std::nullopt;
}

/// Bytes that an iteration loads from containers.
static int64_t countLoadedBytes(ModuleEmitter &module, ir::ForOp loop) {
  int64_t bytes = 0;
  for (ir::LoadOp load : loop.getBody().getOps<ir::LoadOp>())
    if (passes::findRoot(load.getRef()).kind == passes::Root::Kind::Tensor)
      bytes += ir::getComponentCount(load.getType()) * module.getByteSize(ir::getScalar(load.getType()));
  return bytes;
}

/// Whether the body is short and has no control flow.
static bool isShortBody(ModuleEmitter &module, ir::ForOp loop) {
  auto isStraight = [&](Operation *op) {
    auto access = dyn_cast<ir::MemoryAccessOpInterface>(op);
    if (access && access.isAtomic()) return ir::findWhole(access.getRef()).getDefiningOp<ir::AccumulatorOp>() != nullptr;
    if (op->hasAttr(ir::kVolatile)) return false;
    return !isa<ir::IfOp, ir::ForOp, ir::WhileOp, ir::CallOp, ir::RandomOp, ir::PrintOp, ir::AssertOp, ir::ContinueOp, ir::BreakOp,
                ir::ExtractAtOp>(op);
  };
  bool allStraight = llvm::all_of(loop.getBody().front(), [&](Operation &op) { return isStraight(&op); });
  return allStraight && module.functions.getSize(loop.getBody()) <= kShortBody;
}

/// Number of iterations; a huge number if unknown.
static double countKnownIterations(ir::ForOp loop) {
  double count = 1;
  for (unsigned axis = 0; axis < loop.getRank(); ++axis) count *= double(findRounds(loop, axis).value_or(INT64_MAX));
  return count;
}

/// If all axes but the first are those of a small block, the innermost axis of which a thread may take several iterations while its
/// neighbors have neighboring places in the block. The first index of the block, and what is computed from it, serves all of them.
static std::optional<unsigned> findBlockAxis(ir::ForOp loop) {
  std::optional<unsigned> found;
  int64_t inner = 1;
  for (unsigned axis = loop.getRank() - 1; axis > 0; --axis) {
    int64_t rounds = findRounds(loop, axis).value_or(0);
    if (rounds <= 0 || rounds > kLargestBlock || !findStep(loop, axis)) return std::nullopt;
    if (!found && inner >= kShortestRun) found = axis;
    inner *= rounds;
    if (inner > kLargestBlock) return std::nullopt;
  }
  return found;
}

/// The largest divisor of a number up to a limit: groups of so many iterations have no remainder.
static unsigned findDivisor(int64_t number, unsigned limit) {
  while (number % limit != 0) --limit;
  return limit;
}

/// Chooses several lanes per thread for short bodies without control flow.
static void chooseLanes(GridShape &shape, ModuleEmitter &module, ir::ForOp loop, double iterations) {
  bool isShort = isShortBody(module, loop);
  auto choose = [&](int64_t wantedBytes, unsigned maxLanes) {
    if (module.options.lanes) return unsigned(module.options.lanes);
    int64_t fitting = wantedBytes / std::max<int64_t>(countLoadedBytes(module, loop), 1);
    return isShort ? std::clamp(unsigned(llvm::bit_floor(uint64_t(std::max<int64_t>(fitting, 1)))), 1u, maxLanes) : 1;
  };
  bool drawsNumbers = module.calls.contains(loop.getBody(), llvm::IsaPred<ir::RandomOp>);
  std::optional<unsigned> transposed = findTransposedAxis(loop);
  std::optional<unsigned> blockAxis = transposed || module.options.lanes ? std::nullopt : findBlockAxis(loop);
  unsigned rowAxis = transposed ? *transposed : blockAxis.value_or(loop.getRank() - 2);
  if (loop.getRank() < 2 || drawsNumbers || !findStep(loop, rowAxis)) {
    shape.lanes = choose(kBytesInFlight, kMaxLanes);
    return;
  }
  unsigned rows = choose(kBytesOfRows, kMaxRows);
  if (blockAxis && iterations >= double(kFullGrid) * kMaxRows) {
    unsigned group = findDivisor(*findRounds(loop, *blockAxis), rows > 1 ? rows : kMaxRows);
    if (rows > 1 && group > 1) {
      shape.rowAxis = rowAxis;
      shape.lanes = group;
    } else if (group > 1) {
      shape.serialAxis = blockAxis;
      shape.rounds = group;
    }
    return;
  }
  auto isTooMany = [&] {
    return findRounds(loop, rowAxis).value_or(rows) < rows || (!module.options.lanes && iterations < double(kFullGrid) * rows);
  };
  while (rows > 1 && isTooMany()) rows /= 2;
  if (rows == 1) return;
  shape.rowAxis = rowAxis;
  if (transposed && shape.blockSize % module.traits.subgroupSize == 0 && module.traits.subgroupSize % kTileColumns == 0) {
    shape.tileRows = module.traits.subgroupSize / kTileColumns;
    shape.tileColumns = shape.blockSize / module.traits.subgroupSize * kTileColumns;
  }
  shape.columns = countColumns(module, loop);
  shape.lanes = shape.columns > 1 ? std::min(rows, kRowsOfColumns) : rows;
}

GridShape chooseShape(ModuleEmitter &module, ir::ForOp loop, ArrayRef<Reduction> reductions) {
  GridShape shape;
  double iterations = countKnownIterations(loop);
  // Private copies are updated and merged one iteration at a time.
  bool hasCopies = llvm::any_of(reductions, [](const Reduction &reduction) { return reduction.isCopy(); });
  int64_t blockSize = loop.getBlockDim().value_or(uint32_t(module.options.blockSize));
  shape.blockSize =
      unsigned(std::clamp<int64_t>(blockSize, 1, std::min<int64_t>(module.options.maxThreads, module.traits.maxBlockThreads)));
  // Reductions of a block need whole subgroups.
  if (!reductions.empty()) shape.blockSize = unsigned(llvm::alignTo(shape.blockSize, module.traits.subgroupSize));
  if (!module.isOfBlock(loop) && !hasCopies) chooseLanes(shape, module, loop, iterations);
  shape.iterations = iterations;
  shape.isBrief = iterations <= double(kFullGrid);
  return shape;
}

/// Kinds of the loop's indices between lanes.
LaneKinds GridShape::getIndexKinds(ir::ForOp loop) const {
  LaneKinds kinds(loop.getRank(), rowAxis ? LaneKind::uniform() : LaneKind::varying());
  std::optional<int64_t> step = findStep(loop, rowAxis.value_or(loop.getRank() - 1));
  if (rowAxis)
    kinds[*rowAxis] = LaneKind::linear(*step);
  else if (loop.getRank() == 1 && step)
    kinds[0] = LaneKind::linear(*step * blockSize);
  return kinds;
}

} // namespace qd::codegen
