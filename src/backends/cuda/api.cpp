#include "backends/cuda/api.h"

#include <dlfcn.h>
#include <mutex>

namespace qd::cuda {

namespace {
struct Loaded {
  Api api;
  std::string absence; ///< empty when the driver is there

  explicit Loaded(const std::string &library);
};

Loaded::Loaded(const std::string &library) {
  void *handle = nullptr;
  // The last is where Windows puts it for Linux programs.
  for (const char *name : {library.c_str(), "libcuda.so.1", "libcuda.so", "/usr/lib/wsl/lib/libcuda.so.1"}) {
    if (*name) handle = dlopen(name, RTLD_NOW | RTLD_LOCAL);
    if (handle || name == library) break;
  }
  if (!handle) {
    absence = "there is no NVIDIA driver (" + (library.empty() ? std::string("libcuda.so.1") : library) + " cannot be loaded)";
    return;
  }
  const char *missing = nullptr;
#define QD_CUDA_FIND(name, symbol, arguments) api.name = reinterpret_cast<decltype(api.name)>(dlsym(handle, symbol));
#define QD_CUDA_NEED(name, symbol, arguments)                                                                                              \
  QD_CUDA_FIND(name, symbol, arguments) if (!api.name) missing = symbol;
  QD_CUDA_FUNCTIONS(QD_CUDA_NEED)
  QD_CUDA_NEWER_FUNCTIONS(QD_CUDA_FIND)
#undef QD_CUDA_FIND
#undef QD_CUDA_NEED
  if (missing) {
    absence = std::string("the NVIDIA driver is too old (it has no ") + missing + "): CUDA 11.2 or newer is needed";
    return;
  }
  int count = 0;
  if (Status status = api.initialize(0); status != kSuccess) {
    const char *text = nullptr;
    api.getErrorString(status, &text);
    absence = std::string("the NVIDIA driver does not start: ") + (text ? text : "unknown error");
  } else if (api.getDriverVersion(&api.driverVersion) != kSuccess || api.countDevices(&count) != kSuccess || count == 0) {
    absence = "the NVIDIA driver has no device";
  }
}

const Loaded *loaded;
} // namespace

const Api *findApi(const std::string &library) {
  static std::once_flag once;
  std::call_once(once, [&] { loaded = new Loaded(library); });
  return loaded->absence.empty() ? &loaded->api : nullptr;
}

const std::string &getAbsence() { return loaded->absence; }

std::string describe(Status status) {
  const char *name = nullptr, *text = nullptr;
  loaded->api.getErrorName(status, &name);
  loaded->api.getErrorString(status, &text);
  return std::string(name ? name : "error " + std::to_string(status)) + (text ? std::string(": ") + text : "");
}

DriverError::DriverError(Status status, const std::string &action)
    : support::Error(status == kOutOfMemory ? support::ErrorKind::Memory : support::ErrorKind::Runtime,
                     "the GPU cannot " + action + " (" + describe(status) + ")"),
      status(status) {}

} // namespace qd::cuda
