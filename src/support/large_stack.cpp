#include "support/large_stack.h"

#include <pthread.h>
#include <vector>

namespace qd::support {

static constexpr size_t kStackBytes = size_t(512) << 20;

void runOnLargeStacks(size_t count, const std::function<void(size_t)> &work) {
  struct Job {
    const std::function<void(size_t)> *work;
    size_t index;
    pthread_t thread;
    bool started;
  };
  auto start = [](void *argument) -> void * {
    auto *job = static_cast<Job *>(argument);
    (*job->work)(job->index);
    return nullptr;
  };
  pthread_attr_t attributes;
  bool made = pthread_attr_init(&attributes) == 0;
  bool large = made && pthread_attr_setstacksize(&attributes, kStackBytes) == 0;
  std::vector<Job> jobs(count);
  for (size_t index = 0; index < count; ++index) {
    Job &job = jobs[index];
    job = {&work, index, {}, false};
    job.started = large && pthread_create(&job.thread, &attributes, start, &job) == 0;
  }
  if (made) pthread_attr_destroy(&attributes);
  for (Job &job : jobs) {
    if (job.started)
      pthread_join(job.thread, nullptr);
    else
      work(job.index);
  }
}

} // namespace qd::support
