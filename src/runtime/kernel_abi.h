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

/* One of the threads of a block, which wait for each other. */
typedef struct QdThread {
  unsigned char *shared; /* memory of the block, 64-byte aligned; holds anything when the block begins */
  int64_t iteration;     /* flattened */
  int32_t index;         /* in the block */
} QdThread;

typedef void (*QdThreadFunction)(QdKernelContext *context, int64_t iteration, QdThread *thread);

enum { QD_SHUFFLE_AGAIN = 64 };

/* What `failed` of a context holds. */
enum { QD_STOP = 1, QD_LOOK = 2 };

typedef struct QdRuntimeApi {
  /* Runs task over [0, iterations) in chunks of chunk_size, on at most max_threads threads (0: all), and returns when all are done.
   * Stops handing out chunks once context->failed is QD_STOP. */
  void (*parallel_for)(QdKernelContext *context, QdTaskFunction task, int64_t iterations, int64_t chunk_size, int32_t max_threads);
  /* Records the first failed check. `values` are the operands of the site, each widened to 64 bits (floats as double). */
  void (*fail)(QdKernelContext *context, int32_t site, const uint64_t *values);
  /* Prints the text of a print site. */
  void (*print)(QdKernelContext *context, int32_t site, const uint64_t *values);
  /* Zeroed memory that lives until it is released or the kernel returns (partial sums, private copies). Null when there is none: the kernel
   * returns at once. */
  void *(*allocate_temporary)(QdKernelContext *context, int64_t bytes);
  /* An iteration of a loop writes the place at this address: fails as `fail` does when another iteration of the loop has claimed it. */
  void (*claim)(QdKernelContext *context, int32_t site, const uint64_t *values, uint64_t address, int32_t loop, uint64_t iteration);
  /* Releases all temporary memory: a round of repeated tasks is over. Lets other threads of the program run, and signals come through. */
  void (*finish_round)(QdKernelContext *context);
  /* Runs task for the iterations [begin, end) in blocks of block_size threads; begin is a multiple of that. `together`: all blocks at the
   * same time, as they wait for each other. */
  void (*run_blocks)(QdKernelContext *context, QdThreadFunction task, int64_t begin, int64_t end, int32_t block_size, int64_t shared_bytes,
                     int32_t together);
  /* Waits until all threads of the block (team 0), of the group of 32 neighbors (team 1), or of all blocks (team 2) are here. */
  void (*synchronize)(QdKernelContext *context, QdThread *thread, int32_t team);
  /* All threads of the group of 32 give a value; each gets that of thread `lane` of the group, its own where there is no such thread.
   * With QD_SHUFFLE_AGAIN more than `lane`, that which the thread gave to the shuffle before; nobody waits. */
  uint64_t (*shuffle)(QdKernelContext *context, QdThread *thread, uint64_t value, int32_t lane);
  /* All threads of the group of 32 give a number; a bit for each that gave another one than 0. */
  uint64_t (*ballot)(QdKernelContext *context, QdThread *thread, int32_t vote);
  /* The number of the calling thread in the pool; 0 is the one that launched. */
  int32_t (*thread_index)(QdKernelContext *context);
  /* How far down the stack of the calling thread may be used, with room left below for what the runtime does there. */
  uint64_t (*stack_limit)(QdKernelContext *context);
  /* Asked by long loops while context->failed is not 0: whether to return at once. On QD_LOOK the thread that launched lets signals come
   * through first. */
  int32_t (*must_stop)(QdKernelContext *context);
} QdRuntimeApi;

struct QdKernelContext {
  const QdRuntimeApi *api;
  const unsigned char *arguments; /* laid out as the artifact's inputs say */
  unsigned char *result;          /* returned values, each at the offset that the artifact says */
  unsigned char *scratch;         /* values that cross tasks; zeroed, artifact.scratchBytes long, 64-byte aligned */
  uint64_t random_seed;           /* the option random_seed */
  uint64_t launch_index;          /* counts launches since init; with the seed it keys the random numbers */
  volatile int32_t failed;        /* QD_STOP once a check failed; QD_LOOK when another thread wants must_stop to be called */
  int32_t single_threaded;        /* non-zero while one thread does all that is done: updates need not be atomic */
  void *runtime;                  /* the runtime's own; compiled code never touches it */
};

/* A tensor in the argument block, 8-byte aligned: its data, then one extent for each dynamic axis in order of the axes, then (layouts with
 * dynamic strides only) one byte stride for each axis. */
typedef struct QdTensorArgument {
  void *data;
  int64_t extents_and_strides[];
} QdTensorArgument;

typedef void (*QdKernelFunction)(QdKernelContext *context);

/*--- Devices that run grids of blocks of threads ---
 *
 * The artifact's tasks are launched one after the other in one stream, each with a QdGpuLaunch by value as its only parameter. Pointers are
 * addresses that the device can use. Blocks that a launch works in (scratch, state, result) belong to a stream: its launches never overlap.
 */

/* What kernels of a stream leave behind for each other; in device memory, zeroed when it is made. */
typedef struct QdGpuState {
  uint32_t failed; /* a check failed: tasks that come after checks do nothing. The host clears it when it reports the failure */
  uint32_t finished_blocks[15]; /* for each branch: counts blocks that have stored their partial results; the last one sets it back to 0 */
  uint32_t barriers[16];        /* for each branch: its highest bit changes whenever all blocks have come to a barrier of the grid */
} QdGpuState;

/* The first failed check; in memory that host and device see. The host clears `claimed` and `failed` when it has read it. */
typedef struct QdGpuFailure {
  uint32_t claimed; /* the thread that makes it 1 fills in the rest */
  uint32_t failed;  /* 1 when the rest is there */
  int32_t site;
  uint32_t reserved;
  uint64_t values[60]; /* operands of the site, each widened to 64 bits (floats as double); those beyond are left out */
} QdGpuFailure;

/* What was printed. A record is a word with the number of the site, then its operands. One that does not fit is left out. */
typedef struct QdGpuPrints {
  uint64_t used;     /* words that the records take or would take; the host sets it back to 0 */
  uint64_t capacity; /* words */
  uint64_t words[];
} QdGpuPrints;

typedef struct QdGpuLaunch {
  const unsigned char *arguments; /* device copy of the argument block, when it does not fit behind this struct */
  unsigned char *result;
  unsigned char *scratch; /* artifact.scratchBytes long, 256-byte aligned; holds anything when a launch begins */
  QdGpuState *state;
  QdGpuFailure *failure;
  QdGpuPrints *prints; /* null where the artifact does not print */
  uint64_t random_seed;
  uint64_t launch_index;
  /* The argument block follows, when it takes at most QD_GPU_INLINE_ARGUMENTS bytes. */
} QdGpuLaunch;

/* Parameters of a kernel take at most 4 KB. */
#define QD_GPU_INLINE_ARGUMENTS (4096 - sizeof(QdGpuLaunch))

#ifdef __cplusplus
}
#endif
