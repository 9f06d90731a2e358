// device_api.h: the functions of a driver that the run half of GPU backends calls
//
// CUDA and HIP have the same functions under different names. The types here are CUDA's; each backend fills the table from its library
// (api.cpp in its folder), and adapts what differs.
#pragma once

#include "support/error.h"

#include <cstddef>
#include <cstdint>
#include <string>

namespace qd::gpu {

using Status = int;
using Ordinal = int;
using Address = uint64_t;               ///< in the memory of a device
using Context = struct ContextHandle *; ///< what is current in a thread: of a device
using Module = struct ModuleHandle *;
using Function = struct FunctionHandle *;
using Stream = struct StreamHandle *;
using Event = struct EventHandle *;
using MemoryPool = struct MemoryPoolHandle *;
using Graph = struct GraphHandle *;
using GraphNode = struct GraphNodeHandle *;
using ExecutableGraph = struct ExecutableGraphHandle *;
using Condition = uint64_t; ///< of a loop in a graph

enum : Status { kSuccess = 0, kInvalidValue = 1, kOutOfMemory = 2, kNoDevice = 100, kNotReady = 600 };

enum PoolAttribute : int { kReleaseThreshold = 4 };
enum HostFlags : unsigned { kPortable = 1, kMapped = 2 };
enum ManagedFlags : unsigned { kAttachGlobal = 1 };
enum Advice : int { kPreferredLocation = 3 };
enum StreamFlags : unsigned { kNonBlocking = 1 };
enum EventFlags : unsigned { kTimed = 0, kUntimed = 2 };
enum ConditionFlags : unsigned { kSetByLaunch = 1 };

/// A kernel of a graph, with its arguments.
struct KernelNode {
  Function function;
  unsigned gridX, gridY, gridZ, blockX, blockY, blockZ, sharedBytes;
  void **parameters;
  void **extra;
  void *kernel;    ///< in place of `function`
  Context context; ///< null: the current one
};

/// How a node of a graph depends on another one.
struct GraphEdge {
  unsigned char from = 0, to = 0, kind = 0, reserved[5] = {};
  /// The dependent node may start when all blocks of the other node have begun; it waits for the other's end itself.
  static GraphEdge makeEarlyLaunch() { return {.from = 1, .kind = 1}; }
};

/// A node that runs its body, a graph, while a condition is not zero.
struct LoopNode {
  static constexpr int kConditional = 13, kWhile = 1;
  int type = kConditional, reserved[3] = {};
  Condition condition;
  int kind = kWhile;
  unsigned bodyCount = 1;
  const Graph *bodies = nullptr; ///< the driver's answer
  Context context;
  unsigned char rest[208] = {};
};
static_assert(sizeof(LoopNode) == 256, "the driver reads so many bytes for every kind of node");

/// What the kernel Api::conditionSetter takes, by value: it sets the condition to the byte at `flag`, or to 0 after a failure, or to 1 if
/// `flag` is null.
struct ConditionUpdate {
  Condition condition;
  const unsigned char *flag;
  const uint32_t *failed;
};

struct DeviceFunctions {
  Status (*getErrorName)(Status, const char **) = nullptr;
  Status (*getErrorString)(Status, const char **) = nullptr;
  Status (*initialize)(unsigned) = nullptr;
  Status (*getVersion)(int *) = nullptr;
  Status (*countDevices)(int *) = nullptr;
  Status (*getDevice)(Ordinal *, int) = nullptr;
  Status (*getDeviceAttribute)(int *, int attribute, Ordinal) = nullptr;
  Status (*retainContext)(Context *, Ordinal) = nullptr;
  Status (*resetContext)(Ordinal) = nullptr;
  Status (*getCurrentContext)(Context *) = nullptr;
  Status (*setCurrentContext)(Context) = nullptr;
};

struct MemoryFunctions {
  Status (*getDefaultMemoryPool)(MemoryPool *, Ordinal) = nullptr;
  Status (*setPoolAttribute)(MemoryPool, PoolAttribute, void *) = nullptr;
  Status (*trimPool)(MemoryPool, size_t) = nullptr;
  Status (*getMemoryInfo)(size_t *free, size_t *total) = nullptr;
  Status (*allocate)(Address *, size_t) = nullptr;
  Status (*release)(Address) = nullptr;
  Status (*allocateAsync)(Address *, size_t, Stream) = nullptr;
  Status (*releaseAsync)(Address, Stream) = nullptr;
  /// Memory that the driver provides, zeroed, at the first access, and moves to the host when the device has no more. Null: none.
  Status (*allocateManaged)(Address *, size_t, unsigned flags) = nullptr;
  Status (*advise)(Address, size_t, int advice, Ordinal) = nullptr;
  Status (*allocateHost)(void **, size_t, unsigned flags) = nullptr;
  Status (*releaseHost)(void *) = nullptr;
  Status (*fillBytes)(Address, unsigned char, size_t, Stream) = nullptr;
  Status (*fillWords)(Address, unsigned, size_t words, Stream) = nullptr;
  Status (*copyToDevice)(Address, const void *, size_t, Stream) = nullptr;
  Status (*copyToHost)(void *, Address, size_t, Stream) = nullptr;
  Status (*copyOnDevice)(Address to, Address from, size_t, Stream) = nullptr;
};

/// Of drivers where other libraries know memory by an object, not by its address (device_sequential.h). Null: addresses are enough.
struct ForeignFunctions {
  Status (*adopt)(Address *, void *foreign) = nullptr;
  Status (*drop)(Address) = nullptr;
  Status (*locate)(void **foreign, size_t *offset, Address) = nullptr;
  Status (*setQueue)(uint64_t queue, bool isOrdered) = nullptr;
};

struct CodeFunctions {
  Status (*loadModule)(Module *, const void *) = nullptr;
  Status (*unloadModule)(Module) = nullptr;
  Status (*getFunction)(Function *, Module, const char *) = nullptr;
  Status (*getOccupancy)(int *, Function, int blockSize, size_t sharedBytes) = nullptr;
  Status (*launch)(Function, unsigned gridX, unsigned, unsigned, unsigned blockX, unsigned, unsigned, unsigned sharedBytes, Stream,
                   void **parameters, void **extra) = nullptr;
  Status (*setFunctionAttribute)(Function, int attribute, int value) = nullptr; ///< null: no target of this driver needs it
  /// All blocks run at the same time. Null: the driver is too old.
  Status (*launchTogether)(Function, unsigned gridX, unsigned, unsigned, unsigned blockX, unsigned, unsigned, unsigned sharedBytes, Stream,
                           void **parameters) = nullptr;
};

struct StreamFunctions {
  Status (*createStream)(Stream *, unsigned flags) = nullptr;
  Status (*destroyStream)(Stream) = nullptr;
  Status (*synchronizeStream)(Stream) = nullptr;
  Status (*queryStream)(Stream) = nullptr;
  Status (*waitForEvent)(Stream, Event, unsigned flags) = nullptr;
  Status (*createEvent)(Event *, unsigned flags) = nullptr;
  Status (*destroyEvent)(Event) = nullptr;
  Status (*recordEvent)(Event, Stream) = nullptr;
  Status (*synchronizeEvent)(Event) = nullptr;
  Status (*queryEvent)(Event) = nullptr;
  Status (*getElapsedTime)(float *, Event, Event) = nullptr;
};

/// Null in older drivers, where tasks are launched one by one.
struct GraphFunctions {
  Status (*createGraph)(Graph *, unsigned) = nullptr;
  Status (*addKernelNode)(GraphNode *, Graph, const GraphNode *after, size_t, const KernelNode *) = nullptr;
  Status (*instantiateGraph)(ExecutableGraph *, Graph, uint64_t flags) = nullptr;
  Status (*setKernelNode)(ExecutableGraph, GraphNode, const KernelNode *) = nullptr;
  Status (*launchGraph)(ExecutableGraph, Stream) = nullptr;
  Status (*destroyExecutableGraph)(ExecutableGraph) = nullptr;
  Status (*destroyGraph)(Graph) = nullptr;
  Status (*addGraphEdges)(Graph, const GraphNode *from, const GraphNode *to, const GraphEdge *, size_t) = nullptr;
  Status (*createCondition)(Condition *, Graph, Context, unsigned value, unsigned flags) = nullptr;
  Status (*addNode)(GraphNode *, Graph, const GraphNode *after, const GraphEdge *, size_t, LoopNode *) = nullptr;
};

/// A driver: facts about it, and its functions.
struct Api : DeviceFunctions, MemoryFunctions, ForeignFunctions, CodeFunctions, StreamFunctions, GraphFunctions {
  const char *backend = "";                         ///< qd.init(arch=backend)
  const char *driverName = "";                      ///< that sees devices: "CUDA"
  int version = 0;                                  ///< in the driver's own numbers
  unsigned maxParameterBytes = 0, maxCopyBytes = 0; ///< the backend's limits (limits.h in its folder)
  const char *conditionSetter = nullptr;            ///< code of the kernel set_condition(ConditionUpdate); null: there is none
  bool hasObjects = false;                          ///< other libraries know memory by an object (ForeignFunctions)
  bool isHostMemoryShared = true;                   ///< kernels may change memory of the host with atomic operations
  /// The driver's numbers of attributes of a device.
  struct {
    int multiprocessorCount, clockKilohertz, memoryPoolsSupported, concurrentManagedAccess = 0;
  } attributes{};

  bool hasGraphs() const { return setKernelNode && addKernelNode && launchGraph; }
  bool hasLoops() const { return conditionSetter && createCondition && addNode; }
  /// "CUDA_ERROR_ILLEGAL_ADDRESS: an illegal memory access was encountered"
  std::string describe(Status status) const;
  /// Throws a DriverError unless the status is a success.
  void check(Status status, const char *action) const;
};

// Rows of the table of a library: finds the function of a member of `api` in the library `handle`. QD_GPU_NEED sets `missing` if there is
// none.
#define QD_GPU_FIND(member, symbol) api.member = reinterpret_cast<decltype(api.member)>(dlsym(handle, symbol));
#define QD_GPU_NEED(member, symbol)                                                                                                        \
  QD_GPU_FIND(member, symbol)                                                                                                              \
  if (!api.member) missing = symbol;

/// An error for a failed status, with the action that was tried.
struct DriverError : support::Error {
  Status status;
  DriverError(const Api &api, Status status, const std::string &action);
};

inline void Api::check(Status status, const char *action) const {
  if (status != kSuccess) [[unlikely]]
    throw DriverError(*this, status, action);
}

} // namespace qd::gpu
