// thread_pool.h: the threads that run the chunks of parallel loops.
#pragma once

#include <algorithm>
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

/// Calls `body(first, size)` for each chunk of `count` items, on all threads.
template <typename Body> void forEachChunk(int64_t count, int64_t chunk, const Body &body) {
  struct Loop {
    const Body &body;
    int64_t count, chunk;
  } loop{body, count, chunk};
  const volatile int32_t stop = 0;
  ChunkedWork work{};
  work.run = [](void *data, int64_t number) {
    const Loop &loop = *static_cast<Loop *>(data);
    int64_t first = number * loop.chunk;
    loop.body(first, std::min(loop.chunk, loop.count - first));
  };
  work.data = &loop;
  work.chunks = (count + chunk - 1) / chunk;
  work.stop = &stop;
  runChunks(work, 0);
}

/// Whether a thread of the pool has nothing to do and does not sleep: it joins within a microsecond.
bool isHelperAwake();

/// Lets time pass in a loop that waits for another thread; `calls` counts from 1 and is that of the loop. Short waits spin. In long ones
/// the other thread may have no processor, and so this one sleeps.
void waitBriefly(int calls);

/// Sets the number of threads that run kernels; 0: one per processor that this process may use. Threads start on first use.
void setThreadCount(int count);
int getThreadCount();
/// The number of the calling thread in the pool, from 1; 0 for every other thread.
int getThreadNumber();

} // namespace qd::runtime
