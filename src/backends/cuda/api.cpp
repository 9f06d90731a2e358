// api.cpp: loads NVIDIA's driver, checks its version, and formats its errors
#include "backends/cuda/api.h"

#include <dlfcn.h>
#include <map>
#include <mutex>
#include <vector>

namespace qd::cuda {

// The driver that was found last. A process has one, except in tests.
static const Api *latest;

// The oldest driver that accepts the emitted PTX.
static constexpr int kOldestDriver = 11080;

static std::string formatVersion(int version) {
  return "CUDA " + std::to_string(version / 1000) + "." + std::to_string(version % 1000 / 10);
}

static std::string load(const std::string &library, Api &api) {
  void *handle = nullptr;
  // Windows provides the last one for Linux programs.
  std::vector<std::string> names = {"libcuda.so.1", "libcuda.so", "/usr/lib/wsl/lib/libcuda.so.1"};
  if (!library.empty()) names = {library};
  for (const std::string &name : names)
    if (!handle) handle = dlopen(name.c_str(), RTLD_NOW | RTLD_LOCAL);
  if (!handle) return "there is no NVIDIA driver (" + names[0] + " cannot be loaded)";
  const char *missing = nullptr;
#define QD_CUDA_FIND(name, symbol, arguments) api.name = reinterpret_cast<decltype(api.name)>(dlsym(handle, symbol));
#define QD_CUDA_NEED(name, symbol, arguments) QD_CUDA_FIND(name, symbol, arguments) if (!api.name) missing = symbol;
  QD_CUDA_FUNCTIONS(QD_CUDA_NEED)
  QD_CUDA_NEWER_FUNCTIONS(QD_CUDA_FIND)
#undef QD_CUDA_FIND
#undef QD_CUDA_NEED
  const std::string needed = "): " + formatVersion(kOldestDriver) + " or newer is needed, so update the driver";
  if (missing) return std::string("the NVIDIA driver is too old (it has no ") + missing + needed;
  int count = 0;
  if (Status status = api.initialize(0); status != kSuccess) {
    const char *text = nullptr;
    api.getErrorString(status, &text);
    return std::string("the NVIDIA driver does not start: ") + (text ? text : "unknown error");
  }
  if (api.getDriverVersion(&api.driverVersion) != kSuccess || api.countDevices(&count) != kSuccess || count == 0)
    return "the NVIDIA driver has no device";
  if (api.driverVersion < kOldestDriver) return "the NVIDIA driver is too old (it is for " + formatVersion(api.driverVersion) + needed;
  latest = &api;
  return "";
}

const Driver &findDriver(const std::string &library) {
  static std::mutex mutex;
  static auto *found = new std::map<std::string, Driver>; // entries keep their addresses
  std::lock_guard lock(mutex);
  auto [entry, isNew] = found->try_emplace(library);
  if (isNew) entry->second.absence = load(library, entry->second.api);
  return entry->second;
}

std::string describe(Status status) {
  const char *name = nullptr, *text = nullptr;
  latest->getErrorName(status, &name);
  latest->getErrorString(status, &text);
  return std::string(name ? name : "error " + std::to_string(status)) + (text ? std::string(": ") + text : "");
}

DriverError::DriverError(Status status, const std::string &action)
    : support::Error(status == kOutOfMemory ? support::ErrorKind::Memory : support::ErrorKind::Runtime,
                     "the GPU cannot " + action + " (" + describe(status) + ")"),
      status(status) {}

} // namespace qd::cuda
