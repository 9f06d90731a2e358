// autodiff_mode.h: what of a kernel is compiled: itself, or one of the kernels that are derived from it.
#pragma once

#include <cstdint>

namespace qd::support {

/// Numbers as in Python (quadrants.types.enums.AutodiffMode).
enum class AutodiffMode : uint8_t {
  None,
  Validation, ///< the kernel itself, which records what it reads and writes
  Forward,    ///< results and tangents: `.dual` of what is written from `.dual` of what is read
  Reverse,    ///< adjoints: adds to `.grad` of what is read, from `.grad` of what is written
  Second,     ///< tangents of adjoints: `.grad.dual`. Interpreted on every backend
  Replay,     ///< adjoints where a tape has kept what the kernel overwrites: containers are as they were before the call where that helps
  Fused       ///< the kernel itself and its adjoints in one pass, where all it does is to add to the loss of a tape
};

} // namespace qd::support
