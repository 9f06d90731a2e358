// functions.c: what the modules call and glibc 2.28 lacks
//
// In:   compiled with the headers of a newer glibc, linked against the stubs of `write_stubs.py`.
// Out:  these functions, under their own names, for the module only: its version script hides them.
// Here: the prebuilt libraries of LLVM and of the C++ standard library call them, so no flag or header can avoid it. Where behavior or
// speed
//       would suffer, the function of a newer glibc is called if there is one.
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <link.h>
#include <malloc.h>
#include <pthread.h>
#include <stdint.h>
#include <string.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

typedef int FindObject(void *, struct dl_find_object *);
typedef int WaitUntil(pthread_cond_t *, pthread_mutex_t *, clockid_t, const struct timespec *);
typedef struct mallinfo2 GetUsage(void);

static FindObject *newerFindObject;
static WaitUntil *newerWaitUntil;
static GetUsage *newerGetUsage;

// Before the constructors of C++ objects, which may throw or wait.
__attribute__((constructor(101))) static void findNewerFunctions(void) {
  newerFindObject = (FindObject *)dlsym(RTLD_DEFAULT, "_dl_find_object");
  newerWaitUntil = (WaitUntil *)dlsym(RTLD_DEFAULT, "pthread_cond_clockwait");
  newerGetUsage = (GetUsage *)dlsym(RTLD_DEFAULT, "mallinfo2");
}

// glibc sets its variable while a process has one thread. The runtime starts threads at once, so nothing is lost by always counting
// references atomically.
char __libc_single_threaded = 0;

// 2.30
pid_t gettid(void) { return (pid_t)syscall(SYS_gettid); }

// 2.33: before, <sys/stat.h> had inline functions in their place. `struct stat` is the kernel's on 64-bit processors.
static int getStatus(int folder, const char *path, struct stat *result, int flags) {
  return (int)syscall(SYS_newfstatat, folder, path, result, flags);
}
int stat(const char *restrict path, struct stat *restrict result) { return getStatus(AT_FDCWD, path, result, 0); }
int lstat(const char *restrict path, struct stat *restrict result) { return getStatus(AT_FDCWD, path, result, AT_SYMLINK_NOFOLLOW); }
int fstatat(int folder, const char *restrict path, struct stat *restrict result, int flags) {
  return getStatus(folder, path, result, flags);
}
int fstat(int file, struct stat *result) { return (int)syscall(SYS_fstat, file, result); }
int stat64(const char *restrict path, struct stat64 *restrict result) { return stat(path, (struct stat *)result); }
int fstat64(int file, struct stat64 *result) { return fstat(file, (struct stat *)result); }
int fstatat64(int folder, const char *restrict path, struct stat64 *restrict result, int flags) {
  return getStatus(folder, path, (struct stat *)result, flags);
}

// 2.30: waits of the C++ standard library for the steady clock. Without it a wait lasts longer if the system's clock is set back meanwhile.
int pthread_cond_clockwait(pthread_cond_t *restrict condition, pthread_mutex_t *restrict mutex, clockid_t clock,
                           const struct timespec *restrict end) {
  if (newerWaitUntil) return newerWaitUntil(condition, mutex, clock, end);
  struct timespec now, real;
  clock_gettime(clock, &now);
  clock_gettime(CLOCK_REALTIME, &real);
  const int64_t second = 1000000000;
  int64_t nanoseconds = (int64_t)real.tv_nsec + end->tv_nsec - now.tv_nsec;
  struct timespec until = {real.tv_sec + end->tv_sec - now.tv_sec, 0};
  for (; nanoseconds < 0; nanoseconds += second) --until.tv_sec;
  until.tv_sec += nanoseconds / second;
  until.tv_nsec = nanoseconds % second;
  return pthread_cond_timedwait(condition, mutex, &until);
}

// 2.33: LLVM asks for it in its statistics only.
struct mallinfo2 mallinfo2(void) {
  struct mallinfo2 none;
  memset(&none, 0, sizeof none);
  return newerGetUsage ? newerGetUsage() : none;
}

// 2.36: seeds of names for temporary files.
uint32_t arc4random(void) {
  uint32_t number = 0;
  while (getrandom(&number, sizeof number, 0) != sizeof number && errno == EINTR) continue;
  return number;
}

// 2.35: the unwinder of exceptions asks which object contains an address. Older ones walked through the list of objects themselves.
struct Search {
  uintptr_t address;
  struct dl_find_object *result;
};

static int isObjectWithAddress(struct dl_phdr_info *object, size_t size, void *data) {
  (void)size;
  struct Search *search = data;
  uintptr_t start = UINTPTR_MAX, end = 0;
  const void *frames = NULL;
  int isInside = 0;
  for (int i = 0; i < object->dlpi_phnum; ++i) {
    const ElfW(Phdr) *header = &object->dlpi_phdr[i];
    uintptr_t first = object->dlpi_addr + header->p_vaddr, last = first + header->p_memsz;
    if (header->p_type == PT_LOAD) {
      isInside |= search->address >= first && search->address < last;
      start = first < start ? first : start;
      end = last > end ? last : end;
    } else if (header->p_type == PT_GNU_EH_FRAME) {
      frames = (const void *)first;
    }
  }
  if (!isInside || !frames) return isInside;
  memset(search->result, 0, sizeof *search->result);
  search->result->dlfo_map_start = (void *)start;
  search->result->dlfo_map_end = (void *)end;
  search->result->dlfo_eh_frame = (void *)frames;
  return isInside;
}

int _dl_find_object(void *address, struct dl_find_object *result) {
  if (newerFindObject) return newerFindObject(address, result);
  struct Search search = {(uintptr_t)address, result};
  result->dlfo_eh_frame = NULL;
  dl_iterate_phdr(isObjectWithAddress, &search);
  return result->dlfo_eh_frame ? 0 : -1;
}
