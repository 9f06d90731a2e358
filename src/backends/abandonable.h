// abandonable.h: owning objects of LLVM where an exception may pass through LLVM's frames
#pragma once

#include <exception>
#include <memory>

namespace qd::backends {

/// Owns an object unless an exception passes. LLVM is built without unwinding: when its fatal errors become exceptions, its frames vanish
/// without cleaning up, and objects keep handles into them. Such objects are left alone, which costs memory once for each internal error.
template <typename T> class Abandonable {
public:
  explicit Abandonable(std::unique_ptr<T> object) : object(object.release()) {}
  ~Abandonable() {
    if (std::uncaught_exceptions() == exceptions) delete object;
  }
  Abandonable(const Abandonable &) = delete;
  Abandonable &operator=(const Abandonable &) = delete;

  T &operator*() const { return *object; }
  T *operator->() const { return object; }
  explicit operator bool() const { return object != nullptr; }

private:
  T *object;
  int exceptions = std::uncaught_exceptions();
};

} // namespace qd::backends
