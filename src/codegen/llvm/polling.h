// polling.h: how often code on the processor polls whether the launch was canceled
//
// Work is an approximate number of operations. A loop that ends within kFreeWork, or within kFreeRounds iterations if these are longer,
// does not poll, so short loops cost nothing. Other loops poll at their beginning and after each kWorkBetweenPolls.
#pragma once

#include <algorithm>
#include <cmath>
#include <optional>

namespace qd::codegen {

/// A few milliseconds.
inline constexpr double kWorkBetweenPolls = 1 << 20;
inline constexpr double kFreeWork = 1 << 12;
inline constexpr double kFreeRounds = 16;
/// Iterations of a chunk that together exceed this poll. The limit is large, because most inner loops are shorter than the estimate.
inline constexpr double kMaxWorkWithoutPoll = 1 << 26;

/// When an axis of a loop polls.
struct Polling {
  double freeRounds = 0;     ///< polls only if the axis has more iterations than this
  double roundsBetween = 0;  ///< iterations between two polls; 0: never polls
  double workBeforePoll = 0; ///< work of the whole axis before its first poll
};

/// `rounds`: maximum number of iterations, if known; `work`: of an iteration, until it ends or polls itself.
inline Polling choosePolling(std::optional<double> rounds, double work) {
  if (rounds && *rounds * work <= kWorkBetweenPolls) return {0, 0, *rounds * work};
  double between = std::max(std::floor(kWorkBetweenPolls / std::max(work, 1.0)), 1.0);
  double maxFreeRounds = std::min(std::max(std::floor(kFreeWork / std::max(work, 1.0)), kFreeRounds), between);
  return {maxFreeRounds, between, maxFreeRounds * work};
}

} // namespace qd::codegen
