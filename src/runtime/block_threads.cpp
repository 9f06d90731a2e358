// block_threads.cpp: switches between the stacks of the threads of a block
//
// In:   the compiled function of a thread, and a range of iterations.
// Out:  the effects of all blocks; barriers, shuffles and ballots between their threads.
// Here: on a processor, a thread of the system per thread of a block would cost far more than a switch of stacks.
#include "runtime/block_threads.h"

#include "runtime/kernel_run.h"

#include <algorithm>
#include <atomic>
#include <bit>
#include <cstdlib>
#include <cstring>
#include <list>
#include <memory>
#include <new>
#include <optional>
#include <sys/mman.h>
#include <unistd.h>
#include <utility>
#include <vector>

// Saves the registers that a call must preserve on the stack, stores the stack pointer in *save, and continues on the other stack.
extern "C" void qd_switch_stack(void **save, void *load);

#if defined(__x86_64__)
asm(R"(
  .text
  .p2align 4
  .hidden qd_switch_stack
  .globl qd_switch_stack
  .type qd_switch_stack, @function
qd_switch_stack:
  pushq %rbp
  pushq %rbx
  pushq %r12
  pushq %r13
  pushq %r14
  pushq %r15
  movq %rsp, (%rdi)
  movq %rsi, %rsp
  popq %r15
  popq %r14
  popq %r13
  popq %r12
  popq %rbx
  popq %rbp
  ret
  .size qd_switch_stack, . - qd_switch_stack
)");
static constexpr size_t kReturnWord = 6; // position of the return address
static constexpr size_t kFrameWords = 8;
#elif defined(__aarch64__)
asm(R"(
  .text
  .p2align 4
  .hidden qd_switch_stack
  .globl qd_switch_stack
  .type qd_switch_stack, %function
qd_switch_stack:
  sub sp, sp, #160
  stp x19, x20, [sp, #0]
  stp x21, x22, [sp, #16]
  stp x23, x24, [sp, #32]
  stp x25, x26, [sp, #48]
  stp x27, x28, [sp, #64]
  stp x29, x30, [sp, #80]
  stp d8, d9, [sp, #96]
  stp d10, d11, [sp, #112]
  stp d12, d13, [sp, #128]
  stp d14, d15, [sp, #144]
  mov x9, sp
  str x9, [x0]
  mov sp, x1
  ldp x19, x20, [sp, #0]
  ldp x21, x22, [sp, #16]
  ldp x23, x24, [sp, #32]
  ldp x25, x26, [sp, #48]
  ldp x27, x28, [sp, #64]
  ldp x29, x30, [sp, #80]
  ldp d8, d9, [sp, #96]
  ldp d10, d11, [sp, #112]
  ldp d12, d13, [sp, #128]
  ldp d14, d15, [sp, #144]
  add sp, sp, #160
  ret
  .size qd_switch_stack, . - qd_switch_stack
)");
static constexpr size_t kReturnWord = 11;
static constexpr size_t kFrameWords = 20;
#else
#error "this processor needs a way to switch between stacks"
#endif

namespace qd::runtime {

namespace {

constexpr size_t kStackBytes = 256 << 10;
/// The stacks of neighbors begin at other distances from their ends: otherwise all would share the same few lines of the caches.
constexpr size_t kStackShift = 5 * 64, kStackShifts = 16 << 10;
/// A page below each stack, where an overflow is a fault.
const auto guardBytes = size_t(sysconf(_SC_PAGE_SIZE));
/// Each stack takes two mappings of the process, of which Linux allows 65,530.
constexpr int64_t kMaxThreads = 16384;

std::atomic<int> subgroupSize{QD_SUBGROUP_SIZE};

/// A set of threads that wait for each other: a block, a subgroup or some of its threads, or the grid.
struct Team {
  int live = 0, arrived = 0;
  uint64_t round = 0;
  uint32_t present = 0, nextPresent = 0; ///< lanes of the last completed exchange, and of the current one
  uint32_t votes = 0, nextVotes = 0;
};

/// A team that exchanges values.
struct Exchange : Team {
  uint32_t lanes = 0;                     ///< those that may take part; 0: those that come to a place of the code
  int place = 0;                          ///< of the code
  uint64_t values[2][QD_SUBGROUP_SIZE]{}; ///< of even and odd rounds: a slow thread may still read those of the previous one
};

/// A subgroup, and the sets of its threads that waited for each other.
struct Group {
  Exchange all;
  std::list<Exchange> parts;
  uint32_t alive = 0; ///< lanes that have not ended

  /// The exchange among these lanes; 0: of all that are at this place.
  Exchange &find(uint32_t lanes, int place = 0);
};

struct BlockThread;

/// Runs one block after the other. Each thread of the processor that runs blocks has one.
class Runner {
public:
  ~Runner();
  void run(QdKernelContext *context, QdThreadFunction function, int64_t begin, int64_t end, int32_t blockSize, int64_t sharedBytes,
           bool together);
  void arrive(BlockThread &thread, Team &team);
  Team &getGrid() { return grid; }
  void *getStack() const;
  bool isBusy() const { return runStack != nullptr; }
  /// Called by a thread of a block.
  bool mustStop();
  [[noreturn]] void enter();

private:
  void runTogether(int64_t first, int64_t end, int32_t blockSize, unsigned char *shared, int64_t sharedBytes);
  void makeThreads(size_t count);
  static void release(Team &team);
  /// Releases the threads that wait for any others to come. False: there are none.
  bool releaseActive();
  void start(BlockThread &thread, int index, int64_t iteration);
  /// Switches to the next thread that has not ended, or back to `run` when there is none.
  void switchFrom(BlockThread &thread);

  Team grid;
  std::vector<Team> blocks;
  std::vector<Group> groups;
  std::vector<std::unique_ptr<BlockThread>> threads;
  void *runStack = nullptr; ///< stack pointer of `run` while threads run
  BlockThread *current = nullptr;
  QdKernelContext *context = nullptr;
  QdThreadFunction function = nullptr;
  uint64_t progress = 0; ///< counts arrivals and ends
  bool isGivenUp = false;
  bool isAsking = false; ///< a thread has switched back to `run` to call mustStop
};

struct BlockThread {
  QdThread exposed{}; ///< first member: compiled code has its address
  Team *block = nullptr;
  Group *group = nullptr;
  int lane = 0;
  Runner *runner = nullptr;
  void *stack = nullptr; ///< the lowest address
  void *pointer = nullptr;
  const Exchange *lastExchange = nullptr; ///< of the last shuffle
  unsigned lastTurn = 0;
  BlockThread *next = nullptr, *previous = nullptr; ///< in the ring of those that have not ended

  ~BlockThread() {
    if (stack) munmap(stack, kStackBytes);
  }
  /// That of the threads of a mask, and this one.
  Exchange &findExchange(uint64_t mask) { return group->find(uint32_t(mask) | 1u << lane); }
  static BlockThread &from(QdThread *thread) { return *reinterpret_cast<BlockThread *>(thread); }
};

thread_local Runner *running = nullptr;

void enterThread() { running->enter(); }

void *Runner::getStack() const { return static_cast<char *>(current->stack) + guardBytes; }

Runner::~Runner() = default;

Exchange &Group::find(uint32_t lanes, int place) {
  lanes &= all.lanes;
  if (lanes == all.lanes) return all;
  for (Exchange &part : parts)
    if (part.lanes == lanes && part.place == place) return part;
  Exchange &part = parts.emplace_back();
  part.lanes = lanes, part.place = place;
  part.live = lanes ? std::popcount(lanes & alive) : all.live;
  return part;
}

void Runner::makeThreads(size_t wanted) {
  while (threads.size() < wanted) {
    auto thread = std::make_unique<BlockThread>();
    thread->stack = mmap(nullptr, kStackBytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_STACK, -1, 0);
    if (thread->stack == MAP_FAILED) {
      thread->stack = nullptr;
      throw std::bad_alloc();
    }
    mprotect(thread->stack, guardBytes, PROT_NONE);
    thread->runner = this;
    threads.push_back(std::move(thread));
  }
}

void Runner::start(BlockThread &thread, int index, int64_t iteration) {
  thread.exposed.index = index;
  thread.exposed.iteration = iteration;
  const size_t shift = size_t(index) * kStackShift % kStackShifts;
  void **top = reinterpret_cast<void **>(static_cast<char *>(thread.stack) + kStackBytes - shift) - 2 * kFrameWords;
  std::fill(top, top + 2 * kFrameWords, nullptr);
  top[kReturnWord] = reinterpret_cast<void *>(&enterThread);
  thread.pointer = top;
}

void Runner::enter() {
  BlockThread &thread = *current;
  function(context, thread.exposed.iteration, &thread.exposed);
  thread.previous->next = thread.next;
  thread.next->previous = thread.previous;
  ++progress;
  auto leave = [](Team &team) {
    if (--team.live > 0 && team.arrived == team.live) release(team); // the others have been waiting for this one
  };
  uint32_t lane = 1u << thread.lane;
  thread.group->alive &= ~lane;
  for (Exchange &part : thread.group->parts)
    if (!part.lanes || part.lanes & lane) leave(part);
  leave(thread.group->all);
  leave(*thread.block);
  leave(grid);
  for (;;) switchFrom(thread);
}

void Runner::release(Team &team) {
  team.arrived = 0;
  team.present = std::exchange(team.nextPresent, 0);
  team.votes = std::exchange(team.nextVotes, 0);
  ++team.round;
}

bool Runner::releaseActive() {
  bool isAny = false;
  for (Group &group : groups)
    for (Exchange &part : group.parts)
      if (!part.lanes && part.arrived > 0) {
        release(part);
        isAny = true;
      }
  progress += isAny;
  return isAny;
}

void Runner::switchFrom(BlockThread &thread) {
  BlockThread *next = grid.live > 0 ? thread.next : nullptr;
  if (next == &thread) return;
  current = next;
  qd_switch_stack(&thread.pointer, next ? next->pointer : runStack);
}

void Runner::arrive(BlockThread &thread, Team &team) {
  ++progress;
  if (isGivenUp) return;
  if (++team.arrived >= team.live) {
    release(team);
    return;
  }
  uint64_t round = team.round;
  while (team.round == round && !isGivenUp) {
    uint64_t before = progress;
    switchFrom(thread);
    // Every thread has had a turn, and none could continue.
    if (progress == before && team.round == round && !isGivenUp && !releaseActive()) {
      isGivenUp = true;
      KernelRun::from(context).failBecause(
          "threads of a block wait for each other at different barriers: all of them must reach the same "
          "ones, in qd.simt.subgroup all of a subgroup, or of the mask, and in qd.simt.grid those of all blocks");
    }
  }
}

/// Runs the threads of the iterations [first, end) in turn, until all are done.
void Runner::runTogether(int64_t first, int64_t end, int32_t blockSize, unsigned char *shared, int64_t sharedBytes) {
  int count = int(end - first);
  int size = getSubgroupSize(), groupsOfBlock = (blockSize + size - 1) / size, blockCount = (count + blockSize - 1) / blockSize;
  grid = {};
  grid.live = count;
  blocks.assign(size_t(blockCount), {});
  groups.clear();
  groups.resize(size_t(blockCount) * size_t(groupsOfBlock));
  for (int number = 0; number < count; ++number) {
    BlockThread &thread = *threads[size_t(number)];
    int block = number / blockSize, index = number % blockSize;
    start(thread, index, first + number);
    thread.next = threads[size_t(number + 1 < count ? number + 1 : 0)].get();
    thread.previous = threads[size_t(number > 0 ? number - 1 : count - 1)].get();
    thread.exposed.shared = shared + block * sharedBytes;
    thread.block = &blocks[size_t(block)];
    thread.group = &groups[size_t(block * groupsOfBlock + index / size)];
    thread.lane = index % size;
    ++thread.block->live;
    ++thread.group->all.live;
    thread.group->alive = thread.group->all.lanes |= 1u << thread.lane;
  }
  isGivenUp = false;
  current = threads[0].get();
  for (;;) {
    qd_switch_stack(&runStack, current->pointer);
    if (!std::exchange(isAsking, false)) break;
    Runner *self = std::exchange(running, nullptr);
    KernelRun::from(context).mustStop();
    running = self;
  }
  runStack = nullptr;
}

bool Runner::mustStop() {
  // A signal handler runs Python, for which the stack of a thread of a block is too small.
  isAsking = true;
  qd_switch_stack(&current->pointer, runStack);
  return KernelRun::from(context).isStopped();
}

void Runner::run(QdKernelContext *launch, QdThreadFunction task, int64_t begin, int64_t end, int32_t blockSize, int64_t sharedBytes,
                 bool together) {
  context = launch, function = task;
  if (begin >= end) return;
  int64_t concurrent = together ? end - begin : std::min<int64_t>(blockSize, end - begin);
  if (concurrent > kMaxThreads)
    return KernelRun::from(context).failBecause("qd.simt.grid.sync() of " + std::to_string(concurrent) + " threads: on the CPU at most " +
                                                std::to_string(kMaxThreads) + " can wait for each other; use a loop of fewer iterations");
  makeThreads(size_t(concurrent));
  sharedBytes = (sharedBytes + 63) / 64 * 64;
  size_t bytes = size_t(sharedBytes) * size_t(together ? (concurrent + blockSize - 1) / blockSize : 1);
  std::unique_ptr<unsigned char, decltype(&free)> shared(bytes ? static_cast<unsigned char *>(aligned_alloc(64, bytes)) : nullptr, &free);
  if (bytes && !shared) throw std::bad_alloc();
  int64_t step = together ? concurrent : blockSize;
  for (int64_t first = begin; first < end && !KernelRun::from(context).mustStop(); first += step)
    runTogether(first, std::min(first + step, end), blockSize, shared.get(), sharedBytes);
}

} // namespace

void runBlocks(QdKernelContext *context, QdThreadFunction function, int64_t begin, int64_t end, int32_t blockSize, int64_t sharedBytes,
               int32_t together) {
  thread_local Runner runner;
  Runner *outer = running;
  try {
    // A signal handler launches a kernel while blocks of this thread wait.
    std::optional<Runner> nested;
    running = runner.isBusy() ? &nested.emplace() : &runner;
    running->run(context, function, begin, end, blockSize, sharedBytes, together != 0);
  } catch (const std::bad_alloc &) { KernelRun::from(context).failForMemory(); }
  running = outer;
}

int32_t mustStop(QdKernelContext *context) { return running ? running->mustStop() : KernelRun::from(context).mustStop(); }

std::pair<void *, size_t> getBlockThreadStack() {
  if (!running) return {};
  return {running->getStack(), kStackBytes - guardBytes};
}

void setSubgroupSize(int size) { subgroupSize = size; }
int getSubgroupSize() { return subgroupSize; }

void synchronizeThreads(QdKernelContext *, QdThread *exposed, int32_t team, uint64_t threads) {
  BlockThread &thread = BlockThread::from(exposed);
  Team &wanted = team == 0 ? *thread.block : team == 1 ? thread.findExchange(threads) : thread.runner->getGrid();
  thread.runner->arrive(thread, wanted);
}

uint64_t shuffle(QdKernelContext *, QdThread *exposed, uint64_t value, int32_t lane, uint64_t threads) {
  BlockThread &thread = BlockThread::from(exposed);
  if (lane < QD_SHUFFLE_AGAIN) {
    Exchange &exchange = thread.findExchange(threads);
    thread.lastExchange = &exchange;
    thread.lastTurn = exchange.round % 2;
    exchange.values[thread.lastTurn][thread.lane] = value;
    exchange.nextPresent |= 1u << thread.lane;
    thread.runner->arrive(thread, exchange);
  } else {
    lane -= QD_SHUFFLE_AGAIN;
  }
  bool isThere = lane >= 0 && lane < QD_SUBGROUP_SIZE && (thread.lastExchange->present >> lane & 1);
  return isThere ? thread.lastExchange->values[thread.lastTurn][lane] : value;
}

uint64_t ballot(QdKernelContext *, QdThread *exposed, int32_t vote, uint64_t threads) {
  BlockThread &thread = BlockThread::from(exposed);
  Exchange &exchange = thread.findExchange(threads);
  if (vote) exchange.nextVotes |= 1u << thread.lane;
  thread.runner->arrive(thread, exchange);
  return exchange.votes;
}

uint64_t getActiveThreads(QdKernelContext *, QdThread *exposed, int32_t place) {
  BlockThread &thread = BlockThread::from(exposed);
  Exchange &exchange = thread.group->find(0, place);
  exchange.nextPresent |= 1u << thread.lane;
  thread.runner->arrive(thread, exchange);
  return exchange.present;
}

} // namespace qd::runtime
