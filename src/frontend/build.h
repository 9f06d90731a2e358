// build.h: Python source and arguments → typed qd IR and the skeleton of the artifact
#pragma once

#include "artifact/artifact.h"

#include "mlir/IR/BuiltinOps.h"
#include "mlir/IR/OwningOpRef.h"

typedef struct _object PyObject;

namespace qd::support {
class Options;
}

namespace qd::frontend {

/// What Python hands over; all references are borrowed.
struct KernelSource {
  PyObject *source = nullptr;     ///< quadrants._source.FunctionSource
  PyObject *parameters = nullptr; ///< list of quadrants._kernel.Parameter
  PyObject *arguments = nullptr;  ///< tuple, one for each parameter
  PyObject *results = nullptr;    ///< list of result annotations, or None
};

/// Builds the module of one kernel and its functions, and fills in what only the frontend knows of the artifact: kernel, inputs,
/// argumentBytes, dependencies, results, resultBytes, cacheable. Needs the GIL. After a user's mistake, and after an exception in Python
/// code that ran at compile time, the result is null and the Python exception is set. Afterwards the module holds no Python object.
mlir::OwningOpRef<mlir::ModuleOp> build(const KernelSource &source, const support::Options &options, mlir::MLIRContext &ctx,
                                        artifact::Artifact &artifact);

} // namespace qd::frontend
