// gather_updates.cpp: updates of elements that several iterations share become sums
//
// In:   `for i: for j: x[j] += f(i, j)`, the loop over i parallel. The gradients of matrix products and of pairs of particles are such.
// Out:  `for j: for i: sum += f(i, j)`, the loop over j parallel, and then `x[j] += sum`: no two of its iterations update one element. What
//       the updates do not need stays in the loop behind it. The kernel lists the arrays that are assumed unaliased.
//       If f(i, j) needs values that take an iteration of i long to compute, it keeps them (kept_values.cpp), and the sums come behind it.
// Here: before nested loops are merged and get lanes. Kept are updates of few elements (each thread has copies of them,
//       privatize_reductions.cpp) and those at places that are read from memory. On grids, which need more threads, several iterations
//       share the terms of a sum, and kept is what would need a second launch for little.
#include "ir/attributes.h"
#include "ir/code.h"
#include "ir/memory.h"
#include "passes/accesses.h"
#include "passes/autodiff/forward_variables.h"
#include "passes/autodiff/remove_dead.h"
#include "passes/demote_atomics.h"
#include "passes/kept_values.h"
#include "passes/launch_exprs.h"
#include "passes/loop_parts.h"
#include "passes/merge_nested_loops.h"
#include "passes/unaliased_arrays.h"

#include "mlir/IR/IRMapping.h"
#include "mlir/Pass/Pass.h"
#include "llvm/ADT/SetOperations.h"

using namespace mlir;
using namespace qd::ir;

namespace qd::passes {

#define GEN_PASS_DECL_GATHERUPDATES
#define GEN_PASS_DEF_GATHERUPDATES
#include "passes/passes.h.inc"

namespace {

/// With fewer sums, threads and lanes would have no work.
constexpr int64_t kFewestSums = 256;
/// So many sums are enough for all threads; with fewer, there have to be as many as a quarter of what each of them adds.
constexpr int64_t kManySums = 4096;
/// Each loop repeats what its updates need.
constexpr size_t kMaxLoops = 4;

/// Grids: so many threads keep a large device busy. With less than the fewest, the launch of another loop would cost more than it saves,
/// unless the loop has no more threads as it is.
constexpr int64_t kManyThreads = 1 << 17, kFewestThreads = 1 << 14;
/// Grids: a sum is split into at most so many parts, of at least so many terms. A sum along a row gets the threads of a subgroup
/// (distribute_rows.cpp) instead, which count as so many parts.
constexpr int64_t kMostParts = 64, kFewestTerms = 16, kPartsOfRow = 4;

using Indices = llvm::SmallDenseSet<Value, 4>;

/// Updates of elements that are selected by the same indices of loops.
struct Group {
  Indices indices;
  SmallVector<Operation *> updates;
};

/// Updates by the element that they update.
using Elements = llvm::MapVector<Operation *, SmallVector<AtomicOp, 2>>;

/// Adds the indices of loops that a value is computed from; false if it is computed from anything else in the loop.
bool collectIndices(Value value, ForOp loop, Indices &found) {
  if (!loop.getBody().isAncestor(value.getParentRegion())) return true;
  if (isa<BlockArgument>(value)) return found.insert(value), true;
  Operation *op = value.getDefiningOp();
  return isPure(op) && op->getNumRegions() == 0 &&
         llvm::all_of(op->getOperands(), [&](Value operand) { return collectIndices(operand, loop, found); });
}

/// The indices of loops that an element is selected by; empty if it is selected by anything else in the loop.
Indices findIndices(ElementOp element, ForOp loop) {
  Indices found;
  if (!llvm::all_of(element->getOperands(), [&](Value index) { return collectIndices(index, loop, found); })) found.clear();
  return found;
}

/// Whether one of the updates runs in each iteration of a loop.
bool runsAlways(ArrayRef<AtomicOp> updates, ForOp loop) {
  return llvm::any_of(updates, [&](AtomicOp update) { return update->getParentOp() == loop; }) &&
         !containsOp(loop, llvm::IsaPred<BreakOp, ContinueOp>);
}

/// A variable that gets the updates of one element until they are added to it.
class Sum {
public:
  /// Creates the variable at the builder, for the updates in some axes of a loop.
  Sum(Code code, Operation *element, ArrayRef<AtomicOp> updates, ForOp loop, ArrayRef<unsigned> axes) : code(code) {
    Type type = cast<RefType>(element->getResult(0).getType()).getPointee();
    bool isFloat = isa<FloatType>(getScalar(type));
    sum = code.local(type);
    code.store(isFloat ? makeZero(code.builder, code.loc, type) : makeInteger(code.builder, code.loc, type, 0), sum);
    if (!runsAlways(updates, loop) || !loop.getStep().empty()) {
      touched = code.local(code.type());
      code.store(code.integer(0), touched);
      return;
    }
    for (unsigned axis : axes) {
      if (findLength(loop, axis).value_or(0) > 0) continue;
      Value runs = code.binary(BinaryKind::lt, loop.getLower()[axis], loop.getUpper()[axis]);
      hasTerms = hasTerms ? code.binary(BinaryKind::bit_and, hasTerms, runs) : runs;
    }
  }

  /// Lets updates of the element in a loop go to the variable.
  void replace(ElementOp element, ArrayRef<AtomicOp> updates, ForOp loop) {
    OpBuilder::InsertionGuard guard(code.builder);
    element.getResult().replaceUsesWithIf(sum, [&](OpOperand &use) { return loop->isAncestor(use.getOwner()); });
    for (AtomicOp update : updates) {
      code.builder.setInsertionPoint(update);
      if (touched) code.store(code.binary(BinaryKind::bit_or, code.load(touched), code.integer(1)), touched);
    }
  }

  /// Adds to the element, unless there was no update: then it need not exist.
  void addTo(llvm::function_ref<Value()> makeElement) {
    auto add = [&] { AtomicOp::create(code.builder, code.loc, AtomicKind::add, makeElement(), code.load(sum)); };
    Value condition = touched ? code.binary(BinaryKind::ne, code.load(touched), code.integer(0)) : hasTerms;
    condition ? code.when(condition, add) : add();
  }

private:
  Code code;
  Value sum;
  Value touched;  ///< variable that is 1 after an update; null: each iteration has one, and bounds tell whether there are iterations
  Value hasTerms; ///< whether there is an iteration; null: there is
};

/// What the iterations of a grid that share a sum take of it.
struct Parts {
  Value count;  ///< of each sum; null: one
  Value length; ///< iterations of the outermost axis that is summed up
};

/// Lengths of a nest's axes, and arithmetic with them that the host can do, too.
class Lengths : public Code {
public:
  Lengths(OpBuilder &builder, ForOp nest) : Code(builder, nest.getLoc()), wide(builder.getIntegerType(64, /*isSigned=*/true)), nest(nest) {}

  /// The number of iterations along some axes.
  Value multiply(ArrayRef<unsigned> axes) {
    Value product;
    for (unsigned axis : axes) {
      Value lower = nest.getLower()[axis], length = cast(nest.getUpper()[axis], wide);
      if (findInteger(lower) != 0) length = sub(length, cast(lower, wide));
      if (findInteger(lower) != 0 || !nest.getUpper()[axis].getDefiningOp<ExtentOp>()) length = max(length, 0);
      product = product ? binary(BinaryKind::mul, product, length) : length;
    }
    return product;
  }
  Value divide(Value x, int64_t by) { return binary(BinaryKind::raw_div, x, integer(wide, by)); }
  Value min(Value x, int64_t most) { return binary(BinaryKind::min, x, integer(wide, most)); }
  Value max(Value x, int64_t least) { return binary(BinaryKind::max, x, integer(wide, least)); }

  /// The value as a constant, if it is one.
  Value fold(Value value) {
    std::optional<int64_t> constant = findConstant(findLaunchExpr(value));
    return constant ? integer(wide, *constant) : value;
  }

  Type wide;

private:
  ForOp nest;
};

class UpdateGatherer {
public:
  UpdateGatherer(ModuleOp module, bool reassociated, bool onGrid)
      : module(module), reassociated(reassociated), onGrid(onGrid), functions(module), iterations(module), unaliased(module) {}

  void run(KernelOp kernel) {
    visitBlock(kernel.getBody().front());
    unaliased.addTo(kernel);
    if (!isChanged) return;
    demoteOwnAtomics(module);
    removeDead(module);
    forwardVariables(module);
  }

private:
  void visitBlock(Block &block) {
    for (RepeatOp repeat : block.getOps<RepeatOp>()) visitBlock(repeat.getBody().front());
    SmallVector<Part> parts;
    for (ForOp loop : llvm::to_vector(block.getOps<ForOp>()))
      if (isPlain(loop)) addParts(loop, parts);
    if (!parts.empty()) {
      removeDead(module);
      llvm::for_each(parts, [&](const Part &part) { gather(part); });
      removeDead(module);
    }
    if (onGrid) return; // of the threads that are left, each would do more
    for (ForOp loop : llvm::to_vector(block.getOps<ForOp>()))
      if (isPlain(loop)) serializeTrailing(loop);
    if (!reassociated) return;
    for (ForOp loop : llvm::to_vector(block.getOps<ForOp>())) {
      bool isWatched = containsOp(loop, [](Operation *op) { return op->hasAttr(kVolatile); });
      if (loop.getParallel() && !isWatched) sumOwn(loop.getBody().front(), loop);
    }
  }

  /// Whether iterations of a loop may be other ones: nothing in it knows their numbers, as random numbers and threads of blocks do, and
  /// nobody chose its grid.
  static bool isPlain(ForOp loop) {
    if (loop->hasAttr(kGridSize) || loop->hasAttr(kPersistent) || loop->hasAttr(kResidentBlocks)) return false;
    return loop.getParallel() && loop.getStep().empty() && !loop.getBlockDimAttr() && !loop.getMaxThreadsAttr() && canRepeat(loop);
  }

  /// A loop before another one, with one group of its updates.
  struct Part {
    ForOp loop, source;
    IRMapping map; ///< from the source
    SmallVector<Operation *> updates;
    llvm::DenseSet<uint64_t> written; ///< containers
  };

  void addParts(ForOp loop, SmallVectorImpl<Part> &parts) {
    SmallVector<Group> groups = listGroups(loop);
    if (groups.empty() || groups.size() > kMaxLoops) return;
    llvm::DenseSet<Operation *> moved;
    for (const Group &group : groups) moved.insert(group.updates.begin(), group.updates.end());
    llvm::DenseSet<uint64_t> written = listWritten(loop);
    if (readsAfterWriting(loop, moved) || llvm::set_intersects(written, unaliased.getAliased())) return;
    for (const Group &group : groups) {
      IRMapping map;
      ForOp part = addPart(loop, group.updates, map);
      parts.push_back({part, loop, map, group.updates, written});
    }
  }

  void gather(const Part &part) {
    ForOp loop = part.loop;
    const unsigned rank = loop.getRank();
    if (!findMergeableLoop(loop, loop))
      if (ForOp reader = kept.makeReader(part.source, loop, part.map, part.written)) {
        loop.erase();
        loop = reader;
      }
    ForOp nest = mergeAll(loop);
    if (!addSums(nest, rank)) {
      nest.erase();
      return kept.drop();
    }
    kept.store();
    unaliased.require(part.written);
    for (Operation *update : part.updates) update->erase();
    isChanged = true;
  }

  /// The updates of each element that are sums and not all of an iteration's own.
  SmallVector<Group> listGroups(ForOp loop) {
    SmallVector<Group> groups;
    LoopAccesses accesses(loop, functions);
    for (auto &[root, updates] : accesses.atomics) {
      if (!accesses.isOnlyUpdated(root)) continue;
      auto all = llvm::map_to_vector(updates, [&](AtomicOp update) {
        ElementOp element = findElement(update.getRef());
        return element && canSum(update) ? findIndices(element, loop) : Indices();
      });
      // On grids, updates that would be atomic beside others are as many sums as these.
      bool areAtomic = onGrid && llvm::any_of(all, [&](const Indices &indices) { return !indices.empty() && isShared(indices, loop); });
      for (auto [update, indices] : llvm::zip(updates, all)) {
        bool isSum = isShared(indices, loop) || (areAtomic && update->getParentOfType<ForOp>() != loop);
        if (indices.empty() || (!isSum && !(reassociated && returnsTo(indices, update, loop)))) continue;
        auto known = llvm::find_if(groups, [&](const Group &group) { return group.indices == indices; });
        if (known == groups.end()) known = groups.insert(groups.end(), {indices, {}});
        known->updates.push_back(update);
      }
    }
    return groups;
  }

  /// Whether several iterations of the loop have an element with these indices.
  static bool isShared(const Indices &indices, ForOp loop) {
    return llvm::any_of(loop.getBody().getArguments(), [&](Value index) { return !indices.contains(index); });
  }

  /// Whether a serial loop comes back to the element after updates of others, so that it cannot be a variable in that loop.
  static bool returnsTo(const Indices &indices, Operation *update, ForOp loop) {
    bool isInOther = false;
    for (auto around = update->getParentOfType<ForOp>(); around != loop; around = around->getParentOfType<ForOp>()) {
      if (!isShared(indices, around))
        isInOther = true;
      else if (isInOther)
        return true;
    }
    return false;
  }

  /// Whether the update adds numbers that lose nothing in a variable of their type.
  static bool canSum(AtomicOp update) {
    return update.isSum() && update.use_empty() && getScalar(update.getType()).getIntOrFloatBitWidth() >= 32;
  }

  static llvm::DenseSet<uint64_t> listWritten(ForOp loop) {
    llvm::DenseSet<uint64_t> written;
    loop.walk([&](Operation *op) {
      if (writesContainer(op)) written.insert(findRoot(cast<MemoryAccessOpInterface>(op).getRef()).id);
    });
    return written;
  }

  /// Merges the loop with those inside it whose iterations are independent.
  ForOp mergeAll(ForOp loop) {
    for (ForOp inner; (inner = findMergeableLoop(loop, loop));) {
      llvm::DenseSet<uint64_t> written;
      uint32_t independent = iterations.findAxes(inner, written, {{}, /*updates=*/true}).independent;
      if (independent != (1u << inner.getRank()) - 1) break;
      loop = mergeLoops(loop, inner);
    }
    return loop;
  }

  /// Replaces a loop that updates one element for some of its axes by one that adds a sum over the others. Without it, the first `rank`
  /// axes would have threads.
  bool addSums(ForOp nest, unsigned rank) {
    Elements elements;
    nest.walk([&](AtomicOp update) {
      if (ElementOp element = findElement(update.getRef())) elements[element].push_back(update);
    });
    SmallVector<unsigned> own = listAxes(nest, cast<ElementOp>(elements.front().first)), summed;
    for (unsigned axis = 0; axis < nest.getRank(); ++axis)
      if (!llvm::is_contained(own, axis)) summed.push_back(axis);
    bool areApart = llvm::all_of(elements, [&](auto &pair) { return listAxes(nest, cast<ElementOp>(pair.first)).size() == own.size(); });
    if (own.empty() || summed.empty() || !areApart || readsFarApart(nest, onGrid ? own.back() : summed.back())) return false;
    Parts parts;
    std::optional<Value> isWorthwhile = onGrid ? compareThreads(nest, rank, own, summed, parts) : compareLengths(nest, own, summed);
    if (!isWorthwhile) return false;
    if (*isWorthwhile) limit(cast<ForOp>(OpBuilder(nest).clone(*nest)), *isWorthwhile, /*unless=*/true);
    ForOp sums = interchange(nest, own, summed, elements, parts);
    if (*isWorthwhile) limit(sums, *isWorthwhile, /*unless=*/false);
    return true;
  }

  /// The axes of a loop that tell its elements apart, in the order of the element's indices; none if others select the element, too.
  static SmallVector<unsigned> listAxes(ForOp nest, ElementOp place) {
    SmallVector<unsigned> axes;
    for (Value index : place.getIndices())
      if (auto own = findShiftedIndex(index, &nest.getBody().front())) axes.push_back(own->index.getArgNumber());
    return axes.size() == findIndices(place, nest).size() ? axes : SmallVector<unsigned>();
  }

  /// Whether the sums would read memory once and not in its order, along the axis of neighboring lanes or threads. Such a loop is bound by
  /// memory: its own order is better.
  static bool readsFarApart(ForOp nest, unsigned axis) {
    return containsOp(nest, [&](Operation *op) {
      auto element = dyn_cast<ElementOp>(op);
      if (!element || findIndices(element, nest).size() < nest.getRank()) return false;
      return !isShifted(skipWidening(element.getIndices().back()), nest.getBody().getArgument(axis));
    });
  }

  /// Null if there are enough sums for all threads; else 1 if there are and 0 if not, where that is not known yet; nothing if there are
  /// not.
  static std::optional<Value> compareLengths(ForOp nest, ArrayRef<unsigned> own, ArrayRef<unsigned> summed) {
    std::optional<double> sums = findIterations(nest, own), terms = findIterations(nest, summed);
    if (sums && *sums < double(kFewestSums)) return std::nullopt;
    if (sums && (*sums >= double(kManySums) || terms)) {
      bool areMany = *sums >= std::clamp(terms.value_or(0) / 4, double(kFewestSums), double(kManySums));
      return areMany ? std::optional(Value()) : std::nullopt;
    }
    OpBuilder builder(nest);
    Lengths lengths(builder, nest);
    Value quarter = lengths.divide(lengths.multiply(summed), 4);
    Value least = lengths.min(quarter, kManySums);
    Value sum = lengths.multiply(own);
    return lengths.min(lengths.binary(BinaryKind::raw_div, sum, lengths.max(least, kFewestSums)), 1);
  }

  /// The same for grids. Sets the number of parts that a sum is split into, unless it is one.
  static std::optional<Value> compareThreads(ForOp nest, unsigned rank, ArrayRef<unsigned> own, ArrayRef<unsigned> summed, Parts &parts) {
    OpBuilder builder(nest);
    Lengths lengths(builder, nest);
    Value sums = lengths.multiply(own), most = lengths.divide(lengths.multiply(summed), kFewestTerms);
    if (summed.size() > 1) most = lengths.binary(BinaryKind::min, most, lengths.multiply(summed.front()));
    bool isOfRows = readsRows(nest, own, summed);
    most = lengths.min(most, isOfRows ? kPartsOfRow : kMostParts);
    Value least = lengths.max(lengths.min(lengths.multiply(llvm::to_vector(llvm::seq(rank))), kFewestThreads), 1);
    Value threads = lengths.binary(BinaryKind::mul, sums, most);
    Value isWorthwhile = lengths.fold(lengths.min(lengths.binary(BinaryKind::raw_div, threads, least), 1));
    if (findInteger(isWorthwhile) == 0 || !findLaunchExpr(isWorthwhile).isKnown())
      return std::nullopt; // or each launch would run both loops
    if (!isOfRows) {
      Value wanted = lengths.binary(BinaryKind::raw_div, lengths.integer(lengths.wide, kManyThreads), lengths.max(sums, 1));
      Value count = lengths.fold(lengths.max(lengths.binary(BinaryKind::min, wanted, most), 1));
      Value rounded = lengths.add(lengths.multiply(summed.front()), lengths.sub(count, lengths.integer(lengths.wide, 1)));
      if (findInteger(count) != 1) parts = {count, lengths.fold(lengths.binary(BinaryKind::raw_div, rounded, count))};
    }
    return findInteger(isWorthwhile) ? Value() : isWorthwhile;
  }

  /// Whether the terms of a sum are along a row, and neighboring sums have other rows.
  static bool readsRows(ForOp nest, ArrayRef<unsigned> own, ArrayRef<unsigned> summed) {
    Value term = nest.getBody().getArgument(summed.back()), neighbor = nest.getBody().getArgument(own.back());
    return containsOp(nest, [&](Operation *op) {
      auto element = dyn_cast<ElementOp>(op);
      return element && !element.getIndices().empty() && isShifted(skipWidening(element.getIndices().back()), term) &&
             llvm::any_of(element.getIndices(), [&](Value index) { return isShifted(skipWidening(index), neighbor); });
    });
  }

  /// Gives a loop no iterations unless the condition is 1, or if it is. The host can compute their number.
  static void limit(ForOp loop, Value condition, bool unless) {
    OpBuilder builder(loop);
    Code code(builder, loop.getLoc());
    Value lower = loop.getLower()[0], upper = loop.getUpper()[0], factor = code.cast(condition, upper.getType());
    if (unless) factor = code.sub(code.integer(upper.getType(), 1), factor);
    loop.getUpperMutable()[0].set(code.add(lower, code.binary(BinaryKind::mul, code.sub(upper, lower), factor)));
  }

  /// A parallel loop over the axes that are the element's own, around serial loops over the others, which sum up what the element gets. If
  /// a sum has parts, their axis is the first one, so that neighboring threads update neighbors.
  static ForOp interchange(ForOp nest, ArrayRef<unsigned> own, ArrayRef<unsigned> summed, const Elements &elements, const Parts &parts) {
    OpBuilder builder(nest);
    Code code(builder, nest.getLoc());
    IRMapping map;
    ForOp outer = addParallelLoop(code, nest, own, map, parts.count);
    SmallVector<Sum> sums;
    for (auto &[element, updates] : elements) sums.push_back(Sum(code, element, updates, nest, summed));
    addSerialLoops(code, nest, summed, map);
    if (parts.count) {
      auto first = cast<ForOp>(std::prev(outer.getBody().front().end(), 2));
      takePart(first, outer.getBody().getArgument(0), parts.length);
    }
    Block &body = outer.getBody().front();
    builder.setInsertionPoint(body.getTerminator());
    IRMapping ofOuter;
    for (auto [axis, index] : llvm::zip(own, body.getArguments().take_back(own.size())))
      ofOuter.map(nest.getBody().getArgument(axis), index);
    for (auto [sum, pair] : llvm::zip(sums, elements)) {
      auto copy = [&](Operation *op) { return map.lookup(op); };
      auto updates = llvm::map_to_vector(pair.second, [&](AtomicOp update) { return cast<AtomicOp>(copy(update)); });
      sum.replace(cast<ElementOp>(copy(pair.first)), updates, outer);
      Value element = pair.first->getResult(0);
      IRMapping ofElement = ofOuter;
      sum.addTo([&] { return copyInto(builder, element, nest, ofElement); });
    }
    nest.erase();
    return outer;
  }

  /// A parallel loop over the parts of sums, if these have parts, and some axes of a nest, with the builder in it.
  static ForOp addParallelLoop(Code code, ForOp nest, ArrayRef<unsigned> axes, IRMapping &map, Value parts = {}) {
    SmallVector<Value> lower, upper;
    if (parts) lower.push_back(code.integer(0)), upper.push_back(code.cast(parts, code.type()));
    for (unsigned axis : axes) lower.push_back(nest.getLower()[axis]), upper.push_back(nest.getUpper()[axis]);
    auto loop = ForOp::create(code.builder, code.loc, lower, upper, ValueRange(), /*parallel=*/true, IntegerAttr(), IntegerAttr(),
                              nest.getNameAttr());
    loop->setDiscardableAttrs(nest->getDiscardableAttrDictionary());
    loop->removeAttr(kMostIterations);
    if (parts) {
      loop.getBody().emplaceBlock().addArgument(code.type(), code.loc);
      loop->setAttr(kAddsParts, code.builder.getUnitAttr());
    }
    enter(code, loop, nest, axes, map);
    return loop;
  }

  /// Lets a serial loop have the iterations of one part only, of all those before it in the parallel loop.
  static void takePart(ForOp loop, Value part, Value length) {
    OpBuilder builder(loop);
    Code code(builder, loop.getLoc());
    Type wide = length.getType();
    Value lower = loop.getLower()[0], upper = loop.getUpper()[0];
    Value first = code.add(code.cast(lower, wide), code.binary(BinaryKind::mul, code.cast(part, wide), length));
    Value end = code.binary(BinaryKind::min, code.add(first, length), code.cast(upper, wide));
    loop.getLowerMutable()[0].set(code.cast(code.binary(BinaryKind::min, first, end), lower.getType()));
    loop.getUpperMutable()[0].set(code.cast(end, upper.getType()));
  }

  /// Serial loops over other axes, each in the one before, around the body of the nest.
  static void addSerialLoops(Code code, ForOp nest, ArrayRef<unsigned> axes, IRMapping &map) {
    for (unsigned axis : axes) {
      auto loop = ForOp::create(code.builder, code.loc, nest.getLower()[axis], nest.getUpper()[axis], ValueRange(), /*parallel=*/false,
                                IntegerAttr(), IntegerAttr(), StringAttr());
      enter(code, loop, nest, axis, map);
    }
    for (Operation &op : nest.getBody().front().without_terminator()) code.builder.clone(op, map);
  }

  static void enter(Code code, ForOp loop, ForOp nest, ArrayRef<unsigned> axes, IRMapping &map) {
    Block &block = loop.getBody().empty() ? loop.getBody().emplaceBlock() : loop.getBody().front();
    for (unsigned axis : axes) {
      Value index = nest.getBody().getArgument(axis);
      map.map(index, block.addArgument(index.getType(), code.loc));
    }
    code.builder.setInsertionPointToStart(&block);
    code.builder.setInsertionPoint(YieldOp::create(code.builder, code.loc));
  }

  /// Lets one iteration run the trailing axes of a loop, if it then has an element for itself that iterations have shared, and there are
  /// enough iterations for all threads.
  void serializeTrailing(ForOp loop) {
    SmallVector<Group> groups = listGroups(loop);
    auto axes = llvm::to_vector(llvm::seq<unsigned>(loop.getRank()));
    for (unsigned rank = loop.getRank(); --rank > 0;) {
      auto leading = ArrayRef(axes).take_front(rank), trailing = ArrayRef(axes).drop_front(rank);
      auto has = [&](const Group &group) {
        return [&](unsigned axis) { return group.indices.contains(loop.getBody().getArgument(axis)); };
      };
      bool isOwn = llvm::any_of(groups, [&](const Group &group) { return llvm::all_of(leading, has(group)); });
      if (!isOwn || findIterations(loop, leading).value_or(0) < double(kFewestSums)) continue;
      OpBuilder builder(loop);
      Code code(builder, loop.getLoc());
      IRMapping map;
      addParallelLoop(code, loop, leading, map);
      addSerialLoops(code, loop, trailing, map);
      loop.erase();
      isChanged = true;
      return;
    }
  }

  /// Sums up what a serial loop adds to an element that is the same in all its iterations.
  void sumOwn(Block &block, ForOp parallel) {
    for (Operation &op : llvm::make_early_inc_range(block)) {
      auto loop = dyn_cast<ForOp>(op);
      if (loop) sumIn(loop, parallel);
      for (Region &region : op.getRegions())
        for (Block &inner : region) sumOwn(inner, parallel);
    }
  }

  void sumIn(ForOp loop, ForOp parallel) {
    LoopAccesses accesses(loop, functions);
    for (auto &[root, updates] : accesses.atomics) {
      if (!accesses.isOnlyUpdated(root) || unaliased.getAliased().contains(root.id) || !llvm::all_of(updates, canSum)) continue;
      Elements elements;
      for (AtomicOp update : updates)
        if (ElementOp element = findElement(update.getRef()); element && updatesElementOf(parallel, update))
          elements[element].push_back(update);
      for (auto &[element, ofElement] : elements)
        if (llvm::all_of(element->getOperands(), [&](Value operand) { return isHoistable(operand, loop); })) {
          unaliased.require({root.id});
          sumElement(cast<ElementOp>(element), ofElement, loop);
        }
    }
  }

  void sumElement(ElementOp element, ArrayRef<AtomicOp> updates, ForOp loop) {
    hoist(element, loop);
    OpBuilder builder(loop);
    Code code(builder, loop.getLoc());
    Sum sum(code, element, updates, loop, llvm::to_vector(llvm::seq<unsigned>(loop.getRank())));
    sum.replace(element, updates, loop);
    builder.setInsertionPointAfter(loop);
    sum.addTo([&] { return element; });
    isChanged = true;
  }

  ModuleOp module;
  bool reassociated; ///< sums of floats may be taken in another order
  bool onGrid;
  bool isChanged = false;
  FunctionAccesses functions;
  IndependentIterations iterations;
  UnaliasedArrays unaliased;
  KeptValues kept;
};

struct GatherUpdatesPass : impl::GatherUpdatesBase<GatherUpdatesPass> {
  using GatherUpdatesBase::GatherUpdatesBase;

  void runOnOperation() override {
    for (KernelOp kernel : getOperation().getOps<KernelOp>()) UpdateGatherer(getOperation(), reassociated, onGrid).run(kernel);
  }
};

} // namespace

} // namespace qd::passes
