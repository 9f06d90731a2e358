// large_stack.cpp: threads with large stacks for the compiler
//
// In:   functions that recurse as deeply as the user's code is nested.
// Out:  their effects and the first exception; or false when the caller stopped waiting.
#include "support/large_stack.h"

#include <chrono>
#include <condition_variable>
#include <exception>
#include <memory>
#include <mutex>
#include <pthread.h>
#include <thread>
#include <vector>

namespace qd::support {

static constexpr size_t kStackBytes = size_t(512) << 20;
static constexpr auto kPollInterval = std::chrono::milliseconds(50);
/// Before the destructors of work that is done: its caller goes on, often on all cores.
static constexpr auto kPause = std::chrono::milliseconds(10);

namespace {
struct Job {
  const std::function<void(size_t)> *work;
  size_t index;
  pthread_t thread{};
  bool started = false;
  std::exception_ptr problem = nullptr;

  static void *run(void *argument) {
    auto *job = static_cast<Job *>(argument);
    try {
      (*job->work)(job->index);
    } catch (...) { job->problem = std::current_exception(); }
    return nullptr;
  }
};

/// Attributes of a thread with a large stack.
class Attributes {
public:
  Attributes() : made(pthread_attr_init(&value) == 0), large(made && pthread_attr_setstacksize(&value, kStackBytes) == 0) {}
  ~Attributes() {
    if (made) pthread_attr_destroy(&value);
  }
  /// Starts a thread; false when the system cannot.
  bool start(pthread_t &thread, void *(*run)(void *), void *argument) const {
    return large && pthread_create(&thread, &value, run, argument) == 0;
  }

private:
  pthread_attr_t value;
  bool made, large;
};

/// Shared by the working and the waiting thread; the last one to finish destroys it.
struct LeakOnCancelJob {
  std::function<void()> work;
  std::mutex mutex;
  std::condition_variable finished;
  bool isDone = false;

  static void *run(void *argument) {
    std::unique_ptr<std::shared_ptr<LeakOnCancelJob>> owner(static_cast<std::shared_ptr<LeakOnCancelJob> *>(argument));
    LeakOnCancelJob &job = **owner;
    job.work();
    std::function<void()> done = std::move(job.work); // destroyed last: nobody waits for that
    {
      std::lock_guard lock(job.mutex);
      job.isDone = true;
      job.finished.notify_one();
    }
    std::this_thread::sleep_for(kPause);
    return nullptr;
  }
};
} // namespace

void runOnLargeStacks(size_t count, const std::function<void(size_t)> &work) {
  Attributes attributes;
  std::vector<Job> jobs;
  for (size_t index = 0; index < count; ++index) jobs.push_back({&work, index});
  for (Job &job : jobs) job.started = attributes.start(job.thread, Job::run, &job);
  for (Job &job : jobs) job.started ? (void)pthread_join(job.thread, nullptr) : (void)Job::run(&job);
  for (Job &job : jobs)
    if (job.problem) std::rethrow_exception(job.problem);
}

bool runLeakingOnCancel(std::function<void()> work, const std::function<bool()> &keepWaiting) {
  auto job = std::make_shared<LeakOnCancelJob>();
  job->work = std::move(work);
  auto shared = std::make_unique<std::shared_ptr<LeakOnCancelJob>>(job);
  pthread_t thread;
  if (!Attributes().start(thread, LeakOnCancelJob::run, shared.get())) {
    job->work();
    return true;
  }
  (void)shared.release();                   // the thread owns it now
  pthread_setname_np(thread, "qd-compile"); // the name in gdb, perf and top
  pthread_detach(thread);
  std::unique_lock lock(job->mutex);
  while (!job->finished.wait_for(lock, kPollInterval, [&] { return job->isDone; })) {
    lock.unlock();
    if (!keepWaiting()) return false;
    lock.lock();
  }
  return true;
}

} // namespace qd::support
