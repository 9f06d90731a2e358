// api.cpp: loads NVIDIA's driver and checks its version
//
// In:   the name of a library, or none for the system's.
// Out:  the table of functions of gpu/device_api.h, or why there is no usable driver.
#include "backends/cuda/api.h"
#include "backends/cuda/limits.h"
#include "backends/gpu/functions.h"

namespace qd::cuda {

// The oldest driver that accepts the emitted PTX.
static constexpr int kOldestDriver = 11080;
// The oldest driver whose graphs have loops.
static constexpr int kOldestWithLoops = 12040;

// The driver itself defines cudaGraphSetConditional, so no library of the toolkit is needed.
static constexpr const char *kConditionSetter = R"(
.version 7.0
.target sm_52
.address_size 64
.extern .func cudaGraphSetConditional (.param .b64 condition, .param .b32 value);
.visible .entry set_condition(.param .align 8 .b8 update[24]) {
  .reg .pred %again, %isFailed;
  .reg .b32 %value, %failed;
  .reg .b64 %condition, %flag, %state;
  ld.param.u64 %condition, [update];
  ld.param.u64 %flag, [update+8];
  ld.param.u64 %state, [update+16];
  mov.u32 %value, 1;
  setp.eq.u64 %again, %flag, 0;
  @%again bra SET;
  ld.global.u8 %value, [%flag];
  ld.global.u32 %failed, [%state];
  setp.ne.u32 %isFailed, %failed, 0;
  selp.u32 %value, 0, %value, %isFailed;
SET:
  {
    .param .b64 p0;
    .param .b32 p1;
    st.param.b64 [p0], %condition;
    st.param.b32 [p1], %value;
    call.uni cudaGraphSetConditional, (p0, p1);
  }
  ret;
}
)";

// clang-format off
// Drivers of CUDA 11.8 or later have all of these and all of gpu/functions.h but those of graphs; otherwise the driver cannot be used.
#define QD_CUDA_FUNCTIONS(row)                                                                                                             \
  row(getErrorName, "cuGetErrorName") row(getErrorString, "cuGetErrorString") row(retainContext, "cuDevicePrimaryCtxRetain")               \
  row(resetContext, "cuDevicePrimaryCtxReset_v2") row(getCurrentContext, "cuCtxGetCurrent") row(setCurrentContext, "cuCtxSetCurrent")      \
  row(setContextLimit, "cuCtxSetLimit") row(beginLinking, "cuLinkCreate_v2") row(addToLinking, "cuLinkAddData_v2")                         \
  row(completeLinking, "cuLinkComplete") row(endLinking, "cuLinkDestroy")             \
  row(setFunctionAttribute, "cuFuncSetAttribute")

// Drivers for CUDA 12 and later have these, most of them older ones, too.
#define QD_CUDA_NEWER_FUNCTIONS(row)                                                                                                       \
  row(addKernelNode, "cuGraphAddKernelNode_v2") row(setKernelNode, "cuGraphExecKernelNodeSetParams_v2")                                    \
  row(createCondition, "cuGraphConditionalHandleCreate") row(addNode, "cuGraphAddNode_v2")                                                 \
  row(addGraphEdges, "cuGraphAddDependencies_v2") row(allocateManaged, "cuMemAllocManaged") row(advise, "cuMemAdvise")
// clang-format on

static std::string formatVersion(int version) {
  return "CUDA " + std::to_string(version / 1000) + "." + std::to_string(version % 1000 / 10);
}

static std::string load(const std::string &library, CudaApi &api) {
  // Windows provides the last one for Linux programs.
  std::vector<std::string> names = {"libcuda.so.1", "libcuda.so", "/usr/lib/wsl/lib/libcuda.so.1"};
  void *handle = gpu::openLibrary(names, library);
  if (!handle) return "there is no NVIDIA driver (" + names[0] + " cannot be loaded)";
  const char *missing = nullptr;
#define QD_CUDA_NEED(member, symbol, inHip) QD_GPU_NEED(member, symbol)
#define QD_CUDA_FIND(member, symbol, inHip) QD_GPU_FIND(member, symbol)
  QD_GPU_FUNCTIONS(QD_CUDA_NEED)
  QD_GPU_POOL_FUNCTIONS(QD_CUDA_NEED)
  QD_GPU_GRAPH_FUNCTIONS(QD_CUDA_FIND)
  QD_CUDA_FUNCTIONS(QD_GPU_NEED)
  QD_CUDA_NEWER_FUNCTIONS(QD_GPU_FIND)
  const std::string needed = "): " + formatVersion(kOldestDriver) + " or newer is needed, so update the driver";
  if (missing) return std::string("the NVIDIA driver is too old (it has no ") + missing + needed;
  api.backend = "cuda";
  api.driverName = "CUDA";
  api.maxParameterBytes = kMaxParameterBytes;
  api.maxCopyBytes = kMaxCopyBytes;
  api.attributes = {kMultiprocessorCount, kClockKilohertz, kMemoryPoolsSupported, kConcurrentManagedAccess};
  int count = 0;
  if (Status status = api.initialize(0); status != gpu::kSuccess) {
    const char *text = nullptr;
    api.getErrorString(status, &text);
    return std::string("the NVIDIA driver does not start: ") + (text ? text : "unknown error");
  }
  if (api.getVersion(&api.version) != gpu::kSuccess || api.countDevices(&count) != gpu::kSuccess || count == 0)
    return "the NVIDIA driver has no device";
  if (api.version < kOldestDriver) return "the NVIDIA driver is too old (it is for " + formatVersion(api.version) + needed;
  if (api.version >= kOldestWithLoops) api.conditionSetter = kConditionSetter;
  return "";
}

const Driver &findDriver(const std::string &library) { return gpu::findDriver<CudaApi>(library, load); }

} // namespace qd::cuda
