// device_streams.h: streams and events of the driver
#pragma once

#include "backends/gpu/device_memory.h"
#include "runtime/device.h"

namespace qd::gpu {

std::unique_ptr<runtime::Streams> makeStreams(std::shared_ptr<Memory> memory);

} // namespace qd::gpu
