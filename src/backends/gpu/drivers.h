// drivers.h: the drivers of a backend that this process has loaded
#pragma once
#include <dlfcn.h>
#include <map>
#include <mutex>
#include <string>
#include <vector>

namespace qd::gpu {

/// Result of loading the driver of a backend, with the functions `Api`.
template <typename Api> struct Driver {
  Api api;
  std::string absence; ///< why the driver cannot be used; empty if it can
};

/// Loads the first of these libraries that exists; null if there is none. A non-empty `library` replaces the names.
inline void *openLibrary(std::vector<std::string> &names, const std::string &library) {
  if (!library.empty()) names = {library};
  void *handle = nullptr;
  for (const std::string &name : names)
    if (!handle) handle = dlopen(name.c_str(), RTLD_NOW | RTLD_LOCAL);
  return handle;
}

/// The driver in a library, which is loaded once per process; `load(library, api)` fills in the functions and returns why the driver cannot
/// be used. `use` sees the driver at each call, one thread at a time.
template <typename Api, typename Load, typename Use>
const Driver<Api> &findDriver(const std::string &library, const Load &load, const Use &use) {
  static std::mutex mutex;
  static auto *found = new std::map<std::string, Driver<Api>>; // entries keep their addresses
  std::lock_guard lock(mutex);
  auto [entry, isNew] = found->try_emplace(library);
  if (isNew) entry->second.absence = load(library, entry->second.api);
  use(entry->second);
  return entry->second;
}

template <typename Api, typename Load> const Driver<Api> &findDriver(const std::string &library, const Load &load) {
  return findDriver<Api>(library, load, [](const Driver<Api> &) {});
}

} // namespace qd::gpu
