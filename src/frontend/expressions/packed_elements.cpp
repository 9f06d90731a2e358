// packed_elements.cpp: elements of quantized fields
//
// In:   elements of a field whose `_packing` says which bits of which words they are, and loops over such fields.
// Out:  loads of words, stores, and exchanges that are repeated until no other write came in between; calls of
// quadrants._quantized.kernels,
//       which converts between bits and values.
// Here: two elements in one word may be written by two iterations. The pass `demote_atomics` replaces exchanges of words that belong to
//       one iteration by stores.
#include "frontend/builder.h"

using namespace mlir;

namespace qd::frontend {

mlir::Value PackedElements::combine(BinaryKind kind, mlir::Value value, int64_t constant) {
  if (constant == (kind == BinaryKind::sub || kind == BinaryKind::add ? 0 : 1))
    return kind == BinaryKind::mod ? emitter.constant(0, value.getType()) : value;
  return create<ir::BinaryOp>(kind, value, emitter.constant(constant, value.getType()));
}

/// For each axis of a quantized field: whether the array of words has it, neighbors along it in one word, bits between them.
static std::vector<std::vector<int64_t>> readAxes(const nb::object &packing) {
  std::vector<std::vector<int64_t>> axes;
  for (nb::handle axis : nb::object(packing[nb::int_(1)])) axes.push_back(readNumbers(axis));
  return axes;
}

bool PackedElements::visitLoop(nb::handle at, const Operand &iterable) {
  auto *containers = iterable.find<Containers>();
  const bool isParallel = context.isTopLevel() && !nesting.isInsideParallel && !context.nextLoop.isSerial && !session.options.checksRaces;
  const bool isPlain = nb::len(getAttribute(at, names().orelse)) == 0 && session.request.mode == support::AutodiffMode::None;
  if (iterable.isStatic || !isParallel || !isPlain || (containers && containers->items.size() != 1)) return false;
  Operand container = loopRanges().leafTensor(containers ? containers->items[0] : iterable);
  if (!conversions.isTensor(container)) return false;
  Tensor field = conversions.toTensor(container);
  nb::object packing = field.object ? findAttribute(field.object, names()._packing) : nb::object();
  if (!packing || packing.is_none()) return false;
  std::vector<std::vector<int64_t>> axes = readAxes(packing);
  if (llvm::all_of(axes, [](const auto &axis) { return axis[1] == 1; })) return false;
  Box box, inner, all;
  all.isGrouped = containers != nullptr;
  VisitedElement element;
  for (auto [axis, extent] : llvm::enumerate(field.type.getExtents())) {
    element.neighbors.push_back(axes[axis][1]);
    element.origin.push_back(field.type.getFirst(int64_t(axis)));
    all.lower.push_back({});
    auto add = [&](Box &to, int64_t count) {
      to.lower.push_back(emitter.constant(0, session.types.i32));
      to.upper.push_back(emitter.constant(count, session.types.i32));
    };
    if (axes[axis][0] != 0) add(box, extent / axes[axis][1]);
    if (axes[axis][1] > 1) add(inner, axes[axis][1]);
  }
  loopRanges().checkIndices(all, getAttribute(at, names().target));
  inner.visit = [=, this](nb::handle node, ValueRange positions) {
    context.loops.back().kind = Loop::Kind::Parallel; // the user's loop: it has no break
    VisitedElement &here = visited.back();
    here.positions.clear();
    here.indices.clear();
    for (size_t axis = 0, next = 0; axis < axes.size(); ++axis) {
      here.positions.push_back(axes[axis][1] > 1 ? positions[next++] : mlir::Value());
      mlir::Value index = here.words[axis] ? combine(BinaryKind::mul, here.words[axis], axes[axis][1]) : here.positions[axis];
      if (here.words[axis] && here.positions[axis]) index = create<ir::BinaryOp>(BinaryKind::add, index, here.positions[axis]);
      if (!index) index = emitter.constant(0, session.types.i32);
      here.indices.push_back(combine(BinaryKind::add, index, here.origin[axis]));
    }
    nb::object target = getAttribute(node, names().target);
    std::vector<Operand> items = listOperands(here.indices, [](mlir::Value index) { return makeComputed(index); });
    loops().bindLoopVariable(target, loops().joinIndices(target, items, /*isGrouped=*/containers != nullptr));
    statements().visitBody(getAttribute(node, names().body));
  };
  box.visit = [=, this](nb::handle node, ValueRange words) {
    visited.push_back(element);
    for (size_t axis = 0, next = 0; axis < axes.size(); ++axis)
      visited.back().words.push_back(axes[axis][0] != 0 ? words[next++] : mlir::Value());
    loops().loopOver(node, inner);
    visited.pop_back();
  };
  loops().loopOver(at, std::move(box));
  return true;
}

VisitedElement PackedElements::findPlaces(ArrayRef<std::vector<int64_t>> axes, const ir::TensorType &type, ValueRange indices) {
  VisitedElement element;
  for (size_t axis = 0; axis < axes.size(); ++axis) {
    element.neighbors.push_back(axes[axis][1]);
    element.origin.push_back(type.getFirst(int64_t(axis)));
  }
  for (const VisitedElement &known : llvm::reverse(visited))
    if (llvm::equal(known.indices, indices) && known.neighbors == element.neighbors && known.origin == element.origin) return known;
  const bool isArray = llvm::any_of(element.neighbors, [](int64_t count) { return count > 1; });
  for (auto [axis, index] : llvm::enumerate(indices)) {
    if (element.neighbors[axis] == 1) {
      // The words of an array are counted from 0; those of a pack have the offset of its fields.
      element.words.push_back(isArray ? combine(BinaryKind::sub, index, element.origin[axis]) : index);
      element.positions.push_back({});
      continue;
    }
    Type kind = index.getType(), plain = kind == session.types.i64 || kind == session.types.u64 ? session.types.u64 : session.types.u32;
    mlir::Value number = emitter.cast(combine(BinaryKind::sub, index, element.origin[axis]), plain);
    element.words.push_back(emitter.cast(combine(BinaryKind::floor_div, number, element.neighbors[axis]), kind));
    element.positions.push_back(emitter.cast(combine(BinaryKind::mod, number, element.neighbors[axis]), session.types.i32));
  }
  return element;
}

std::optional<Operand> PackedElements::findElement(const Tensor &field, ValueRange indices) {
  nb::object known = field.object ? findAttribute(field.object, names()._packing) : nb::object();
  if (!known || known.is_none()) return std::nullopt;
  nb::object packing = conversions.known(attributes().getAttributeOf(field, names()._packing));
  Tensor words = conversions.toTensor(attributes().getAttributeOf(field, nb::str("_words")));
  Place own;
  using enum support::AutodiffMode;
  const bool isDerived = llvm::is_contained({Forward, Reverse, Replay, Fused}, session.request.mode) && isFloat(field.type.getElement());
  if (session.options.checksBounds || isDerived) // a check of these indices, and a place with a gradient
    own.ref = create<ir::ElementOp>(ir::RefType::get(field.type.getElement()), conversions.getInput(field.input, field.type), indices);
  std::vector<std::vector<int64_t>> axes = readAxes(packing);
  VisitedElement at = findPlaces(axes, field.type, indices);
  SmallVector<mlir::Value> places;
  mlir::Value offset;
  for (size_t axis = 0; axis < axes.size(); ++axis) {
    if (axes[axis][0] != 0) places.push_back(at.words[axis]);
    if (!at.positions[axis]) continue;
    mlir::Value bits = combine(BinaryKind::mul, at.positions[axis], axes[axis][2]);
    offset = offset ? mlir::Value(create<ir::BinaryOp>(BinaryKind::add, offset, bits)) : bits;
  }
  Place word;
  if (std::optional<Place> visited = sparseCells().findVisited(words, places)) {
    word = *visited;
  } else {
    word.ref = create<ir::ElementOp>(ir::RefType::get(words.type.getElement()), conversions.getInput(words.input, words.type), places);
    sparseCells().markElement(word, words, places);
  }
  word.isElement = true;
  Type scalar = ir::getScalar(field.type.getElement());
  nb::object makePart = nb::module_::import_("quadrants._quantized.kernels").attr("make_part");
  auto vector = dyn_cast<VectorType>(field.type.getElement());
  std::vector<Operand> parts;
  for (nb::handle description : nb::object(packing[nb::int_(0)])) {
    Operand whole = word;
    Place part = isa<VectorType>(word.getType()) ? subscripts().component(whole, int64_t(parts.size())).get<Place>() : word;
    PackedElement element{makePart(description), offset, scalar, {}};
    if (isDerived) element.shadowed = (vector ? subscripts().component(own, int64_t(parts.size())).get<Place>() : own).ref;
    part.packed = std::make_shared<PackedElement>(std::move(element));
    parts.push_back(part);
  }
  if (!vector) return parts[0];
  Components components;
  components.places = std::move(parts);
  components.type = vector;
  return components;
}

mlir::Value PackedElements::loadWord(mlir::Value ref) {
  return create<ir::LoadOp>(llvm::cast<ir::RefType>(ref.getType()).getPointee(), ref);
}

mlir::Value PackedElements::callLibrary(const char *name, const PackedElement &element, ArrayRef<mlir::Value> operands) {
  Arguments arguments;
  arguments.positional = listOperands(operands, [](mlir::Value operand) { return makeComputed(operand); });
  Operand offset = element.offset ? makeComputed(element.offset) : makeObject(nb::int_(0));
  llvm::append_values(arguments.positional, offset, makeObject(element.part));
  nb::object function = nb::module_::import_("quadrants._quantized.kernels").attr(name);
  return conversions.emit(calls().call(makeObject(function), arguments, context.node));
}

mlir::Value PackedElements::load(const Place &place) {
  mlir::Value value = callLibrary("read", *place.packed, {loadWord(place.ref)});
  if (!place.packed->shadowed) return value;
  return create<ir::BinaryOp>(BinaryKind::add, value, loadWord(place.packed->shadowed));
}

mlir::Value PackedElements::withoutValue(mlir::Value value) {
  const double limit = value.getType().isF16() ? 65504 : 3e38;
  value = create<ir::BinaryOp>(BinaryKind::min, value, emitter.constantFloat(limit, value.getType()));
  value = create<ir::BinaryOp>(BinaryKind::max, value, emitter.constantFloat(-limit, value.getType()));
  return create<ir::BinaryOp>(BinaryKind::sub, value, stoppedGradients().withoutDerivative(value));
}

void PackedElements::store(const Place &place, mlir::Value value) {
  if (place.packed->shadowed) create<ir::StoreOp>(withoutValue(value), place.packed->shadowed);
  if (nb::cast<bool>(place.packed->part.attr("is_alone"))) {
    mlir::Value zero = emitter.constant(0, llvm::cast<ir::RefType>(place.ref.getType()).getPointee());
    create<ir::StoreOp>(callLibrary("write", *place.packed, {zero, value}), place.ref);
    return;
  }
  exchange(place, /*stores=*/true, [&](mlir::Value word) { return callLibrary("write", *place.packed, {word, value}); });
}

mlir::Value PackedElements::update(ir::AtomicKind kind, const Place &place, mlir::Value value) {
  llvm::StringRef name = ir::getOpInfo(kind).name;
  if (place.packed->shadowed) {
    if (kind != ir::AtomicKind::add && kind != ir::AtomicKind::sub)
      fail(error::kRuntime, "updates of quantized fields other than sums have no gradients");
    create<ir::AtomicOp>(kind, place.packed->shadowed, withoutValue(value));
  }
  mlir::Value old = exchange(place, /*stores=*/false, [&](mlir::Value word) {
    mlir::Value combined = value;
    if (kind != ir::AtomicKind::exchange)
      combined = emitter.binaryTyped(*ir::findKind<BinaryKind>(name), callLibrary("read", *place.packed, {word}), value, name);
    return callLibrary("write", *place.packed, {word, emitter.convert(combined, place.getType())});
  });
  return callLibrary("read", *place.packed, {old});
}

mlir::Value PackedElements::exchange(const Place &place, bool stores, Change change) {
  auto shift = nb::cast<int64_t>(place.packed->part.attr("shift"));
  mlir::Value part =
      place.packed->offset ? combine(BinaryKind::add, place.packed->offset, shift) : emitter.constant(shift, session.types.i32);
  mlir::Value word = loadWord(place.ref), known = create<ir::LocalOp>(ir::RefType::get(word.getType()));
  create<ir::StoreOp>(word, known);
  auto loop = create<ir::WhileOp>();
  {
    OpBuilder::InsertionGuard guard(builder);
    Enter inside(context);
    ++nesting.runtimeDepth;
    builder.createBlock(&loop.getConditionRegion());
    mlir::Value expected = loadWord(known), replacement = change(expected);
    auto found = create<ir::CompareExchangeOp>(word.getType(), place.ref, expected, replacement, part, stores);
    create<ir::StoreOp>(found, known);
    create<ir::ConditionOp>(create<ir::BinaryOp>(BinaryKind::ne, found, expected));
    builder.createBlock(&loop.getBody());
    create<ir::YieldOp>();
  }
  return loadWord(known);
}

} // namespace qd::frontend
