// simt.cpp: builtins of qd.simt: block memory, barriers, fences, shuffles, thread and block numbers
//
// In:   the name of a builtin and its arguments.
// Out:  one op, or one per component of a vector.
// Here: only the primitives; the rest of qd.simt is written in the language.
#include "frontend/builder.h"
#include "ir/attributes.h"
#include "ir/memory.h"

#include <limits>

using namespace mlir;

namespace qd::frontend {

Operand Simt::makeSharedArray(const Operand &shape, const Operand &dtype) {
  nb::object known = conversions.toPython(shape);
  std::vector<int64_t> extents;
  auto refuse = [&] {
    fail(error::kCompilation, "ValueError: shape must be an integer or a tuple of integers, but got " +
                                  (known ? toText(nb::repr(known)).str() : conversions.describe(shape)));
  };
  if (!known) refuse();
  nb::object items = isList(makeObject(known)) ? known : nb::make_tuple(known);
  for (nb::handle item : items) {
    if (!PyLong_Check(item.ptr()) || PyBool_Check(item.ptr())) refuse();
    extents.push_back(nb::cast<int64_t>(item));
    if (extents.back() < 1 || extents.back() > INT32_MAX) refuse();
  }
  Type element = dtype.isObject() ? session.findValueType(dtype.getObject()) : Type();
  if (!element) fail(error::kType, "Invalid data type " + conversions.describe(dtype) + " given to qd.simt.block.SharedArray");
  int64_t bytes = int64_t(support::getByteSize(ir::getScalarType(ir::getScalar(element))));
  auto type = ir::TensorType::get(&session.ctx, element, extents, {}, bytes, {}, {});
  return Tensor{nb::none(), nullptr, session.tracker.addBlockArray(), type};
}

Operand Simt::shuffle(const Operand &value, const Operand &lane, bool again) {
  if (auto *structure = value.find<Struct>()) {
    Struct result = *structure;
    for (Operand &item : result.items) item = shuffle(item, lane, again);
    return result;
  }
  mlir::Value given = conversions.emit(value), from = conversions.convert(lane, session.types.i32);
  auto vector = dyn_cast<VectorType>(given.getType());
  if (!vector) return makeComputed(create<ir::ShuffleOp>(given, from, again));
  SmallVector<mlir::Value> components;
  for (int64_t i = 0; i < ir::getComponentCount(vector); ++i)
    components.push_back(create<ir::ShuffleOp>(emitter.extract(given, i), from, again));
  return makeComputed(emitter.makeVector(components, vector));
}

/// An array with an element for each thread of a block, the same one for all uses of a type in a kernel.
Operand Simt::makeExchangeArray(const Operand &dtype) {
  constexpr int64_t kMostThreads = 1024;
  Type element = session.findValueType(dtype.getObject());
  int64_t bytes = int64_t(support::getByteSize(ir::getScalarType(ir::getScalar(element))));
  auto [number, isNew] = session.exchangeArrays.try_emplace(element, 0);
  if (isNew) number->second = session.tracker.addBlockArray();
  return Tensor{nb::none(), nullptr, number->second, ir::TensorType::get(&session.ctx, element, {kMostThreads}, {}, bytes, {}, {})};
}

Operand Simt::limitOf(const Operand &value, bool isLargest) {
  Type type = ir::getScalar(conversions.emit(value).getType());
  if (ir::isFloatScalar(type)) {
    double infinity = std::numeric_limits<double>::infinity();
    return makeComputed(emitter.constantFloat(isLargest ? infinity : -infinity, type));
  }
  unsigned bits = type.getIntOrFloatBitWidth();
  bool isSigned = type.isSignedInteger();
  uint64_t all = bits == 64 ? ~uint64_t(0) : (uint64_t(1) << bits) - 1;
  uint64_t largest = isSigned ? all >> 1 : all;
  return makeComputed(emitter.constant(int64_t(isLargest ? largest : isSigned ? ~largest : 0), type));
}

/// A load and a store, which the target may replace by one instruction that does not wait for the load.
void Simt::copyAsync(const Operand &target, const Operand &source) {
  auto *place = target.find<Place>();
  ir::ElementOp element = place ? ir::findElement(place->ref) : ir::ElementOp();
  if (!element || !element.getTensor().getDefiningOp<ir::SharedOp>())
    fail(error::kType,
         "qd.simt.block.copy_async(target, source) copies to an element of a shared array, got " + conversions.describe(target));
  mlir::Value value = conversions.convert(source, target.getType());
  auto store = create<ir::StoreOp>(value, place->ref);
  if (value.getDefiningOp<ir::LoadOp>()) store->setAttr(ir::kAsync, builder.getUnitAttr());
}

Operand Simt::callSimt(llvm::StringRef name, const Arguments &arguments, llvm::StringRef parameters) {
  std::string shown = "qd.simt." + name.str();
  auto bindAll = [&] { return calls().bind(shown, arguments, parameters); };
  auto nothing = [&] {
    bindAll();
    return makeObject(nb::none());
  };
  if (name == "block.SharedArray") {
    std::vector<Operand> given = bindAll();
    return makeSharedArray(given[0], given[1]);
  }
  if (name == "exchange_array") return makeExchangeArray(bindAll()[0]);
  if (name == "block.wait_copies") {
    create<ir::FenceOp>(/*block=*/true)->setAttr(ir::kAsync, builder.getUnitAttr());
    return nothing();
  }
  if (name == "block.copy_async") {
    std::vector<Operand> given = bindAll();
    copyAsync(given[0], given[1]);
    return makeObject(nb::none());
  }
  if (name.ends_with(".mem_fence")) {
    create<ir::FenceOp>(/*block=*/!name.starts_with("grid"));
    return nothing();
  }
  if (name == "largest" || name == "smallest") return limitOf(bindAll()[0], name == "largest");
  if (!nesting.isInsideParallel && context.isInKernel()) fail(error::kSyntax, shown + "() is only valid within loops that run in parallel");
  if (name.ends_with(".sync")) {
    create<ir::BarrierOp>(/*group=*/name.starts_with("subgroup"), /*grid=*/name.starts_with("grid"));
    return nothing();
  }
  if (name.ends_with("thread_idx")) {
    bindAll();
    return makeComputed(create<ir::ThreadOp>(session.types.i32, /*global=*/name.contains("global")));
  }
  if (name == "block.block_idx" || name == "block.block_dim" || name == "block.num_blocks") {
    bindAll();
    return makeComputed(create<ir::BlockOp>(session.types.i32, /*size=*/name.ends_with("dim"), /*count=*/name.ends_with("blocks")));
  }
  if (name == "subgroup.ballot") return makeComputed(create<ir::BallotOp>(session.types.u64, operators().truth(bindAll()[0], shown)));
  if (name == "pin") return makeComputed(create<ir::PinOp>(conversions.emit(bindAll()[0])));
  std::vector<Operand> given = bindAll();
  return shuffle(given[0], given[1], /*again=*/name == "reshuffle");
}

} // namespace qd::frontend
