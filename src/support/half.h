// half.h: f16 to and from float.
#pragma once

#include <bit>
#include <cstdint>

namespace qd::support {

inline float halfToFloat(uint16_t bits) { return float(std::bit_cast<_Float16>(bits)); }
/// Rounds once, from double.
inline uint16_t doubleToHalf(double value) { return std::bit_cast<uint16_t>(_Float16(value)); }

} // namespace qd::support
