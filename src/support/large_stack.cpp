#include "support/large_stack.h"

#include <exception>
#include <pthread.h>
#include <vector>

namespace qd::support {

static constexpr size_t kStackBytes = size_t(512) << 20;

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
} // namespace

void runOnLargeStacks(size_t count, const std::function<void(size_t)> &work) {
  pthread_attr_t attributes;
  bool made = pthread_attr_init(&attributes) == 0;
  bool large = made && pthread_attr_setstacksize(&attributes, kStackBytes) == 0;
  std::vector<Job> jobs;
  for (size_t index = 0; index < count; ++index) jobs.push_back({&work, index});
  for (Job &job : jobs) job.started = large && pthread_create(&job.thread, &attributes, Job::run, &job) == 0;
  if (made) pthread_attr_destroy(&attributes);
  for (Job &job : jobs) job.started ? (void)pthread_join(job.thread, nullptr) : (void)Job::run(&job);
  for (Job &job : jobs)
    if (job.problem) std::rethrow_exception(job.problem);
}

} // namespace qd::support
