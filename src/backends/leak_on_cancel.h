// leak_on_cancel.h: owning objects of LLVM where an exception may pass through LLVM's frames
#pragma once

#include <exception>
#include <memory>

namespace qd::backends {

/// Owns an object unless an exception passes. LLVM is built without unwinding: when its fatal errors become exceptions, its frames vanish
/// without cleaning up, and objects keep handles into them. Such objects are left alone, which costs memory once for each internal error.
template <typename T> class LeakOnCancel {
public:
  explicit LeakOnCancel(std::unique_ptr<T> object) : object(object.release()) {}
  ~LeakOnCancel() {
    if (std::uncaught_exceptions() == exceptions) delete object;
  }
  LeakOnCancel(const LeakOnCancel &) = delete;
  LeakOnCancel &operator=(const LeakOnCancel &) = delete;

  T &operator*() const { return *object; }
  T *operator->() const { return object; }
  explicit operator bool() const { return object != nullptr; }

private:
  T *object;
  int exceptions = std::uncaught_exceptions();
};

} // namespace qd::backends
