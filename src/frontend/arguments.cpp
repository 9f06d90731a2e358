// arguments.cpp: the kernel's own parameters and results
#include "frontend/builder.h"

using namespace mlir;

namespace qd::frontend {

using Kind = Value::Kind;
using artifact::PathStep;

void FunctionBuilder::bindKernelParameters() {
  const auto &names = session.python.names;
  nb::object parameters = nb::borrow(session.request.parameters), arguments = nb::borrow(session.request.arguments);
  uint32_t position = 0;
  for (nb::handle parameter : parameters) {
    std::string kind = toText(getAttribute(parameter, names.kind)).str(), name = toText(getAttribute(parameter, names.name)).str();
    nb::object annotation = getAttribute(parameter, names.annotation);
    nb::object argument = arguments[position];
    const PathNode *path = session.reader.getArgument(position++, name);
    Binding binding;
    binding.kind = Binding::Kind::Parameter;
    if (kind == "scalar" || kind == "matrix") {
      Type type = session.findValueType(annotation);
      if (!type) fail(error::kType, "the type of parameter '" + name + "' is not complete: " + toText(nb::repr(annotation)));
      binding.value.kind = Kind::Argument;
      binding.value.type = type;
      binding.value.path = path;
      binding.value.isReadOnly = true;
      binding.value.input = session.reader.addValue(path, type, name);
    } else if (kind == "struct") {
      // A copy of its own: members may be written.
      Value members = makeStructArgument(annotation, path, name);
      binding.kind = Binding::Kind::Variable;
      binding.value = declare(members, false);
    } else if (kind == "array" && !argument.is_none()) {
      binding.value = makeArrayArgument(annotation, argument, path);
    } else {
      bool isArray = kind == "tensor" && !argument.is_none() && !session.python.isTensor(argument) &&
                     !session.python.isInstance(argument, session.python.structField);
      if (isArray) {
        binding.value = makeArrayArgument(nb::none(), argument, path);
      } else {
        if (kind == "template" && session.options.raiseOnTemplatedFloats && PyFloat_Check(argument.ptr()))
          fail(error::kType, "Floats not allowed as templated types.");
        binding.value = makeObject(argument, path);
        binding.value.hasRuntimeMembers = kind == "dataclass" || (session.python.isDataclassInstance(argument) && kind != "template");
        session.reader.read(path, argument);
      }
    }
    scopes.bind(nb::steal(PyUnicode_InternFromString(name.c_str())).ptr(), std::move(binding));
  }
}

Value FunctionBuilder::makeStructArgument(nb::handle structType, const PathNode *path, const std::string &name) {
  Value result = makeAggregate(Kind::Struct, {});
  result.aggregate->structType = nb::borrow(structType);
  for (auto [member, element] : nb::borrow<nb::dict>(getAttribute(structType, names().members))) {
    const PathNode *step = session.reader.getStep(path, PathStep::Kind::Attribute, toText(member));
    std::string label = name + "." + toText(member).str();
    result.aggregate->names.push_back(nb::borrow(member));
    if (session.python.isInstance(element, session.python.structType)) {
      result.aggregate->items.push_back(makeStructArgument(element, step, label));
      continue;
    }
    Value value;
    value.kind = Kind::Argument;
    value.type = session.findValueType(element);
    value.path = step;
    value.isReadOnly = true;
    value.input = session.reader.addValue(step, value.type, label);
    result.aggregate->items.push_back(value);
  }
  return result;
}

/// Element scalar and rank of an array of NumPy or torch.
static std::pair<std::string, std::vector<int64_t>> describeArray(nb::handle array) {
  std::string dtype = toText(nb::str(nb::object(array.attr("dtype")))).str();
  size_t dot = dtype.rfind('.');
  if (dot != std::string::npos) dtype = dtype.substr(dot + 1);
  static const std::pair<const char *, const char *> kNames[] = {
      {"bool", "u1"},    {"int8", "i8"},    {"int16", "i16"},  {"int32", "i32"},   {"int64", "i64"},   {"uint8", "u8"},
      {"uint16", "u16"}, {"uint32", "u32"}, {"uint64", "u64"}, {"float16", "f16"}, {"float32", "f32"}, {"float64", "f64"}};
  std::vector<int64_t> shape;
  for (nb::handle extent : array.attr("shape")) shape.push_back(nb::cast<int64_t>(extent));
  for (const auto &[python, ours] : kNames)
    if (dtype == python) return {ours, shape};
  return {"", shape};
}

Value FunctionBuilder::makeArrayArgument(nb::handle annotation, nb::handle argument, const PathNode *path) {
  if (session.python.isTensor(argument)) return toTensor(makeObject(argument, path));
  if (!nb::hasattr(argument, "dtype") || !nb::hasattr(argument, "shape"))
    fail(error::kType, "Invalid type for argument " + Reader::describe(path) + ", got " + toText(nb::repr(argument)));
  auto [dtype, shape] = describeArray(argument);
  if (dtype.empty())
    fail(error::kType, "arrays of " + toText(nb::str(nb::object(argument.attr("dtype")))) + " are not supported in kernels");
  layout::TensorLayout layout;
  for (int type = 0; type < support::kScalarTypeCount; ++type)
    if (support::getName(support::ScalarType(type)) == dtype) layout.element.scalar = support::ScalarType(type);
  nb::object element = annotation.is_none() ? nb::none() : getAttribute(annotation, names().dtype);
  size_t elementRank = 0;
  if (session.python.isInstance(element, session.python.matrixType))
    elementRank = size_t(nb::cast<int>(getAttribute(element, names().ndim)));
  if (elementRank > shape.size())
    fail(error::kType, "an array with elements " + toText(nb::repr(element)) + " has at least " + std::to_string(elementRank) + " axes");
  layout.element.rank = uint8_t(elementRank);
  if (elementRank > 0) layout.element.rows = uint16_t(shape[shape.size() - elementRank]);
  if (elementRank > 1) layout.element.columns = uint16_t(shape.back());
  layout.extents.assign(shape.size() - elementRank, layout::kDynamic);
  layout.componentStride = int64_t(support::getByteSize(layout.element.scalar));
  nb::object flags = findAttribute(argument, nb::str("flags"));
  if (flags && !nb::cast<bool>(flags["C_CONTIGUOUS"]))
    layout.strides.assign(layout.extents.size(), layout::kDynamic); // a slice or a transposed array: strides are read at each launch
  Value tensor = makeObject(argument, path);
  tensor.kind = Kind::Tensor;
  tensor.type =
      ir::TensorType::get(&session.ctx, ir::getType(&session.ctx, layout.element), layout.extents, layout.strides, layout.componentStride);
  tensor.input = session.reader.addTensor(path, argument, layout, /*isField=*/false, Reader::describe(path));
  return tensor;
}

std::vector<Type> FunctionBuilder::listResultTypes(nb::handle annotation) {
  std::vector<Type> types;
  if (!session.python.isInstance(annotation, session.python.structType)) {
    Type type = session.findValueType(annotation);
    if (!type) fail(error::kType, "Invalid data type " + toText(nb::repr(annotation)) + " in the return annotation");
    return {type};
  }
  for (auto [name, element] : nb::borrow<nb::dict>(getAttribute(annotation, names().members)))
    llvm::append_range(types, listResultTypes(element));
  return types;
}

void FunctionBuilder::convertResult(nb::handle annotation, const Value &value, SmallVectorImpl<mlir::Value> &results) {
  if (session.python.isInstance(annotation, session.python.structType)) {
    Value converted = convertMember(annotation, value);
    std::function<void(nb::handle, const Value &)> add = [&](nb::handle type, const Value &part) {
      if (!part.is(Kind::Struct)) {
        results.push_back(convert(part, session.findValueType(type)));
        return;
      }
      nb::object members = getAttribute(type, names().members);
      for (auto [name, item] : llvm::zip(part.aggregate->names, part.aggregate->items)) add(nb::object(members[name]), item);
    };
    return add(annotation, converted);
  }
  Type type = session.findValueType(annotation);
  auto shape = dyn_cast<VectorType>(type);
  if (!canEmit(value) && !value.is(Kind::Sequence))
    fail(error::kReturnType, "Return (type=" + describe(value) + ") cannot be converted into required type " + ir::describe(type));
  mlir::Value given = emit(value, type);
  auto givenShape = dyn_cast<VectorType>(given.getType());
  if (!shape && givenShape)
    fail(error::kReturnType,
         "Return (type=" + ir::describe(given.getType()) + ") cannot be converted into required type " + ir::describe(type));
  if (shape) {
    if (!givenShape || givenShape.getRank() != shape.getRank())
      fail(error::kReturnType, "Return matrix ndim mismatch, expecting=" + std::to_string(shape.getRank()) +
                                   ", got=" + std::to_string(givenShape ? givenShape.getRank() : 0) + ".");
    auto text = [](VectorType vector) {
      std::string result = "(" + std::to_string(vector.getDimSize(0)) + ",";
      return vector.getRank() == 2 ? result + " " + std::to_string(vector.getDimSize(1)) + ")" : result + ")";
    };
    if (givenShape.getShape() != shape.getShape())
      fail(error::kReturnType, "Return matrix shape mismatch, expecting=" + text(shape) + ", got=" + text(givenShape) + ".");
    if (ir::isIntegerScalar(shape.getElementType()) && ir::isFloatScalar(givenShape.getElementType()))
      fail(error::kReturnType,
           "Return (type=" + ir::describe(given.getType()) + ") cannot be converted into required type " + ir::describe(type));
  }
  results.push_back(value.isObject() && !shape ? convert(value, type) : convert(given, type));
}

void FunctionBuilder::returnFromKernel(const Value &value) {
  SmallVector<mlir::Value> results;
  if (resultTypes.is_none()) {
    if (!value.isNone())
      fail(error::kSyntax, "A kernel with a return value must be annotated with a return type, e.g. def func() -> qd.f32");
  } else {
    size_t count = nb::len(resultTypes);
    std::vector<Value> values =
        count == 1 && !(value.is(Kind::Sequence) && value.aggregate->isTuple && value.aggregate->items.size() == 1 &&
                        !isa<VectorType>(listResultTypes(nb::object(resultTypes[0]))[0]))
            ? std::vector<Value>{value}
        : value.is(Kind::Sequence) ? value.aggregate->items
                                   : std::vector<Value>{value};
    if (value.isNone() || values.size() != count)
      fail(error::kSyntax, "the kernel returns " + std::to_string(count) + " values by its annotation, got " +
                               (value.isNone() ? "none" : std::to_string(values.size())));
    for (size_t index = 0; index < count; ++index) convertResult(nb::object(resultTypes[index]), values[index], results);
  }
  returns.emplace_back(create<ir::ReturnOp>(results), Value());
  if (runtimeDepth == 0) return;
}

} // namespace qd::frontend
