// error.h: the only C++ exception of the runtime half. `bindings` and `launch` convert it to a Python exception.
#pragma once

#include <stdexcept>
#include <string>

namespace qd::support {

/// The Python class of the error.
enum class ErrorKind {
  Runtime,     ///< QuadrantsRuntimeError
  RuntimeType, ///< QuadrantsRuntimeTypeError
  Bounds,      ///< QuadrantsBoundsError
  Value,
  Type,
  Key,
  Memory,
  Format ///< invalid bytes (a damaged cache entry); never reaches a user
};

struct Error : std::runtime_error {
  ErrorKind kind;
  Error(ErrorKind kind, const std::string &message) : std::runtime_error(message), kind(kind) {}
};

} // namespace qd::support
