// half.h: conversion of f16 and bf16 to and from float.
#pragma once

#include <bit>
#include <cstdint>

namespace qd::support {

inline float halfToFloat(uint16_t bits) { return float(std::bit_cast<_Float16>(bits)); }
/// Rounds once, from double.
inline uint16_t doubleToHalf(double value) { return std::bit_cast<uint16_t>(_Float16(value)); }

inline float bfloatToFloat(uint16_t bits) { return std::bit_cast<float>(uint32_t(bits) << 16); }
/// Rounds to nearest, ties to even; a NaN stays one.
inline uint16_t floatToBfloat(float value) {
  auto bits = std::bit_cast<uint32_t>(value);
  return uint16_t((value == value ? bits + 0x7fff + (bits >> 16 & 1) : bits | 0x400000) >> 16);
}

} // namespace qd::support
