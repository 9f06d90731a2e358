// drivers.h: the drivers of a backend that this process has loaded
#pragma once
#include <map>
#include <mutex>
#include <string>

namespace qd::gpu {

/// The driver in a library, which is loaded once per process; `load(library, api)` fills in the functions and returns why the driver cannot
/// be used. `use` sees the driver at each call, one thread at a time.
template <typename Driver, typename Load, typename Use>
const Driver &findDriver(const std::string &library, const Load &load, const Use &use) {
  static std::mutex mutex;
  static auto *found = new std::map<std::string, Driver>; // entries keep their addresses
  std::lock_guard lock(mutex);
  auto [entry, isNew] = found->try_emplace(library);
  if (isNew) entry->second.absence = load(library, entry->second.api);
  use(entry->second);
  return entry->second;
}

template <typename Driver, typename Load> const Driver &findDriver(const std::string &library, const Load &load) {
  return findDriver<Driver>(library, load, [](const Driver &) {});
}

} // namespace qd::gpu
