// work.h: how long code on the processor may run before it looks whether the launch was given up
#pragma once

namespace qd::codegen {

/// Operations, roughly: some milliseconds.
inline constexpr double kWorkBetweenPolls = 1 << 20;

} // namespace qd::codegen
