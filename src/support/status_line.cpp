// status_line.cpp: shows the progress of long compilations
//
// In:   the name of a kernel and the current stage.
// Out:  one line on the terminal, shown after a second and erased at the end.
#include "support/status_line.h"

#include <atomic>
#include <cstdio>
#include <unistd.h>

namespace qd::support {

static constexpr auto kQuietTime = std::chrono::seconds(1);
/// Longer lines would wrap on a terminal of the usual width, and wrapped lines cannot be erased.
static constexpr size_t kWidth = 79;

/// Whether the one last line of the terminal is in use: several threads may compile at once.
static std::atomic<bool> isTaken{false};

StatusLine::StatusLine(bool isWanted) : isWanted(isWanted) {}

StatusLine::~StatusLine() {
  if (!isShown) return;
  write("");
  isTaken.store(false);
}

void StatusLine::update(std::string_view subject, std::string_view activity) {
  auto elapsed = std::chrono::steady_clock::now() - started;
  if (!isWanted || elapsed < kQuietTime) return;
  if (!isShown) {
    isWanted = isatty(STDERR_FILENO) == 1;
    if (!isWanted || isTaken.exchange(true)) return;
    isShown = true;
  }
  char seconds[32];
  snprintf(seconds, sizeof seconds, ", %.1f s", std::chrono::duration<double>(elapsed).count());
  std::string tail = ": " + std::string(activity) + seconds, text = "compiling ";
  text.append(subject.substr(0, kWidth - text.size() - tail.size())).append(tail);
  if (text != shown) write(text);
}

void StatusLine::write(const std::string &text) {
  std::string line = "\r" + text;
  // Blanks overwrite the rest of a longer previous line; an erased line leaves the cursor at its start.
  if (text.size() < shown.size()) line.append(shown.size() - text.size(), ' ');
  if (text.empty()) line += "\r";
  // A closed terminal must not make the compilation fail.
  [[maybe_unused]] ssize_t written = ::write(STDERR_FILENO, line.data(), line.size());
  shown = text;
}

} // namespace qd::support
