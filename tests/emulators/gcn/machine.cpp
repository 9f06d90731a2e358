// machine.cpp: instructions that the pseudocode leaves to the machine (memory, other lanes, jumps), and waves, blocks and grids that run
#include "machine.h"
#include "grid.h"
#include "scopes.h"

#include <atomic>
#include <chrono>

//--- Memory ---

constexpr u64 kShared = 0x5aull << 32, kPrivate = 0x5bull << 32; ///< apertures of flat addresses
enum Space { kFlat, kScratch, kLds, kBuffer };

struct Block {
  unsigned number;
  std::vector<char> lds;
  std::vector<Wave> waves;
  std::vector<char> scratch;
};

static thread_local u64 faulty;
static char *inBlock(Wave *w, u64 at, size_t size) {
  if (at + size > w->block->lds.size()) return faulty = at, nullptr;
  return w->block->lds.data() + at;
}
static char *inScratch(Wave *w, u32 at, size_t size, int l) {
  if (u64(at) + size > w->scratchBytes) return faulty = at, nullptr;
  return w->scratch + size_t(l) * w->scratchBytes + at;
}
static char *find(Wave *w, u64 at, size_t size, int l) {
  if (at >> 32 == kShared >> 32) return inBlock(w, u32(at), size);
  if (at >> 32 == kPrivate >> 32) return inScratch(w, u32(at), size, l);
  return isDeviceMemory(at, size) ? reinterpret_cast<char *>(at) : (faulty = at, nullptr);
}
/// The place that a lane accesses: s[0] the lane's address or offset, s[1] a scalar base, s[2] a scalar offset; null: not the device's.
static char *locate(Wave *w, const Op *op, int l, size_t size) {
  u64 own = read(w, op->s[0], l), base = read(w, op->s[1], 0);
  i64 offset = op->number[0];
  switch (op->number[2]) {
  case kLds: return inBlock(w, u32(own + u64(offset)), size); // the sum has 32 bits
  case kScratch: return inScratch(w, u32(own + base + u64(offset)), size, l);
  case kBuffer: return inScratch(w, u32(own + u64(offset) + u32(read(w, op->s[2], 0)) / kLanes), size, l);
  }
  if (op->s[1].kind) return find(w, base + u32(own) + u64(offset), size, l);
  return find(w, own + u64(offset), size, l);
}
static Scopes scopes;
/// Whether a place that `locate` has found is in memory of the device, and other blocks' accesses are watched.
static bool isWatched(const Wave *w, const Op *op, const char *place) {
  if (!scopes.isWatching() || op->number[2] != kFlat) return false;
  auto isIn = [&](const std::vector<char> &memory) { return place >= memory.data() && place < memory.data() + memory.size(); };
  return !isIn(w->block->lds) && !isIn(w->block->scratch);
}
static bool canLoad(const Wave *w, const Op *op, const char *place, size_t size) {
  u64 at = reinterpret_cast<u64>(place);
  return !isWatched(w, op, place) || scopes.load(w->block->number, at, size, op->isOfDevice) || (faulty = at, false);
}
static void noteStore(const Wave *w, const Op *op, const char *place, size_t size) {
  if (isWatched(w, op, place)) scopes.store(w->block->number, reinterpret_cast<u64>(place), size);
}
static bool canUpdate(const Wave *w, const Op *op, const char *place, size_t size) {
  if (!op->isOfDevice) return canLoad(w, op, place, size) && (noteStore(w, op, place, size), true);
  u64 at = reinterpret_cast<u64>(place);
  return !isWatched(w, op, place) || scopes.update(w->block->number, at, size) || (faulty = at, false);
}
enum Extension { kWhole, kUnsigned, kSigned, kLowHalf, kHighHalf }; ///< of less than a register; halves keep the other one

extern "C" {
int op_load(Wave *w, const Op *op) {
  u64 exec = w->exec();
  size_t size = size_t(op->number[1]);
  for (int l = 0; l < kLanes; ++l) {
    if (!(exec >> l & 1)) continue;
    char *a = locate(w, op, l, size);
    if (!a) return kFault;
    if (!canLoad(w, op, a, size)) return kStale;
    u32 *to = &w->v[op->d.index][l];
    if (size >= 4) {
      for (size_t i = 0; i < size / 4; ++i) memcpy(&w->v[op->d.index + i][l], a + 4 * i, 4);
      continue;
    }
    u32 x = 0;
    memcpy(&x, a, size);
    int extension = int(op->number[3]);
    bool isSigned = extension == kSigned || op->d.isSigned;
    if (isSigned) x = size == 1 ? u32(i32(i8(x))) : u32(i32(i16(x)));
    *to = extension == kLowHalf ? (*to & 0xffff0000u) | (x & 0xffff) : extension == kHighHalf ? (*to & 0xffff) | x << 16 : x;
  }
  return kNext;
}
int op_store(Wave *w, const Op *op) {
  u64 exec = w->exec();
  size_t size = size_t(op->number[1]);
  for (int l = 0; l < kLanes; ++l) {
    if (!(exec >> l & 1)) continue;
    char *a = locate(w, op, l, size);
    if (!a) return kFault;
    noteStore(w, op, a, size);
    for (size_t i = 0; i < size; i += 4) {
      u32 x = w->v[op->s[3].index + i / 4][l];
      if (op->number[3] == kHighHalf) x >>= 16;
      memcpy(a + i, &x, size < 4 ? size : 4);
    }
  }
  return kNext;
}
/// Two places of shared memory at once: number[0] and number[3] are their offsets; d or the two last sources are the registers.
int op_load2(Wave *w, const Op *op) {
  u64 exec = w->exec();
  size_t size = size_t(op->number[1]);
  for (int l = 0; l < kLanes; ++l) {
    if (!(exec >> l & 1)) continue;
    u32 base = u32(read(w, op->s[0], l)), got[4];
    for (int i = 0; i < 2; ++i) {
      char *a = inBlock(w, u32(base + u64(op->number[i ? 3 : 0])), size);
      if (!a) return kFault;
      memcpy(got + i * size / 4, a, size);
    }
    for (size_t i = 0; i < size / 2; ++i) w->v[op->d.index + i][l] = got[i];
  }
  return kNext;
}
int op_store2(Wave *w, const Op *op) {
  u64 exec = w->exec();
  size_t size = size_t(op->number[1]);
  for (int l = 0; l < kLanes; ++l) {
    if (!(exec >> l & 1)) continue;
    for (int i = 0; i < 2; ++i) {
      char *a = inBlock(w, u32(read(w, op->s[0], l) + u64(op->number[i ? 3 : 0])), size);
      if (!a) return kFault;
      for (size_t k = 0; k < size / 4; ++k) memcpy(a + 4 * k, &w->v[op->s[2 + i].index + k][l], 4);
    }
  }
  return kNext;
}
int op_scalar_load(Wave *w, const Op *op) {
  u64 at = read(w, op->s[0], 0) + u64(i64(i32(read(w, op->s[1], 0)))) + u64(op->number[0]);
  size_t size = size_t(op->number[1]);
  if (size >= 4) at &= ~u64(3);
  if (!isDeviceMemory(at, size)) return faulty = at, kFault;
  if (!canLoad(w, op, reinterpret_cast<char *>(at), size)) return kStale;
  u32 x = 0;
  if (size < 4) {
    memcpy(&x, reinterpret_cast<char *>(at), size);
    if (op->number[3] == kSigned) x = size == 1 ? u32(i32(i8(x))) : u32(i32(i16(x)));
    w->s[op->d.index] = x;
  }
  for (size_t i = 0; i < size / 4; ++i) memcpy(&w->s[op->d.index + i], reinterpret_cast<char *>(at) + 4 * i, 4);
  return kNext;
}
}

enum Update { kAdd, kSub, kSwap, kCompare, kAnd, kOr, kXor, kUmin, kUmax, kSmin, kSmax, kFadd, kFmin, kFmax, kInc, kDec };
template <class U, class I, class F> static U update(int how, U old, U x, U compare) {
  auto asFloat = [](U y) {
    F f;
    memcpy(&f, &y, sizeof f);
    return f;
  };
  auto asBits = [](F f) {
    U y;
    memcpy(&y, &f, sizeof y);
    return y;
  };
  switch (how) {
  case kAdd: return old + x;
  case kSub: return old - x;
  case kSwap: return x;
  case kCompare: return old == compare ? x : old;
  case kAnd: return old & x;
  case kOr: return old | x;
  case kXor: return old ^ x;
  case kUmin: return x < old ? x : old;
  case kUmax: return x > old ? x : old;
  case kSmin: return I(x) < I(old) ? x : old;
  case kSmax: return I(x) > I(old) ? x : old;
  case kFadd: return asBits(asFloat(old) + asFloat(x));
  case kFmin: return asBits(fmin(asFloat(old), asFloat(x)));
  case kFmax: return asBits(fmax(asFloat(old), asFloat(x)));
  case kInc: return old >= x ? 0 : old + 1;
  case kDec: return old == 0 || old > x ? x : old - 1;
  }
  return old;
}
extern "C" {
/// number[3]: what is done; s[3]: the data; the compared value follows it, or is in mask.index (shared memory).
int op_atomic(Wave *w, const Op *op) {
  u64 exec = w->exec();
  size_t size = size_t(op->number[1]);
  for (int l = 0; l < kLanes; ++l) {
    if (!(exec >> l & 1)) continue;
    char *a = locate(w, op, l, size);
    if (!a) return kFault;
    if (!canUpdate(w, op, a, size)) return kStale;
    auto take = [&](int index) { return size == 8 ? w->v[index][l] | u64(w->v[index + 1][l]) << 32 : w->v[index][l]; };
    u64 x = take(op->s[3].index), compare = 0, old = 0, next;
    if (op->number[3] == kCompare) compare = take(op->mask.kind == kVector ? op->mask.index : op->s[3].index + int(size) / 4);
    memcpy(&old, a, size);
    next = size == 8 ? update<u64, i64, f64>(int(op->number[3]), old, x, compare)
                     : update<u32, i32, f32>(int(op->number[3]), u32(old), u32(x), u32(compare));
    memcpy(a, &next, size);
    if (op->d.kind != kVector) continue;
    w->v[op->d.index][l] = u32(old);
    if (size == 8) w->v[op->d.index + 1][l] = u32(old >> 32);
  }
  return kNext;
}

//--- Other lanes ---

/// number[1]: threads that the instruction reaches, 64 or 32.
int op_bpermute(Wave *w, const Op *op) {
  u64 exec = w->exec();
  u32 got[kLanes];
  int reach = int(op->number[1]);
  for (int l = 0; l < kLanes; ++l) {
    int from = (int(read(w, op->s[0], l) + u64(op->number[0])) / 4 & (reach - 1)) | (l & ~(reach - 1));
    got[l] = exec >> from & 1 ? u32(read(w, op->s[1], from)) : 0;
  }
  for (int l = 0; l < kLanes; ++l)
    if (exec >> l & 1) w->v[op->d.index][l] = got[l];
  return kNext;
}
int op_readlane(Wave *w, const Op *op) {
  writeScalar(w, op->d, w->v[op->s[0].index][read(w, op->s[1], 0) & 63]);
  return kNext;
}
int op_readfirstlane(Wave *w, const Op *op) {
  u64 exec = w->exec();
  writeScalar(w, op->d, op->s[0].kind == kVector ? w->v[op->s[0].index][exec ? __builtin_ctzll(exec) : 0] : read(w, op->s[0], 0));
  return kNext;
}
int op_writelane(Wave *w, const Op *op) {
  w->v[op->d.index][read(w, op->s[1], 0) & 63] = u32(read(w, op->s[0], 0));
  return kNext;
}
/// number[0]: 16: any lane of the own row; 17: of the other row of the same half; 64: halves change places.
int op_permlane(Wave *w, const Op *op) {
  u64 exec = w->exec(), choice = read(w, op->s[1], 0) | read(w, op->s[2], 0) << 32;
  u32 got[kLanes];
  for (int l = 0; l < kLanes; ++l) {
    int in = int(choice >> 4 * (l & 15) & 15), row = l & ~15;
    got[l] = u32(read(w, op->s[0], op->number[0] == 64 ? l ^ 32 : op->number[0] == 16 ? row | in : (row ^ 16) | in));
  }
  for (int l = 0; l < kLanes; ++l)
    if (exec >> l & 1) w->v[op->d.index][l] = got[l];
  return kNext;
}
int op_move(Wave *w, const Op *op) { // between the two files of vector registers
  u64 exec = w->exec();
  for (int l = 0; l < kLanes; ++l)
    if (exec >> l & 1) w->v[op->d.index][l] = u32(read(w, op->s[0], l));
  return kNext;
}
int op_swap(Wave *w, const Op *op) {
  u64 exec = w->exec();
  for (int l = 0; l < kLanes; ++l)
    if (exec >> l & 1) std::swap(w->v[op->d.index][l], w->v[op->s[0].index][l]);
  return kNext;
}
}
/// Runs an instruction with other registers.
static int runIndexed(Wave *w, const Op *op, u32 index, u32 places) {
  Op moved = *op;
  for (int i = 0; i < 3; ++i)
    if (places >> i & 1 && moved.s[i].kind == kVector) moved.s[i].index += u16(index);
  if (places & 8 && moved.d.kind == kVector) moved.d.index += u16(index);
  return moved.run(w, &moved);
}
extern "C" {
/// The following instructions count registers from s[0] on; number[0]: bits for sources and the result.
int op_index(Wave *w, const Op *op) {
  u32 index = u32(read(w, op->s[0], 0)) & 255, places = u32(op->number[0]);
  w->s[124] = index | places << 12;
  w->indexing = places ? index | places << 8 : 0;
  return kNext;
}
/// A move of one register that M0 counts from.
int op_move_indexed(Wave *w, const Op *op) {
  Op move = *op;
  move.run = op_move;
  return runIndexed(w, &move, w->s[124], u32(op->number[0]));
}
}
int step(Wave *w, const Op *op) { return w->indexing ? runIndexed(w, op, w->indexing & 255, w->indexing >> 8) : op->run(w, op); }

//--- Control ---

extern "C" {

int op_nothing(Wave *, const Op *) { return kNext; }
int op_release(Wave *w, const Op *) { return scopes.release(w->block->number), kNext; }
int op_acquire(Wave *w, const Op *) { return scopes.acquire(w->block->number), kNext; }
int op_barrier(Wave *, const Op *) { return kBarrier; }
int op_end(Wave *, const Op *) { return kEnd; }
/// number[0]: the target; number[1]: the condition.
int op_branch(Wave *w, const Op *op) {
  const bool conditions[] = {true, !w->scc, w->scc != 0, !w->vcc(), w->vcc() != 0, !w->exec(), w->exec() != 0};
  if (!conditions[op->number[1]]) return kNext;
  w->pc = u64(op->number[0]);
  return kJump;
}
int op_getpc(Wave *w, const Op *op) {
  writeScalar(w, op->d, codeBase(w) + op->at + op->bytes);
  return kNext;
}
int op_setpc(Wave *w, const Op *op) {
  u64 to = read(w, op->s[0], 0) - codeBase(w);
  writeScalar(w, op->d, codeBase(w) + op->at + op->bytes);
  w->pc = to;
  return kJump;
}
int op_clock(Wave *w, const Op *op) {
  u64 nanoseconds = std::chrono::steady_clock::now().time_since_epoch() / std::chrono::nanoseconds(1);
  u64 ticks = op->number[0] ? nanoseconds / 10 : nanoseconds * 3 / 2; // of the clock; cycles of the frequency that fake_hip.cpp tells
  writeScalar(w, op->d, ticks >> op->number[1] & u64(op->number[2]));
  return kNext;
}
int op_zero(Wave *w, const Op *op) {
  writeScalar(w, op->d, 0);
  return kNext;
}
int op_unknown(Wave *, const Op *) { return kUnknown; }
}

//--- Grids ---

struct Grid {
  const Code &code;
  const Kernel &kernel;
  const void *arguments;
  unsigned blocks, threads, sharedBytes;
  std::vector<char> memory; ///< the arguments and what the driver adds, then the packet
};
static thread_local const Code *running;
u64 codeBase(const Wave *) { return running->base(); }

static void start(Grid &grid, Block &block, unsigned number) {
  const Kernel &kernel = grid.kernel;
  block.number = number;
  block.lds.assign(kernel.ldsBytes + grid.sharedBytes, char(0xcd)); // what the previous block has left there is not 0
  unsigned waves = (grid.threads + kLanes - 1) / kLanes;
  block.waves.assign(waves, Wave());
  size_t perWave = size_t(kernel.scratchBytes) * kLanes;
  block.scratch.assign(perWave * waves, char(0xcd));
  u64 arguments = reinterpret_cast<u64>(grid.memory.data()), packet = arguments + grid.memory.size() - 64;
  for (unsigned n = 0; n < waves; ++n) {
    Wave &w = block.waves[n];
    memset(w.v, 0xcd, sizeof w.v);
    memset(w.s, 0xcd, sizeof w.s);
    w.block = &block;
    w.pc = kernel.entry;
    w.scc = w.done = w.indexing = 0;
    w.scratch = block.scratch.data() + perWave * n;
    w.scratchBytes = kernel.scratchBytes;
    int at = 0;
    auto add = [&](u64 value) { w.s[at++] = u32(value), w.s[at++] = u32(value >> 32); };
    if (kernel.properties & 1) add(0), add(0);
    if (kernel.properties & 2) add(packet);
    if (kernel.properties & 4) add(0);
    if (kernel.properties & 8) add(arguments);
    if (kernel.properties & 16) add(0);
    if (kernel.properties & 32) add(0);
    at = int(kernel.rsrc2 >> 1 & 31);
    if (grid.code.isGfx12)
      w.s[108 + 9] = number;
    else if (kernel.rsrc2 & 0x80)
      w.s[at++] = number;
    unsigned count = std::min<unsigned>(kLanes, grid.threads - n * kLanes);
    u64 exec = count == 64 ? ~0ull : (1ull << count) - 1;
    w.s[126] = u32(exec), w.s[127] = u32(exec >> 32);
    for (unsigned l = 0; l < count; ++l) w.v[0][l] = n * kLanes + l;
  }
}
/// Runs a wave until it waits, ends, fails or has taken its turn; returns the reason, kNext after a turn.
static int run(const Code &code, Wave &w, u64 turn) {
  for (u64 i = 0; i < turn; ++i) {
    const Op *op = code.find(w.pc);
    if (!op) return faulty = w.pc, kUnknown;
    int result = step(&w, op);
    if (result == kNext)
      w.pc = op->at + op->bytes;
    else if (result == kBarrier)
      return w.pc = op->at + op->bytes, kBarrier;
    else if (result == kEnd)
      return w.done = 1, kEnd;
    else if (result != kJump)
      return result;
  }
  return kNext;
}
static void report(const Code &code, const Wave &w, int result) {
  bool hasAddress = result != kUnknown;
  const char *reason = result == kStale ? scopes.problem.c_str() : hasAddress ? "illegal address" : "unknown instruction";
  code.report(w, reason, hasAddress ? faulty : 0);
}
/// Runs the waves of a block to the next barrier of all, or for a turn each. True when the block has ended.
static bool runBlock(const Code &code, Block &block, u64 turn, int &problem) {
  bool isOver = true, allWait = true;
  for (Wave &w : block.waves) {
    if (w.done == 1) continue;
    if (w.done != 2) { // 2: waits at a barrier
      int result = run(code, w, turn);
      if (result == kFault || result == kUnknown || result == kStale) return report(code, w, result), problem = result, true;
      if (result == kBarrier) w.done = 2;
    }
    isOver &= w.done == 1;
    allWait &= w.done != 0;
  }
  if (allWait)
    for (Wave &w : block.waves)
      if (w.done == 2) w.done = 0;
  return isOver;
}

int launchGrid(const Code &code, const Kernel &kernel, const void *arguments, size_t bytes, unsigned blocks, unsigned threads,
               unsigned sharedBytes, bool together) {
  constexpr u64 kTurn = 20000, kMostTurns = 200000;
  running = &code;
  Grid grid{code, kernel, arguments, blocks, threads, sharedBytes, std::vector<char>(((kernel.argumentBytes + 15) & ~15u) + 256 + 64)};
  memcpy(grid.memory.data(), arguments, bytes);
  char *hidden = grid.memory.data() + ((bytes + 7) & ~size_t(7));
  u32 counts[3] = {blocks, 1, 1};
  u16 sizes[6] = {u16(threads), 1, 1, 0, 0, 0};
  memcpy(hidden, counts, sizeof counts);
  memcpy(hidden + sizeof counts, sizes, sizeof sizes);
  u16 packetSizes[3] = {u16(threads), 1, 1};
  memcpy(grid.memory.data() + grid.memory.size() - 64 + 4, packetSizes, sizeof packetSizes);
  DeviceRange registered(grid.memory.data(), grid.memory.size());
  int problem = kNext;
  scopes.begin(blocks, code.writesBack, code.acquires);
  std::vector<Block> running(together ? blocks : 1);
  for (unsigned first = 0; first < blocks && problem == kNext; first += unsigned(running.size())) {
    for (unsigned i = 0; i < running.size(); ++i) start(grid, running[i], first + i);
    u64 turns = 0;
    for (bool isOver = false; !isOver && problem == kNext;) {
      isOver = true;
      for (Block &block : running) isOver &= runBlock(code, block, kTurn, problem);
      if (++turns > kMostTurns) problem = kEnd; // threads wait for something that never happens
    }
  }
  scopes.end();
  return problem == kNext ? 0 : problem == kEnd ? 702 : problem == kFault ? 700 : 719;
}
