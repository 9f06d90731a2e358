// promote_elements.cpp: elements that an iteration overwrites become variables of the iteration
//
// In:   a kernel to be differentiated, and containers of which its gradient needs overwritten primals.
// Out:  y[i] = f; … y[i] …; y[i] = g  =>  v = f; … v …; v = g; y[i] = v. Elements are loaded before the first write and stored at the end.
//       The values in between are restored like those of any variable: recomputed with the iteration, or from checkpoints of loops.
// Here: before the derivative is taken, and only if the derivative fails without promotion.
//
// A segment is a sequence of statements that one thread runs: the body of a parallel loop, the statements between two parallel loops, or
// the body of an inner loop. Accesses of one segment that may be to the same element form a group. A group with one address gets a
// variable. Any other group gets an array; a slot is found by comparing addresses (a few of them), or by index (a row: the axes on which
// the indices differ, if their extents are known and small). A flag for each slot says whether it was written: only then loads read the
// slot, and only then it is stored to the container at the end.
//
// In the last resort a check runs with the gradient: a load of a value from before the segment that may be overwritten records its address,
// later stores compare theirs, and an assertion at the end fails if they were equal. remove_dead.cpp removes the checks of loads that the
// derivative does not need.
#include "passes/autodiff/promote_elements.h"

#include "ir/attributes.h"
#include "passes/accesses.h"
#include "passes/autodiff/adjoint_builder.h"
#include "passes/autodiff/inline_calls.h"
#include "passes/autodiff/overwritten_primals.h"
#include "passes/autodiff/segment_accesses.h"
#include "passes/checks/assert_text.h"
#include "passes/demote_atomics.h"

#include "llvm/ADT/EquivalenceClasses.h"
#include "llvm/ADT/MapVector.h"

using namespace mlir;
using namespace qd::ir;

namespace qd::passes {

namespace {

/// Limits: addresses that are compared at run time, and bytes of a row.
constexpr size_t kMaxAddresses = 16;
constexpr int64_t kRowBytes = 4096;

/// The variable or array that replaces the elements of a group.
class Storage {
public:
  /// `checkCount`: number of checks in the module; null if loads that may be overwritten are errors instead of checked.
  Storage(SegmentAccesses &accesses, const Coverage &coverage, ArrayRef<unsigned> group, ArrayRef<unsigned> rowAxes, int64_t *checkCount)
      : accesses(accesses), coverage(coverage), group(group), rowAxes(rowAxes), checkCount(checkCount),
        builder(accesses.all.front().op->getContext()) {
    for (Access &access : accesses.all)
      if (llvm::is_contained(group, access.address)) members.push_back(&access);
    element = members.front()->element;
    container = cast<ir::TensorType>(element.getTensor().getType());
    type = container.getElement();
  }

  /// Whether promotion helps: there is a store, and a load of an element that may be overwritten. The gradient of a replayed call reads
  /// entry values of whole containers, so there any load may follow the store.
  bool isUseful(bool isReplay) const {
    return llvm::any_of(members, [](const Access *access) { return access->isStore(); }) &&
           llvm::any_of(members, [&](const Access *access) { return !access->isStore() && (access->isOverwritten || isReplay); });
  }

  void rewrite() {
    declare();
    for (Access *access : members) {
      builder.setInsertionPoint(access->op);
      Code code(builder, access->op->getLoc());
      access->isStore() ? rewriteStore(code, *access) : rewriteLoad(code, *access);
    }
    Operation *end = findStatement(members.back()->op);
    builder.setInsertionPointAfter(end);
    writeBack(Code(builder, end->getLoc()));
    checkLoads();
  }

  void erase() {
    for (Access *access : members) access->op->erase();
  }

private:
  bool isRow() const { return !rowAxes.empty(); }
  bool isArray() const { return isRow() || group.size() > 1; }

  Operation *findStatement(Operation *op) const {
    while (op->getBlock() != accesses.block) op = op->getParentOp();
    return op;
  }

  int64_t countSlots() const {
    if (!isRow()) return int64_t(group.size());
    int64_t count = 1;
    for (unsigned axis : rowAxes) count *= container.getExtents()[axis];
    return count;
  }

  Type getStorageType(Type of) const {
    if (!isArray()) return of;
    if (!isa<VectorType>(of)) return VectorType::get({countSlots()}, of);
    return VectorType::get({countSlots(), getComponentCount(of)}, getScalar(of));
  }

  Value makeLocal(Code code, Type pointee) {
    Value made = code.local(pointee);
    Value zero = isFloatScalar(getScalar(pointee)) ? makeFloat(builder, code.loc, pointee, 0) : Value();
    if (!zero) {
      zero = makeInteger(builder, code.loc, getScalar(pointee), 0);
      if (isa<VectorType>(pointee)) zero = BroadcastOp::create(builder, code.loc, pointee, zero);
    }
    code.store(zero, made);
    return made;
  }

  void declare() {
    builder.setInsertionPoint(findStatement(members.front()->op));
    Code code(builder, members.front()->op->getLoc());
    // One flag for each component if components are written separately, otherwise one for the element.
    hasComponentFlags =
        isArray() ? isa<VectorType>(type)
                  : llvm::any_of(members, [](const Access *access) { return access->isStore() && !access->getComponent().empty(); });
    values = makeLocal(code, getStorageType(type));
    auto argument = element.getTensor().getDefiningOp<TensorArgumentOp>();
    if (!argument->hasAttr(kShadow)) values.getDefiningOp()->setAttr(kPassive, builder.getUnitAttr());
    Type flag = builder.getI1Type();
    flags = makeLocal(code, getStorageType(hasComponentFlags ? withScalar(type, flag) : flag));
    if (group.size() > 1 && !isRow()) usedSlots = makeLocal(code, VectorType::get({int64_t(group.size())}, flag));
    for (unsigned address : group) {
      SmallVector<Value> &saved = indices[address];
      ElementOp first = findElementOf(address);
      for (auto [axis, index] : llvm::enumerate(first.getIndices())) {
        bool isKnownAtEnd = !accesses.addresses[address][axis].base || accesses.isAvailable(index);
        bool isNeeded = !llvm::is_contained(rowAxes, axis) && (usedSlots || !isKnownAtEnd);
        saved.push_back(isNeeded ? makeLocal(code, index.getType()) : Value());
      }
    }
    declareChecks(code);
  }

  ElementOp findElementOf(unsigned address) const {
    return (*llvm::find_if(members, [&](const Access *access) { return access->address == address; }))->element;
  }

  //--- Slots

  /// The slot that holds the element, or the slot of the access's own address if none does.
  Value findSlot(Code code, const Access &access) {
    if (!isArray()) return {};
    ValueRange given = access.element.getIndices();
    if (isRow()) {
      Value slot;
      for (unsigned axis : rowAxes) {
        Value index = code.cast(given[axis], code.type());
        if (int64_t first = container.getFirst(axis)) index = code.sub(index, code.integer(first));
        slot = slot ? code.add(code.binary(BinaryKind::mul, slot, code.integer(container.getExtents()[axis])), index) : index;
      }
      return slot;
    }
    Value slot = code.integer(llvm::find(group, access.address) - group.begin());
    for (auto [number, address] : llvm::enumerate(group)) {
      const Indices &known = accesses.addresses[address];
      if (address == access.address || accesses.elements.isAnotherElement(known, accesses.addresses[access.address])) continue;
      Value isSame = code.load(code.component(usedSlots, code.integer(int64_t(number))));
      for (auto [saved, index] : llvm::zip(indices[address], given)) {
        Value other = code.cast(code.load(saved), index.getType());
        isSame = code.binary(BinaryKind::bit_and, isSame, code.binary(BinaryKind::eq, other, index));
      }
      slot = code.select(isSame, code.integer(int64_t(number)), slot);
    }
    return slot;
  }

  /// The place of a scalar in the values or in the flags. `component`: indices of the component; empty: the element is a scalar.
  Value getCell(Code code, Value storage, Value slot, ValueRange component) {
    if (!isArray()) return component.empty() ? storage : code.component(storage, component);
    SmallVector<Value> at{slot};
    if (component.size() == 1) at.push_back(code.cast(component[0], code.type()));
    if (component.size() == 2) {
      Value columns = code.integer(cast<VectorType>(type).getDimSize(1));
      Value row = code.binary(BinaryKind::mul, code.cast(component[0], code.type()), columns);
      at.push_back(code.add(row, code.cast(component[1], code.type())));
    }
    return code.component(storage, at);
  }

  SmallVector<SmallVector<Value, 2>> listComponents(Code code) {
    auto vector = dyn_cast<VectorType>(type);
    if (!vector) return {{}};
    SmallVector<SmallVector<Value, 2>> list;
    int64_t columns = vector.getRank() == 2 ? vector.getDimSize(1) : 1;
    for (int64_t i = 0; i < vector.getNumElements(); ++i) {
      SmallVector<Value, 2> &at = list.emplace_back();
      at.push_back(code.integer(i / columns));
      if (vector.getRank() == 2) at.push_back(code.integer(i % columns));
    }
    return list;
  }

  /// Whether the access is to a whole element with a single flag.
  bool accessesWhole(const Access &access) const { return !isArray() && !hasComponentFlags && access.getComponent().empty(); }

  Value makeTrue(Code code, Type like) {
    Value one = makeInteger(builder, code.loc, builder.getI1Type(), 1);
    return isa<VectorType>(like) ? Value(BroadcastOp::create(builder, code.loc, like, one)) : one;
  }

  //--- Accesses

  StringRef getName() { return element.getTensor().getDefiningOp<TensorArgumentOp>().getName(); }

  void saveIndices(Code code, const Access &access) {
    for (auto [saved, index] : llvm::zip(indices[isRow() ? group.front() : access.address], access.element.getIndices()))
      if (saved) code.store(index, saved);
  }

  void rewriteStore(Code code, const Access &access) {
    Value slot = findSlot(code, access), value = cast<StoreOp>(access.op).getValue(), yes = makeTrue(code, builder.getI1Type());
    recordOverwritten(code, access, slot);
    saveIndices(code, access);
    if (usedSlots) code.store(yes, code.component(usedSlots, slot));
    if (ValueRange component = access.getComponent(); !component.empty()) {
      code.store(value, getCell(code, values, slot, component));
      code.store(yes, getCell(code, flags, slot, component));
    } else if (!isArray()) {
      code.store(value, values);
      code.store(makeTrue(code, cast<RefType>(flags.getType()).getPointee()), flags);
    } else {
      for (auto [number, at] : llvm::enumerate(listComponents(code))) {
        code.store(at.empty() ? value : code.extract(value, int64_t(number)), getCell(code, values, slot, at));
        code.store(yes, getCell(code, flags, slot, at));
      }
    }
  }

  void rewriteLoad(Code code, const Access &access) {
    auto load = cast<LoadOp>(access.op);
    if (access.isBefore) {
      Operation *first = builder.clone(*load);
      recordRead(code, access, first, isRow() && isChecked(access) ? findSlot(code, access) : Value());
      return load.replaceAllUsesWith(first->getResult(0));
    }
    Value slot = findSlot(code, access);
    ValueRange component = access.getComponent();
    auto read = [&](Value flag, Value cell, Value place) -> Value {
      if (access.isKnown) return code.load(cell);
      Value into = cell;
      if (access.isOverwritten) {
        // Into a copy, not into the cell: only uses of this load must decide whether the overwritten value is needed.
        into = code.local(cast<RefType>(cell.getType()).getPointee());
        code.store(code.load(cell), into);
      }
      code.when(UnaryOp::create(builder, code.loc, UnaryKind::logical_not, code.load(flag)), [&] {
        Value before = code.load(place);
        recordRead(code, access, before.getDefiningOp(), slot);
        code.store(before, into);
      });
      return code.load(into);
    };
    if (accessesWhole(access)) return load.replaceAllUsesWith(read(flags, values, access.element));
    if (!component.empty()) {
      Value flag = hasComponentFlags ? getCell(code, flags, slot, component) : flags, cell = getCell(code, values, slot, component);
      return load.replaceAllUsesWith(read(flag, cell, access.op.getRef()));
    }
    SmallVector<Value> parts;
    for (auto &at : listComponents(code)) {
      Value cell = getCell(code, values, slot, at);
      Value place = at.empty() ? Value(access.element) : code.component(access.element, at);
      parts.push_back(read(getCell(code, flags, slot, at), cell, place));
    }
    load.replaceAllUsesWith(isa<VectorType>(type) ? Value(VectorOp::create(builder, code.loc, type, parts)) : parts[0]);
  }

  //--- Checks

  /// Whether a load that may be overwritten is checked at run time: it is not certain that it runs, reads an older value and is
  /// overwritten. Integers are not checked: indices and bounds would be used before the check.
  bool isChecked(const Access &load) const {
    if (!checkCount || load.isStore() || !load.isOverwritten || !isFloatScalar(getScalar(type))) return false;
    bool isConditional = false;
    for (Operation *op = load.op; op->getBlock() != accesses.block; op = op->getParentOp()) isConditional |= isa<IfOp>(op->getParentOp());
    return load.isAfter || !load.isSurelyOverwritten || isConditional;
  }

  void declareChecks(Code code) {
    if (llvm::none_of(members, [&](const Access *access) { return isChecked(*access); })) return;
    lastOverwritten = makeLocal(code, code.type());
    for (const Access *access : members) {
      if (!isChecked(*access)) continue;
      checked.push_back(access);
      Value &number = lastRead[isRow() ? group.front() : access->address];
      if (!number) number = makeLocal(code, isRow() ? VectorType::get({countSlots()}, code.type()) : code.type());
    }
    firstCheck = *checkCount;
    *checkCount += int64_t(checked.size());
  }

  /// Records at run time that the load has read a value from before the segment.
  void recordRead(Code code, const Access &access, Operation *load, Value slot) {
    if (!access.isOverwritten) return;
    if (!isChecked(access)) return markOverwritten(load, getName());
    int64_t number = llvm::find(checked, &access) - checked.begin();
    Value place = lastRead.lookup(isRow() ? group.front() : access.address);
    load->setAttr(kGuarded, builder.getI64IntegerAttr(firstCheck + number));
    auto store = StoreOp::create(builder, code.loc, code.integer(number + 1), isRow() ? code.component(place, slot) : place);
    store->setAttr(kGuards, builder.getI64IntegerAttr(firstCheck + number));
    if (usedSlots) saveIndices(code, access);
  }

  /// Records at run time which load has read the value that the store overwrites.
  void recordOverwritten(Code code, const Access &store, Value slot) {
    for (auto &[address, place] : lastRead) {
      Value number = code.load(isRow() ? code.component(place, slot) : place);
      if (!isRow() && address != store.address) {
        if (accesses.elements.isAnotherElement(accesses.addresses[address], accesses.addresses[store.address])) continue;
        Value isSame = makeTrue(code, builder.getI1Type());
        for (auto [saved, index] : llvm::zip(indices[address], store.element.getIndices()))
          isSame =
              code.binary(BinaryKind::bit_and, isSame, code.binary(BinaryKind::eq, code.cast(code.load(saved), index.getType()), index));
        number = code.select(isSame, number, code.integer(0));
      }
      code.store(code.binary(BinaryKind::max, code.load(lastOverwritten), number), lastOverwritten);
    }
  }

  void checkLoads() {
    for (auto [number, load] : llvm::enumerate(checked)) {
      Code code(builder, load->op->getLoc());
      AssertText text(builder.getContext());
      text << describeOverwritten(getName());
      Value isGood = code.binary(BinaryKind::ne, code.load(lastOverwritten), code.integer(int64_t(number) + 1));
      Operation *made = text.addAssert(builder, code.loc, isGood, artifact::Site::Kind::Gradient);
      made->setAttr(kAlways, builder.getUnitAttr());
      made->setAttr(kGuards, builder.getI64IntegerAttr(firstCheck + int64_t(number)));
    }
  }

  //--- At the end

  void writeBack(Code code) {
    if (isRow()) {
      code.loop(code.integer(0), code.integer(countSlots()), [&](Value slot) { writeSlot(code, group.front(), slot); });
      return;
    }
    for (auto [number, address] : llvm::enumerate(group)) {
      Value slot = isArray() ? code.integer(int64_t(number)) : Value();
      if (usedSlots)
        code.when(code.load(code.component(usedSlots, slot)), [&] { writeSlot(code, address, slot); });
      else
        writeSlot(code, address, slot);
    }
  }

  void writeSlot(Code code, unsigned address, Value slot) {
    SmallVector<Value> at;
    ElementOp first = findElementOf(address);
    Value rest = slot;
    SmallVector<Value> ofRow(container.getRank());
    for (unsigned axis : llvm::reverse(rowAxes)) {
      Value extent = code.integer(container.getExtents()[axis]);
      Value index = axis == rowAxes.front() ? rest : code.binary(BinaryKind::raw_mod, rest, extent);
      if (axis != rowAxes.front()) rest = code.binary(BinaryKind::raw_div, rest, extent);
      ofRow[axis] = container.getFirst(axis) ? code.add(index, code.integer(container.getFirst(axis))) : index;
    }
    for (auto [axis, index] : llvm::enumerate(first.getIndices())) {
      Value saved = indices[address][axis];
      const Index &known = accesses.addresses[address][axis];
      at.push_back(ofRow[axis]  ? ofRow[axis]
                   : saved      ? code.load(saved)
                   : known.base ? index
                                : makeInteger(builder, code.loc, index.getType(), known.distance));
    }
    Value place = ElementOp::create(builder, code.loc, first.getType(), first.getTensor(), at);
    if (!isArray() && coverage.isWritten(address)) return code.store(code.load(values), place);
    if (!isArray() && !hasComponentFlags) return code.when(code.load(flags), [&] { code.store(code.load(values), place); });
    for (auto &component : listComponents(code))
      code.when(code.load(getCell(code, flags, slot, component)), [&] {
        Value to = component.empty() ? place : code.component(place, component);
        code.store(code.load(getCell(code, values, slot, component)), to);
      });
  }

  SegmentAccesses &accesses;
  const Coverage &coverage;
  ArrayRef<unsigned> group, rowAxes;
  int64_t *checkCount;
  SmallVector<const Access *> checked;
  /// Per address, or for the row: a local with the number in `checked`, from 1, of the load that read an older value.
  llvm::MapVector<unsigned, Value> lastRead;
  Value lastOverwritten;  ///< number of a load whose value was overwritten afterwards
  int64_t firstCheck = 0; ///< number of the first check in the module
  OpBuilder builder;
  SmallVector<Access *> members;
  ElementOp element;
  ir::TensorType container;
  Type type;
  Value values, flags; ///< the elements, and whether they are written
  Value usedSlots;     ///< whether a slot holds the element of its address; null unless addresses are compared
  bool hasComponentFlags = false;
  DenseMap<unsigned, SmallVector<Value>> indices; ///< per address: locals that store the indices, if not available at the end
};

class Promoter {
public:
  Promoter(ModuleOp module, uint32_t container, Promotion promotion, bool isReplay, int64_t &checkCount)
      : elements(module), functions(module), container(container), promotion(promotion), isReplay(isReplay), checkCount(checkCount) {}

  void run(Block &block) {
    Segment segment;
    auto finish = [&] {
      if (!segment.empty()) promote(segment);
      segment.clear();
    };
    auto isParallel = [](Operation *op) { return isa<ForOp>(op) && cast<ForOp>(op).getParallel(); };
    for (Operation &op : llvm::make_early_inc_range(block)) {
      if (op.hasTrait<OpTrait::IsTerminator>() || op.hasAttr(kLoopExit)) continue;
      if (!containsOp(&op, isParallel)) {
        segment.push_back(&op);
        continue;
      }
      finish();
      for (Region &region : op.getRegions())
        if (!region.empty()) run(region.front());
    }
    finish();
  }

private:
  void promote(const Segment &segment) {
    SegmentAccesses accesses(segment, container, elements, functions);
    if (accesses.all.empty()) return;
    if (!accesses.hasOtherAccesses && (promoteAddresses(accesses) || (promotion != Promotion::Variables && promoteRow(accesses)))) return;
    for (Operation *op : segment)
      for (Region &region : op->getRegions()) {
        if (region.empty() || (isa<WhileOp>(op) && region.getRegionNumber() == 0)) continue;
        Segment inner;
        for (Operation &statement : region.front())
          if (!statement.hasTrait<OpTrait::IsTerminator>() && !statement.hasAttr(kLoopExit)) inner.push_back(&statement);
        if (!inner.empty()) promote(inner);
      }
  }

  /// Promotes elements to variables if each address of the segment is one element; false if not.
  bool promoteAddresses(SegmentAccesses &accesses) {
    const auto &addresses = accesses.addresses;
    if (!llvm::all_of(addresses, [&](const Indices &indices) { return accesses.isInvariant(indices); })) return false;
    llvm::EquivalenceClasses<unsigned> meeting;
    for (unsigned one = 0; one < addresses.size(); ++one) {
      meeting.insert(one);
      for (unsigned other = 0; other < one; ++other)
        if (!elements.isAnotherElement(addresses[one], addresses[other])) meeting.unionSets(one, other);
    }
    SmallVector<SmallVector<unsigned>> groups;
    for (unsigned one = 0; one < addresses.size(); ++one) {
      if (meeting.getLeaderValue(one) != one) continue;
      SmallVector<unsigned> &group = groups.emplace_back();
      for (unsigned other = 0; other < addresses.size(); ++other)
        if (meeting.isEquivalent(one, other)) group.push_back(other);
      if (group.size() > kMaxAddresses) return false;
    }
    Coverage coverage(accesses, {});
    SmallVector<std::unique_ptr<Storage>> storages;
    for (const auto &group : groups) {
      auto storage = std::make_unique<Storage>(accesses, coverage, group, ArrayRef<unsigned>(), getCheckCount());
      if (storage->isUseful(isReplay)) storages.push_back(std::move(storage));
    }
    for (auto &storage : storages) storage->rewrite();
    // Erase last: rewriting still compares addresses of the old accesses.
    for (auto &storage : storages) storage->erase();
    return true;
  }

  /// Promotes elements to an array if they have one index on some axes and few on the others; false if not.
  bool promoteRow(SegmentAccesses &accesses) {
    const auto &addresses = accesses.addresses;
    auto type = cast<ir::TensorType>(accesses.all.front().element.getTensor().getType());
    SmallVector<unsigned> axes, all = llvm::to_vector(llvm::seq<unsigned>(0, unsigned(addresses.size())));
    Type scalar = getScalar(type.getElement());
    int64_t bytes = getComponentCount(type.getElement()) * int64_t(support::getByteSize(getScalarType(scalar)));
    for (unsigned axis = 0; axis < type.getRank(); ++axis) {
      bool isOne = llvm::all_of(addresses, [&](const Indices &indices) {
        return accesses.isInvariant(indices[axis].base) && elements.haveSameBase(indices[axis], addresses[0][axis]) &&
               indices[axis].distance == addresses[0][axis].distance;
      });
      if (isOne) continue;
      axes.push_back(axis);
      int64_t extent = type.getExtents()[axis];
      if (extent == layout::kDynamic || extent > kRowBytes) return false;
      bytes *= extent;
      if (bytes > kRowBytes) return false;
    }
    if (axes.empty()) return false;
    Coverage coverage(accesses, axes);
    Storage storage(accesses, coverage, all, axes, getCheckCount());
    if (!storage.isUseful(isReplay)) return true;
    storage.rewrite();
    storage.erase();
    return true;
  }

  SameElements elements;
  FunctionAccesses functions;
  int64_t *getCheckCount() { return promotion == Promotion::Checked ? &checkCount : nullptr; }

  uint32_t container;
  Promotion promotion;
  bool isReplay;
  int64_t &checkCount;
};

} // namespace

void promoteElements(ModuleOp module, KernelOp kernel, const DenseSet<uint32_t> &containers, Promotion promotion) {
  inlineCalls(module, kernel, containers);
  demoteOwnUpdates(module, &containers);
  SmallVector<uint32_t> ordered(containers.begin(), containers.end());
  llvm::sort(ordered);
  auto mode = kernel->getAttrOfType<StringAttr>(kDerivative);
  int64_t checkCount = 0;
  for (uint32_t container : ordered)
    Promoter(module, container, promotion, mode.getValue() == "replay", checkCount).run(kernel.getBody().front());
}

} // namespace qd::passes
