// compiler_module.cpp: the extension module `_compiler`, loaded when a kernel is neither in memory nor on disk
//
// In:   a kernel's source, parameters, arguments and options as Python objects.
// Out:  a serialized artifact and the times of the stages, or the Python exception of a diagnostic.
#include "backends/exported_files.h"
#include "backends/target.h"
#include "bindings/read_options.h"
#include "compile.h"
#include "launch/python.h"

namespace nb = nanobind;

namespace qd::bindings {
namespace {

std::string readSourceText(nb::handle source) {
  nb::object lines = nb::getattr(source, "lines", nb::none());
  return lines.is_none() ? "" : readText(nb::str("").attr("join")(lines));
}

nb::list makeFrames(const std::vector<artifact::SourceLocation> &places) {
  nb::list frames;
  for (const artifact::SourceLocation &place : places)
    frames.append(nb::make_tuple(place.file, place.function, place.line, place.column, place.endLine, place.endColumn));
  return frames;
}

[[noreturn]] void raise(const CompileFailure &failure) {
  const frontend::Diagnostic &diagnostic = failure.diagnostic;
  if (failure.kind == CompileFailure::Kind::Interrupted) throw nb::python_error(); // set by the signal handler
  if (failure.kind == CompileFailure::Kind::Memory) {
    PyErr_NoMemory();
  } else if (failure.kind == CompileFailure::Kind::Internal) {
    PyErr_SetString(PyExc_RuntimeError, diagnostic.message.c_str());
  } else {
    nb::object make = nb::module_::import_("quadrants._base.errors").attr("compile_error");
    auto build = [&](const frontend::Diagnostic &mistake, const nb::list &others) {
      std::string className = mistake.className.empty() ? "QuadrantsCompilationError" : mistake.className;
      nb::object exception = make(className, mistake.message, makeFrames(mistake.frames), others);
      if (mistake.cause) PyException_SetCause(exception.ptr(), Py_NewRef(mistake.cause.get()));
      return exception;
    };
    nb::list others;
    for (const frontend::Diagnostic &other : diagnostic.others) others.append(build(other, {}));
    nb::object exception = build(diagnostic, others);
    PyErr_SetObject(exception.type().ptr(), exception.ptr());
  }
  throw nb::python_error();
}

/// Releases the GIL while LLVM works, and checks for signals.
class Waiter final : public CompileObserver {
public:
  ~Waiter() override { takeGilBack(); }
  void leavePython() override { thread = PyEval_SaveThread(); }
  bool keepWaiting() override {
    takeGilBack();
    bool isInterrupted = PyErr_CheckSignals() != 0;
    leavePython();
    return !isInterrupted;
  }

private:
  void takeGilBack() {
    if (thread) launch::takeBackGil(std::exchange(thread, nullptr));
  }
  PyThreadState *thread = nullptr;
};

frontend::Request makeRequest(nb::handle source, nb::list parameters, nb::tuple arguments, nb::handle results, nb::dict options, int mode) {
  return {source.ptr(), parameters.ptr(), arguments.ptr(), results.ptr(), options.ptr(), support::AutodiffMode(mode), false, {}};
}

std::shared_ptr<const backends::Target> requireTarget(const std::string &name) {
  std::shared_ptr<const backends::Target> found = backends::findTarget(name);
  if (!found) throw nb::value_error(("there is no target named " + name).c_str());
  return found;
}

nb::tuple compile(nb::object source, nb::list parameters, nb::tuple arguments, nb::object results, nb::dict options, nb::str target,
                  nb::str cacheScope, int mode) {
  CompileRequest request{makeRequest(source, parameters, arguments, results, options, mode),
                         readOptions({}, options),
                         requireTarget(readText(target)),
                         "",
                         readText(cacheScope),
                         ""};
  if (!request.options.getText(support::Option::dump).empty()) request.sourceText = readSourceText(source);
  CompileResult result;
  std::vector<uint8_t> bytes;
  {
    Waiter waiter;
    result = compileKernel(request, waiter);
    if (result.artifact) bytes = artifact::serialize(*result.artifact);
  }
  if (!result.artifact) raise(result.failure);
  nb::list stages;
  for (const backends::Stages::Time &time : result.times) stages.append(nb::make_tuple(time.stage, time.seconds));
  return nb::make_tuple(nb::bytes(bytes.data(), bytes.size()), stages);
}

nb::tuple buildIr(nb::object source, nb::list parameters, nb::tuple arguments, nb::object results, nb::dict options, int mode) {
  CompileFailure failure;
  std::optional<FrontendIr> ir = buildFrontendIr(makeRequest(source, parameters, arguments, results, options, mode), failure);
  if (!ir) raise(failure);
  return nb::make_tuple(ir->text, ir->drawsRandom);
}

//--- Exports ---

/// The value for a parameter whose type is given. Any other value stands for itself.
nb::object makeStandIn(nb::handle parameter, nb::handle given) {
  nb::object package = nb::module_::import_("quadrants"), kind = parameter.attr("kind");
  auto isOf = [&](const char *module, const char *name) { return nb::isinstance(given, nb::module_::import_(module).attr(name)); };
  nb::object dtype = kind.equal(nb::str("scalar")) ? nb::module_::import_("quadrants._base.dtypes").attr("find_dtype")(given) : nb::none();
  if (!dtype.is_none()) {
    if (!dtype.is(parameter.attr("dtype")))
      throw nb::type_error(("parameter '" + readText(parameter.attr("name")) + "' is not of type " + readText(nb::str(dtype))).c_str());
    return nb::int_(0);
  }
  if (isOf("quadrants._values.types", "NdarrayType")) {
    nb::object ndim = given.attr("ndim");
    dtype = given.attr("dtype");
    if (dtype.is_none() || ndim.is_none())
      throw nb::type_error(
          ("parameter '" + readText(parameter.attr("name")) +
           "' needs a type with dtype and ndim, such as qd.types.ndarray(qd.f32, 1), or an array like those of later calls")
              .c_str());
    nb::object shape = nb::tuple(nb::make_tuple(1) * ndim);
    return package.attr("ndarray")(dtype, shape);
  }
  if (isOf("quadrants._values.types", "MatrixType")) return given(0);
  if (isOf("quadrants._values.struct", "StructType")) return given();
  return nb::borrow(given);
}

nb::list exportKernel(nb::object kernel, nb::object path, nb::args types, nb::object arch) {
  nb::module_ runtime = nb::module_::import_("quadrants._runtime"), prepare = nb::module_::import_("quadrants._session.prepare");
  nb::object options = nb::module_::import_("quadrants._base.options"), pathlib = nb::module_::import_("pathlib");
  options.attr("check_runtime")();
  if (nb::cast<bool>(kernel.attr("has_checkpoints")))
    throw nb::value_error("a kernel with checkpoints is not exported: the process that resumes it is Python's");
  nb::list parameters = nb::borrow<nb::list>(kernel.attr("parameters")), given;
  for (nb::handle type : types)
    given.append(nb::len(given) < nb::len(parameters) ? makeStandIn(nb::object(parameters[nb::len(given)]), type) : nb::borrow(type));
  for (size_t index = nb::len(given); index < nb::len(parameters); ++index) {
    nb::object parameter = parameters[index];
    nb::object annotation = parameter.attr("kind").equal(nb::str("scalar")) ? parameter.attr("dtype") : parameter.attr("annotation");
    if (annotation.is_none()) break; // `bind` names it
    given.append(makeStandIn(parameter, annotation));
  }
  nb::object bound = nb::module_::import_("quadrants._language.parameters").attr("bind")(parameters, nb::tuple(given), nb::dict());
  nb::tuple arguments = nb::borrow<nb::tuple>(prepare.attr("prepare")(kernel, bound));
  std::string target = readText(arch.is_none() ? runtime.attr("target")() : nb::hasattr(arch, "name") ? arch.attr("name") : arch);
  if (target == "python") target = "cpu";
  nb::object stem = pathlib.attr("Path")(path);
  std::string name = readText(stem.attr("name")), symbol;
  for (char letter : name) symbol += (isalnum(uint8_t(letter)) != 0) ? letter : '_';
  if (symbol.empty() || isdigit(uint8_t(symbol[0])) != 0) symbol = "kernel_" + symbol;
  nb::dict values = nb::borrow<nb::dict>(options.attr("plain")(options.attr("current")));
  nb::object source = nb::module_::import_("quadrants._base.source").attr("get_kernel_source")(kernel);
  CompileRequest request{makeRequest(source, parameters, arguments, kernel.attr("results"), values, nb::cast<int>(kernel.attr("mode"))),
                         readOptions({}, values),
                         requireTarget(target),
                         "",
                         "",
                         symbol};
  CompileResult result;
  {
    Waiter waiter;
    result = compileKernel(request, waiter);
  }
  if (!result.artifact) raise(result.failure);
  nb::list written;
  for (const auto &[file, content] : backends::makeExportedFiles(*result.artifact, name, symbol, target, *request.target)) {
    nb::object place = stem.attr("with_name")(file);
    place.attr("write_bytes")(nb::bytes(content.data(), content.size()));
    written.append(place);
  }
  return written;
}

} // namespace
} // namespace qd::bindings

/// Drops the destructors of globals (`--wrap`, CMakeLists.txt). When the process ends, they would destroy objects that an abandoned
/// compilation still uses, and registering the two thousand of LLVM takes time at the start. They would only free memory.
extern "C" int __wrap___cxa_atexit(void (*)(void *), void *, void *) { return 0; }

NB_MODULE(_compiler, m) {
  using namespace nb::literals;
  qd::launch::prepareForcedUnwinding();
  m.doc() = "The compiler of Quadrants: Python source to machine code.";
  m.def("compile", qd::bindings::compile, "source"_a, "parameters"_a, "arguments"_a, "results"_a.none(), "options"_a, "target"_a,
        "cache_scope"_a = "", "mode"_a = 0,
        "A serialized artifact, and the stages as (name, seconds). Raises what the user did wrong. With a `cache_scope`, code that the "
        "launcher cannot key is looked for on disk by what the frontend makes of it.");
  m.def("frontend_ir", qd::bindings::buildIr, "source"_a, "parameters"_a, "arguments"_a, "results"_a.none(), "options"_a, "mode"_a = 0,
        "The frontend's IR as text, and whether the kernel draws random numbers.");
  m.def("export_kernel", qd::bindings::exportKernel, "kernel"_a, "path"_a, "types"_a, "arch"_a = nb::none(),
        "Write the files of a kernel for programs without Python, and return their paths.");
  // Functions live as long as the process: they would be freed by the code of nanobind in `_runtime`, whose `free` does not know the
  // emergency pool.
  nb::set_leak_warnings(false);
  for (const char *name : {"compile", "frontend_ir", "export_kernel"}) m.attr(name).inc_ref();
}
