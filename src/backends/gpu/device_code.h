// device_code.h: machine code in several objects, as the one binary of an artifact
#pragma once

#include <cstdint>
#include <string_view>
#include <vector>

namespace qd::gpu {

using Code = std::vector<uint8_t>;

/// One binary of several objects: a mark, their number, their sizes, then the objects. A single object stays what it is.
Code joinParts(const std::vector<Code> &parts);
bool hasParts(const Code &binary);
/// The objects of a binary. Throws support::Error if it is incomplete.
std::vector<const uint8_t *> findParts(const Code &binary);

} // namespace qd::gpu
