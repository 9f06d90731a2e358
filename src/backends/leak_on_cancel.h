// leak_on_cancel.h: owns LLVM objects in code that exceptions may leave through LLVM's frames
#pragma once

#include <exception>
#include <memory>

namespace qd::backends {

/// Owns an object, but leaks it when an exception passes. LLVM is built without unwinding: when its fatal errors become exceptions, its
/// frames disappear without cleanup, and objects still hold handles into them. Not deleting such objects leaks memory once per internal
/// error.
template <typename T> class LeakOnCancel {
public:
  explicit LeakOnCancel(std::unique_ptr<T> object) : object(object.release()) {}
  ~LeakOnCancel() { take(); }
  LeakOnCancel(const LeakOnCancel &) = delete;
  LeakOnCancel &operator=(const LeakOnCancel &) = delete;

  T &operator*() const { return *object; }
  T *operator->() const { return object; }
  /// The object; null when an exception passes.
  std::unique_ptr<T> take() {
    std::unique_ptr<T> taken(std::uncaught_exceptions() == exceptions ? object : nullptr);
    object = nullptr;
    return taken;
  }
  explicit operator bool() const { return object != nullptr; }

private:
  T *object;
  int exceptions = std::uncaught_exceptions();
};

} // namespace qd::backends
