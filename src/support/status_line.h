// status_line.h: a line on the terminal during long work
#pragma once

#include <chrono>
#include <string>
#include <string_view>

namespace qd::support {

/// One line on stderr, rewritten in place and erased at the end. It appears when the work has taken a second, if stderr is a terminal and
/// shows no other such line.
class StatusLine {
public:
  /// Without `isWanted` the line never appears.
  explicit StatusLine(bool isWanted);
  ~StatusLine();
  StatusLine(const StatusLine &) = delete;
  StatusLine &operator=(const StatusLine &) = delete;

  /// Shows "compiling `subject`: `activity`, 1.2 s". May be called often: writes only when the visible text has changed.
  void update(std::string_view subject, std::string_view activity);

private:
  void write(const std::string &text);

  std::chrono::steady_clock::time_point started = std::chrono::steady_clock::now();
  bool isWanted, isShown = false;
  std::string shown;
};

} // namespace qd::support
