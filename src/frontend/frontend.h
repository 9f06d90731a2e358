// frontend.h: Python syntax trees and compile-time values → typed qd IR
//
// In:   one kernel's source, parameters and arguments, as Python objects (python/quadrants/_base/source.py, _language/parameters.py).
// Out:  a module with one qd.kernel and the qd.func instances that it calls; the inputs, dependencies and results of the artifact.
// Here: the only stage that reads Python objects. The module holds no reference to a Python object.
#pragma once

#include "artifact/artifact.h"
#include "support/autodiff_mode.h"

#include "mlir/IR/BuiltinOps.h"
#include "mlir/IR/OwningOpRef.h"

#include <functional>
#include <memory>
#include <string>
#include <vector>

typedef struct _object PyObject;

namespace qd::frontend {

/// A user's mistake: the name of a class of quadrants._base.errors, a message, and the call stack, beginning with the kernel.
struct Diagnostic {
  std::string className;
  std::string message;
  std::vector<artifact::SourceLocation> frames;
  std::vector<Diagnostic> others = {};  ///< further, independent mistakes of the same kernel
  std::shared_ptr<PyObject> cause = {}; ///< the exception that Python code of the user raised, or null; released with the GIL held
};

struct Request {
  PyObject *source = nullptr;                               ///< quadrants._base.source.FunctionSource
  PyObject *parameters = nullptr;                           ///< list of quadrants._language.parameters.Parameter
  PyObject *arguments = nullptr;                            ///< tuple: the validated arguments of this call
  PyObject *results = nullptr;                              ///< list of returned types, or None
  PyObject *options = nullptr;                              ///< dict: the options of qd.init
  support::AutodiffMode mode = support::AutodiffMode::None; ///< a derived mode looks up shadows
  bool compacts = false;                                    ///< loops that compact run in lanes
  std::function<void()> beforeStatement;                    ///< called before each statement; may be empty
};

/// Compiles `request` to a module and fills `artifact`. Returns null after an error and describes it in `diagnostic`. Requires the GIL.
mlir::OwningOpRef<mlir::ModuleOp> build(mlir::MLIRContext &ctx, const Request &request, artifact::Artifact &artifact,
                                        Diagnostic &diagnostic);

} // namespace qd::frontend
