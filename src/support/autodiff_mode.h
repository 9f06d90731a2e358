// autodiff_mode.h: the kernels that are derived from one function.
#pragma once

#include <cstdint>

namespace qd::support {

/// Values as in Python (quadrants.types.enums.AutodiffMode).
enum class AutodiffMode : uint8_t {
  None,
  Validation, ///< the kernel itself, recording its reads and writes
  Forward,    ///< results and tangents: computes `.dual` of what is written from `.dual` of what is read
  Reverse,    ///< adjoints: adds to `.grad` of what is read, from `.grad` of what is written
  Second,     ///< tangents of adjoints: `.grad.dual`. Interpreted on every backend
  Replay,     ///< adjoints under a tape that has recorded overwritten primals: containers are restored to their state before the call where
              ///< that helps
  Fused       ///< the kernel and its adjoints in one pass, when its only effect is to add to the loss of a tape
};

} // namespace qd::support
