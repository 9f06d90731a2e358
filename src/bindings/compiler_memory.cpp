// compiler_memory.cpp: memory allocation in the compiler's module (`--wrap`, CMakeLists.txt)
//
// In:   allocations by our code, LLVM, MLIR, lld and the C++ library, which are all linked into the module.
// Out:  memory of the system or, when the system refuses it, of the emergency pool, so that every stage can finish.
#include "support/emergency_pool.h"

#include <cstddef>
#include <cstdlib>
#include <cstring>
#include <malloc.h>
#include <pthread.h>
#include <utility>

namespace pool = qd::support::emergency_pool;

namespace {
/// The destructor of a thread-local variable, called when its thread ends.
struct Destructor {
  void (*run)(void *);
  void *object;
  Destructor *next;
};

extern "C" void runDestructors(void *list);

/// The thread-specific list of destructors.
class DestructorKey {
public:
  DestructorKey() : isMade(pthread_key_create(&key, runDestructors) == 0) {}
  void add(Destructor *destructor) {
    destructor->next = static_cast<Destructor *>(pthread_getspecific(key));
    if (!isMade || pthread_setspecific(key, destructor) != 0) free(destructor); // the variable leaks its memory
  }

private:
  pthread_key_t key = 0;
  bool isMade;
} destructors;

void runDestructors(void *list) {
  for (auto *destructor = static_cast<Destructor *>(list); destructor;) {
    destructor->run(destructor->object);
    free(std::exchange(destructor, destructor->next));
  }
}
} // namespace

extern "C" {

/// The C library's implementation ends the process when it cannot allocate memory for an entry. This one drops the destructor instead. In
/// the thread that ends the process, all are dropped, like the destructors of globals.
int __wrap___cxa_thread_atexit(void (*run)(void *), void *object, void *) {
  if (auto *destructor = static_cast<Destructor *>(malloc(sizeof(Destructor)))) {
    *destructor = {run, object, nullptr};
    destructors.add(destructor);
  }
  return 0;
}

void *__real_malloc(size_t bytes);
void *__real_calloc(size_t count, size_t bytes);
void *__real_realloc(void *block, size_t bytes);
void __real_free(void *block);
void *__real_aligned_alloc(size_t alignment, size_t bytes);

void *__wrap_malloc(size_t bytes) {
  void *block = __real_malloc(bytes);
  return block ? block : pool::allocate(bytes, alignof(std::max_align_t));
}

void __wrap_free(void *block) { pool::owns(block) ? pool::release(block) : __real_free(block); }

void *__wrap_calloc(size_t count, size_t bytes) {
  if (void *block = __real_calloc(count, bytes)) return block;
  size_t total;
  if (__builtin_mul_overflow(count, bytes, &total)) return nullptr;
  void *block = pool::allocate(total, alignof(std::max_align_t));
  return block ? memset(block, 0, total) : nullptr;
}

void *__wrap_realloc(void *block, size_t bytes) {
  bool isOurs = pool::owns(block);
  if (!isOurs)
    if (void *grown = __real_realloc(block, bytes); grown || !bytes) return grown;
  size_t before = isOurs ? pool::getSize(block) : block ? malloc_usable_size(block) : 0;
  void *moved = __wrap_malloc(bytes);
  if (!moved) return nullptr;
  if (block) memcpy(moved, block, before < bytes ? before : bytes);
  __wrap_free(block);
  return moved;
}

/// The C library's own version would call its `malloc` without this file.
char *__wrap_strdup(const char *text) {
  size_t bytes = strlen(text) + 1;
  void *copy = __wrap_malloc(bytes);
  return copy ? static_cast<char *>(memcpy(copy, text, bytes)) : nullptr;
}

void *__wrap_aligned_alloc(size_t alignment, size_t bytes) {
  void *block = __real_aligned_alloc(alignment, bytes);
  return block ? block : pool::allocate(bytes, alignment);
}

} // extern "C"
