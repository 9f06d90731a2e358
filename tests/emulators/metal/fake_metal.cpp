// fake_metal.cpp: a driver in place of Metal (src/backends/metal/driver.h) that compiles kernels with clang++ and runs them here
//
// Work is done when it is recorded. Memory is mapped twice, so that host and device see it at different addresses. The environment says
// what is wrong: FAKE_METAL=no_devices, old, no_memory, lost, no_compiler, only_archive (what no archive holds is not compiled).
// FAKE_METAL_CACHE is the folder of compiled kernels.
#include "backends/metal/driver.h"

#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <dlfcn.h>
#include <fcntl.h>
#include <fstream>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <spawn.h>
#include <sstream>
#include <string>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <ucontext.h>
#include <unistd.h>
#include <vector>

extern char **environ;
using uint = unsigned;
using ulong = unsigned long;

namespace {

bool isSet(const char *word) {
  const char *words = getenv("FAKE_METAL");
  return words && strstr(words, word);
}

//--- A block of threads ---

constexpr uint kLanes = 32;
constexpr size_t kStackBytes = 256 << 10;
using Entry = void (*)(const ulong &launch, uint thread, uint block, uint blocks, uint lane);

struct Fiber {
  enum State { Ready, AtBarrier, AtExchange, Done } state = Ready;
  ucontext_t context;
  int line = 0;
  uint value = 0, lane = 0; // of the exchange: the value given, the lane asked for
  ulong votes = 0;          // and what came of it
};

struct Block {
  std::vector<Fiber> fibers;
  ucontext_t scheduler;
  Fiber *running = nullptr;
  std::function<void(uint)> body;
  bool isBroken = false;
} *block;

void leave(Fiber::State state, int line) {
  Fiber &own = *block->running;
  own.state = state;
  own.line = line;
  swapcontext(&own.context, &block->scheduler);
}

void barrier(int line) { leave(Fiber::AtBarrier, line); }

uint shuffle(int line, uint value, uint lane) {
  Fiber &own = *block->running;
  own.value = value;
  own.lane = lane;
  leave(Fiber::AtExchange, line);
  return own.value;
}

ulong ballot(int line, bool vote) {
  Fiber &own = *block->running;
  own.value = vote;
  own.lane = kLanes;
  leave(Fiber::AtExchange, line);
  return own.votes;
}

struct Meetings {
  void (*barrier)(int);
  uint (*shuffle)(int, uint, uint);
  ulong (*ballot)(int, bool);
} const meetings{barrier, shuffle, ballot};

/// Of the lanes of a subgroup that wait to exchange values, those in the first line do so. False: none waits.
bool exchange(Fiber *lanes, uint count) {
  int first = INT32_MAX;
  for (uint i = 0; i < count; ++i)
    if (lanes[i].state == Fiber::AtExchange) first = std::min(first, lanes[i].line);
  if (first == INT32_MAX) return false;
  std::vector<uint> given(kLanes + 1, 0xdeadbeef); // of lanes that take no part
  ulong votes = 0;
  auto takesPart = [&](Fiber &fiber) { return fiber.state == Fiber::AtExchange && fiber.line == first; };
  for (uint i = 0; i < count; ++i)
    if (takesPart(lanes[i])) {
      given[i] = lanes[i].value;
      if (lanes[i].value) votes |= 1ul << i;
    }
  for (uint i = 0; i < count; ++i)
    if (takesPart(lanes[i])) {
      lanes[i].value = given[std::min(lanes[i].lane, kLanes)];
      lanes[i].votes = votes;
      lanes[i].state = Fiber::Ready;
    }
  return true;
}

/// All threads that have not ended wait in one place. False: they do not, or all have ended.
bool passBarrier(std::vector<Fiber> &fibers) {
  int line = 0;
  for (Fiber &fiber : fibers) {
    if (fiber.state == Fiber::Done) continue;
    if (fiber.state != Fiber::AtBarrier || (line && fiber.line != line)) return false;
    line = fiber.line;
  }
  for (Fiber &fiber : fibers)
    if (fiber.state == Fiber::AtBarrier) fiber.state = Fiber::Ready;
  return line;
}

void start(uint number) {
  block->body(number);
  block->running->state = Fiber::Done;
  swapcontext(&block->running->context, &block->scheduler);
}

void runBlock(uint threads) {
  static std::vector<void *> stacks;
  while (stacks.size() < threads)
    stacks.push_back(mmap(nullptr, kStackBytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0));
  block->fibers.assign(threads, Fiber());
  for (uint i = 0; i < threads; ++i) {
    ucontext_t &context = block->fibers[i].context;
    getcontext(&context);
    context.uc_stack.ss_sp = stacks[i];
    context.uc_stack.ss_size = kStackBytes;
    makecontext(&context, reinterpret_cast<void (*)()>(start), 1, i);
  }
  for (bool goesOn = true; goesOn;) {
    for (Fiber &fiber : block->fibers)
      if (fiber.state == Fiber::Ready) {
        block->running = &fiber;
        swapcontext(&block->scheduler, &fiber.context);
      }
    goesOn = false;
    for (uint i = 0; i < threads; i += kLanes) goesOn |= exchange(&block->fibers[i], std::min(kLanes, threads - i));
    goesOn = goesOn || passBarrier(block->fibers);
  }
  for (Fiber &fiber : block->fibers) block->isBroken |= fiber.state != Fiber::Done;
}

//--- Code ---

struct Pipeline {
  Entry entry;
  bool hasMeetings;
};

constexpr size_t kLongSource = 1 << 18; // clang++ -O1 takes minutes for one of some megabytes

/// Runs clang++; returns what it writes.
std::string compile(const std::string &source, const std::string &library) {
  std::string path = library + "." + std::to_string(getpid()) + "." + std::to_string(ulong(pthread_self())), errors = path + ".txt";
  std::ofstream(path + ".cpp") << source;
  std::string made = path + ".so", input = path + ".cpp", include = "-I" HERE;
  const char *arguments[] = {CLANG,
                             "-x",
                             "c++",
                             "-std=c++17",
                             source.size() > kLongSource ? "-O0" : "-O1",
                             "-fPIC",
                             "-shared",
                             "-ffp-contract=off",
                             "-fsigned-char",
                             "-Wall",
                             "-Werror",
                             "-Wno-unknown-attributes",
                             "-Wno-unknown-pragmas",
                             "-Wno-unused-variable",
                             "-Wno-unused-value",
                             "-Wno-unused-but-set-variable",
                             "-Wno-parentheses",
                             "-Wno-self-assign",
                             "-Wno-unused-parameter",
                             "-Wno-uninitialized",
                             "-Wno-sometimes-uninitialized",
                             "-Wno-tautological-compare",
#ifdef __x86_64__
                             "-Xclang",
                             "-ffloat16-excess-precision=none",
#endif
                             include.c_str(),
                             input.c_str(),
                             "-o",
                             made.c_str(),
                             "-lm",
                             nullptr};
  posix_spawn_file_actions_t actions;
  posix_spawn_file_actions_init(&actions);
  posix_spawn_file_actions_addopen(&actions, 2, errors.c_str(), O_WRONLY | O_CREAT | O_TRUNC, 0600);
  pid_t child;
  int status = -1;
  if (posix_spawnp(&child, CLANG, &actions, nullptr, const_cast<char **>(arguments), environ) == 0) waitpid(child, &status, 0);
  posix_spawn_file_actions_destroy(&actions);
  std::stringstream written;
  written << std::ifstream(errors).rdbuf();
  unlink(errors.c_str());
  if (status == 0) {
    unlink(input.c_str());
    rename(made.c_str(), library.c_str());
    return "";
  }
  return written.str().empty() ? "clang++ does not run" : written.str();
}

/// The names of the libraries that it was asked for.
struct Archive {
  std::string bytes;
  std::mutex mutex;
};

void *openArchive(void *, const void *bytes, size_t count) { return new Archive{std::string(static_cast<const char *>(bytes), count), {}}; }

void closeArchive(void *archive, void (*take)(void *, const void *, size_t), void *context) {
  std::unique_ptr<Archive> own(static_cast<Archive *>(archive));
  take(context, own->bytes.data(), own->bytes.size());
}

void *makePipeline(void *, void *archive, const char *given, const char *entry, char *error, size_t errorBytes) {
  std::string source = given;
  for (size_t at; (at = source.find("\n  threadgroup ")) != std::string::npos;) source.replace(at, 15, "\n  static thread_local ");
  if (isSet("no_compiler")) source = "?";
  const char *folder = getenv("FAKE_METAL_CACHE");
  char name[64];
  snprintf(name, sizeof name, "/%016zx%08zx.so", std::hash<std::string>()(source), source.size());
  std::string library = (folder ? folder : "/tmp") + std::string(name);
  {
    auto &own = *static_cast<Archive *>(archive);
    std::lock_guard lock(own.mutex);
    bool isThere = own.bytes.find(name) != std::string::npos;
    if (!isThere && isSet("only_archive")) return snprintf(error, errorBytes, "it is in no archive"), nullptr;
    if (!isThere) own.bytes += name;
  }
  if (access(library.c_str(), R_OK) != 0)
    if (std::string problem = compile(source, library); !problem.empty())
      return snprintf(error, errorBytes, "%s", problem.c_str()), nullptr;
  void *handle = dlopen(library.c_str(), RTLD_NOW | RTLD_LOCAL);
  std::string mangled = "_Z" + std::to_string(strlen(entry)) + entry + "RKmjjjj";
  void *found = handle ? dlsym(handle, mangled.c_str()) : nullptr;
  if (!found) return snprintf(error, errorBytes, "%s", dlerror()), nullptr;
  *static_cast<const Meetings **>(dlsym(handle, "qd_meetings")) = &meetings;
  bool hasMeetings = source.find("_barrier(") != std::string::npos || source.find("simd_") != std::string::npos;
  return new Pipeline{reinterpret_cast<Entry>(found), hasMeetings};
}

//--- Devices, memory and commands ---

struct Buffer {
  size_t bytes;
  char *address, *contents;
  void *foreign = nullptr; ///< another library's object, which is a Buffer, too
  unsigned uses = 0;       ///< of this object by the device
};
struct Device {
  uint64_t queue = 0;
  uint64_t submitted = 0, ended = 0;
  bool isLost = false;
  size_t bytes = 0;
};
constexpr size_t kMemory = size_t(4) << 30;

void describe(int, qd::metal::DeviceInfo *info) {
  snprintf(info->name, sizeof info->name, "the processor in place of Metal");
  if (isSet("old")) snprintf(info->problem, sizeof info->problem, "macOS 15 is needed");
  info->memoryBytes = kMemory;
  info->maxBufferBytes = kMemory / 2;
}

void *map(size_t bytes, uint64_t *address, void **contents) {
  int file = memfd_create("metal", MFD_CLOEXEC);
  bool isThere = ftruncate(file, off_t(bytes)) == 0;
  auto map = [&] { return static_cast<char *>(mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_NORESERVE, file, 0)); };
  char *first = map(), *second = map();
  close(file);
  if (!isThere || first == MAP_FAILED || second == MAP_FAILED) return nullptr;
  *address = reinterpret_cast<uint64_t>(first);
  *contents = second;
  return new Buffer{bytes, first, second};
}

void *makeBuffer(void *device, size_t bytes, uint64_t *address, void **contents) {
  auto &own = *static_cast<Device *>(device);
  if (own.bytes + bytes > kMemory || isSet("no_memory")) return nullptr;
  void *made = map(bytes, address, contents);
  if (made) own.bytes += bytes;
  return made;
}

/// The processor faults at addresses of other libraries' buffers that were not adopted.
void *adoptBuffer(void *, void *foreign, size_t *bytes, uint64_t *address, void **contents) {
  auto *other = static_cast<Buffer *>(foreign);
  ++other->uses;
  mprotect(other->address, other->bytes, PROT_READ | PROT_WRITE);
  *bytes = other->bytes;
  *address = reinterpret_cast<uint64_t>(other->address);
  *contents = isSet("private") ? nullptr : other->contents;
  return new Buffer{other->bytes, other->address, other->contents, other};
}

void destroyBuffer(void *device, void *buffer) {
  std::unique_ptr<Buffer> own(static_cast<Buffer *>(buffer));
  if (auto *other = static_cast<Buffer *>(own->foreign)) {
    if (--other->uses == 0) mprotect(other->address, other->bytes, PROT_NONE);
    return;
  }
  static_cast<Device *>(device)->bytes -= own->bytes;
  munmap(own->address, own->bytes);
  munmap(own->contents, own->bytes);
}

void launch(void *device, void *pipeline, uint64_t parameters, unsigned blocks, unsigned threads) {
  auto &own = *static_cast<Pipeline *>(pipeline);
  auto &place = *static_cast<Device *>(device);
  if (place.isLost) return;
  for (uint number = 0; number < blocks; ++number) {
    auto run = [&](uint thread) { own.entry(parameters, thread, number, blocks, thread % kLanes); };
    if (!own.hasMeetings) {
      for (uint thread = 0; thread < threads; ++thread) run(thread);
      continue;
    }
    Block current;
    current.body = run;
    block = &current;
    runBlock(threads);
    place.isLost |= current.isBroken;
  }
}

void copy(void *, void *to, size_t toOffset, void *from, size_t fromOffset, size_t bytes) {
  memmove(static_cast<Buffer *>(to)->address + toOffset, static_cast<Buffer *>(from)->address + fromOffset, bytes);
}

/// Appends a word to a file that a test reads.
void note(const char *word) {
  if (const char *path = getenv("FAKE_METAL_LOG"); path && *path) std::ofstream(path, std::ios::app) << word << "\n";
}

void submit(void *device) {
  auto &own = *static_cast<Device *>(device);
  ++own.submitted;
  note(own.queue ? "submit to the program's queue" : "submit");
}

int getEnded(void *device, uint64_t *number, char *error, size_t errorBytes) {
  auto &own = *static_cast<Device *>(device);
  own.isLost |= isSet("lost");
  if (own.isLost) snprintf(error, errorBytes, "threads of a block wait in different places, or the device is lost");
  // Slow ones end when they are asked for again, or waited for.
  uint64_t before = own.ended;
  own.ended = own.submitted;
  return *number = isSet("slow") ? before : own.submitted, own.isLost;
}

double getEndTime(void *, uint64_t number) { return 1e-3 * double(number); }

const qd::metal::DriverFunctions functions = {
    .countDevices = [] { return isSet("no_devices") ? 0 : 1; },
    .describe = describe,
    .open = [](int) -> void * { return new Device; },
    .setQueue = [](void *device, uint64_t queue) { static_cast<Device *>(device)->queue = queue; },
    .close = [](void *device) { delete static_cast<Device *>(device); },
    .makeBuffer = makeBuffer,
    .adoptBuffer = adoptBuffer,
    .getForeign = [](void *buffer) { return static_cast<Buffer *>(buffer)->foreign ? static_cast<Buffer *>(buffer)->foreign : buffer; },
    .destroyBuffer = destroyBuffer,
    .openArchive = openArchive,
    .makePipeline = makePipeline,
    .closeArchive = closeArchive,
    .destroyPipeline = [](void *pipeline) { delete static_cast<Pipeline *>(pipeline); },
    .launch = launch,
    .copy = copy,
    .fill = [](void *, void *buffer, size_t offset, unsigned char byte,
               size_t bytes) { memset(static_cast<Buffer *>(buffer)->address + offset, byte, bytes); },
    .submit = submit,
    .getEnded = getEnded,
    .wait =
        [](void *device, uint64_t) {
          static_cast<Device *>(device)->ended = static_cast<Device *>(device)->submitted;
          note("wait");
        },
    .getEndTime = getEndTime,
};

} // namespace

/// A buffer of another library, which reads and writes at `contents`.
extern "C" __attribute__((visibility("default"))) void *make_foreign(size_t bytes, void **contents) {
  uint64_t address = 0;
  void *made = map(bytes, &address, contents);
  mprotect(reinterpret_cast<void *>(address), bytes, PROT_NONE);
  return made;
}
extern "C" __attribute__((visibility("default"))) void *get_contents(void *buffer) { return static_cast<Buffer *>(buffer)->contents; }
extern "C" __attribute__((visibility("default"))) const qd::metal::DriverFunctions *qd_metal_driver() { return &functions; }
