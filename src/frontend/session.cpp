// session.cpp: one compilation: options, errors and warnings, types and layouts, and the entry `build`
//
// In:   a Request: the kernel's source, parameters and arguments as Python objects.
// Out:  a module and the artifact's inputs and dependencies, or a diagnostic with the user's mistakes.
// Here: exceptions of the frontend (CompileError) and of Python end in `build`; the stages after it throw none.
#include "frontend/builder.h"

#include "mlir/IR/Builders.h"

using namespace mlir;

namespace qd::frontend {

Types::Types(MLIRContext *ctx, const LanguageOptions &options) {
  using support::ScalarType;
  u1 = ir::getType(ctx, ScalarType::U1);
  i32 = ir::getType(ctx, ScalarType::I32);
  i64 = ir::getType(ctx, ScalarType::I64);
  u32 = ir::getType(ctx, ScalarType::U32);
  u64 = ir::getType(ctx, ScalarType::U64);
  f16 = ir::getType(ctx, ScalarType::F16);
  bf16 = ir::getType(ctx, ScalarType::BF16);
  f32 = ir::getType(ctx, ScalarType::F32);
  f64 = ir::getType(ctx, ScalarType::F64);
  defaultInteger = ir::getType(ctx, options.defaultInteger);
  defaultFloat = ir::getType(ctx, options.defaultFloat);
}

static std::optional<support::ScalarType> findScalar(llvm::StringRef name) {
  for (int type = 0; type < support::kScalarTypeCount; ++type)
    if (name == llvm::StringRef(support::getName(support::ScalarType(type)))) return support::ScalarType(type);
  return std::nullopt;
}

Session::Session(MLIRContext &ctx, const Request &request, artifact::Artifact &artifact)
    : ctx(ctx), request(request), artifact(artifact), options(readOptions(request.options)), types(&ctx, options),
      tracker(python, artifact) {}

LanguageOptions Session::readOptions(nb::handle given) const {
  LanguageOptions result;
  if (!given || !PyDict_Check(given.ptr())) return result;
  auto find = [&](const char *name) { return nb::handle(PyDict_GetItemString(given.ptr(), name)); };
  auto readScalar = [&](const char *name, support::ScalarType &target) {
    nb::handle value = find(name);
    if (!value || value.is_none()) return;
    nb::object text = PyUnicode_Check(value.ptr()) ? nb::borrow(value) : getAttribute(value, python.names.name);
    if (auto found = findScalar(toText(text))) target = *found;
  };
  auto readFlag = [&](const char *name, bool &target) {
    if (nb::handle value = find(name); value && !value.is_none()) target = PyObject_IsTrue(value.ptr()) == 1;
  };
  readScalar("default_fp", result.defaultFloat);
  readScalar("default_ip", result.defaultInteger);
  nb::handle arch = find("arch");
  result.isInterpreted = arch && PyUnicode_Check(arch.ptr()) && toText(arch) == "python";
  readFlag("debug", result.debug);
  readFlag("check_out_of_bound", result.checksBounds);
  result.checksBounds |= result.debug;
  readFlag("check_nan", result.checksNans);
  readFlag("check_races", result.checksRaces);
  readFlag("fast_math", result.fastMath);
  readFlag("strict_conditions", result.strictConditions);
  readFlag("strict_math_types", result.strictMathTypes);
  readFlag("short_circuit_operators", result.shortCircuit);
  readFlag("raise_on_templated_floats", result.raiseOnTemplatedFloats);
  if (nb::handle limit = find("unrolling_limit"); limit && PyLong_Check(limit.ptr())) result.unrollingLimit = nb::cast<int64_t>(limit);
  if (nb::handle limit = find("graph_max_iterations"); result.debug && limit && PyLong_Check(limit.ptr()))
    result.maxRounds = nb::cast<int64_t>(limit);
  return result;
}

OwningOpRef<ModuleOp> Session::run() {
  module = ModuleOp::create(UnknownLoc::get(&ctx));
  nb::object source = nb::borrow(request.source);
  artifact.kernel = toText(getAttribute(source, python.names.name)).str();
  PythonObject function{getAttribute(source, python.names.function), tracker.getKernel()};
  tracker.getFunctionRoot(function.object, function.path);
  FunctionBuilder builder(*this, source, function, nullptr);
  try {
    builder.buildKernel();
    dropUnchecked(*module);
    addShadows();
    markWrittenInputs();
    markMargins();
    addSpecializationFacts();
  } catch (nb::python_error &problem) { failFromPython(problem); } // here, because `builder` knows the line of the kernel
  return std::move(module);
}

bool Session::hasCheckpoints() const { return nb::cast<bool>(getAttribute(nb::borrow(request.source), python.names.has_checkpoints)); }

void Session::fail(const char *className, const llvm::Twine &message) { failBecause(className, message, nullptr); }

void Session::failBecause(const char *className, const llvm::Twine &message, std::shared_ptr<PyObject> cause) {
  Diagnostic diagnostic{className, message.str(), {}};
  diagnostic.cause = std::move(cause);
  if (current) current->appendFrames(diagnostic.frames);
  throw CompileError{std::move(diagnostic)};
}

/// `str(exception)`, or a substitute if that raises too.
static std::string readMessage(nb::handle exception) {
  nb::object text = nb::steal(PyObject_Str(exception.ptr()));
  const char *data = text ? PyUnicode_AsUTF8(text.ptr()) : nullptr;
  std::string message = data ? data : "(an exception without a text)";
  PyErr_Clear();
  return message;
}

void Session::failFromPython(nb::python_error &problem, const llvm::Twine &context) {
  // KeyboardInterrupt, SystemExit and the like pass unchanged, and so does a lack of memory.
  if (!problem.matches(PyExc_Exception) || problem.matches(PyExc_MemoryError)) throw nb::python_error(problem);
  std::shared_ptr<PyObject> cause(problem.value().inc_ref().ptr(), [](PyObject *object) { Py_DECREF(object); });
  std::string text = readMessage(cause.get());
  std::string name = llvm::StringRef(Py_TYPE(cause.get())->tp_name).rsplit('.').second.str();
  if (name.empty()) name = Py_TYPE(cause.get())->tp_name;
  const char *className = error::kCompilation;
  if (llvm::StringRef(name).starts_with("Quadrants")) {
    static const char *const kKnown[] = {error::kSyntax,    error::kType,    error::kName,       error::kIndex,
                                         error::kAttribute, error::kRuntime, error::kReturnType, error::kArgumentType};
    for (const char *known : kKnown) className = name == known ? known : className;
    failBecause(className, text, cause);
  }
  if (problem.matches(PyExc_TypeError))
    className = error::kType;
  else if (problem.matches(PyExc_IndexError))
    className = error::kIndex;
  else if (problem.matches(PyExc_NameError))
    className = error::kName;
  else if (problem.matches(PyExc_AttributeError))
    className = error::kAttribute;
  failBecause(className, name + context + ": " + text, cause);
}

void Session::recordMistake(Diagnostic mistake) {
  constexpr size_t kMaxMistakes = 10;
  // An unrolled loop repeats a mistake in each iteration.
  bool isKnown = llvm::any_of(mistakes, [&](const Diagnostic &other) {
    return other.message == mistake.message && other.frames.back().line == mistake.frames.back().line &&
           other.frames.back().column == mistake.frames.back().column;
  });
  if (!isKnown) mistakes.push_back(std::move(mistake));
  if (isLastMistake || mistakes.size() == kMaxMistakes) throwMistakes();
}

void Session::throwMistakes() {
  if (mistakes.empty()) return;
  Diagnostic first = std::move(mistakes.front());
  first.others.assign(std::make_move_iterator(mistakes.begin() + 1), std::make_move_iterator(mistakes.end()));
  throw CompileError{std::move(first), true};
}

artifact::SourceLocation Session::currentLocation() const {
  std::vector<artifact::SourceLocation> frames;
  if (current) current->appendFrames(frames);
  return frames.empty() ? artifact::SourceLocation() : frames.back();
}

void Session::logDebug(const llvm::Twine &message) {
  nb::module_ runtime = nb::module_::import_("quadrants._runtime");
  if (!nb::cast<bool>(runtime.attr("is_logged")("debug"))) return;
  artifact::SourceLocation place = currentLocation();
  std::string where = place.file + ":" + std::to_string(place.line), text = message.str();
  if (logged.insert(where + " " + text).second) runtime.attr("log")("debug", text.c_str(), where.c_str());
}

void Session::warn(const llvm::Twine &message, PyObject *category) {
  artifact::SourceLocation place = currentLocation();
  warnAt(place.file, place.line, message, category);
}

void Session::warnAt(llvm::StringRef file, unsigned line, const llvm::Twine &message, PyObject *category) {
  std::string text = message.str(), path = file.str();
  artifact.report.warnings.push_back({reinterpret_cast<PyTypeObject *>(category)->tp_name, text, path, line});
  if (PyErr_WarnExplicit(category, text.c_str(), path.c_str(), int(line), "quadrants", nullptr) < 0) throw nb::python_error();
}

void Session::warnOfCompileTime(const llvm::Twine &message) {
  warn(message, PyExc_SyntaxWarning);
  artifact.report.warnings.pop_back();
}

Type Session::findScalarType(nb::handle object) const {
  if (python.isInstance(object, python.values.dataType)) {
    auto found = findScalar(toText(getAttribute(object, python.names.name)));
    return found ? ir::getType(&const_cast<MLIRContext &>(ctx), *found) : Type();
  }
  if (object.ptr() == reinterpret_cast<PyObject *>(&PyLong_Type)) return types.defaultInteger;
  if (object.ptr() == reinterpret_cast<PyObject *>(&PyFloat_Type)) return types.defaultFloat;
  if (object.ptr() == reinterpret_cast<PyObject *>(&PyBool_Type)) return types.u1;
  return {};
}

Type Session::findValueType(nb::handle object) const {
  if (!python.isInstance(object, python.values.matrixType)) return findScalarType(object);
  nb::object dtype = getAttribute(object, python.names.dtype);
  Type scalar = dtype.is_none() ? types.defaultFloat : findScalarType(dtype);
  nb::object n = getAttribute(object, python.names.n), m = getAttribute(object, python.names.m);
  if (!scalar || n.is_none() || m.is_none()) return {};
  int64_t rows = nb::cast<int64_t>(n);
  if (nb::cast<int>(getAttribute(object, python.names.ndim)) == 1) return VectorType::get({rows}, scalar);
  return VectorType::get({rows, nb::cast<int64_t>(m)}, scalar);
}

layout::TensorLayout Session::readLayout(nb::handle container) const {
  if (auto known = layouts.find(container.ptr()); known != layouts.end()) return known->second.second;
  nb::object description = getAttribute(container, python.names._qd_layout); // a ContainerLayout
  auto read = [&](const nb::object &name) { return readNumbers(getAttribute(description, name)); };
  layout::TensorLayout layout;
  auto scalar = findScalar(toText(getAttribute(description, python.names.dtype_name)));
  layout.element.scalar = scalar.value_or(support::ScalarType::F32);
  std::vector<int64_t> shape = read(python.names.element_shape);
  layout.element.rank = uint8_t(shape.size());
  layout.element.rows = shape.empty() ? 1 : uint16_t(shape[0]);
  layout.element.columns = shape.size() < 2 ? 1 : uint16_t(shape[1]);
  layout.extents = read(python.names.extents);
  layout.strides = read(python.names.strides);
  layout.componentStride = nb::cast<int64_t>(getAttribute(description, python.names.component_stride));
  layout.origin = read(python.names.origin);
  std::vector<int64_t> tilings = read(python.names.tilings);
  for (size_t i = 0; i < tilings.size(); i += 3) layout.tilings.push_back({tilings[i], tilings[i + 1], tilings[i + 2]});
  layouts[container.ptr()] = {nb::borrow(container), layout};
  return layout;
}

layout::TensorLayout Session::readInputLayout(nb::handle container) const {
  layout::TensorLayout layout = readLayout(container);
  if (python.isInstance(container, python.containers.field)) return layout;
  // All packed arrays share code; the strides of others are read at launch.
  const bool isPacked = layout::isPacked(layout);
  layout.hasWideStrides = layout::needsWideStrides(layout.extents.data(), layout.strides.data(), layout.strides.size());
  layout.extents.assign(layout.extents.size(), layout::kDynamic);
  isPacked ? layout.strides.clear() : layout.strides.assign(layout.strides.size(), layout::kDynamic);
  return layout;
}

namespace {
/// Disables Python's cycle collector: a compilation makes many objects and no cyclic garbage, and each collection would traverse them all.
struct CollectorPause {
  bool wasEnabled = PyGC_Disable() != 0;
  ~CollectorPause() {
    if (wasEnabled) PyGC_Enable();
  }
};
} // namespace

OwningOpRef<ModuleOp> build(MLIRContext &ctx, const Request &request, artifact::Artifact &artifact, Diagnostic &diagnostic) {
  ctx.loadDialect<ir::QdDialect>();
  CollectorPause pause;
  try {
    Session session(ctx, request, artifact);
    try {
      return session.run();
    } catch (nb::python_error &problem) { session.failFromPython(problem); }
  } catch (CompileError &error) { diagnostic = std::move(error.diagnostic); }
  return {};
}

} // namespace qd::frontend
