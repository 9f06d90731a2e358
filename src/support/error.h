// error.h: the one C++ exception of the run-time half. `bindings` and `launch` turn it into a Python exception.
#pragma once

#include <stdexcept>
#include <string>

namespace qd::support {

/// Which Python class the error becomes.
enum class ErrorKind {
  Runtime,     ///< QuadrantsRuntimeError
  RuntimeType, ///< QuadrantsRuntimeTypeError
  Bounds,      ///< QuadrantsBoundsError
  Value,
  Type,
  Key,
  Memory,
  Format ///< bytes that are not what they should be (a damaged cache entry); never reaches a user
};

struct Error : std::runtime_error {
  ErrorKind kind;
  Error(ErrorKind kind, const std::string &message) : std::runtime_error(message), kind(kind) {}
};

} // namespace qd::support
