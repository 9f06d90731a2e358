// target.h: the null target: compiles up to LLVM IR, makes no binary
#pragma once

#include "backends/target.h"

namespace qd::backends::null {

std::unique_ptr<Target> makeTarget();

} // namespace qd::backends::null
