// target.h: the CPU target
#pragma once

#include "backends/cpu/processor.h"
#include "backends/target.h"

namespace qd::backends::cpu {

std::unique_ptr<Target> makeTarget(Processor processor);

} // namespace qd::backends::cpu
