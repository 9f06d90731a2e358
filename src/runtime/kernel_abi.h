/* kernel_abi.h: what compiled code and the runtime agree on. Plain C, so that exported kernels can include it.
 *
 * A CPU artifact is a shared library with one entry, `qd_kernel`. It has no undefined symbols beyond libc's memcpy and memset: everything
 * else it needs is reached through `context->api`.
 */
#pragma once

#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef struct QdKernelContext QdKernelContext;

/* One chunk of a parallel task: iterations [begin, end) of the flattened loop; `chunk` counts from 0. */
typedef void (*QdTaskFunction)(QdKernelContext *context, int64_t begin, int64_t end, int64_t chunk);

typedef struct QdRuntimeApi {
  /* Runs task over [0, iterations) in chunks of chunk_size, on at most max_threads threads (0: all), and returns when all are done.
   * Stops handing out chunks once context->failed is set. */
  void (*parallel_for)(QdKernelContext *context, QdTaskFunction task, int64_t iterations, int64_t chunk_size, int32_t max_threads);
  /* Records the first failed check. `values` are the operands of the site, each widened to 64 bits (floats as double). */
  void (*fail)(QdKernelContext *context, int32_t site, const uint64_t *values);
  /* Prints the text of a print site. */
  void (*print)(QdKernelContext *context, int32_t site, const uint64_t *values);
  /* Zeroed memory that lives until the kernel returns (partial sums, private copies). Null when there is none: the kernel returns at once.
   */
  void *(*allocate_temporary)(QdKernelContext *context, int64_t bytes);
} QdRuntimeApi;

struct QdKernelContext {
  const QdRuntimeApi *api;
  const unsigned char *arguments; /* laid out as the artifact's inputs say */
  unsigned char *result;          /* returned values, each at the offset that the artifact says */
  unsigned char *scratch;         /* values that cross tasks; zeroed, artifact.scratchBytes long, 64-byte aligned */
  uint64_t random_seed;           /* the option random_seed */
  uint64_t launch_index;          /* counts launches since init; with the seed it keys the random numbers */
  volatile int32_t failed;        /* non-zero once a check failed; long loops look at it */
  void *runtime;                  /* the runtime's own; compiled code never touches it */
};

/* A tensor in the argument block, 8-byte aligned: its data, then one extent for each dynamic axis in order of the axes, then (layouts with
 * dynamic strides only) one byte stride for each axis. */
typedef struct QdTensorArgument {
  void *data;
  int64_t extents_and_strides[];
} QdTensorArgument;

typedef void (*QdKernelFunction)(QdKernelContext *context);

#ifdef __cplusplus
}
#endif
