/* export_runtime.h: runs an exported kernel on the calling thread. Plain C: `kernel.export` writes it into headers, behind kernel_abi.h.
 *
 * A program that has threads passes a QdRuntimeApi of its own to qd_run instead of the one of qd_serial_api.
 */
#pragma once

#include <stdlib.h>
#include <string.h>

/* Results of a call: 0, QD_EXPORT_MEMORY, QD_EXPORT_BLOCKS, or 1 + the number of the site whose check failed. */
enum { QD_EXPORT_MEMORY = -1, QD_EXPORT_BLOCKS = -2 };

/* The state of a call: `runtime` of its context. */
typedef struct QdExportedCall {
  int status;
  void *temporaries; /* each begins with the address of the next one */
} QdExportedCall;

static inline void qd_stop(QdKernelContext *context, int status) {
  QdExportedCall *call = (QdExportedCall *)context->runtime;
  if (!call->status) call->status = status;
  context->failed = QD_STOP;
}

static inline void qd_release(QdKernelContext *context) {
  QdExportedCall *call = (QdExportedCall *)context->runtime;
  while (call->temporaries) {
    void *next = *(void **)call->temporaries;
    free(call->temporaries);
    call->temporaries = next;
  }
}

static inline void qd_serial_for(QdKernelContext *context, QdTaskFunction task, int64_t iterations, int64_t size, int32_t max_threads) {
  (void)max_threads;
  for (int64_t begin = 0, chunk = 0; begin < iterations && context->failed != QD_STOP; begin += size, ++chunk)
    task(context, begin, iterations - begin < size ? iterations : begin + size, chunk);
}
static inline void qd_serial_fail(QdKernelContext *context, int32_t site, const uint64_t *values) {
  (void)values;
  qd_stop(context, site + 1);
}
static inline void qd_serial_print(QdKernelContext *context, int32_t site, const uint64_t *values) {
  (void)context, (void)site, (void)values;
}
static inline void *qd_serial_allocate(QdKernelContext *context, int64_t bytes) {
  QdExportedCall *call = (QdExportedCall *)context->runtime;
  char *memory = bytes < INT64_MAX / 2 ? (char *)aligned_alloc(64, ((size_t)bytes + 127) / 64 * 64) : NULL;
  if (!memory) {
    qd_stop(context, QD_EXPORT_MEMORY);
    return NULL;
  }
  memset(memory, 0, (size_t)bytes + 64);
  *(void **)memory = call->temporaries;
  call->temporaries = memory;
  return memory + 64;
}
static inline void qd_serial_claim(QdKernelContext *context, int32_t site, const uint64_t *values, uint64_t address, int32_t loop,
                                   uint64_t iteration) {
  (void)context, (void)site, (void)values, (void)address, (void)loop, (void)iteration;
}
/* Threads of blocks wait for each other, so each needs a stack. */
static inline void qd_no_blocks(QdKernelContext *context, QdThreadFunction task, int64_t begin, int64_t end, int32_t size, int64_t bytes,
                                int32_t together) {
  (void)task, (void)begin, (void)end, (void)size, (void)bytes, (void)together;
  qd_stop(context, QD_EXPORT_BLOCKS);
}
static inline void qd_no_synchronize(QdKernelContext *context, QdThread *thread, int32_t team, uint64_t threads) {
  (void)context, (void)thread, (void)team, (void)threads;
}
static inline uint64_t qd_no_shuffle(QdKernelContext *context, QdThread *thread, uint64_t value, int32_t lane, uint64_t threads) {
  (void)context, (void)thread, (void)lane, (void)threads;
  return value;
}
static inline uint64_t qd_no_ballot(QdKernelContext *context, QdThread *thread, int32_t vote, uint64_t threads) {
  (void)context, (void)thread, (void)threads;
  return vote != 0;
}
static inline uint64_t qd_no_threads(QdKernelContext *context, QdThread *thread, int32_t place) {
  (void)context, (void)thread, (void)place;
  return 1;
}
static inline void qd_serial_round(QdKernelContext *context, int32_t is_in_section) {
  (void)is_in_section;
  qd_release(context);
}
static inline int32_t qd_serial_index(QdKernelContext *context) { return (void)context, 0; }
static inline uint64_t qd_serial_limit(QdKernelContext *context) { return (void)context, 0; }
static inline int32_t qd_serial_must_stop(QdKernelContext *context) { return context->failed == QD_STOP; }
static inline void qd_serial_finish(QdKernelContext *context, int32_t task) { (void)context, (void)task; }
static inline void qd_serial_wait(QdKernelContext *context, int32_t calls) { (void)context, (void)calls; }

static const QdRuntimeApi qd_serial_api = {qd_serial_for,   qd_serial_fail,      qd_serial_print,  qd_serial_allocate,
                                           qd_serial_claim, qd_serial_round,     qd_no_blocks,     qd_no_synchronize,
                                           qd_no_shuffle,   qd_no_ballot,        qd_no_threads,    qd_serial_index,
                                           qd_serial_limit, qd_serial_must_stop, qd_serial_finish, qd_serial_wait};

/* Calls a kernel. `runtime` of the context is a QdExportedCall. */
static inline int qd_run(QdKernelFunction entry, const QdRuntimeApi *api, const void *arguments, void *result, size_t scratch_bytes,
                         uint64_t random_seed, uint64_t launch_index) {
  QdExportedCall call = {0, NULL};
  QdKernelContext context;
  memset(&context, 0, sizeof context);
  context.api = api;
  context.arguments = (const unsigned char *)arguments;
  context.result = (unsigned char *)result;
  context.random_seed = random_seed;
  context.launch_index = launch_index;
  context.single_threaded = api == &qd_serial_api;
  context.runtime = &call;
  if (scratch_bytes) context.scratch = (unsigned char *)aligned_alloc(64, (scratch_bytes + 63) / 64 * 64);
  if (scratch_bytes && !context.scratch) return QD_EXPORT_MEMORY;
  if (scratch_bytes) memset(context.scratch, 0, scratch_bytes);
  entry(&context);
  qd_release(&context);
  free(context.scratch);
  return call.status;
}
