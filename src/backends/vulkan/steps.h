// steps.h: the last step to SPIR-V, after those of backends/structured
#pragma once

#include "backends/structured/steps.h"
#include "backends/vulkan/limits.h"

namespace qd::backends::vulkan {

using namespace structured;
using qd::vulkan::Features;

/// The SPIR-V module of an entry (writer.cpp).
std::vector<uint32_t> writeModule(const llvm::Function &entry, const ConstructsOf &constructs, const Features &features);

} // namespace qd::backends::vulkan
