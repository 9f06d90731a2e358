// device_streams.h: streams and events of the driver
#pragma once

#include "backends/cuda/device_memory.h"
#include "runtime/device.h"

namespace qd::cuda {

std::unique_ptr<runtime::Streams> makeStreams(std::shared_ptr<Memory> memory);

} // namespace qd::cuda
