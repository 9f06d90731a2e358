// thread_pool.h: the threads that run the chunks of parallel loops.
#pragma once

#include <cstdint>

namespace qd::runtime {

/// Work in numbered chunks. `run` may be called from several threads at once, each chunk exactly once.
struct ChunkedWork {
  void (*run)(void *data, int64_t chunk);
  void *data;
  int64_t chunks;
  const volatile int32_t *stop; ///< no further chunk starts once this is QD_STOP
  void (*poll)(void *data);     ///< called at intervals on the calling thread while it works or waits
};

/// Runs all chunks and returns when they are done. The caller takes chunks too, and never waits for a thread that has not begun one. At
/// most `maxThreads` threads take part, the caller included (0: all).
void runChunks(const ChunkedWork &work, int maxThreads);

/// Whether a thread of the pool has nothing to do and does not sleep: it joins within a microsecond.
bool isHelperAwake();

/// Sets the number of threads that run kernels; 0: one per processor that this process may use. Threads start on first use.
void setThreadCount(int count);
int getThreadCount();
/// The number of the calling thread in the pool, from 1; 0 for every other thread.
int getThreadNumber();

} // namespace qd::runtime
