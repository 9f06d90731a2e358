// api.cpp: loads HIP, and adapts what differs from CUDA's driver: contexts, names of errors, nodes of graphs
//
// In:   the name of a library, or none for the system's.
// Out:  the table of functions of gpu/device_api.h, or why there is no usable driver.
#include "backends/amdgpu/api.h"
#include "backends/amdgpu/limits.h"
#include "backends/gpu/functions.h"

#include <cstring>
#include <link.h>
#include <vector>

namespace qd::amdgpu {

using gpu::Context;
using gpu::Status;

constexpr Status kInvalidDevice = 101; // what HIP answers when there is none

//--- What differs ---

/// HIP's description of a node of a graph.
struct HipKernelNode {
  unsigned block[3];
  void **extra;
  void *function;
  unsigned grid[3];
  void **parameters;
  unsigned sharedBytes;

  explicit HipKernelNode(const gpu::KernelNode &node)
      : block{node.blockX, node.blockY, node.blockZ}, extra(nullptr), function(node.function), grid{node.gridX, node.gridY, node.gridZ},
        parameters(node.parameters), sharedBytes(node.sharedBytes) {}
};

/// Those of the library that was asked for last. A process has one, except in tests.
static AdaptedFunctions hip;

#define QD_HIP_ADAPTED_FUNCTIONS(row)                                                                                                      \
  row(setDevice, "hipSetDevice") row(getCurrentDevice, "hipGetDevice") row(resetDevice, "hipDeviceReset")                                  \
      row(getErrorName, "hipGetErrorName") row(getErrorString, "hipGetErrorString")

// Threads have a current device, not a context: its number stands for it. Null is no context.
static Context makeContext(int ordinal) { return reinterpret_cast<Context>(intptr_t(ordinal) + 1); }

static void adapt(HipApi &api) {
  api.getErrorName = [](Status status, const char **name) { return *name = hip.getErrorName(status), Status(gpu::kSuccess); };
  api.getErrorString = [](Status status, const char **text) { return *text = hip.getErrorString(status), Status(gpu::kSuccess); };
  api.setCurrentContext = [](Context context) { return hip.setDevice(context ? int(reinterpret_cast<intptr_t>(context) - 1) : 0); };
  api.getCurrentContext = [](Context *context) {
    int ordinal = 0;
    Status status = hip.getCurrentDevice(&ordinal);
    return *context = makeContext(ordinal), status;
  };
  api.retainContext = [](Context *context, gpu::Ordinal ordinal) { return *context = makeContext(ordinal), hip.setDevice(ordinal); };
  api.resetContext = [](gpu::Ordinal ordinal) {
    Status status = hip.setDevice(ordinal);
    return status == gpu::kSuccess ? hip.resetDevice() : status;
  };
  if (!hip.addKernelNode || !hip.setKernelNode) return;
  api.addKernelNode = [](gpu::GraphNode *made, gpu::Graph graph, const gpu::GraphNode *after, size_t count, const gpu::KernelNode *node) {
    HipKernelNode own(*node);
    return hip.addKernelNode(made, graph, after, count, &own);
  };
  api.setKernelNode = [](gpu::ExecutableGraph graph, gpu::GraphNode place, const gpu::KernelNode *node) {
    HipKernelNode own(*node);
    return hip.setKernelNode(graph, place, &own);
  };
}

std::string HipApi::getProcessor(int ordinal) const {
  // Version 6 keeps the old function under its old name, with the new structure in some builds: do not call it there.
  constexpr size_t kNewOffset = 1160, kOldOffset = 396, kMostBytes = 4096, kMostLetters = 256;
  std::vector<char> properties(kMostBytes);
  check(getProperties ? getProperties(properties.data(), ordinal) : getOldProperties(properties.data(), ordinal), "report its properties");
  const char *name = properties.data() + (getProperties ? kNewOffset : kOldOffset);
  return {name, strnlen(name, kMostLetters)};
}

//--- Loading ---

/// The path of the HIP that this process has loaded, perhaps for torch: two of them in one process break each other. Empty if there is
/// none.
static std::string findLoaded() {
  std::string path;
  dl_iterate_phdr(
      [](dl_phdr_info *info, size_t, void *found) {
        const char *name = strrchr(info->dlpi_name, '/');
        if (!name || strncmp(name, "/libamdhip64", 12) != 0) return 0;
        *static_cast<std::string *>(found) = info->dlpi_name;
        return 1;
      },
      &path);
  return path;
}

static std::string load(const std::string &library, HipApi &api) {
  std::vector<std::string> names = {"libamdhip64.so.7", "libamdhip64.so.6", "libamdhip64.so.5", "libamdhip64.so",
                                    "/opt/rocm/lib/libamdhip64.so"};
  if (std::string loaded = findLoaded(); !loaded.empty()) names = {loaded};
  void *handle = gpu::openLibrary(names, library);
  if (!handle) return "there is no AMD driver (" + names[0] + " cannot be loaded)";
  const char *missing = nullptr;
#define QD_HIP_NEED(member, inCuda, symbol) QD_GPU_NEED(member, symbol)
#define QD_HIP_FIND(member, inCuda, symbol) QD_GPU_FIND(member, symbol)
  QD_GPU_FUNCTIONS(QD_HIP_NEED)
  QD_GPU_POOL_FUNCTIONS(QD_HIP_FIND)
  QD_GPU_GRAPH_FUNCTIONS(QD_HIP_FIND)
  QD_GPU_NEED(getOldProperties, "hipGetDeviceProperties")
  QD_GPU_FIND(getProperties, "hipGetDevicePropertiesR0600")
#define QD_HIP_FIND_ADAPTED(member, symbol) api.adapted.member = reinterpret_cast<decltype(api.adapted.member)>(dlsym(handle, symbol));
#define QD_HIP_NEED_ADAPTED(member, symbol)                                                                                                \
  QD_HIP_FIND_ADAPTED(member, symbol)                                                                                                      \
  if (!api.adapted.member) missing = symbol;
  QD_HIP_ADAPTED_FUNCTIONS(QD_HIP_NEED_ADAPTED)
  QD_HIP_FIND_ADAPTED(addKernelNode, "hipGraphAddKernelNode")
  QD_HIP_FIND_ADAPTED(setKernelNode, "hipGraphExecKernelNodeSetParams")
  if (missing) return std::string("the AMD driver is too old (it has no ") + missing + "): ROCm 5 or newer is needed, so update it";
  hip = api.adapted;
  adapt(api);
  api.backend = "amdgpu";
  api.driverName = "HIP";
  api.maxParameterBytes = kMaxParameterBytes;
  api.maxCopyBytes = kMaxCopyBytes;
  api.isHostMemoryShared = false; // without atomic operations on the bus, those on memory of the host are lost or hang
  api.attributes = {kMultiprocessorCount, kClockKilohertz, kMemoryPoolsSupported};
  int count = 0;
  Status status = api.initialize(0);
  if (status == gpu::kSuccess) status = api.countDevices(&count);
  if (status == gpu::kNoDevice || status == kInvalidDevice || (status == gpu::kSuccess && count == 0))
    return "the AMD driver has no device";
  if (status != gpu::kSuccess) return "the AMD driver does not start: " + api.describe(status);
  return api.getVersion(&api.version) == gpu::kSuccess ? "" : "the AMD driver does not tell its version";
}

const Driver &findDriver(const std::string &library) {
  return gpu::findDriver<HipApi>(library, load, [](const Driver &driver) {
    if (driver.absence.empty()) hip = driver.api.adapted;
  });
}

} // namespace qd::amdgpu
