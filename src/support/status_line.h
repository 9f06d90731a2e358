// status_line.h: a line on the terminal about work that takes long
#pragma once

#include <chrono>
#include <string>
#include <string_view>

namespace qd::support {

/// One line on stderr, rewritten in place and erased at the end. It appears when the work has taken a second, if stderr is a terminal and
/// no other line is shown.
class StatusLine {
public:
  /// Not `isWanted`: never shown.
  explicit StatusLine(bool isWanted);
  ~StatusLine();
  StatusLine(const StatusLine &) = delete;
  StatusLine &operator=(const StatusLine &) = delete;

  /// Shows "compiling `subject`: `activity`, 1.2 s". Called often; writes when what is to be seen has changed.
  void update(std::string_view subject, std::string_view activity);

private:
  void write(const std::string &text);

  std::chrono::steady_clock::time_point started = std::chrono::steady_clock::now();
  bool isWanted, isShown = false;
  std::string shown;
};

} // namespace qd::support
