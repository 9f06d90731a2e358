// bare_machine.c: runs one compiled kernel without an operating system's libraries, so that any processor emulator can run it.
// The kernel gets one array of 100 floats, 0 1 2 ..., which goes to standard output afterwards.
#include "runtime/kernel_abi.h"

void qd_kernel(QdKernelContext *context);

void *memset(void *target, int value, __SIZE_TYPE__ size) {
  for (__SIZE_TYPE__ i = 0; i < size; ++i)
    ((volatile char *)target)[i] = (char)value;
  return target;
}

void *memcpy(void *target, const void *source, __SIZE_TYPE__ size) {
  for (__SIZE_TYPE__ i = 0; i < size; ++i)
    ((volatile char *)target)[i] = ((const char *)source)[i];
  return target;
}

static void parallelFor(QdKernelContext *context, QdTaskFunction task, int64_t iterations, int64_t chunkSize, int32_t maxThreads) {
  (void)maxThreads;
  for (int64_t begin = 0, chunk = 0; begin < iterations; begin += chunkSize, ++chunk)
    task(context, begin, begin + chunkSize < iterations ? begin + chunkSize : iterations, chunk);
}

static char temporaries[1 << 20] __attribute__((aligned(64)));
static int64_t used;

static void *allocateTemporary(QdKernelContext *context, int64_t bytes) {
  (void)context;
  void *result = temporaries + used;
  used += (bytes + 63) / 64 * 64;
  return used <= (int64_t)sizeof temporaries ? result : 0;
}

static void callSystem(long number, long a, long b, long c) {
  register long x8 __asm__("x8") = number, x0 __asm__("x0") = a, x1 __asm__("x1") = b, x2 __asm__("x2") = c;
  __asm__ volatile("svc 0" : "+r"(x0) : "r"(x8), "r"(x1), "r"(x2) : "memory");
}

static float values[100];
static unsigned char scratch[4096] __attribute__((aligned(64)));

void _start(void) {
  static const QdRuntimeApi api = {parallelFor, 0, 0, allocateTemporary, 0, 0, 0, 0, 0, 0};
  for (int i = 0; i < 100; ++i)
    values[i] = (float)i;
  struct {
    void *data;
    int64_t extent;
  } argument = {values, 100};
  QdKernelContext context = {&api, (const unsigned char *)&argument, 0, scratch, 0, 0, 0, 0};
  qd_kernel(&context);
  callSystem(64, 1, (long)values, sizeof values);
  callSystem(93, 0, 0, 0);
}
