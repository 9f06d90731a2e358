// scalar_type.h: the scalar types of the kernel language, shared by every module and by both extension modules.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string_view>

namespace qd::support {

/// Order and values are part of the serialized artifact. BF16 is a type of elements in memory only: a value loaded from one is an f32.
enum class ScalarType : uint8_t { U1, I8, I16, I32, I64, U8, U16, U32, U64, F16, F32, F64, BF16 };

inline constexpr int kScalarTypeCount = 13;

constexpr bool isFloat(ScalarType type) { return type >= ScalarType::F16; }
constexpr bool isInteger(ScalarType type) { return !isFloat(type); }
constexpr bool isSigned(ScalarType type) { return type >= ScalarType::I8 && type <= ScalarType::I64; }
constexpr bool isUnsigned(ScalarType type) { return isInteger(type) && !isSigned(type); }

/// Bytes of one scalar in memory; `u1` takes one.
constexpr size_t getByteSize(ScalarType type) {
  constexpr uint8_t kSizes[kScalarTypeCount] = {1, 1, 2, 4, 8, 1, 2, 4, 8, 2, 4, 8, 2};
  return kSizes[static_cast<size_t>(type)];
}

/// The short name: "u1", "i32", "f64".
constexpr std::string_view getName(ScalarType type) {
  constexpr std::string_view kNames[kScalarTypeCount] = {"u1",  "i8",  "i16", "i32", "i64", "u8",  "u16",
                                                         "u32", "u64", "f16", "f32", "f64", "bf16"};
  return kNames[static_cast<size_t>(type)];
}

} // namespace qd::support
