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

mlir::Value Simt::convertMask(const Operand &threads) {
  return threads.isNone() ? mlir::Value() : conversions.convert(threads, session.types.u64);
}

Operand Simt::shuffle(const Operand &value, const Operand &lane, mlir::Value threads, bool again) {
  if (auto *structure = value.find<Struct>()) {
    Struct result = *structure;
    for (Operand &item : result.items) item = shuffle(item, lane, threads, again);
    return result;
  }
  mlir::Value given = conversions.emit(value), from = conversions.convert(lane, session.types.i32);
  auto vector = dyn_cast<VectorType>(given.getType());
  if (!vector) return makeComputed(create<ir::ShuffleOp>(given, from, again, threads));
  SmallVector<mlir::Value> components;
  for (int64_t i = 0; i < ir::getComponentCount(vector); ++i)
    components.push_back(create<ir::ShuffleOp>(emitter.extract(given, i), from, again, threads));
  return makeComputed(emitter.makeVector(components, vector));
}

/// Whether one instruction of many devices combines such values of a subgroup.
static bool isWord(Type type) { return ir::isIntegerScalar(type) && !type.isInteger(1) && type.getIntOrFloatBitWidth() <= 32; }

Operand Simt::combine(const std::vector<Operand> &given) {
  std::optional<ir::AtomicKind> kind = ir::findKind<ir::AtomicKind>(toText(given[1].getObject()));
  return makeComputed(create<ir::CombineOp>(*kind, conversions.emit(given[0]), nb::cast<int32_t>(given[2].getObject())));
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
  if (name == "require_block") {
    auto threads = nb::cast<int32_t>(bindAll()[0].getObject());
    create<ir::BlockOp>(session.types.i32, /*size=*/true, /*count=*/false)->setAttr(ir::kRequired, builder.getI32IntegerAttr(threads));
    return makeObject(nb::none());
  }
  if (name == "largest" || name == "smallest") return limitOf(bindAll()[0], name == "largest");
  if (!nesting.isInsideParallel && context.isInKernel()) fail(error::kSyntax, shown + "() is only valid within loops that run in parallel");
  if (name.ends_with(".sync")) {
    bool isGroup = name.starts_with("subgroup");
    std::vector<Operand> given = bindAll();
    create<ir::BarrierOp>(isGroup, /*grid=*/name.starts_with("grid"), isGroup ? convertMask(given[0]) : mlir::Value());
    return makeObject(nb::none());
  }
  if (name.ends_with("thread_idx")) {
    bindAll();
    return makeComputed(create<ir::ThreadOp>(session.types.i32, /*global=*/name.contains("global")));
  }
  if (name == "block.block_idx" || name == "block.block_dim" || name == "block.num_blocks") {
    bindAll();
    return makeComputed(create<ir::BlockOp>(session.types.i32, /*size=*/name.ends_with("dim"), /*count=*/name.ends_with("blocks")));
  }
  if (name == "subgroup.active_mask") {
    bindAll();
    return makeComputed(create<ir::ActiveOp>(session.types.u64));
  }
  if (name == "pin") return makeComputed(create<ir::PinOp>(conversions.emit(bindAll()[0])));
  std::vector<Operand> given = bindAll();
  if (name == "is_word") return makeKnown(!given[0].find<Struct>() && isWord(conversions.emit(given[0]).getType()));
  if (name == "combine") return combine(given);
  if (name == "subgroup.ballot")
    return makeComputed(create<ir::BallotOp>(session.types.u64, operators().truth(given[0], shown), convertMask(given[1])));
  return shuffle(given[0], given[1], convertMask(given[2]), /*again=*/name == "reshuffle");
}

} // namespace qd::frontend
