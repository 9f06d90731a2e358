// functions.h: functions that drivers for GPUs share: the member of `Api`, its name in CUDA, its name in HIP
#pragma once

// clang-format off
// All versions of both drivers have these.
#define QD_GPU_FUNCTIONS(row)                                                                                                              \
  row(initialize, "cuInit", "hipInit") row(getVersion, "cuDriverGetVersion", "hipRuntimeGetVersion")                                       \
  row(countDevices, "cuDeviceGetCount", "hipGetDeviceCount") row(getDevice, "cuDeviceGet", "hipDeviceGet")                                 \
  row(getDeviceAttribute, "cuDeviceGetAttribute", "hipDeviceGetAttribute") row(getMemoryInfo, "cuMemGetInfo_v2", "hipMemGetInfo")          \
  row(allocate, "cuMemAlloc_v2", "hipMalloc") row(release, "cuMemFree_v2", "hipFree")                                                      \
  row(allocateHost, "cuMemHostAlloc", "hipHostMalloc") row(releaseHost, "cuMemFreeHost", "hipHostFree")                                    \
  row(fillBytes, "cuMemsetD8Async", "hipMemsetD8Async") row(fillWords, "cuMemsetD32Async", "hipMemsetD32Async")                            \
  row(copyToDevice, "cuMemcpyHtoDAsync_v2", "hipMemcpyHtoDAsync") row(copyToHost, "cuMemcpyDtoHAsync_v2", "hipMemcpyDtoHAsync")            \
  row(copyOnDevice, "cuMemcpyDtoDAsync_v2", "hipMemcpyDtoDAsync") row(loadModule, "cuModuleLoadData", "hipModuleLoadData")                 \
  row(unloadModule, "cuModuleUnload", "hipModuleUnload") row(getFunction, "cuModuleGetFunction", "hipModuleGetFunction")                   \
  row(getOccupancy, "cuOccupancyMaxActiveBlocksPerMultiprocessor", "hipModuleOccupancyMaxActiveBlocksPerMultiprocessor")                   \
  row(launch, "cuLaunchKernel", "hipModuleLaunchKernel") row(createStream, "cuStreamCreate", "hipStreamCreateWithFlags")                   \
  row(destroyStream, "cuStreamDestroy_v2", "hipStreamDestroy") row(synchronizeStream, "cuStreamSynchronize", "hipStreamSynchronize")       \
  row(queryStream, "cuStreamQuery", "hipStreamQuery") row(waitForEvent, "cuStreamWaitEvent", "hipStreamWaitEvent")                         \
  row(createEvent, "cuEventCreate", "hipEventCreateWithFlags") row(destroyEvent, "cuEventDestroy_v2", "hipEventDestroy")                   \
  row(recordEvent, "cuEventRecord", "hipEventRecord") row(synchronizeEvent, "cuEventSynchronize", "hipEventSynchronize")                   \
  row(queryEvent, "cuEventQuery", "hipEventQuery") row(getElapsedTime, "cuEventElapsedTime", "hipEventElapsedTime")

// All versions of CUDA have these, some of HIP lack them.
#define QD_GPU_POOL_FUNCTIONS(row)                                                                                                         \
  row(getDefaultMemoryPool, "cuDeviceGetDefaultMemPool", "hipDeviceGetDefaultMemPool")                                                     \
  row(setPoolAttribute, "cuMemPoolSetAttribute", "hipMemPoolSetAttribute") row(trimPool, "cuMemPoolTrimTo", "hipMemPoolTrimTo")            \
  row(allocateAsync, "cuMemAllocAsync", "hipMallocAsync") row(releaseAsync, "cuMemFreeAsync", "hipFreeAsync")                              \
  row(launchTogether, "cuLaunchCooperativeKernel", "hipModuleLaunchCooperativeKernel")

// Some versions of both lack these.
#define QD_GPU_GRAPH_FUNCTIONS(row)                                                                                                        \
  row(createGraph, "cuGraphCreate", "hipGraphCreate")                                                                                      \
  row(instantiateGraph, "cuGraphInstantiateWithFlags", "hipGraphInstantiateWithFlags")                                                     \
  row(launchGraph, "cuGraphLaunch", "hipGraphLaunch") row(destroyExecutableGraph, "cuGraphExecDestroy", "hipGraphExecDestroy")             \
  row(destroyGraph, "cuGraphDestroy", "hipGraphDestroy")
// clang-format on
