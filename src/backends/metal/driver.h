// driver.h: what the run half asks of Metal: a table of functions that needs no Objective-C
//
// On Apple's systems device_metal.mm fills it in. A library that exports `qd_metal_driver` can take its place (the option metal_driver):
// the tests have one that compiles kernels for the processor.
#pragma once

#include <cstddef>
#include <cstdint>

namespace qd::metal {

struct DeviceInfo {
  char name[128];
  char problem[128]; ///< why it cannot be used; empty: it can
  char system[128];  ///< its version
  uint64_t memoryBytes, maxBufferBytes;
};

/// Results: 0 is success. Commands run in the order of the calls; each sees what earlier ones wrote. Callers lock.
struct DriverFunctions {
  int (*countDevices)();
  void (*describe)(int number, DeviceInfo *info);
  /// Null: the device does not start.
  void *(*open)(int number);
  /// Address of a queue of the program for the commands from now on; 0: an own one. All earlier ones have ended.
  void (*setQueue)(void *device, uint64_t queue);
  void (*close)(void *device);
  /// Memory that device and host share, at different addresses. Null: there is no more.
  void *(*makeBuffer)(void *device, size_t bytes, uint64_t *address, void **contents);
  /// Makes a buffer of another library (id<MTLBuffer>) accessible to kernels. `contents` is null if the host cannot access it.
  void *(*adoptBuffer)(void *device, void *foreign, size_t *bytes, uint64_t *address, void **contents);
  /// The buffer for other libraries.
  void *(*getForeign)(void *buffer);
  /// Gives a buffer back, which a library of its own may go on using.
  void (*destroyBuffer)(void *device, void *buffer);
  /// Opens the archive of a kernel's pipelines: what `closeArchive` gave in an earlier process, or none. Null: there are no archives.
  void *(*openArchive)(void *device, const void *bytes, size_t count);
  /// Compiles an entry, or takes it from the archive; several threads may. Null: `error` says why.
  void *(*makePipeline)(void *device, void *archive, const char *source, const char *entry, char *error, size_t errorBytes);
  /// Calls `take(context, bytes, count)` with the archive's bytes if there are any.
  void (*closeArchive)(void *archive, void (*take)(void *context, const void *bytes, size_t count), void *context);
  void (*destroyPipeline)(void *pipeline);
  void (*launch)(void *device, void *pipeline, uint64_t parameters, unsigned blocks, unsigned threads);
  void (*copy)(void *device, void *to, size_t toOffset, void *from, size_t fromOffset, size_t bytes);
  void (*fill)(void *device, void *buffer, size_t offset, unsigned char byte, size_t bytes);
  /// Starts the recorded commands.
  void (*submit)(void *device);
  /// How many submissions have ended. The result is not 0 if one has failed: `error` says why.
  int (*getEnded)(void *device, uint64_t *number, char *error, size_t errorBytes);
  /// Waits for a submission; they count from 1.
  void (*wait)(void *device, uint64_t number);
  /// When a submission has ended, in seconds.
  double (*getEndTime)(void *device, uint64_t number);
};

extern "C" typedef const DriverFunctions *(*GetDriver)();

} // namespace qd::metal
