// device.h: the host's processors as a Device
#pragma once

#include "runtime/device.h"

namespace qd::cpu {

std::unique_ptr<runtime::Device> makeDevice();

} // namespace qd::cpu
