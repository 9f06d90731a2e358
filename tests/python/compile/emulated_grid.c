/* emulated_grid.c: a grid of threads, one thread after the other, on the processor.
 *
 * Blocks run in turn. A thread that waits for others (a barrier, a shuffle) hands over to the next one until all of them have arrived. What is in shared memory is a variable, since there is one block at a time: blocks that wait for each other run
 * together and have none. */
#include <math.h>
#include <stdint.h>
#include <stdio.h>
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

enum { kMostThreads = 4096, kMostParts = 80, kStack = 1 << 16 };

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

static unsigned first_block;   /* of those that run */
static unsigned long progress; /* counts arrivals and ends */

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
  ++progress;
  if (++arrived == blocks * block_size) arrived = 0, ++round;
  while (round == own_round) wait_for_all();
}

/* Threads that wait for each other: those of a block, or of a subgroup, that have not ended. */
typedef struct {
  unsigned live, arrived, round;
  Mask present, next; /* threads of the last completed round, and of the current one */
} Team;
/* Some threads of a subgroup: those of a mask, or those that come to a place of the code. */
typedef struct {
  Mask threads;
  const void *place;
  Team team;
} Part;
typedef struct {
  Team all;
  Mask threads, alive;
  Part parts[kMostParts];
  unsigned part_count;
} Subgroup;
static Team block_teams[kMostThreads];
static Subgroup subgroups[kMostThreads];

static void release(Team *team) {
  team->arrived = 0, ++team->round;
  team->present = team->next, team->next = 0;
}

static void arrive(Team *team) {
  unsigned own_round = team->round;
  team->next |= (Mask)1 << thread % SUBGROUP;
  ++progress;
  if (++team->arrived >= team->live) release(team);
  while (team->round == own_round) wait_for_all();
}

static void leave(Team *team) {
  if (--team->live > 0 && team->arrived == team->live) release(team); /* the others have been waiting for this one */
}

static Subgroup *own_subgroup(void) { return &subgroups[number() - thread % SUBGROUP]; }
static Team *own_block(void) { return &block_teams[block - first_block]; }

static Team *find_part(Mask threads, const void *place) {
  Subgroup *group = own_subgroup();
  threads &= group->threads;
  if (threads == group->threads) return &group->all;
  for (unsigned i = 0; i < group->part_count; ++i)
    if (group->parts[i].threads == threads && group->parts[i].place == place) return &group->parts[i].team;
  if (group->part_count == kMostParts) abort();
  Part *part = &group->parts[group->part_count++];
  *part = (Part){threads, place, {0}};
  part->team.live = threads ? (unsigned)__builtin_popcountll(threads & group->alive) : group->all.live;
  return &part->team;
}

static void leave_all(void) {
  Subgroup *group = own_subgroup();
  Mask own = (Mask)1 << thread % SUBGROUP;
  group->alive &= ~own;
  for (unsigned i = 0; i < group->part_count; ++i)
    if (!group->parts[i].threads || group->parts[i].threads & own) leave(&group->parts[i].team);
  leave(&group->all), leave(own_block());
  ++progress;
}

/* Releases the threads that wait for any others to come. */
static void release_active(unsigned count) {
  int is_any = 0;
  for (unsigned i = 0; i < count; ++i)
    for (unsigned j = 0; j < subgroups[i].part_count; ++j) {
      Part *part = &subgroups[i].parts[j];
      if (!part->threads && part->team.arrived) release(&part->team), is_any = 1;
    }
  if (!is_any) fputs("emulated grid: threads wait for each other at different places\n", stderr), abort();
}

void emulated_barrier(unsigned barrier) { (void)barrier, arrive(own_block()); }

void emulated_subgroup_barrier(Mask mask) { arrive(find_part(mask, 0)); }

unsigned emulated_shuffle(Mask mask, unsigned value, unsigned lane, unsigned clamp) {
  static unsigned exchanged[kMostThreads];
  (void)clamp;
  exchanged[number()] = value;
  arrive(find_part(mask, 0));
  value = exchanged[number() - thread % SUBGROUP + lane % SUBGROUP];
  arrive(find_part(mask, 0));
  return value;
}

Mask emulated_ballot(Mask mask, unsigned char vote) {
  Mask votes = 0;
  static unsigned char given[kMostThreads];
  given[number()] = vote & 1;
  arrive(find_part(mask, 0));
  for (unsigned lane = 0; lane < SUBGROUP && thread - thread % SUBGROUP + lane < block_size; ++lane)
    if (mask >> lane & 1) votes |= (Mask)given[number() - thread % SUBGROUP + lane] << lane;
  arrive(find_part(mask, 0));
  return votes;
}

unsigned emulated_shuffle_down(Mask mask, unsigned value, unsigned distance, unsigned clamp) {
  static unsigned exchanged[kMostThreads];
  (void)mask, (void)clamp;
  exchanged[number()] = value;
  arrive(&own_subgroup()->all);
  if (thread % SUBGROUP + distance < SUBGROUP) value = exchanged[number() + distance];
  arrive(&own_subgroup()->all);
  return value;
}

/* The words of all threads of the subgroup. */
#define COMBINE(name, type, expression)                                                                                                     \
  unsigned emulated_combine_##name(unsigned value, Mask mask) {                                                                            \
    type a = (type)emulated_shuffle(mask, value, 0, 0);                                                                                    \
    for (unsigned lane = 1; lane < SUBGROUP; ++lane) {                                                                                     \
      type b = (type)emulated_shuffle(mask, value, lane, 0);                                                                               \
      a = expression;                                                                                                                      \
    }                                                                                                                                      \
    return (unsigned)a;                                                                                                                    \
  }
COMBINE(add, unsigned, a + b)
COMBINE(min, int, a < b ? a : b)
COMBINE(max, int, a > b ? a : b)
COMBINE(umin, unsigned, a < b ? a : b)
COMBINE(umax, unsigned, a > b ? a : b)
COMBINE(and, unsigned, a & b)
COMBINE(or, unsigned, a | b)
COMBINE(xor, unsigned, a ^ b)

/* Those that come to this place while no other thread can continue; EMULATED_APART: every thread is alone. */
Mask emulated_active(void) {
  if (getenv("EMULATED_APART")) return (Mask)1 << thread % SUBGROUP;
  Team *team = find_part(0, __builtin_return_address(0));
  arrive(team);
  return team->present;
}
Mask emulated_lanes_before(void) { return ((Mask)1 << thread % SUBGROUP) - 1; }
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
  leave_all();
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
    if (thread % SUBGROUP == 0) *own_subgroup() = (Subgroup){0};
    if (thread == 0) *own_block() = (Team){0};
    own_subgroup()->alive = own_subgroup()->threads |= (Mask)1 << thread % SUBGROUP;
    ++own_subgroup()->all.live, ++own_block()->live;
    makecontext(&threads[i].context, run_thread, 0);
  }
  for (unsigned left = count; left > 0;) {
    unsigned long before = progress;
    for (unsigned i = 0; i < count; ++i) {
      if (threads[i].isDone) continue;
      block = first + i / block_size, thread = i % block_size;
      swapcontext(&scheduler, &threads[i].context);
      left -= (unsigned)threads[i].isDone;
    }
    if (left > 0 && progress == before) release_active(count);
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
