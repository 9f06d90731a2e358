// work.h: how long code on the processor may run before it looks whether the launch was given up
//
// Work is counted in operations, roughly. A loop that is over after kFreeWork, or after kFreeRounds of what is longer, does not look at
// all, so that short loops cost nothing; others look when they begin, and again after each kWorkBetweenPolls.
#pragma once

#include <algorithm>
#include <cmath>
#include <optional>

namespace qd::codegen {

/// A few milliseconds.
inline constexpr double kWorkBetweenPolls = 1 << 20;
inline constexpr double kFreeWork = 1 << 12;
inline constexpr double kFreeRounds = 16;
/// All iterations of a chunk that run one after the other without a look. Most loops in them are shorter than they may be.
inline constexpr double kWorkOfChunk = 1 << 26;

/// When an axis of a loop looks.
struct Polling {
  double freeRounds = 0;     ///< it does not look if it has no more
  double roundsBetween = 0;  ///< between two looks; 0: it never does
  double workUnobserved = 0; ///< of the whole axis, before it first looks
};

/// `rounds`: the most there are, where that is known; `work`: what a round takes, or takes before it looks by itself.
inline Polling choosePolling(std::optional<double> rounds, double work) {
  if (rounds && *rounds * work <= kWorkBetweenPolls) return {0, 0, *rounds * work};
  double between = std::max(std::floor(kWorkBetweenPolls / std::max(work, 1.0)), 1.0);
  double most = std::min(std::max(std::floor(kFreeWork / std::max(work, 1.0)), kFreeRounds), between);
  return {most, between, most * work};
}

} // namespace qd::codegen
