// Takes the place of the C library's allocation (LD_PRELOAD): counts from `begin_failing` on, and fails once, or from then on.
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <execinfo.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>

extern void *__libc_malloc(size_t);
extern void *__libc_calloc(size_t, size_t);
extern void *__libc_realloc(void *, size_t);
extern void *__libc_memalign(size_t, size_t);

static atomic_long count, first;
static atomic_int is_counting, fails_all, shows_stack;

static int fails(void) {
  if (!is_counting) return 0;
  long number = ++count;
  if (number != first && !(fails_all && first && number > first)) return 0;
  if (shows_stack && number == first) {
    is_counting = 0;
    void *frames[60];
    backtrace_symbols_fd(frames, backtrace(frames, 60), STDERR_FILENO);
    is_counting = 1;
  }
  errno = ENOMEM;
  return 1;
}

void begin_failing(long number, int all, int stack) {
  first = number;
  fails_all = all;
  shows_stack = stack;
  count = 0;
  is_counting = 1;
}

long end_failing(void) {
  is_counting = 0;
  return count;
}

void *malloc(size_t size) { return fails() ? NULL : __libc_malloc(size); }
void *calloc(size_t items, size_t size) { return fails() ? NULL : __libc_calloc(items, size); }
void *realloc(void *block, size_t size) { return fails() ? NULL : __libc_realloc(block, size); }
void *memalign(size_t alignment, size_t size) { return fails() ? NULL : __libc_memalign(alignment, size); }
void *aligned_alloc(size_t alignment, size_t size) { return fails() ? NULL : __libc_memalign(alignment, size); }

int posix_memalign(void **block, size_t alignment, size_t size) {
  if (fails()) return ENOMEM;
  *block = __libc_memalign(alignment, size);
  return *block ? 0 : ENOMEM;
}

void *mmap(void *address, size_t size, int protection, int flags, int file, off_t offset) {
  static void *(*own)(void *, size_t, int, int, int, off_t);
  if (!own) own = (void *(*)(void *, size_t, int, int, int, off_t))dlsym(RTLD_NEXT, "mmap");
  return fails() ? MAP_FAILED : own(address, size, protection, flags, file, offset);
}
