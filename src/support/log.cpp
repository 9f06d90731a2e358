// log.cpp: writes log lines
//
// In:   a level, a message and a source location.
// Out:  one line on stderr, if the level is enabled.
#include "support/log.h"

#include "support/error.h"

#include <atomic>
#include <cstdio>
#include <ctime>
#include <string>
#include <unistd.h>

namespace qd::support {

static constexpr std::string_view kLevelNames[] = {"trace", "debug", "info", "warn", "error", "critical", "off"};
static std::atomic<LogLevel> currentLevel{LogLevel::Info};

LogLevel parseLogLevel(std::string_view name) {
  for (int i = 0; i < int(std::size(kLevelNames)); ++i)
    if (kLevelNames[i] == name) return LogLevel(i);
  throw Error(ErrorKind::Value, "log level '" + std::string(name) + "' is none of trace, debug, info, warn, error, critical, off");
}

void setLogLevel(LogLevel level) { currentLevel.store(level, std::memory_order_relaxed); }
LogLevel getLogLevel() { return currentLevel.load(std::memory_order_relaxed); }
bool isLogged(LogLevel level) { return level != LogLevel::Off && level >= getLogLevel(); }

void log(LogLevel level, std::string_view message, std::string_view place) {
  if (!isLogged(level)) return;
  timespec now;
  clock_gettime(CLOCK_REALTIME, &now);
  tm local;
  localtime_r(&now.tv_sec, &local);
  char head[96];
  snprintf(head, sizeof head, "[%c %02d/%02d/%02d %02d:%02d:%02d.%03ld %d] ", "TDIWEC"[int(level)], local.tm_mon + 1, local.tm_mday,
           local.tm_year % 100, local.tm_hour, local.tm_min, local.tm_sec, now.tv_nsec / 1000000, int(getpid()));
  std::string line = head;
  if (!place.empty()) line.append("[").append(place).append("] ");
  line.append(message).append("\n");
  // A closed or full stderr must not make the program fail.
  [[maybe_unused]] ssize_t written = write(STDERR_FILENO, line.data(), line.size());
}

} // namespace qd::support
