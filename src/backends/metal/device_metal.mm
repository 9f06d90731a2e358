// device_metal.mm: Metal itself, behind the functions of driver.h; built on Apple's systems only
//
// In:   commands, in the order in which they shall run.
// Out:  command buffers of one queue. Kernels find memory by addresses, of which Metal knows nothing: a residency set contains all buffers,
//       and each encoder waits for the one before it by a fence. Within an encoder a barrier separates launches. In a queue of the program
//       each encoder uses all buffers, for Metal to order it with those of other libraries.
#include "backends/metal/driver.h"

#import <Foundation/Foundation.h>
#import <Metal/Metal.h>

#include <deque>
#include <map>
#include <memory>
#include <mutex>
#include <set>

namespace {

using qd::metal::DeviceInfo;

/// Metal's objects live as long as the structures that hold them: this file is compiled with ARC.
struct Buffer {
  id<MTLBuffer> buffer;
};
struct Pipeline {
  id<MTLComputePipelineState> state;
};

struct Device {
  id<MTLDevice> device;
  id<MTLCommandQueue> queue;
  id<MTLResidencySet> residents;
  std::map<void *, unsigned> uses; ///< of each member of it
  std::set<Buffer *> buffers;
  bool isBorrowed = false; ///< the queue is the program's
  id<MTLFence> fence;
  id<MTLCommandBuffer> open;
  id<MTLComputeCommandEncoder> compute;
  id<MTLBlitCommandEncoder> blit;
  bool isChanged = false;                   ///< the residency set has uncommitted changes
  std::deque<id<MTLCommandBuffer>> running; ///< in their order
  uint64_t submitted = 0, ended = 0;
  std::map<uint64_t, double> endTimes; ///< of the last submissions
  NSString *failure = nil;

  id<MTLCommandBuffer> getCommands() {
    if (!open) {
      MTLCommandBufferDescriptor *options = [[MTLCommandBufferDescriptor alloc] init];
      options.retainedReferences = NO; // all memory is in the residency set
      open = [queue commandBufferWithDescriptor:options];
    }
    return open;
  }
  void endEncoder() {
    if (compute) {
      [compute updateFence:fence];
      [compute endEncoding];
      compute = nil;
    }
    if (blit) {
      [blit updateFence:fence];
      [blit endEncoding];
      blit = nil;
    }
  }
  id<MTLComputeCommandEncoder> beginCompute() {
    if (compute) {
      [compute memoryBarrierWithScope:MTLBarrierScopeBuffers];
      return compute;
    }
    endEncoder();
    compute = [getCommands() computeCommandEncoder];
    [compute waitForFence:fence];
    if (isBorrowed)
      for (Buffer *own : buffers) [compute useResource:own->buffer usage:MTLResourceUsageRead | MTLResourceUsageWrite];
    return compute;
  }
  id<MTLBlitCommandEncoder> beginBlit() {
    // Copies of one encoder are not ordered by addresses that overlap, so each has its own.
    endEncoder();
    blit = [getCommands() blitCommandEncoder];
    [blit waitForFence:fence];
    return blit;
  }
  /// A buffer that was cut from a heap is resident with the heap.
  static id<MTLAllocation> getAllocation(id<MTLBuffer> buffer) { return buffer.heap ? (id<MTLAllocation>)buffer.heap : buffer; }
  Buffer *add(id<MTLBuffer> buffer) {
    id<MTLAllocation> place = getAllocation(buffer);
    if (uses[(__bridge void *)place]++ == 0) {
      [residents addAllocation:place];
      isChanged = true;
    }
    return *buffers.insert(new Buffer{buffer}).first;
  }
  void remove(Buffer *own) {
    id<MTLAllocation> place = getAllocation(own->buffer);
    if (--uses[(__bridge void *)place] == 0) {
      uses.erase((__bridge void *)place);
      [residents removeAllocation:place];
      isChanged = true;
    }
    buffers.erase(own);
    delete own;
  }
  void commitResidents() {
    if (!isChanged) return;
    [residents commit];
    [residents requestResidency];
    isChanged = false;
  }
  /// Takes what has ended from the front.
  void collect() {
    constexpr size_t kKeptTimes = 4096;
    while (!running.empty() && running.front().status >= MTLCommandBufferStatusCompleted) {
      id<MTLCommandBuffer> first = running.front();
      if (first.status == MTLCommandBufferStatusError)
        failure = first.error ? first.error.localizedDescription : @"a command buffer failed";
      endTimes[++ended] = first.GPUEndTime;
      if (endTimes.size() > kKeptTimes) endTimes.erase(endTimes.begin());
      running.pop_front();
    }
  }
};

Device &get(void *device) { return *static_cast<Device *>(device); }

NSArray<id<MTLDevice>> *listDevices() {
  static NSArray<id<MTLDevice>> *all = MTLCopyAllDevices();
  return all;
}

void copyText(NSString *text, char *target, size_t bytes) { strlcpy(target, text ? text.UTF8String : "", bytes); }

void describe(int number, DeviceInfo *info) {
  @autoreleasepool {
    id<MTLDevice> device = listDevices()[NSUInteger(number)];
    copyText(device.name, info->name, sizeof info->name);
    copyText(NSProcessInfo.processInfo.operatingSystemVersionString, info->system, sizeof info->system);
    NSString *problem = nil;
    if (@available(macOS 15, *)) {
      if (![device supportsFamily:MTLGPUFamilyMetal3] || ![device supportsFamily:MTLGPUFamilyApple7]) problem = @"it is no GPU of Apple's";
    } else {
      problem = @"macOS 15 is needed";
    }
    copyText(problem, info->problem, sizeof info->problem);
    info->memoryBytes = device.recommendedMaxWorkingSetSize;
    info->maxBufferBytes = device.maxBufferLength;
  }
}

void setQueue(void *device, uint64_t queue) {
  @autoreleasepool {
    Device &own = get(device);
    if (own.queue) [own.queue removeResidencySet:own.residents];
    // A queue of the program stays the program's: ARC retains it while the device uses it.
    own.isBorrowed = queue != 0;
    own.queue = queue ? (__bridge id<MTLCommandQueue>)reinterpret_cast<void *>(queue) : [own.device newCommandQueue];
    [own.queue addResidencySet:own.residents];
  }
}

void *openDevice(int number) {
  @autoreleasepool {
    auto device = new Device;
    device->device = listDevices()[NSUInteger(number)];
    device->fence = [device->device newFence];
    NSError *error = nil;
    device->residents = [device->device newResidencySetWithDescriptor:[[MTLResidencySetDescriptor alloc] init] error:&error];
    if (device->fence && device->residents) setQueue(device, 0);
    if (device->queue) return device;
    delete device;
    return nullptr;
  }
}

void closeDevice(void *device) {
  @autoreleasepool {
    [get(device).queue removeResidencySet:get(device).residents];
    delete static_cast<Device *>(device);
  }
}

void *makeBuffer(void *device, size_t bytes, uint64_t *address, void **contents) {
  @autoreleasepool {
    Device &own = get(device);
    id<MTLBuffer> buffer = [own.device newBufferWithLength:bytes options:MTLResourceStorageModeShared];
    if (!buffer) return nullptr;
    *address = buffer.gpuAddress;
    *contents = buffer.contents;
    return own.add(buffer);
  }
}

void *adoptBuffer(void *device, void *foreign, size_t *bytes, uint64_t *address, void **contents) {
  @autoreleasepool {
    id<MTLBuffer> buffer = (__bridge id<MTLBuffer>)foreign;
    if (buffer.device != get(device).device) return nullptr;
    *bytes = buffer.length;
    *address = buffer.gpuAddress;
    *contents = buffer.storageMode == MTLStorageModeShared ? buffer.contents : nullptr;
    return get(device).add(buffer);
  }
}

void destroyBuffer(void *device, void *buffer) {
  @autoreleasepool {
    get(device).remove(static_cast<Buffer *>(buffer));
  }
}

/// An archive is read from a file and written to one.
struct Archive {
  id<MTLBinaryArchive> archive;
  NSURL *file;
  std::mutex mutex; ///< of additions
  bool isChanged = false;
};

void *openArchive(void *device, const void *bytes, size_t count) {
  @autoreleasepool {
    NSString *name = [NSString stringWithFormat:@"quadrants-%@.metallib", NSUUID.UUID.UUIDString];
    NSURL *file = [NSURL fileURLWithPath:[NSTemporaryDirectory() stringByAppendingPathComponent:name]];
    MTLBinaryArchiveDescriptor *options = [[MTLBinaryArchiveDescriptor alloc] init];
    if (count && [[NSData dataWithBytes:bytes length:count] writeToURL:file atomically:NO]) options.url = file;
    id<MTLBinaryArchive> archive = [get(device).device newBinaryArchiveWithDescriptor:options error:nil];
    return archive ? new Archive{archive, file, {}} : nullptr; // another system's is refused
  }
}

void closeArchive(void *archive, void (*take)(void *context, const void *bytes, size_t count), void *context) {
  @autoreleasepool {
    std::unique_ptr<Archive> own(static_cast<Archive *>(archive));
    if (own->isChanged && [own->archive serializeToURL:own->file error:nil])
      if (NSData *data = [NSData dataWithContentsOfURL:own->file]) take(context, data.bytes, data.length);
    [NSFileManager.defaultManager removeItemAtURL:own->file error:nil];
  }
}

void *makePipeline(void *device, void *archive, const char *source, const char *entry, char *error, size_t errorBytes) {
  @autoreleasepool {
    id<MTLDevice> place = get(device).device;
    auto *kept = static_cast<Archive *>(archive);
    MTLCompileOptions *options = [[MTLCompileOptions alloc] init];
    options.languageVersion = MTLLanguageVersion3_2;
    options.mathMode = MTLMathModeSafe;
    NSError *problem = nil;
    id<MTLLibrary> library = [place newLibraryWithSource:@(source) options:options error:&problem];
    MTLComputePipelineDescriptor *wanted = [[MTLComputePipelineDescriptor alloc] init];
    wanted.computeFunction = library ? [library newFunctionWithName:@(entry)] : nil;
    id<MTLComputePipelineState> state = nil;
    auto make = [&](MTLPipelineOption option) {
      state = [place newComputePipelineStateWithDescriptor:wanted options:option reflection:nil error:&problem];
    };
    if (wanted.computeFunction && kept) {
      wanted.binaryArchives = @[ kept->archive ];
      make(MTLPipelineOptionFailOnBinaryArchiveMiss);
      std::lock_guard lock(kept->mutex);
      if (!state && [kept->archive addComputePipelineFunctionsWithDescriptor:wanted error:nil]) kept->isChanged = true;
    }
    if (wanted.computeFunction && !state) make(MTLPipelineOptionNone);
    if (state) return new Pipeline{state};
    copyText(problem ? problem.localizedDescription : @"it has no such function", error, errorBytes);
    return nullptr;
  }
}

void launch(void *device, void *pipeline, uint64_t parameters, unsigned blocks, unsigned threads) {
  @autoreleasepool {
    id<MTLComputeCommandEncoder> encoder = get(device).beginCompute();
    [encoder setComputePipelineState:static_cast<Pipeline *>(pipeline)->state];
    [encoder setBytes:&parameters length:sizeof parameters atIndex:0];
    [encoder dispatchThreadgroups:MTLSizeMake(blocks, 1, 1) threadsPerThreadgroup:MTLSizeMake(threads, 1, 1)];
  }
}

void copy(void *device, void *to, size_t toOffset, void *from, size_t fromOffset, size_t bytes) {
  @autoreleasepool {
    [get(device).beginBlit() copyFromBuffer:static_cast<Buffer *>(from)->buffer
                               sourceOffset:fromOffset
                                   toBuffer:static_cast<Buffer *>(to)->buffer
                          destinationOffset:toOffset
                                       size:bytes];
  }
}

void fill(void *device, void *buffer, size_t offset, unsigned char byte, size_t bytes) {
  @autoreleasepool {
    [get(device).beginBlit() fillBuffer:static_cast<Buffer *>(buffer)->buffer range:NSMakeRange(offset, bytes) value:byte];
  }
}

void submit(void *device) {
  @autoreleasepool {
    Device &own = get(device);
    own.endEncoder();
    own.commitResidents();
    [own.getCommands() commit];
    own.running.push_back(own.open);
    own.open = nil;
    ++own.submitted;
  }
}

int getEnded(void *device, uint64_t *number, char *error, size_t errorBytes) {
  @autoreleasepool {
    Device &own = get(device);
    own.collect();
    *number = own.ended;
    if (own.failure) copyText(own.failure, error, errorBytes);
    return own.failure ? 1 : 0;
  }
}

void waitFor(void *device, uint64_t number) {
  @autoreleasepool {
    Device &own = get(device);
    if (number > own.ended && number <= own.submitted) [own.running[number - own.ended - 1] waitUntilCompleted];
  }
}

double getEndTime(void *device, uint64_t number) {
  get(device).collect();
  auto time = get(device).endTimes.find(number);
  return time == get(device).endTimes.end() ? 0 : time->second;
}

const qd::metal::DriverFunctions functions = {
    .countDevices = [] { return int(listDevices().count); },
    .describe = describe,
    .open = openDevice,
    .setQueue = setQueue,
    .close = closeDevice,
    .makeBuffer = makeBuffer,
    .adoptBuffer = adoptBuffer,
    .getForeign = [](void *buffer) { return (__bridge void *)static_cast<Buffer *>(buffer)->buffer; },
    .destroyBuffer = destroyBuffer,
    .openArchive = openArchive,
    .makePipeline = makePipeline,
    .closeArchive = closeArchive,
    .destroyPipeline = [](void *pipeline) { delete static_cast<Pipeline *>(pipeline); },
    .launch = launch,
    .copy = copy,
    .fill = fill,
    .submit = submit,
    .getEnded = getEnded,
    .wait = waitFor,
    .getEndTime = getEndTime,
};

} // namespace

extern "C" const qd::metal::DriverFunctions *qd_metal_driver() { return &functions; }
