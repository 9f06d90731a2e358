/* emulated_grid.c: a grid of threads, one thread after the other, on the processor.
 *
 * Blocks run in turn. A thread that waits for others (a barrier, a shuffle) hands over to the next one until all of them have arrived. What is in shared memory is a variable, since there is one block at a time: blocks that wait for each other run
 * together and have none. */
#include <math.h>
#include <stdint.h>
#include <stdlib.h>
#include <ucontext.h>

/* Threads of a subgroup, and a mask of them. */
#ifndef SUBGROUP
#define SUBGROUP 32
#endif
#if SUBGROUP > 32
typedef uint64_t Mask;
#else
typedef uint32_t Mask;
#endif

enum { kMostThreads = 4096, kStack = 1 << 16 };

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
void emulated_copy_4(void *to, const void *from) { __builtin_memcpy(to, from, 4); }
void emulated_copy_8(void *to, const void *from) { __builtin_memcpy(to, from, 8); }
void emulated_copy_16(void *to, const void *from) { __builtin_memcpy(to, from, 16); }

static unsigned first_block; /* of those that run */

/* Of the thread among those that run. */
static unsigned number(void) { return (block - first_block) * block_size + thread; }

static void wait_for_all(void) {
  unsigned own_block = block, own_thread = thread;
  swapcontext(&threads[number()].context, &scheduler);
  block = own_block, thread = own_thread;
}

void emulated_grid_barrier(void *arrivals, void *failed, unsigned count) {
  static unsigned arrived, round;
  (void)arrivals, (void)failed, (void)count;
  unsigned own_round = round;
  if (++arrived == blocks * block_size) arrived = 0, ++round;
  while (round == own_round) wait_for_all();
}

/* Threads that wait for each other: those of a block, or of a subgroup, that have not ended. */
typedef struct {
  unsigned live, arrived, round;
} Team;
static Team block_teams[kMostThreads], subgroup_teams[kMostThreads];

static void release(Team *team) {
  if (team->arrived == team->live) team->arrived = 0, ++team->round;
}

static void arrive(Team *team) {
  unsigned own_round = team->round;
  ++team->arrived;
  release(team);
  while (team->round == own_round) wait_for_all();
}

static Team *own_subgroup(void) { return &subgroup_teams[number() - thread % SUBGROUP]; }
static Team *own_block(void) { return &block_teams[block - first_block]; }

static void wait_for_subgroup(void) { arrive(own_subgroup()); }

void emulated_barrier(unsigned barrier) { (void)barrier, arrive(own_block()); }

void emulated_subgroup_barrier(unsigned mask) { (void)mask, wait_for_subgroup(); }

unsigned emulated_shuffle(Mask mask, unsigned value, unsigned lane, unsigned clamp) {
  if (mask == 1) return value; /* single_threaded: see emulated_active */
  static unsigned exchanged[kMostThreads];
  (void)mask, (void)clamp;
  exchanged[number()] = value;
  wait_for_subgroup();
  value = exchanged[number() - thread % SUBGROUP + lane % SUBGROUP];
  wait_for_subgroup();
  return value;
}

Mask emulated_ballot(Mask mask, unsigned char vote) {
  Mask votes = 0;
  static unsigned char given[kMostThreads];
  (void)mask;
  given[number()] = vote & 1;
  wait_for_subgroup();
  for (unsigned lane = 0; lane < SUBGROUP && thread - thread % SUBGROUP + lane < block_size; ++lane)
    votes |= (Mask)given[number() - thread % SUBGROUP + lane] << lane;
  wait_for_subgroup();
  return votes;
}

unsigned emulated_shuffle_down(Mask mask, unsigned value, unsigned distance, unsigned clamp) {
  static unsigned exchanged[kMostThreads];
  (void)mask, (void)clamp;
  exchanged[number()] = value;
  wait_for_subgroup();
  if (thread % SUBGROUP + distance < SUBGROUP) value = exchanged[number() + distance];
  wait_for_subgroup();
  return value;
}

/* Who asks which threads are here finds itself single_threaded, unless a test says that its threads never part. */
Mask emulated_active(void) { return getenv("EMULATED_TOGETHER") ? ~(Mask)0 >> (8 * sizeof(Mask) - SUBGROUP) : 1; }
Mask emulated_lanes_before(void) { return 0; }
static void add_many(float *to, const float *values, int count) {
  for (int i = 0; i < count; ++i) to[i] += values[i];
}
void emulated_add_pair(float *to, float a, float b) { add_many(to, (float[]){a, b}, 2); }
void emulated_add_four(float *to, float a, float b, float c, float d) { add_many(to, (float[]){a, b, c, d}, 4); }
// The device's approximate functions take subnormal operands for zeros and return zeros for them.
static float flush(float x) { return fabsf(x) < 0x1p-126f ? copysignf(0, x) : x; }
float emulated_divide(float a, float b) { return flush(flush(a) / flush(b)); }
float emulated_reciprocal(float a) { return flush(1 / flush(a)); }
float emulated_reciprocal_root(float a) { return 1 / sqrtf(flush(a)); }

static void run_thread(void) {
  entry(launch);
  --own_subgroup()->live, --own_block()->live;
  release(own_subgroup()), release(own_block()); /* the others may have been waiting for this one */
  threads[number()].isDone = 1;
  swapcontext(&threads[number()].context, &scheduler);
}

/* The threads of some blocks, from the first on. */
static void run_blocks(unsigned first, unsigned block_count) {
  unsigned count = block_count * block_size;
  if (count > kMostThreads) abort();
  first_block = first;
  for (unsigned i = 0; i < count; ++i) {
    getcontext(&threads[i].context);
    if (!threads[i].stack) threads[i].stack = malloc(kStack);
    threads[i].context.uc_stack.ss_sp = threads[i].stack;
    threads[i].context.uc_stack.ss_size = kStack;
    threads[i].isDone = 0;
    block = first + i / block_size, thread = i % block_size;
    ++own_subgroup()->live, ++own_block()->live;
    makecontext(&threads[i].context, run_thread, 0);
  }
  for (unsigned left = count; left > 0;)
    for (unsigned i = 0; i < count; ++i) {
      if (threads[i].isDone) continue;
      block = first + i / block_size, thread = i % block_size;
      swapcontext(&scheduler, &threads[i].context);
      left -= (unsigned)threads[i].isDone;
    }
}

/* `waits`: 1 where threads wait for each other, 2 where blocks do. Without that none needs a stack of its own. */
void emulate(Entry *task, int waits, const void *block_of_launch, unsigned block_count, unsigned thread_count) {
  entry = task, launch = block_of_launch, blocks = block_count, block_size = thread_count;
  if (waits == 2) return run_blocks(0, block_count);
  for (unsigned next = 0; next < block_count; ++next) {
    block = next;
    if (waits) {
      run_blocks(next, 1);
    } else {
      for (thread = 0; thread < thread_count; ++thread) task(block_of_launch);
    }
  }
}
