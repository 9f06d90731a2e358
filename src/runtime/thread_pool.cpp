// thread_pool.cpp: distributes chunks of parallel loops over threads
//
// A parallel loop is a Job on its caller's stack. The caller adds it to a list. Idle threads join it and take chunks by incrementing
// `taken`; so does the caller. When no chunk is left, the caller removes the job from the list, so that no further thread joins, and waits
// for those that have joined. That wait is short even on a busy machine: a thread that the system has not scheduled yet has not joined.
#include "runtime/thread_pool.h"

#include "runtime/kernel_abi.h"
#include "support/processors.h"

#include <algorithm>
#include <atomic>
#include <chrono>
#include <condition_variable>
#include <mutex>
#include <new>
#include <optional>
#include <pthread.h>
#include <sched.h>
#include <thread>
#if defined(__x86_64__)
#include <immintrin.h>
#endif

namespace qd::runtime {

using Clock = std::chrono::steady_clock;

// An idle thread spins this long before it sleeps. To wake it costs the waking thread some microseconds, and it comes too late for a short
// job.
static constexpr auto kIdleSpin = std::chrono::microseconds(100);
/// After this time it lets threads with work run first, those of other programs, too.
static constexpr auto kBusySpin = std::chrono::microseconds(10);
/// Calls of waitBriefly, of less than a microsecond each, before the first that sleeps. The system adds some 50 microseconds to a sleep.
static constexpr int kSpinsBeforeSleep = 64;
static constexpr auto kSleep = std::chrono::microseconds(20);
static constexpr auto kPollInterval = std::chrono::milliseconds(2);

/// The number of a thread of the pool. Not thread_local: the C library allocates that memory lazily in each thread, and ends the process
/// when allocation fails.
static const std::optional<pthread_key_t> numberKey = [] {
  pthread_key_t key;
  return pthread_key_create(&key, nullptr) == 0 ? std::optional(key) : std::nullopt;
}();
int getThreadNumber() { return numberKey ? int(reinterpret_cast<intptr_t>(pthread_getspecific(*numberKey))) : 0; }
/// False when memory for the number cannot be allocated; a thread without a number cannot work.
static bool setThreadNumber(int number) {
  return numberKey && pthread_setspecific(*numberKey, reinterpret_cast<void *>(intptr_t(number))) == 0;
}

static void pauseBriefly() {
#if defined(__x86_64__)
  _mm_pause();
#else
  asm volatile("yield");
#endif
}

/// Threads hold the pool's mutex for some instructions. To sleep and be woken takes longer than a short job, so a thread sleeps only if it
/// has tried for some microseconds.
static void lockSoon(std::unique_lock<std::mutex> &lock) {
  for (int i = 0; i < 64; ++i, pauseBriefly())
    if (lock.try_lock()) return;
  lock.lock();
}

/// Moves this thread to another processor, if it may use one.
static void leaveProcessor(int processor) {
  cpu_set_t allowed;
  if (sched_getaffinity(0, sizeof allowed, &allowed) != 0) return;
  cpu_set_t others = allowed;
  CPU_CLR(processor, &others);
  if (sched_setaffinity(0, sizeof others, &others) == 0) sched_setaffinity(0, sizeof allowed, &allowed);
}

void waitBriefly(int calls) {
  if (calls <= kSpinsBeforeSleep)
    for (int i = 0; i < 8; ++i) pauseBriefly();
  else
    std::this_thread::sleep_for(kSleep);
}

static bool isStopped(const ChunkedWork &work) { return __atomic_load_n(work.stop, __ATOMIC_RELAXED) & QD_STOP; }

namespace {

struct Job {
  const ChunkedWork &work;
  int helpersWanted;
  std::atomic<int64_t> taken{0}, takenByHelpers{0};
  std::atomic<int> helpers{0}; ///< changed under the pool's mutex
  int64_t takenByCaller = 0;
  Job *nextJob = nullptr;

  bool isOpen() const { return helpersWanted > 0 && taken.load(std::memory_order_relaxed) < work.chunks; }
  /// Takes a chunk; false when there is none. The caller takes the first one that is left, a helper the last: of two threads, each has its
  /// chunks in its own cache when the same loop runs again.
  bool runOne(bool isCaller) {
    if (isStopped(work) || taken.fetch_add(1, std::memory_order_relaxed) >= work.chunks) return false;
    work.run(work.data, isCaller ? takenByCaller++ : work.chunks - 1 - takenByHelpers.fetch_add(1, std::memory_order_relaxed));
    return true;
  }
};

class ThreadPool {
public:
  void run(const ChunkedWork &work, int helpers);
  /// Whether a thread is awake and has no job, or is about to end one. A thread that has ended a job for the caller is still on its way.
  bool isHelperAwake() const { return awake.load(std::memory_order_relaxed) > 0 && openJobs.load(std::memory_order_relaxed) == 0; }
  std::atomic<int> threadCount{1};

private:
  using Lock = std::unique_lock<std::mutex>;
  void serve(int number);
  Job *findJob();
  Job *spinForJob(Lock &lock);
  void sleep(Lock &lock);
  void startThreads(int wanted);

  std::mutex mutex;
  std::condition_variable jobArrived, helperLeft;
  Job *jobs = nullptr;
  std::atomic<int> openJobs{0}, awake{0}; ///< jobs that run; started threads that do not sleep
  std::atomic<unsigned> arrivals{0};      ///< all jobs so far
  int sleeping = 0;
  int started = 0;
  int wakingProcessor = 0; ///< of the caller that has woken threads last
};

Job *ThreadPool::findJob() {
  for (Job *job = jobs; job; job = job->nextJob)
    if (job->isOpen()) return job;
  return nullptr;
}

/// Waits for a job for a while. One that has come too late for this thread does not end the wait: the next may follow at once.
Job *ThreadPool::spinForJob(Lock &lock) {
  Job *job = nullptr;
  const Clock::time_point politeFrom = Clock::now() + kBusySpin, end = politeFrom + (kIdleSpin - kBusySpin);
  for (; !job && Clock::now() < end; job = findJob()) {
    const unsigned seen = arrivals.load(std::memory_order_relaxed);
    lock.unlock();
    for (Clock::time_point now; arrivals.load(std::memory_order_relaxed) == seen && (now = Clock::now()) < end;) {
      for (int i = 0; i < 16 && arrivals.load(std::memory_order_relaxed) == seen; ++i) pauseBriefly();
      if (now > politeFrom) sched_yield();
    }
    lockSoon(lock);
  }
  return job;
}

void ThreadPool::sleep(Lock &lock) {
  ++sleeping;
  awake.fetch_sub(1, std::memory_order_relaxed);
  jobArrived.wait(lock);
  awake.fetch_add(1, std::memory_order_relaxed);
  --sleeping;
  const int waker = wakingProcessor;
  if (sched_getcpu() != waker) return;
  // If all processors are busy, the system wakes this thread on the caller's, where it would only delay the caller.
  lock.unlock();
  leaveProcessor(waker);
  lockSoon(lock);
}

void ThreadPool::serve(int number) {
  if (!setThreadNumber(number)) return; // no job waits for a thread that has not joined
  Lock lock(mutex);
  awake.fetch_add(1, std::memory_order_relaxed);
  for (;;) {
    Job *job = findJob();
    if (!job && !(job = spinForJob(lock))) {
      sleep(lock);
      continue; // if it has come too late for the job, it spins again
    }
    --job->helpersWanted;
    job->helpers.fetch_add(1, std::memory_order_relaxed);
    lock.unlock();
    while (job->runOne(/*isCaller=*/false)) {}
    lockSoon(lock);
    // Release: makes the results of the chunks visible to the caller. After this line the job may no longer exist.
    if (job->helpers.fetch_sub(1, std::memory_order_release) == 1) helperLeft.notify_all();
  }
}

void ThreadPool::startThreads(int wanted) {
  while (started < wanted) {
    // Detached and never joined: the threads hold nothing that the end of the process must wait for.
    std::thread(&ThreadPool::serve, this, started + 1).detach();
    ++started;
  }
}

void ThreadPool::run(const ChunkedWork &work, int helpers) {
  Job job{work, helpers};
  std::unique_lock lock(mutex, std::defer_lock);
  lockSoon(lock);
  try {
    startThreads(std::min(threadCount.load() - 1, helpers));
  } catch (const std::exception &) {
    // The system has no more threads, or no memory for one: the existing threads, at least the caller, do the work.
  }
  job.nextJob = jobs;
  jobs = &job;
  int sleepers = sleeping;
  if (sleepers > 0) wakingProcessor = sched_getcpu();
  lock.unlock();
  // Without the mutex: a thread that sees the job or wakes takes it at once.
  openJobs.fetch_add(1, std::memory_order_relaxed);
  arrivals.fetch_add(1, std::memory_order_relaxed);
  if (sleepers > helpers)
    for (int i = 0; i < helpers; ++i) jobArrived.notify_one();
  else if (sleepers > 0)
    jobArrived.notify_all();
  Clock::time_point polled = Clock::now();
  auto pollNow = [&] {
    if (work.poll && Clock::now() - polled > kPollInterval) {
      work.poll(work.data);
      polled = Clock::now();
    }
  };
  while (job.runOne(/*isCaller=*/true)) pollNow();

  lockSoon(lock);
  Job **link = &jobs;
  while (*link != &job) link = &(*link)->nextJob;
  *link = job.nextJob;
  openJobs.fetch_sub(1, std::memory_order_relaxed);
  lock.unlock();
  // From here on, no thread joins. The mutex is not needed to see that all have left; the last one still holds it then.
  auto isDone = [&] { return job.helpers.load(std::memory_order_acquire) == 0; };
  if (isDone()) return;
  for (Clock::time_point end = Clock::now() + kIdleSpin; !isDone() && Clock::now() < end;) pauseBriefly();
  if (isDone()) return;
  lock.lock();
  while (!isDone()) {
    helperLeft.wait_for(lock, kPollInterval);
    lock.unlock();
    pollNow();
    lock.lock();
  }
}

std::atomic<ThreadPool *> pool{nullptr};
std::atomic<int> wantedThreads{0};

/// The pool; null when memory for it cannot be allocated.
ThreadPool *findPool() noexcept {
  ThreadPool *current = pool.load(std::memory_order_acquire);
  if (current) return current;
  // Threads do not survive a fork. The child makes a new pool and does not touch the parent's, whose mutex may be locked.
  static std::atomic<bool> isRegistered{false};
  if (!isRegistered.load()) {
    if (pthread_atfork(nullptr, nullptr, [] { pool.store(nullptr); }) != 0) return nullptr;
    isRegistered = true;
  }
  auto *made = new (std::nothrow) ThreadPool;
  if (!made) return nullptr;
  made->threadCount = getThreadCount();
  if (!pool.compare_exchange_strong(current, made)) {
    delete made;
    return current;
  }
  return made;
}

} // namespace

int getThreadCount() {
  int wanted = wantedThreads.load(std::memory_order_relaxed);
  if (wanted > 0) return wanted;
  static const int processors = support::countProcessors();
  return processors;
}

void setThreadCount(int count) {
  wantedThreads.store(count, std::memory_order_relaxed);
  // Threads beyond the new number sleep; jobs request no more helpers than the number allows.
  if (ThreadPool *current = pool.load(std::memory_order_acquire)) current->threadCount = getThreadCount();
}

bool isHelperAwake() {
  ThreadPool *current = pool.load(std::memory_order_acquire);
  return current && getThreadCount() > 1 && current->isHelperAwake();
}

void runChunks(const ChunkedWork &work, int maxThreads) {
  int threads = getThreadCount();
  if (maxThreads > 0) threads = std::min(threads, maxThreads);
  int helpers = int(std::min<int64_t>(threads, work.chunks)) - 1;
  if (ThreadPool *found = helpers > 0 ? findPool() : nullptr) {
    found->run(work, helpers);
    return;
  }
  Clock::time_point polled = Clock::now();
  for (int64_t chunk = 0; chunk < work.chunks && !isStopped(work); ++chunk) {
    work.run(work.data, chunk);
    if (work.poll && Clock::now() - polled > kPollInterval) {
      work.poll(work.data);
      polled = Clock::now();
    }
  }
}

} // namespace qd::runtime
