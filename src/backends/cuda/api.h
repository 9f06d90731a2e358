// api.h: the functions of NVIDIA's driver that we call, loaded at run time from libcuda. The declarations follow the driver API reference
// (docs.nvidia.com/cuda/cuda-driver-api), so neither building nor running needs a toolkit. Only functions in use are declared.
#pragma once

#include "support/error.h"

#include <cstddef>
#include <cstdint>
#include <string>

namespace qd::cuda {

using Status = int;
using Ordinal = int;
using Address = uint64_t; ///< in the memory of a device
using Context = struct ContextHandle *;
using Module = struct ModuleHandle *;
using Function = struct FunctionHandle *;
using Stream = struct StreamHandle *;
using Event = struct EventHandle *;
using Linking = struct LinkingHandle *;
using MemoryPool = struct MemoryPoolHandle *;
using Graph = struct GraphHandle *;
using GraphNode = struct GraphNodeHandle *;
using ExecutableGraph = struct ExecutableGraphHandle *;

enum : Status { kSuccess = 0, kInvalidValue = 1, kOutOfMemory = 2, kNoDevice = 100, kUnsupportedPtx = 222, kNotReady = 600 };

enum Attribute : int {
  kClockKilohertz = 13,
  kMultiprocessorCount = 16,
  kComputeCapabilityMajor = 75,
  kComputeCapabilityMinor = 76,
  kMaxSharedMemoryOptIn = 97,
  kMemoryPoolsSupported = 115
};
enum FunctionAttribute : int { kMaxDynamicSharedBytes = 8 };
enum ContextLimit : int { kStackBytes = 0 };
enum PoolAttribute : int { kReleaseThreshold = 4 };
enum HostFlags : unsigned { kPortable = 1, kMapped = 2 };
enum StreamFlags : unsigned { kNonBlocking = 1 };
enum EventFlags : unsigned { kTimed = 0, kUntimed = 2 };
enum LinkInput : int { kCubin = 0, kPtx = 1 };
enum LinkOption : int { kMaxRegisters = 0, kErrorLog = 5, kErrorLogBytes = 6, kTargetFromContext = 8 };
enum PointerAttribute : int { kDeviceOrdinal = 9 };

/// A kernel of a graph, with its arguments.
struct KernelNode {
  Function function;
  unsigned gridX, gridY, gridZ, blockX, blockY, blockZ, sharedBytes;
  void **parameters;
  void **extra;
  void *kernel;    ///< CUkernel, in place of `function`
  Context context; ///< null: the current one
};

/// Fills memory in a graph.
struct FillNode {
  Address at;
  size_t pitch;
  unsigned value, elementBytes;
  size_t width, height;
};

/// How a node of a graph depends on another one.
struct GraphEdge {
  unsigned char from = 0, to = 0, kind = 0, reserved[5] = {};
  /// The dependent node may start when all blocks of the other node have begun; it waits for the other's end itself.
  static GraphEdge makeEarlyLaunch() { return {.from = 1, .kind = 1}; }
};

// Member name, symbol in the library, arguments. Drivers of CUDA 11.8 or later have all of these; otherwise the driver cannot be used.
#define QD_CUDA_FUNCTIONS(row)                                                                                                             \
  row(getErrorName, "cuGetErrorName", (Status, const char **)) row(getErrorString, "cuGetErrorString", (Status, const char **)) row(       \
      initialize, "cuInit", (unsigned)) row(getDriverVersion, "cuDriverGetVersion", (int *)) row(countDevices, "cuDeviceGetCount",         \
                                                                                                 (int *))                                  \
      row(getDevice, "cuDeviceGet", (Ordinal *, int)) row(getDeviceName, "cuDeviceGetName", (char *, int, Ordinal)) row(                   \
          getDeviceAttribute, "cuDeviceGetAttribute", (int *, Attribute, Ordinal)) row(getDefaultMemoryPool, "cuDeviceGetDefaultMemPool",  \
                                                                                       (MemoryPool *, Ordinal))                            \
          row(setPoolAttribute, "cuMemPoolSetAttribute", (MemoryPool, PoolAttribute, void *)) row(                                         \
              trimPool, "cuMemPoolTrimTo", (MemoryPool, size_t)) row(retainPrimaryContext, "cuDevicePrimaryCtxRetain",                     \
                                                                     (Context *, Ordinal)) row(resetPrimaryContext,                        \
                                                                                               "cuDevicePrimaryCtxReset_v2", (Ordinal))    \
              row(getCurrentContext, "cuCtxGetCurrent", (Context *)) row(setCurrentContext, "cuCtxSetCurrent", (Context)) row(             \
                  setContextLimit, "cuCtxSetLimit", (ContextLimit, size_t))                                                                \
                  row(getMemoryInfo, "cuMemGetInfo_v2", (size_t *, size_t *)) row(allocate, "cuMemAlloc_v2", (Address *, size_t)) row(     \
                      release, "cuMemFree_v2",                                                                                             \
                      (Address)) row(allocateAsync, "cuMemAllocAsync",                                                                     \
                                     (Address *, size_t, Stream)) row(releaseAsync, "cuMemFreeAsync", (Address, Stream))                   \
                      row(allocateHost, "cuMemHostAlloc", (void **, size_t, unsigned)) row(releaseHost, "cuMemFreeHost", (void *)) row(    \
                          getPointerAttribute, "cuPointerGetAttribute",                                                                    \
                          (void *, PointerAttribute, Address)) row(fillBytes, "cuMemsetD8Async", (Address, unsigned char, size_t, Stream)) \
                          row(fillWords, "cuMemsetD32Async", (Address, unsigned, size_t, Stream))                                          \
                              row(copyToDevice, "cuMemcpyHtoDAsync_v2", (Address, const void *, size_t, Stream))                           \
                                  row(copyToHost, "cuMemcpyDtoHAsync_v2", (void *, Address, size_t, Stream)) row(                          \
                                      copyOnDevice, "cuMemcpyDtoDAsync_v2",                                                                \
                                      (Address, Address, size_t, Stream)) row(loadModule, "cuModuleLoadData", (Module *, const void *))    \
                                      row(unloadModule, "cuModuleUnload",                                                                  \
                                          (Module)) row(getFunction, "cuModuleGetFunction", (Function *, Module, const char *))            \
                                          row(setFunctionAttribute, "cuFuncSetAttribute", (Function, FunctionAttribute, int)) row(         \
                                              getOccupancy, "cuOccupancyMaxActiveBlocksPerMultiprocessor", (int *, Function, int, size_t)) \
                                              row(launch, "cuLaunchKernel",                                                                \
                                                  (Function, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned, Stream, \
                                                   void **, void **))                                                                      \
                                                  row(launchTogether, "cuLaunchCooperativeKernel",                                         \
                                                      (Function, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned,     \
                                                       Stream, void **)) row(beginLinking, "cuLinkCreate_v2",                              \
                                                                             (unsigned, LinkOption *, void **, Linking *))                 \
                                                      row(addToLinking, "cuLinkAddData_v2",                                                \
                                                          (Linking, LinkInput, void *, size_t, const char *, unsigned, LinkOption *,       \
                                                           void **)) row(completeLinking, "cuLinkComplete", (Linking, void **, size_t *))  \
                                                          row(endLinking, "cuLinkDestroy",                                                 \
                                                              (Linking)) row(createStream, "cuStreamCreate", (Stream *, unsigned))         \
                                                              row(destroyStream, "cuStreamDestroy_v2",                                     \
                                                                  (Stream)) row(synchronizeStream, "cuStreamSynchronize", (Stream))        \
                                                                  row(queryStream, "cuStreamQuery", (Stream))                              \
                                                                      row(waitForEvent, "cuStreamWaitEvent", (Stream, Event, unsigned))    \
                                                                          row(createEvent, "cuEventCreate", (Event *, unsigned))           \
                                                                              row(destroyEvent, "cuEventDestroy_v2", (Event))              \
                                                                                  row(recordEvent, "cuEventRecord", (Event, Stream))       \
                                                                                      row(synchronizeEvent, "cuEventSynchronize", (Event)) \
                                                                                          row(queryEvent, "cuEventQuery", (Event))         \
                                                                                              row(getElapsedTime, "cuEventElapsedTime",    \
                                                                                                  (float *, Event, Event))

// Functions of drivers for CUDA 12 and later. They are null in older drivers, where tasks are launched one by one.
#define QD_CUDA_NEWER_FUNCTIONS(row)                                                                                                       \
  row(createGraph, "cuGraphCreate", (Graph *, unsigned))                                                                                   \
      row(addKernelNode, "cuGraphAddKernelNode_v2", (GraphNode *, Graph, const GraphNode *, size_t, const KernelNode *))                   \
          row(addFillNode, "cuGraphAddMemsetNode", (GraphNode *, Graph, const GraphNode *, size_t, const FillNode *, Context))             \
              row(instantiateGraph, "cuGraphInstantiateWithFlags", (ExecutableGraph *, Graph, uint64_t))                                   \
                  row(setKernelNode, "cuGraphExecKernelNodeSetParams_v2", (ExecutableGraph, GraphNode, const KernelNode *))                \
                      row(launchGraph, "cuGraphLaunch", (ExecutableGraph, Stream))                                                         \
                          row(destroyExecutableGraph, "cuGraphExecDestroy", (ExecutableGraph))                                             \
                              row(destroyGraph, "cuGraphDestroy", (Graph))                                                                 \
                                  row(addGraphEdges, "cuGraphAddDependencies_v2",                                                          \
                                      (Graph, const GraphNode *, const GraphNode *, const GraphEdge *, size_t))

struct Api {
#define QD_CUDA_MEMBER(name, symbol, arguments) Status(*name) arguments = nullptr;
  QD_CUDA_FUNCTIONS(QD_CUDA_MEMBER)
  QD_CUDA_NEWER_FUNCTIONS(QD_CUDA_MEMBER)
#undef QD_CUDA_MEMBER
  int driverVersion = 0; ///< 1000 * major + 10 * minor of the newest CUDA version that the driver supports

  bool hasGraphs() const { return setKernelNode && addKernelNode && launchGraph; }
};

/// Result of loading the driver.
struct Driver {
  Api api;
  std::string absence; ///< why the driver cannot be used; empty if it can
};
/// The driver, initialized. A non-empty `library` replaces the system's libcuda; each library is loaded once per process.
const Driver &findDriver(const std::string &library);

/// "CUDA_ERROR_ILLEGAL_ADDRESS: an illegal memory access was encountered"
std::string describe(Status status);

/// An error for a failed status, with the action that was tried.
struct DriverError : support::Error {
  Status status;
  DriverError(Status status, const std::string &action);
};

inline void check(Status status, const char *action) {
  if (status != kSuccess) [[unlikely]]
    throw DriverError(status, action);
}

} // namespace qd::cuda
