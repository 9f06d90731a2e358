/* emulated_grid.c: a grid of threads, one thread after the other, on the processor.
 *
 * Blocks run in turn. A thread that waits for others (a barrier, a shuffle) hands over to the next one; when all threads of the block wait,
 * they go on, in order. What is in shared memory is a variable, since there is one block at a time. */
#include <math.h>
#include <stdint.h>
#include <stdlib.h>
#include <ucontext.h>

enum { kMostThreads = 1024, kWarp = 32, kStack = 1 << 16 };

typedef void Entry(const void *launch);

static unsigned thread, block, blocks, block_size;
static Entry *entry;
static const void *launch;
static struct {
  ucontext_t context;
  char *stack;
  int isDone;
} threads[kMostThreads];
static ucontext_t scheduler;

unsigned emulated_thread(void) { return thread; }
unsigned emulated_block(void) { return block; }
unsigned emulated_block_count(void) { return blocks; }
unsigned emulated_block_size(void) { return block_size; }
void emulated_fence(void) {}

static void wait_for_all(void) {
  unsigned me = thread;
  swapcontext(&threads[me].context, &scheduler);
  thread = me;
}

void emulated_barrier(unsigned barrier) { (void)barrier, wait_for_all(); }

void emulated_warp_barrier(unsigned mask) { (void)mask, wait_for_all(); }

unsigned emulated_shuffle(unsigned mask, unsigned value, unsigned lane, unsigned clamp) {
  if (mask == 1) return value; /* alone: see emulated_active */
  static unsigned exchanged[kMostThreads];
  (void)mask, (void)clamp;
  exchanged[thread] = value;
  wait_for_all();
  value = exchanged[thread / kWarp * kWarp + lane % kWarp];
  wait_for_all();
  return value;
}

unsigned emulated_ballot(unsigned mask, unsigned char vote) {
  unsigned votes = 0;
  for (unsigned lane = 0; lane < kWarp; ++lane)
    votes |= (emulated_shuffle(mask, vote & 1, lane, 0)) << lane;
  return votes;
}

unsigned emulated_shuffle_down(unsigned mask, unsigned value, unsigned distance, unsigned clamp) {
  static unsigned exchanged[kMostThreads];
  (void)mask, (void)clamp;
  exchanged[thread] = value;
  wait_for_all();
  if (thread % kWarp + distance < kWarp) value = exchanged[thread + distance];
  wait_for_all();
  return value;
}

/* Who asks which threads are here finds itself alone. */
unsigned emulated_active(void) { return 1; }
unsigned emulated_lanes_before(void) { return 0; }
static void add_many(float *to, const float *values, int count) {
  for (int i = 0; i < count; ++i) to[i] += values[i];
}
void emulated_add_pair(float *to, float a, float b) { add_many(to, (float[]){a, b}, 2); }
void emulated_add_four(float *to, float a, float b, float c, float d) { add_many(to, (float[]){a, b, c, d}, 4); }
float emulated_divide(float a, float b) { return a / b; }
float emulated_reciprocal(float a) { return 1 / a; }
float emulated_reciprocal_root(float a) { return 1 / sqrtf(a); }

static void run_thread(void) {
  entry(launch);
  threads[thread].isDone = 1;
  swapcontext(&threads[thread].context, &scheduler);
}

static void run_block(unsigned count) {
  for (unsigned i = 0; i < count; ++i) {
    getcontext(&threads[i].context);
    if (!threads[i].stack) threads[i].stack = malloc(kStack);
    threads[i].context.uc_stack.ss_sp = threads[i].stack;
    threads[i].context.uc_stack.ss_size = kStack;
    threads[i].isDone = 0;
    makecontext(&threads[i].context, run_thread, 0);
  }
  for (unsigned left = count; left > 0;)
    for (thread = 0; thread < count; ++thread) {
      unsigned me = thread;
      if (threads[me].isDone) continue;
      swapcontext(&scheduler, &threads[me].context);
      thread = me;
      left -= (unsigned)threads[me].isDone;
    }
}

/* `waits`: whether threads wait for each other. Without that none needs a stack of its own. */
void emulate(Entry *task, int waits, const void *block_of_launch, unsigned block_count, unsigned thread_count) {
  entry = task, launch = block_of_launch, blocks = block_count, block_size = thread_count;
  for (block = 0; block < block_count; ++block) {
    if (waits) {
      run_block(thread_count);
    } else {
      for (thread = 0; thread < thread_count; ++thread) task(block_of_launch);
    }
  }
}
