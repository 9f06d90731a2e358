// views.cpp: windows of containers with one axis: `nd[a:b]`, qd.BufferView, and their elements
#include "frontend/builder.h"

using namespace mlir;

namespace qd::frontend {

using Kind = Value::Kind;
using artifact::PathStep;
using ir::BinaryKind;

bool FunctionBuilder::isView(const Value &value) {
  return value.is(Kind::View) || (value.isObject() && session.python.isInstance(value.object, session.python.bufferView));
}

Value FunctionBuilder::toView(const Value &value) {
  if (value.is(Kind::View)) return value;
  if (value.isObject() && session.python.isInstance(value.object, session.python.bufferView)) {
    auto path = [&](const char *name) { return session.reader.getStep(value.path, PathStep::Kind::Attribute, name); };
    // Where it begins and ends is read at each launch, and never a part of the code.
    Value array = makeObject(getAttribute(value.object, names().arr), path("arr"));
    session.reader.read(array.path, array.object);
    return makeAggregate(Kind::View,
                         {toTensor(array), makeInput(path("offset"), session.types.i32), makeInput(path("size"), session.types.i32)});
  }
  if (!isTensor(value)) fail(error::kType, "a view is of an array, got " + describe(value));
  Value tensor = toTensor(value);
  auto rank = mlir::cast<ir::TensorType>(tensor.type).getRank();
  if (rank != 1) fail(error::kType, "a view is of a container with one axis (1D), got " + std::to_string(rank) + " axes");
  mlir::Value size = extent(tensor, 0);
  return makeAggregate(Kind::View, {tensor, makeObject(nb::int_(0)), makeComputed(size)});
}

Value FunctionBuilder::subview(const Value &view, const Value &start, const Value &size) {
  const std::vector<Value> &items = view.aggregate->items;
  for (const Value *value : {&start, &size}) {
    if (findInteger(*value).value_or(0) < 0)
      fail(error::kSyntax, "Negative indices are not supported in Quadrants kernels: the size of a view is known at run time only");
    Type type = findType(*value);
    if (!type || !ir::isIntegerScalar(type)) fail(error::kType, "indices must be integers, however '" + describe(*value) + "' is provided");
  }
  checkWithin({start, size, binary(BinaryKind::add, start, size, "+")}, BinaryKind::le, items[2], "BufferView subview Out Of Range",
              [&](Pieces &text) {
                addLabelled(text, ", subview offset=", start);
                addLabelled(text, ", subview size=", size);
                addLabelled(text, ", parent size=", items[2]);
              });
  return makeAggregate(Kind::View, {items[0], binary(BinaryKind::add, items[1], start, "+"), size});
}

void FunctionBuilder::addLabelled(Pieces &pieces, llvm::StringRef label, const Value &value) {
  pieces.text(builder, label);
  addPieces(pieces, value, "");
}

void FunctionBuilder::checkWithin(const std::vector<Value> &indices, BinaryKind kind, const Value &limit, llvm::StringRef what,
                                  llvm::function_ref<void(Pieces &)> describeValues) {
  if (!session.options.checksBounds) return;
  // As unsigned numbers: negative ones are beyond every size.
  Value good = makeComputed(constant(1, session.types.u1));
  for (const Value &index : indices)
    good =
        binary(BinaryKind::bit_and, good, binary(kind, callCast(index, session.types.u32), callCast(limit, session.types.u32), "<"), "&");
  Pieces pieces;
  pieces.text(builder, (what + ": kernel[" + session.artifact.kernel + "] tid=0").str());
  describeValues(pieces);
  pieces.text(builder, ".");
  create<ir::AssertOp>(emit(good), uint32_t(artifact::Site::Kind::Bounds), builder.getArrayAttr(pieces.pieces), pieces.values);
}

Value FunctionBuilder::subscriptView(const Value &view, const std::vector<Value> &given) {
  const std::vector<Value> &items = view.aggregate->items;
  std::vector<Value> indices = flattenIndices(given);
  bool hasSlice = llvm::any_of(indices, [](const Value &index) { return index.is(Kind::Range); });
  if (hasSlice && indices.size() != 1) fail(error::kSyntax, "a view has one axis: it is sliced with one slice");
  if (hasSlice) {
    const std::vector<Value> &bounds = indices[0].aggregate->items;
    if (!bounds[2].isNone() && findInteger(bounds[2]) != 1) fail(error::kSyntax, "BufferView does not support an explicit step in kernels");
    for (const Value &bound : bounds)
      if (findInteger(bound).value_or(0) < 0) fail(error::kSyntax, "Negative indices are not supported in Quadrants kernels.");
    Value start = bounds[0].isNone() ? makeObject(nb::int_(0)) : bounds[0];
    return subview(view, start, binary(BinaryKind::sub, bounds[1].isNone() ? items[2] : bounds[1], start, "-"));
  }
  if (indices.size() != 1) fail(error::kIndex, "1d view indexed with " + std::to_string(indices.size()) + "d indices");
  if (findInteger(indices[0]).value_or(0) < 0) fail(error::kSyntax, "Negative indices are not supported in Quadrants kernels.");
  Value index = makeComputed(indexValue(indices[0], 0));
  checkWithin({index}, BinaryKind::lt, items[2], "BufferView Out Of Range", [&](Pieces &text) {
    addLabelled(text, ", got index ", index);
    addLabelled(text, " (offset=", items[1]);
    addLabelled(text, ", size=", items[2]);
    text.text(builder, ")");
  });
  return subscriptTensor(items[0], {findInteger(items[1]) == 0 ? index : binary(BinaryKind::add, items[1], index, "+")});
}

Value FunctionBuilder::viewAttribute(const Value &view, nb::handle name) {
  const std::vector<Value> &items = view.aggregate->items;
  llvm::StringRef text = toText(name);
  if (text == "offset") return load(items[1]);
  if (text == "size") return load(items[2]);
  if (text == "shape") return makeTuple({load(items[2])});
  if (text == "subview") return makeMethod(view, name);
  if (text == "grad") {
    Value whole = tensorAttribute(items[0], name);
    return makeAggregate(Kind::View, {toTensor(whole), items[1], items[2]});
  }
  return tensorAttribute(items[0], name);
}

Value FunctionBuilder::makeView(Arguments &arguments) {
  std::vector<Value> given = bind("qd.BufferView", arguments, "arr offset size");
  return subview(toView(given[0]), load(given[1]), load(given[2]));
}

} // namespace qd::frontend
