#include "support/large_stack.h"

#include <pthread.h>

namespace qd::support {

static constexpr size_t kStackBytes = size_t(512) << 20;

void runOnLargeStack(const std::function<void()> &work) {
  auto start = [](void *argument) -> void * {
    (*static_cast<const std::function<void()> *>(argument))();
    return nullptr;
  };
  pthread_attr_t attributes;
  pthread_t thread;
  bool made = pthread_attr_init(&attributes) == 0;
  bool started = made && pthread_attr_setstacksize(&attributes, kStackBytes) == 0 &&
                 pthread_create(&thread, &attributes, start, const_cast<std::function<void()> *>(&work)) == 0;
  if (made)
    pthread_attr_destroy(&attributes);
  if (started)
    pthread_join(thread, nullptr);
  else
    work();
}

} // namespace qd::support
