// log.h: log lines on stderr, `[W 11/20/26 17:13:46.949 <pid>] [place] message`.
#pragma once

#include <string_view>

namespace qd::support {

enum class LogLevel { Trace, Debug, Info, Warn, Error, Critical, Off };

/// The level of a name such as "warn"; throws Error (Value) for an unknown name.
LogLevel parseLogLevel(std::string_view name);
void setLogLevel(LogLevel level);
LogLevel getLogLevel();
/// A level enables itself and every more severe one.
bool isLogged(LogLevel level);
/// Writes one line with one system call, so that lines of several threads do not mix. `place` is "file:function@line" or empty.
void log(LogLevel level, std::string_view message, std::string_view place = {});

} // namespace qd::support
