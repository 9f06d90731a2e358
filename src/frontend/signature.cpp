// signature.cpp: parameters and results of the kernel
//
// In:   the parameters' annotations and the validated arguments of the call that caused the compilation.
// Out:  a binding for each parameter (an input, a container or a compile-time object), and returned values of the annotated types.
// Here: inputs are created where their types are known; a struct argument becomes one input per member.
#include "frontend/builder.h"

using namespace mlir;

namespace qd::frontend {

void Signature::bindKernelParameters() {
  const auto &names = session.python.names;
  uint32_t position = 0;
  for (nb::handle parameter : nb::handle(session.request.parameters)) {
    nb::object kindName = getAttribute(parameter, names.kind), name = getAttribute(parameter, names.name);
    nb::object annotation = getAttribute(parameter, names.annotation);
    llvm::StringRef kind = toText(kindName);
    nb::object argument = nb::handle(session.request.arguments)[position];
    const PathNode *path = session.tracker.getArgument(position++, toText(name));
    Binding binding;
    binding.kind = Binding::Kind::Parameter;
    bool isArray = kind == "tensor" && !session.python.isTensor(argument) &&
                   !session.python.isInstance(argument, session.python.containers.structField);
    if (!argument.is_none() && (kind == "scalar" || kind == "matrix")) {
      Type type = session.findValueType(annotation);
      if (!type) fail(error::kType, "the type of parameter '" + toText(name) + "' is not complete: " + toText(nb::repr(annotation)));
      binding.value = conversions.makeInput(path, type);
    } else if (!argument.is_none() && kind == "struct") {
      // A copy, because the kernel may assign its members.
      binding.kind = Binding::Kind::Variable;
      session.tracker.recordType(annotation, session.tracker.getStep(path, PathStep::Kind::Attribute, "_type"));
      binding.value = variables().declare(makeStructArgument(annotation, path), false);
    } else if ((kind == "array" || kind == "view" || isArray) && !argument.is_none() &&
               !session.python.isInstance(argument, session.python.containers.structField)) {
      binding.value = withBoundary(makeArrayArgument(annotation, argument, path), annotation);
    } else {
      if (kind == "template" && session.options.raiseOnTemplatedFloats && PyFloat_Check(argument.ptr()))
        fail(error::kType, "Floats not allowed as templated types.");
      binding.value = makeObject(argument, path);
      if (kind == "array" || kind == "view") binding.value = withBoundary(binding.value, annotation);
      binding.value.get<PythonObject>().hasRuntimeMembers =
          kind == "dataclass" || (session.python.isDataclassInstance(argument) && kind != "template");
      session.tracker.read(path, argument);
    }
    PyObject *interned = name.release().ptr();
    PyUnicode_InternInPlace(&interned);
    scopes.bind(nb::steal(interned).ptr(), std::move(binding));
  }
}

Operand Signature::makeStructArgument(nb::handle structType, const PathNode *path) {
  return structs().makeStructOf(structType, [&](nb::handle name, nb::handle type) {
    const PathNode *step = session.tracker.getStep(path, PathStep::Kind::Attribute, toText(name));
    return session.python.isStructType(type) ? makeStructArgument(type, step) : conversions.makeInput(step, structs().memberType(type));
  });
}

void Signature::setKnownExtents(layout::TensorLayout &layout, nb::handle shape) {
  if (!shape || !PyTuple_Check(shape.ptr()) || nb::len(shape) != layout.extents.size()) return;
  for (auto [axis, extent] : llvm::enumerate(layout.extents))
    if (nb::object wanted = shape[nb::int_(axis)]; !wanted.is_none()) extent = nb::cast<int64_t>(wanted);
}

Operand Signature::withBoundary(Operand container, nb::handle annotation) {
  nb::object boundary = annotation.is_none() ? nb::object() : findAttribute(annotation, nb::str("boundary"));
  if (!boundary || toText(boundary) != "clamp") return container;
  if (auto *view = container.find<View>()) {
    View clamped = *view;
    clamped.items[0].get<Tensor>().isClamped = true;
    return clamped;
  }
  (container.is<Tensor>() ? container.get<Tensor>().isClamped : container.get<PythonObject>().isClamped) = true;
  return container;
}

Operand Signature::makeArrayArgument(nb::handle annotation, nb::handle argument, const PathNode *path) {
  nb::object known = annotation.is_none() ? nb::none() : findAttribute(annotation, names().shape);
  if (session.python.isTensor(argument)) return conversions.toTensor(makeObject(argument, path), known);
  nb::object element = annotation.is_none() ? nb::none() : getAttribute(annotation, names().dtype);
  size_t elementRank = 0;
  if (session.python.isInstance(element, session.python.values.matrixType))
    elementRank = nb::cast<size_t>(getAttribute(element, names().ndim));
  return makeExternalArray(argument, path, elementRank, known);
}

Operand Signature::makeExternalArray(nb::handle argument, const PathNode *path, size_t elementRank, nb::handle known) {
  nb::object dtype = findAttribute(argument, names().dtype), extents = findAttribute(argument, names().shape);
  if (!dtype || !extents)
    fail(error::kType, "Invalid type for argument " + DependencyTracker::describe(path) + ", got " + toText(nb::repr(argument)));
  Type scalar = session.findScalarType(session.python.values.findDtype(dtype));
  if (!scalar) fail(error::kType, "arrays of " + toText(nb::str(dtype)) + " are not supported in kernels");
  auto shape = readNumbers(extents);
  layout::TensorLayout layout;
  layout.element.scalar = ir::getScalarType(scalar);
  if (elementRank > shape.size())
    fail(error::kType, "an array with elements of " + std::to_string(elementRank) + " axes has at least as many axes itself");
  layout.element.rank = uint8_t(elementRank);
  if (elementRank > 0) layout.element.rows = uint16_t(shape[shape.size() - elementRank]);
  if (elementRank > 1) layout.element.columns = uint16_t(shape.back());
  layout.extents.assign(shape.size() - elementRank, layout::kDynamic);
  setKnownExtents(layout, known);
  layout.componentStride = int64_t(support::getByteSize(layout.element.scalar));
  nb::object flags = findAttribute(argument, nb::str("flags"));
  std::vector<int64_t> strides = layout::computePackedStrides({layout.element.scalar}, shape);
  if (!nb::cast<bool>(flags ? nb::object(flags["C_CONTIGUOUS"]) : argument.attr("is_contiguous")())) {
    layout.strides.assign(layout.extents.size(), layout::kDynamic); // a slice or a transposed array: strides are read at each launch
    strides = flags ? readNumbers(argument.attr("strides")) : readNumbers(argument.attr("stride")());
    if (!flags) // torch counts elements
      for (int64_t &stride : strides) stride *= layout.componentStride;
  }
  layout.hasWideStrides = layout::needsWideStrides(shape.data(), strides.data(), shape.size());
  return makeTensor({nb::borrow(argument), path}, std::move(layout), /*isField=*/false);
}

Tensor Signature::makeTensor(const PythonObject &container, layout::TensorLayout layout, bool isField) {
  ir::TensorType type = ir::getType(&session.ctx, layout);
  uint32_t input = session.tracker.addTensor(container.path, container.object, std::move(layout), isField);
  return {container.object, container.path, input, type, container.isClamped};
}

std::vector<Type> Signature::listResultTypes() {
  std::vector<Type> types;
  std::function<void(nb::handle)> add = [&](nb::handle annotation) {
    if (session.python.isStructType(annotation)) {
      for (auto [name, member] : nb::borrow<nb::dict>(getAttribute(annotation, names().members))) add(member);
      return;
    }
    types.push_back(session.findValueType(annotation));
    if (!types.back()) fail(error::kType, "Invalid data type " + toText(nb::repr(annotation)) + " in the return annotation");
  };
  if (session.hasCheckpoints()) types.push_back(session.types.i64); // the status
  if (!context.results.types.is_none())
    for (nb::handle annotation : context.results.types) add(annotation);
  return types;
}

Operand Signature::convertResult(nb::handle annotation, const Operand &value) {
  if (session.python.isStructType(annotation)) return structs().convertMember(annotation, value);
  Type type = session.findValueType(annotation);
  auto reject = [&](const llvm::Twine &given) {
    fail(error::kReturnType, "Return (type=" + given + ") cannot be converted into required type " + ir::describe(type));
  };
  auto shape = dyn_cast<VectorType>(type);
  if (!conversions.canEmit(value) && !value.is<Sequence>()) reject(conversions.describe(value));
  mlir::Value given = conversions.emit(value, type);
  auto givenShape = dyn_cast<VectorType>(given.getType());
  int64_t rank = shape ? shape.getRank() : 0, givenRank = givenShape ? givenShape.getRank() : 0;
  if (!shape && givenShape) reject(ir::describe(given.getType()));
  if (rank != givenRank)
    fail(error::kReturnType, "Return matrix ndim mismatch, expecting=" + std::to_string(rank) + ", got=" + std::to_string(givenRank) + ".");
  auto text = [](VectorType vector) { return toText(nb::repr(nb::tuple(nb::cast(vector.getShape().vec())))).str(); };
  if (shape && givenShape.getShape() != shape.getShape())
    fail(error::kReturnType, "Return matrix shape mismatch, expecting=" + text(shape) + ", got=" + text(givenShape) + ".");
  if (shape && ir::isIntegerScalar(shape.getElementType()) && ir::isFloatScalar(givenShape.getElementType()))
    reject(ir::describe(given.getType()));
  return makeComputed(value.isObject() && !shape ? conversions.convert(value, type) : emitter.convert(given, type));
}

Operand Signature::castResult(nb::handle annotation, const Operand &value) {
  Type type = session.findValueType(annotation);
  if (!type) return convertResult(annotation, value);
  if (value.is<Sequence>() && !isa<VectorType>(type))
    return mapItems(value, [&](const Operand &item) { return castResult(annotation, item); });
  if (!conversions.canEmit(value) && !value.is<Sequence>()) return convertResult(annotation, value); // reports the mistake
  if (session.python.isNumber(value.getObject())) return conversions.rounded(makeComputed(conversions.convert(value, ir::getScalar(type))));
  mlir::Value given = conversions.emit(value, type);
  if (ir::withScalar(given.getType(), ir::getScalar(type)) != type)
    session.logDebug("'" + context.source.name + "' is annotated to return '" + ir::describe(type) + "' and returns '" +
                     ir::describe(given.getType()) + "'");
  return conversions.rounded(makeComputed(emitter.cast(given, ir::getScalar(type))));
}

Operand Signature::castResults(const Operand &value) {
  return nb::len(context.results.types) == 1 && !value.isNone() ? castResult(nb::object(context.results.types[0]), value)
                                                                : convertResults(value);
}

Operand Signature::convertResults(const Operand &value) {
  size_t count = nb::len(context.results.types);
  bool hasItems = value.is<Sequence>() || isa_and_nonnull<VectorType>(value.getType());
  auto *sequence = value.find<Sequence>();
  bool isOneOfOne = sequence && sequence->isTuple && sequence->items.size() == 1 &&
                    !isa_and_nonnull<VectorType>(session.findValueType(nb::object(context.results.types[0])));
  std::vector<Operand> values =
      hasItems && (count > 1 || isOneOfOne) ? collections().listItems(value, "unpack") : std::vector<Operand>{value};
  if (value.isNone() || values.size() != count)
    fail(error::kSyntax, "'" + context.source.name + "' returns " + std::to_string(count) + " values by its annotation, got " +
                             (value.isNone() ? "none" : std::to_string(values.size())));
  for (size_t index = 0; index < count; ++index) values[index] = convertResult(nb::object(context.results.types[index]), values[index]);
  return count == 1 ? values[0] : makeTuple(std::move(values));
}

} // namespace qd::frontend
