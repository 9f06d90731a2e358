// limits.h: what both halves of the backend know of a device, and its text, which names the device to the compiler
//
// The run half asks the driver, and writes "subgroup=8,threads=1024,shared=32768,push=128,f64,f16"; the compiler reads that after
// "vulkan:".
#pragma once

#include <charconv>
#include <string>
#include <string_view>

namespace qd::vulkan {

/// Bytes of an entry's parameters. They are push constants if they fit; if not, in memory that the host writes, whose address is one.
constexpr unsigned kMaxParameterBytes = 4096;
/// Bytes of shared memory for private copies of containers, which each block of such a task has.
constexpr unsigned kMaxCopyBytes = 8 << 10;

// name, text, what the device can do
// clang-format off
#define QD_VULKAN_FEATURES(X)                                                                       \
  X(hasF64, "f64") X(hasF16, "f16") X(hasI16, "i16") X(hasI8, "i8")                                 \
  X(hasStorage16, "storage16") X(hasStorage8, "storage8")                                           \
  X(hasI64Atomics, "atomic64") X(hasSharedI64Atomics, "shared_atomic64")                            \
  X(hasF32Add, "atomic_f32") X(hasSharedF32Add, "shared_atomic_f32")                                \
  X(hasDeviceClock, "device_clock") X(hasSubgroupClock, "subgroup_clock")                           \
  X(keepsNan16, "nan16") X(keepsNan32, "nan32") X(keepsNan64, "nan64")                              \
  X(savesRegisters, "saves_registers") X(hasExactQuotients, "quotients")                            \
  X(roundsHalves, "halves") X(combinesWords, "combines")                                            \
  X(hasFences, "fences") X(hasFma, "fma") X(hasRounding64, "rounding64") X(keepsDenormals32, "denormals32") X(keepsDenormals64, "denormals64")
// clang-format on

struct Features {
  unsigned subgroupSize = 32, maxBlockThreads = 1024, maxSharedBytes = 32 << 10, pushBytes = 128;
#define QD_MEMBER(name, text) bool name = true;
  QD_VULKAN_FEATURES(QD_MEMBER)
#undef QD_MEMBER

  std::string write() const {
    std::string all = "subgroup=" + std::to_string(subgroupSize) + ",threads=" + std::to_string(maxBlockThreads) +
                      ",shared=" + std::to_string(maxSharedBytes) + ",push=" + std::to_string(pushBytes);
#define QD_WRITE(name, text)                                                                                                               \
  if (name) all += "," text;
    QD_VULKAN_FEATURES(QD_WRITE)
#undef QD_WRITE
    return all;
  }

  /// Reads such a text; an empty one is a device that can do everything. False: a word is unknown.
  bool read(std::string_view all) {
    if (all.empty()) return true;
#define QD_CLEAR(name, text) name = false;
    QD_VULKAN_FEATURES(QD_CLEAR)
#undef QD_CLEAR
    for (bool isLast = false; !isLast;) {
      size_t end = all.find(',');
      isLast = end == std::string_view::npos;
      std::string_view word = all.substr(0, end);
      if (!isLast) all.remove_prefix(end + 1);
      if (!readWord(word)) return false;
    }
    return true;
  }

private:
  bool readWord(std::string_view word) {
#define QD_READ(name, text)                                                                                                                \
  if (word == text) return name = true;
    QD_VULKAN_FEATURES(QD_READ)
#undef QD_READ
    size_t equal = word.find('=');
    if (equal == std::string_view::npos) return false;
    std::string_view name = word.substr(0, equal);
    unsigned *number = name == "subgroup"  ? &subgroupSize
                       : name == "threads" ? &maxBlockThreads
                       : name == "shared"  ? &maxSharedBytes
                       : name == "push"    ? &pushBytes
                                           : nullptr;
    const char *begin = word.data() + equal + 1, *end = word.data() + word.size();
    return number && std::from_chars(begin, end, *number).ptr == end;
  }
};

} // namespace qd::vulkan
