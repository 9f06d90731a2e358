// dlpack.h: exchange of memory with other libraries in DLPack capsules (https://dmlc.github.io/dlpack), on the processor and on GPUs.
#pragma once

#include "launch/python.h"

namespace qd::launch {

/// Adds the functions `export_dlpack`, `import_dlpack` and `copy_memory` to the module.
void addDlpack(PyObject *module);

} // namespace qd::launch
