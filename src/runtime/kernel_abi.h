/* kernel_abi.h: the interface between compiled code and the runtime. Plain C, so that exported kernels can include it.
 *
 * A CPU artifact is a shared library with one entry, `qd_kernel`. Its only undefined symbols are libc's memcpy and memset: it calls
 * everything else through `context->api`.
 */
#pragma once

#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef struct QdKernelContext QdKernelContext;

/* One chunk of a parallel task: iterations [begin, end) of the flattened loop; `chunk` counts from 0. */
typedef void (*QdTaskFunction)(QdKernelContext *context, int64_t begin, int64_t end, int64_t chunk);

/* A thread of a block; these threads wait for each other. */
typedef struct QdThread {
  unsigned char *shared; /* memory of the block, 64-byte aligned; uninitialized when the block begins */
  int64_t iteration;     /* flattened */
  int32_t index;         /* in the block */
} QdThread;

typedef void (*QdThreadFunction)(QdKernelContext *context, int64_t iteration, QdThread *thread);

/* Most threads of a subgroup on the processor, and a number beyond those of their lanes. */
enum { QD_SUBGROUP_SIZE = 32, QD_SHUFFLE_AGAIN = 2 * QD_SUBGROUP_SIZE };

/* Values of `failed` of a context. */
enum { QD_STOP = 1, QD_LOOK = 2 };

typedef struct QdRuntimeApi {
  /* Runs task over [0, iterations) in chunks of chunk_size, on at most max_threads threads (0: all), and returns when all chunks are done.
   * Starts no further chunks once context->failed is QD_STOP. Between chunks and at the end, it handles signals. */
  void (*parallel_for)(QdKernelContext *context, QdTaskFunction task, int64_t iterations, int64_t chunk_size, int32_t max_threads);
  /* Records the first failed check. `values` are the operands of the site, each widened to 64 bits (floats as double). */
  void (*fail)(QdKernelContext *context, int32_t site, const uint64_t *values);
  /* Prints the text of a print site. */
  void (*print)(QdKernelContext *context, int32_t site, const uint64_t *values);
  /* Zeroed memory that lives until it is released or the kernel returns (partial sums, private copies). Null when allocation fails; the
   * kernel then returns at once. */
  void *(*allocate_temporary)(QdKernelContext *context, int64_t bytes);
  /* Called when an iteration of a loop writes to this address: fails as `fail` does when another iteration of the loop has claimed the
   * address. */
  void (*claim)(QdKernelContext *context, int32_t site, const uint64_t *values, uint64_t address, int32_t loop, uint64_t iteration);
  /* Ends a round of repeated tasks: releases all temporary memory and claims, lets other threads of the program run, and handles signals.
   * In a section, the claims of the sections remain. */
  void (*finish_round)(QdKernelContext *context, int32_t is_in_section);
  /* Runs task for the iterations [begin, end) in blocks of block_size threads; begin is a multiple of block_size. `together`: all blocks
   * run at the same time, because they wait for each other. */
  void (*run_blocks)(QdKernelContext *context, QdThreadFunction task, int64_t begin, int64_t end, int32_t block_size, int64_t shared_bytes,
                     int32_t together);
  /* Waits until all threads of the block (team 0), of the subgroup (team 1), or of all blocks (team 2) have arrived. `threads`, here and
   * below: a bit for each thread of the subgroup that takes part. */
  void (*synchronize)(QdKernelContext *context, QdThread *thread, int32_t team, uint64_t threads);
  /* Every thread passes a value and gets the value of thread `lane` of the subgroup, or its own when there is no such thread. With
   * QD_SHUFFLE_AGAIN added to `lane`, reads the values of the previous shuffle again, without waiting. */
  uint64_t (*shuffle)(QdKernelContext *context, QdThread *thread, uint64_t value, int32_t lane, uint64_t threads);
  /* Every thread passes a number; bit i of the result is set when thread i passed a nonzero one. */
  uint64_t (*ballot)(QdKernelContext *context, QdThread *thread, int32_t vote, uint64_t threads);
  /* The threads of the subgroup that are at this place of the code, one bit each: waits until no other can come. */
  uint64_t (*active_threads)(QdKernelContext *context, QdThread *thread, int32_t place);
  /* Number of the calling thread in the pool; 0 is the launching thread. */
  int32_t (*thread_index)(QdKernelContext *context);
  /* Lowest stack address that the calling thread may use; the runtime reserves the space below it. */
  uint64_t (*stack_limit)(QdKernelContext *context);
  /* Called by long loops while context->failed is nonzero: whether to return at once. On QD_LOOK the launching thread handles signals
   * first. */
  int32_t (*must_stop)(QdKernelContext *context);
  /* Called after each task by kernels that are timed; tasks count from 0. */
  void (*finish_task)(QdKernelContext *context, int32_t task);
  /* Called now and then by a loop that waits for another thread; calls count from 1. Gives the processor away after some. */
  void (*wait_briefly)(QdKernelContext *context, int32_t calls);
} QdRuntimeApi;

struct QdKernelContext {
  const QdRuntimeApi *api;
  const unsigned char *arguments; /* laid out as the artifact's inputs define */
  unsigned char *result;          /* returned values, each at the offset that the artifact defines */
  unsigned char *scratch;         /* values that cross tasks; zeroed, artifact.scratchBytes long, 64-byte aligned */
  uint64_t random_seed;           /* the option random_seed */
  uint64_t launch_index;          /* keys the random numbers together with the seed */
  volatile int32_t failed;        /* QD_STOP once a check failed; QD_LOOK when another thread requests a call of must_stop */
  int32_t single_threaded;        /* nonzero when one thread does all the work: updates need not be atomic */
  void *runtime;                  /* private to the runtime; compiled code never accesses it */
};

/* A tensor in the argument block, 8-byte aligned: its data, then one extent for each dynamic axis in axis order, then (layouts with dynamic
 * strides only) one byte stride for each axis. */
typedef struct QdTensorArgument {
  void *data;
  int64_t extents_and_strides[];
} QdTensorArgument;

typedef void (*QdKernelFunction)(QdKernelContext *context);

/*--- Devices that run grids of blocks of threads ---
 *
 * The artifact's tasks are launched one after the other in one stream, each with a QdGpuLaunch by value as its only parameter. Pointers are
 * device addresses. The blocks that a launch uses (scratch, state, result) belong to a stream: launches of one stream never overlap.
 */

/* State shared by the kernels of a stream; in device memory, zeroed at creation. */
typedef struct QdGpuState {
  uint32_t failed; /* a check failed: tasks after checks do nothing. The host clears it when it reports the failure */
  uint32_t
      finished_blocks[15]; /* for each branch: number of blocks that have stored their partial results; the last block resets it to 0 */
  uint32_t barriers[16];   /* for each branch: the highest bit flips when all blocks have arrived at a grid barrier */
} QdGpuState;

/* The first failed check; in memory that host and device access. The host clears `claimed` and `failed` after reading it. */
typedef struct QdGpuFailure {
  uint32_t claimed; /* the thread that sets it to 1 fills in the rest */
  uint32_t failed;  /* 1 when the rest is filled in */
  int32_t site;
  uint32_t reserved;
  uint64_t values[60]; /* operands of the site, each widened to 64 bits (floats as double); further ones are omitted */
} QdGpuFailure;

/* Printed records. A record is a word with the number of the site, followed by its operands. Records that do not fit are dropped. */
typedef struct QdGpuPrints {
  uint32_t used;     /* words of all records, and of the first ones that are dropped; the host resets it to 0 */
  uint32_t capacity; /* words */
  uint64_t words[];
} QdGpuPrints;

typedef struct QdGpuLaunch {
  const unsigned char *arguments; /* device copy of the argument block, used when it does not fit behind this struct */
  unsigned char *result;
  unsigned char *scratch; /* artifact.scratchBytes long, 256-byte aligned; uninitialized when a launch begins */
  QdGpuState *state;
  QdGpuFailure *failure;
  QdGpuPrints *prints; /* null when the artifact does not print */
  uint64_t random_seed;
  uint64_t launch_index;
  /* The argument block follows if both fit into the parameters of an entry on the device. */
} QdGpuLaunch;

#ifdef __cplusplus
}
#endif
