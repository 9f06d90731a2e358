// launch_frame.h: the memory that one launch works in
#pragma once

#include "launch/specialization.h"

#include <cstdlib>
#include <memory>
#include <new>
#include <optional>
#include <vector>

namespace qd::launch {

/// Blocks of one launch. Small ones, which are nearly all, lie on the stack.
struct Specialization::Frame {
  static constexpr size_t kBlockBytes = 1024, kSlots = 96;
  alignas(64) unsigned char arguments[kBlockBytes];
  alignas(64) unsigned char scratch[kBlockBytes];
  alignas(64) unsigned char result[256];
  PyObject *pointers[2 * kSlots];
  struct Spilled {
    void *blocks[4];
    size_t count = 0;
    ~Spilled() {
      while (count) free(blocks[--count]);
    }
  } spilled;
  GuardFrame guards; ///< declared after the memory that stores its references
  /// References to everything that the launch uses, taken before other Python code may run: that code may rebind, drop and reset all of it.
  struct Held {
    std::shared_ptr<Specialization> code;
    std::vector<Ref> objects;
    std::vector<runtime::BufferRef> buffers;
  };
  std::optional<Held> held;

  unsigned char *get(unsigned char *inPlace, size_t capacity, size_t bytes) {
    if (bytes <= capacity) return inPlace;
    void *block = aligned_alloc(64, (bytes + 63) & ~size_t(63));
    if (!block) throw std::bad_alloc();
    return static_cast<unsigned char *>(spilled.blocks[spilled.count++] = block);
  }
};

} // namespace qd::launch
