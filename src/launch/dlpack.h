// dlpack.h: memory that other libraries take from us and give to us in capsules of DLPack (https://dmlc.github.io/dlpack), here and on a
// GPU.
#pragma once

#include "launch/python.h"

namespace qd::launch {

/// The functions `export_dlpack` and `import_dlpack` of the module.
void addDlpack(PyObject *module);

} // namespace qd::launch
