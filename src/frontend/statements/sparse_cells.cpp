// sparse_cells.cpp: fields whose cells may be inactive
//
// In:   writes of elements, loops over fields and nodes, methods of lists.
// Out:  calls of functions of quadrants._sparse.trees, which record and list active cells, and loops over their lists.
// Here: the numbers of cells are computed in line, with constant divisors, so that lanes and the optimizer see them.
#include "frontend/builder.h"
#include "ir/attributes.h"
#include "ir/memory.h"
#include "llvm/ADT/SmallPtrSet.h"
#include <functional>

using namespace mlir;

namespace qd::frontend {

constexpr const char *kLibrary = "quadrants._sparse.trees";

Operand SparseCells::member(const Operand &base, const char *name) { return attributes().getAttributeOf(base, nb::str(name)); }

nb::object SparseCells::known(const Operand &base, const char *name) { return conversions.known(member(base, name)); }

Operand SparseCells::callFunction(const Operand &function, std::vector<Operand> operands) {
  Arguments arguments;
  arguments.positional = std::move(operands);
  return calls().call(function, arguments, context.node);
}

static bool hasValue(const nb::object &object, nb::handle name) {
  nb::object found = findAttribute(object, name);
  return found && !found.is_none();
}

bool SparseCells::isAssumedActive(const Tensor &field) {
  nb::object node = field.object.attr("_cells").attr("node");
  return llvm::any_of(session.cells.assumedActive, [&](nb::handle assumed) { return assumed.is(node) || assumed.is(field.object); });
}

void SparseCells::markElement(Place &place, const Tensor &field, ValueRange indices) {
  if (!field.object || !hasValue(field.object, names()._cells) || isAssumedActive(field)) return;
  place.sparse = std::make_shared<SparseElement>(SparseElement{field, {indices.begin(), indices.end()}});
}

bool SparseCells::checksAlways() {
  nb::object module = findAttribute(context.source.function.object, session.python.names.__module__);
  return module && PyUnicode_Check(module.ptr()) && toText(module) == kLibrary;
}

void SparseCells::assumeActive(const std::vector<Operand> &nodes) {
  for (const Operand &node : nodes) session.cells.assumedActive.push_back(conversions.known(node));
}

mlir::Value SparseCells::divide(BinaryKind kind, mlir::Value number, int64_t divisor) {
  Type type = number.getType(), plain = type == session.types.i64 ? session.types.u64 : session.types.u32;
  if (divisor == 1) return kind == BinaryKind::mod ? emitter.constant(0, type) : number;
  return emitter.cast(create<ir::BinaryOp>(kind, emitter.cast(number, plain), emitter.constant(divisor, plain)), type);
}

mlir::Value SparseCells::combine(BinaryKind kind, mlir::Value value, int64_t constant) {
  if (constant == (kind == BinaryKind::mul ? 1 : 0)) return value;
  return create<ir::BinaryOp>(kind, value, emitter.constant(constant, value.getType()));
}

mlir::Value SparseCells::encode(const Operand &digits, ValueRange indices, Type counter) {
  mlir::Value number = emitter.constant(0, counter);
  for (nb::handle digit : conversions.known(digits)) {
    std::vector<int64_t> of = readNumbers(digit); // position, origin, divisor, extent or 0, weight
    mlir::Value steps = combine(BinaryKind::sub, emitter.cast(indices[unsigned(of[0])], counter), of[1]);
    steps = divide(BinaryKind::floor_div, steps, of[2]);
    if (of[3] > 0) steps = divide(BinaryKind::mod, steps, of[3]);
    number = create<ir::BinaryOp>(BinaryKind::add, number, combine(BinaryKind::mul, steps, of[4]));
  }
  return number;
}

std::vector<mlir::Value> SparseCells::decode(const Operand &digits, mlir::Value number, Type counter) {
  std::vector<mlir::Value> indices;
  for (nb::handle axis : conversions.known(digits)) {
    mlir::Value index;
    for (nb::handle digit : axis) {
      std::vector<int64_t> of = readNumbers(digit); // period, weight, extent, divisor
      mlir::Value steps = of[0] == of[1] * of[2] ? number : divide(BinaryKind::mod, number, of[0]);
      steps = divide(BinaryKind::mod, divide(BinaryKind::floor_div, steps, of[1]), of[2]);
      steps = combine(BinaryKind::mul, emitter.cast(steps, session.types.i32), of[3]);
      index = index ? create<ir::BinaryOp>(BinaryKind::add, index, steps) : steps;
    }
    indices.push_back(index ? index : emitter.constant(0, session.types.i32));
  }
  return indices;
}

void SparseCells::activate(const Operand &given) {
  auto *components = given.find<Components>();
  const Operand &whole = components ? components->places.empty() ? components->whole : components->places[0] : given;
  auto *place = whole.find<Place>();
  if (!place || !place->sparse || place->sparse->isVisited) return;
  // An index out of range would lead to the record of another cell, or to none.
  if (ir::ElementOp element = ir::findElement(place->ref)) element->setAttr(ir::kChecked, builder.getUnitAttr());
  activate(*place->sparse);
}

void SparseCells::activate(const SparseElement &element) {
  Operand field = makeObject(element.field.object, element.field.path), cells = member(field, "_cells");
  Type counter = session.findScalarType(known(cells, "counter"));
  mlir::Value number = encode(member(field, "_cell_digits"), element.indices, counter);
  callFunction(member(cells, "touch"), {makeComputed(number)});
}

bool SparseCells::holdsElement(const Operand &operand) {
  auto *place = operand.find<Place>();
  auto *aggregate = operand.findBase<Aggregate>();
  return (place && place->sparse) || (aggregate && llvm::any_of(aggregate->items, holdsElement));
}

void SparseCells::activateAll(const Operand &operand) {
  llvm::SmallPtrSet<const Aggregate *, 8> visited; // objects may hold each other
  std::function<void(const Operand &)> visit = [&](const Operand &part) {
    activate(part);
    auto *aggregate = part.findBase<Aggregate>();
    if (aggregate && visited.insert(aggregate).second) llvm::for_each(aggregate->items, visit);
  };
  visit(operand);
}

void SparseCells::activateBeforeWrites(mlir::Value ref, const SparseElement &element) {
  for (Operation *user : llvm::to_vector(ref.getUsers())) {
    if (auto component = dyn_cast<ir::ComponentOp>(user)) {
      activateBeforeWrites(component.getResult(), element);
    } else if (!isa<ir::LoadOp>(user)) {
      OpBuilder::InsertionGuard guard(builder);
      builder.setInsertionPoint(user);
      activate(element);
    }
  }
}

void SparseCells::refresh(const Operand &cells) {
  mlir::Block *block = builder.getInsertionBlock();
  Operation *last = block->empty() ? nullptr : &block->back();
  callFunction(member(cells, "refresh"), {});
  for (Operation *op = last ? last->getNextNode() : &block->front(); op; op = op->getNextNode())
    op->setAttr(ir::kPrepares, builder.getUnitAttr());
}

bool SparseCells::visitLoop(nb::handle at, const Operand &iterable) {
  auto *containers = iterable.find<Containers>();
  if (iterable.isStatic || (containers && containers->items.size() != 1)) return false;
  Operand container = loopRanges().leafTensor(containers ? containers->items[0] : iterable);
  auto *tensor = container.find<Tensor>();
  nb::object object = tensor ? tensor->object : container.getObject();
  if (!object || !(conversions.isTensor(container) || session.python.isInstance(object, session.python.containers.node))) return false;
  if (conversions.isTensor(container)) object.attr("_live_shape"); // allocates its tree
  if (!hasValue(object, nb::str("_loop"))) return false;
  Operand loop = member(container, "_loop"), cells = member(loop, "cells");
  Type counter = session.findScalarType(known(loop, "counter"));
  auto blockSize = nb::cast<int64_t>(known(loop, "block"));
  const bool checks = nb::cast<bool>(known(loop, "checks")), isGrouped = containers != nullptr;
  Box box;
  box.isGrouped = isGrouped;
  std::vector<int64_t> origin = readNumbers(known(loop, "origin")), shape = readNumbers(known(loop, "shape"));
  for (auto [first, extent] : llvm::zip(origin, shape)) {
    box.lower.push_back(emitter.constant(first, session.types.i32));
    box.upper.push_back(emitter.constant(first + extent, session.types.i32));
  }
  loopRanges().checkIndices(box, getAttribute(at, names().target));
  if (!context.isTopLevel() || nesting.isInsideParallel) {
    box.visit = [=, this](nb::handle node, ValueRange indices) {
      mlir::Value number = encode(member(loop, "encode"), indices, session.findScalarType(known(cells, "counter")));
      mlir::Value isActive = conversions.emit(callFunction(member(cells, "holds"), {makeComputed(number)}));
      visitCells(node, {{}, {indices.begin(), indices.end()}, {}, {}}, isActive, isGrouped);
    };
    loops().loopOver(at, std::move(box));
    return true;
  }
  LoopOptions options = std::exchange(context.nextLoop, {});
  refresh(cells);
  context.nextLoop = options;
  auto element = [&](const char *name, const Operand &index) {
    return subscripts().subscriptTensor(conversions.toTensor(member(cells, name)), {index});
  };
  mlir::Value zero = emitter.constant(0, session.types.i32);
  box.mostIterations = nb::cast<int64_t>(known(loop, "total"));
  box.lower = {zero};
  box.upper = {conversions.emit(element("state", makeObject(nb::int_(1))))};
  std::vector<std::vector<int64_t>> inner; // position of the axis, extent, weight, divisor of the digits of a position in a block
  for (nb::handle digit : known(loop, "inner")) inner.push_back(readNumbers(digit));
  SmallVector<int64_t> extents = llvm::map_to_vector<4>(inner, [](const auto &digit) { return digit[1]; });
  if (inner.empty() && blockSize > 1) extents.push_back(blockSize);
  for (int64_t extent : extents) {
    box.lower.push_back(zero);
    box.upper.push_back(emitter.constant(extent, session.types.i32));
  }
  box.visit = [=, this](nb::handle node, ValueRange positions) {
    Place place = subscripts().subscriptTensor(conversions.toTensor(member(cells, "blocks")), {makeComputed(positions[0])}).get<Place>();
    auto block = create<ir::LoadOp>(place.getType(), place.ref);
    block->setAttr(ir::kDistinct, builder.getUnitAttr());
    VisitedCell cell{conversions.known(loop), {}, block, {}, blockSize};
    mlir::Value isActive;
    if (!inner.empty()) {
      cell.indices = decode(member(loop, "outer"), block, block.getType());
      for (auto [digit, position] : llvm::zip(inner, positions.drop_front())) {
        mlir::Value &index = cell.indices[size_t(digit[0])];
        index = create<ir::BinaryOp>(BinaryKind::add, index, combine(BinaryKind::mul, position, digit[3]));
      }
      for (auto [index, first] : llvm::zip(cell.indices, origin)) index = combine(BinaryKind::add, index, first);
      return visitCells(node, std::move(cell), isActive, isGrouped);
    }
    mlir::Value number = combine(BinaryKind::mul, emitter.cast(block, counter), blockSize);
    if (blockSize > 1) number = create<ir::BinaryOp>(BinaryKind::add, number, emitter.cast(positions[1], counter));
    if (checks) {
      mlir::Value position = divide(BinaryKind::floor_div, positions[1], nb::cast<int64_t>(known(loop, "below")));
      isActive = conversions.emit(callFunction(member(cells, "holds_in"), {makeComputed(block), makeComputed(position)}));
    }
    cell.indices = decode(member(loop, "decode"), number, counter);
    for (auto [index, first] : llvm::zip(cell.indices, origin)) index = combine(BinaryKind::add, index, first);
    visitCells(node, std::move(cell), isActive, isGrouped);
  };
  loops().loopOver(at, std::move(box));
  return true;
}

void SparseCells::visitCells(nb::handle at, VisitedCell cell, mlir::Value isActive, bool isGrouped) {
  const unsigned deactivations = session.cells.deactivations;
  auto visit = [&] {
    nb::object target = getAttribute(at, names().target);
    std::vector<Operand> items = listOperands(cell.indices, [](mlir::Value index) { return makeComputed(index); });
    loops().bindLoopVariable(target, loops().joinIndices(target, items, isGrouped));
    statements().visitBody(getAttribute(at, names().body));
    if (session.cells.deactivations == deactivations) return;
    for (auto &[ref, element] : visited.back().elements)
      if (!isAssumedActive(element->field)) activateBeforeWrites(ref, *element);
  };
  visited.push_back(cell);
  if (isActive) {
    auto op = create<ir::IfOp>(isActive);
    statements().invalidateMerged(statements().runBranch(op.getThenRegion(), visit).bindings);
  } else {
    visit();
    mergeAxes(visited.back());
  }
  visited.pop_back();
}

/// Erases an operation that nothing uses, and then those that only it has used.
static void eraseUnused(Operation *op) {
  if (!op || !isOpTriviallyDead(op)) return;
  SmallVector<mlir::Value> operands(op->getOperands());
  op->erase();
  for (mlir::Value operand : operands) eraseUnused(operand.getDefiningOp());
}

void SparseCells::mergeAxes(const VisitedCell &cell) {
  if (!cell.block) return;
  auto list = ir::findElement(cell.block.getDefiningOp<ir::LoadOp>().getRef());
  mlir::Block &body = *cast<BlockArgument>(list.getIndices()[0]).getOwner();
  auto loop = dyn_cast<ir::ForOp>(body.getParentOp());
  if (!loop || loop.getRank() < 3) return;
  for (mlir::Value index : cell.indices) {
    // The vector that `qd.grouped` makes keeps the indices of a loop that does not use it.
    for (Operation *user : SetVector<Operation *>(index.user_begin(), index.user_end()))
      if (isOpTriviallyDead(user)) user->erase();
    eraseUnused(index.getDefiningOp());
  }
  SmallVector<std::pair<ir::ElementOp, uint32_t>> elements;
  for (auto &[ref, element] : cell.elements) elements.emplace_back(ref.getDefiningOp<ir::ElementOp>(), element->field.input);
  for (mlir::Value position : body.getArguments().drop_front())
    for (Operation *user : position.getUsers())
      if (llvm::none_of(elements, [&](const auto &element) { return element.first == user; })) return;
  OpBuilder::InsertionGuard guard(builder);
  builder.setInsertionPoint(loop);
  loop.getUpperMutable().slice(1, 1).assign(emitter.constant(cell.blockSize, body.getArgument(1).getType()));
  loop.getLowerMutable().erase(2, loop.getRank() - 2);
  loop.getUpperMutable().erase(2, unsigned(loop.getUpper().size()) - 2);
  for (auto [element, input] : elements) {
    auto argument = element.getTensor().getDefiningOp<ir::TensorArgumentOp>();
    auto type = cast<ir::TensorType>(argument.getType());
    auto rows = ir::TensorType::get(&session.ctx, type.getElement(), {type.getExtents()[0], cell.blockSize},
                                    {type.getStrides()[0], type.getStrides().back()}, type.getComponentStride(), {}, {});
    ir::TensorArgumentOp view = makeView(argument, rows, input);
    builder.setInsertionPoint(element);
    SmallVector<mlir::Value> places{element.getIndices()[0], body.getArgument(1)};
    element.getResult().replaceAllUsesWith(create<ir::ElementOp>(element.getResult().getType(), view, places).getResult());
    element.erase();
  }
  body.eraseArguments(2, body.getNumArguments() - 2);
}

ir::TensorArgumentOp SparseCells::makeView(ir::TensorArgumentOp argument, ir::TensorType type, uint32_t input) {
  OpBuilder::InsertionGuard guard(builder);
  builder.setInsertionPointAfter(argument);
  auto view = create<ir::TensorArgumentOp>(type, argument.getOffset(), argument.getName(), argument.getPosition(), argument.getField());
  if (context.body->lastInput == argument) context.body->lastInput = view;
  session.tensorArguments.emplace_back(view, input);
  return view;
}

/// Whether the shadows of a field that a derived kernel uses are in its node.
static bool haveSameLoop(const nb::object &field) {
  return llvm::all_of(std::array{"_placed_grad", "_placed_dual"}, [&](const char *which) {
    nb::object shadow = findAttribute(field, nb::str(which));
    return !shadow || shadow.is_none() || shadow.attr("_loop").is(field.attr("_loop"));
  });
}

std::optional<Place> SparseCells::findVisited(const Tensor &field, ValueRange indices) {
  for (VisitedCell &cell : llvm::reverse(visited)) {
    if (!cell.block || !llvm::equal(cell.indices, indices)) continue;
    nb::object own = findAttribute(field.object, nb::str("_loop"));
    if (!own || !own.equal(cell.loop) || session.options.checksBounds || !haveSameLoop(field.object)) continue;
    // The elements in the order of their memory, as blocks: a second view of the same argument.
    ir::TensorType tiled = field.type;
    // The block is an element of the list, at the first index of the loop; the other indices are positions in the block.
    auto list = ir::findElement(cell.block.getDefiningOp<ir::LoadOp>().getRef());
    ValueRange positions = cast<BlockArgument>(list.getIndices()[0]).getOwner()->getArguments().drop_front();
    SmallVector<int64_t, 4> extents, strides;
    int64_t step = ir::getComponentCount(tiled.getElement()) * tiled.getComponentStride();
    for (mlir::Value position : llvm::reverse(positions)) {
      auto loop = cast<ir::ForOp>(position.getParentBlock()->getParentOp());
      extents.insert(extents.begin(), *ir::findInteger(loop.getUpper()[cast<BlockArgument>(position).getArgNumber()]));
      strides.insert(strides.begin(), step);
      step *= extents.front();
    }
    extents.insert(extents.begin(), nb::cast<int64_t>(own.attr("total")) / cell.blockSize);
    strides.insert(strides.begin(), step);
    auto flat = ir::TensorType::get(&session.ctx, tiled.getElement(), extents, strides, tiled.getComponentStride(), {}, {});
    SmallVector<mlir::Value> places{cell.block};
    llvm::append_range(places, positions);
    auto argument = conversions.getInput(field.input, tiled).getDefiningOp<ir::TensorArgumentOp>();
    if (!argument) continue;
    ir::TensorArgumentOp view = makeView(argument, flat, field.input);
    Place place{create<ir::ElementOp>(ir::RefType::get(tiled.getElement()), view, places)};
    place.isElement = true;
    auto element = std::make_shared<SparseElement>(SparseElement{field, {indices.begin(), indices.end()}, /*isVisited=*/true});
    cell.elements.emplace_back(place.ref, element);
    if (!isAssumedActive(field)) place.sparse = element;
    return place;
  }
  return std::nullopt;
}

/// A node above a field or node: what Python's method returns would have no path, and a loop over it reads memory.
std::optional<Operand> SparseCells::visitParent(nb::handle call, nb::handle base) {
  const bool isChain = kindOf(base) == NodeKind::Call && kindOf(getAttribute(base, names().func)) == NodeKind::Attribute;
  if (!isChain && kindOf(base) != NodeKind::Name && kindOf(base) != NodeKind::Attribute) return std::nullopt;
  Operand found = expressions().visit(base);
  if (!found.isObject() || !session.python.isInstance(found.getObject(), session.python.containers.node)) {
    found = loopRanges().leafTensor(found);
    if (!conversions.isTensor(found)) return std::nullopt;
    auto *tensor = found.find<Tensor>();
    nb::object object = tensor ? tensor->object : found.getObject();
    if (!hasValue(object, nb::str("_leaf"))) return std::nullopt;
    found = member(found, "_leaf");
  }
  Arguments given = calls().visitArguments(call);
  std::vector<Operand> counts = std::move(given.positional);
  for (auto &[name, value] : given.named) counts.push_back(value);
  for (int64_t left = counts.empty() ? 1 : nb::cast<int64_t>(conversions.known(counts[0])); left > 0; --left) {
    if (!hasValue(found.getObject(), nb::str("_above"))) return std::nullopt;
    found = member(found, "_above");
  }
  // The root has another face for users.
  return hasValue(found.getObject(), nb::str("_above")) ? std::optional(found) : std::nullopt;
}

std::optional<Operand> SparseCells::visitMethod(nb::handle call) {
  nb::object callee = getAttribute(call, names().func);
  if (kindOf(callee) != NodeKind::Attribute) return std::nullopt;
  std::string name = toText(getAttribute(callee, names().attr)).str();
  if (name == "parent") return visitParent(call, getAttribute(callee, names().value));
  if (name != "append" && name != "length" && name != "deactivate") return std::nullopt;
  nb::object base = getAttribute(callee, names().value);
  const bool isElement = kindOf(base) == NodeKind::Subscript;
  nb::object containerNode = isElement ? getAttribute(base, names().value) : base;
  if (kindOf(containerNode) != NodeKind::Name && kindOf(containerNode) != NodeKind::Attribute) return std::nullopt;
  Operand field = expressions().visit(containerNode), leaf = loopRanges().leafTensor(field);
  if (!conversions.isTensor(leaf)) return std::nullopt;
  auto *tensor = leaf.find<Tensor>();
  nb::object object = tensor ? tensor->object : leaf.getObject();
  object.attr("_live_shape");
  if (!hasValue(object, nb::str("_list"))) return std::nullopt;
  Operand index = makeTuple({});
  if (isElement) index = makeTuple(subscripts().flattenIndices(subscripts().visitIndices(getAttribute(base, names().slice))));
  std::vector<Operand> operands{member(leaf, "_list"), index};
  llvm::append_range(operands, calls().visitArguments(call).positional);
  return callFunction(makeObject(nb::module_::import_(kLibrary).attr(name.c_str())), std::move(operands));
}

} // namespace qd::frontend
