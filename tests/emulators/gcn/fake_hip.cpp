// fake_hip.cpp: a stand-in for libamdhip64 that loads code objects and runs them on the emulator
//
// The processor is in the environment: GCN_TARGET=gfx942:sramecc+:xnack-. Work is done when it is asked for, so streams and events are
// only handles. Kernels may access memory of the device and nothing else. -DOLD: version 5; -DDEVICES=0, -DINIT=100, …: what is wrong.
#include "grid.h"

#include <cstdio>
#include <cstdlib>
#include <ctime>
#include <dlfcn.h>
#include <elf.h>
#include <map>
#include <mutex>
#include <sys/mman.h>

#define EXPORT extern "C" __attribute__((visibility("default")))
enum { kSuccess = 0, kInvalidValue = 1, kOutOfMemory = 2, kNotFound = 500, kIllegalAddress = 700 };
#ifndef INIT
#define INIT kSuccess
#endif
#ifndef DEVICES
#define DEVICES 2
#endif

/* What tests look at and set through ctypes. */
struct Fake {
  i64 bytesInUse, bytesAvailable, allocations, poolAllocations, launches, together, graphLaunches, modules, streamWaits, device;
};
EXPORT Fake fake;
Fake fake = {.bytesAvailable = i64(4) << 30};

static std::recursive_mutex mutex;
static std::map<u64, size_t> blocks; ///< memory that kernels may access
static int sticky;
static thread_local int current;

bool isDeviceMemory(u64 at, size_t size) {
  static thread_local u64 begin, end; // of the block found last
  static thread_local size_t count;
  if (count == blocks.size() && at >= begin && at + size <= end) return true;
  auto next = blocks.upper_bound(at);
  if (next == blocks.begin()) return false;
  --next;
  if (at + size > next->first + next->second) return false;
  begin = next->first, end = begin + next->second, count = blocks.size();
  return true;
}
DeviceRange::DeviceRange(void *at, size_t size) : begin(reinterpret_cast<u64>(at)) { blocks[begin] = size; }
DeviceRange::~DeviceRange() { blocks.erase(begin); }

void Code::report(const Wave &w, const char *reason, u64 address) const {
  const Op *op = find(w.pc);
  const char *text = op ? texts[size_t(op - ops.data())].c_str() : "no instruction";
  fprintf(stderr, "gcn: %s at %#lx: %s", reason, (unsigned long)w.pc, text);
  fprintf(stderr, address ? " (address %#lx)\n" : "\n", (unsigned long)address);
}

static std::string findTarget() {
  const char *name = getenv("GCN_TARGET");
  return name ? name : "gfx942";
}

//--- Devices ---

EXPORT int hipInit(unsigned) { return INIT; }
EXPORT int hipRuntimeGetVersion(int *out) { return *out = 60443483, kSuccess; }
EXPORT int hipGetDeviceCount(int *out) { return *out = DEVICES, DEVICES ? kSuccess : 100; }
EXPORT int hipDeviceGet(int *out, int number) { return *out = number, kSuccess; }
EXPORT int hipDeviceGetAttribute(int *out, int attribute, int) {
  return *out = attribute == 63 ? 2 : attribute == 5 ? 1500000 : attribute == 88 ? 1 : 0, kSuccess;
}
static int fill(void *out, size_t bytes, size_t offset) {
  memset(out, 0, bytes);
  snprintf(static_cast<char *>(out) + offset, 256, "%s", findTarget().c_str());
  return kSuccess;
}
#ifdef OLD
EXPORT int hipGetDeviceProperties(void *out, int) { return fill(out, 792, 396); }
#else
EXPORT int hipGetDevicePropertiesR0600(void *out, int) { return fill(out, 1472, 1160); }
EXPORT int hipGetDeviceProperties(void *, int) { abort(); } // has another structure in each version
#endif
EXPORT int hipSetDevice(int number) { return number < DEVICES ? fake.device = current = number, kSuccess : 101; }
EXPORT int hipGetDevice(int *out) { return *out = current, kSuccess; }
EXPORT int hipDeviceReset(void) { return sticky = 0, kSuccess; }
EXPORT const char *hipGetErrorName(int status) {
  return status == kOutOfMemory      ? "hipErrorOutOfMemory"
         : status == kIllegalAddress ? "hipErrorIllegalAddress"
         : status == 719             ? "hipErrorLaunchFailure"
                                     : "hipError";
}
EXPORT const char *hipGetErrorString(int status) {
  return status == kOutOfMemory ? "out of memory" : status == kIllegalAddress ? "an illegal memory access was encountered" : "a failure";
}

//--- Memory ---

static int allocate(u64 *out, size_t bytes) {
  std::lock_guard lock(mutex);
  if (sticky) return sticky;
  if (bytes > size_t(fake.bytesAvailable - fake.bytesInUse)) return kOutOfMemory;
  void *data = mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (data == MAP_FAILED) return kOutOfMemory;
  blocks[ *out = reinterpret_cast<u64>(data)] = bytes;
  fake.bytesInUse += i64(bytes), ++fake.allocations;
  return kSuccess;
}
EXPORT int hipMalloc(u64 *out, size_t bytes) { return allocate(out, bytes); }
EXPORT int hipFree(u64 at) {
  std::lock_guard lock(mutex);
  auto block = blocks.find(at);
  if (block == blocks.end()) return kInvalidValue;
  munmap(reinterpret_cast<void *>(at), block->second);
  fake.bytesInUse -= i64(block->second);
  blocks.erase(block);
  return kSuccess;
}
EXPORT int hipMallocAsync(u64 *out, size_t bytes, void *) { return ++fake.poolAllocations, allocate(out, bytes); }
EXPORT int hipFreeAsync(u64 at, void *) { return hipFree(at); }
EXPORT int hipDeviceGetDefaultMemPool(void **out, int) { return *out = &fake, kSuccess; }
EXPORT int hipMemPoolSetAttribute(void *, int, void *) { return kSuccess; }
EXPORT int hipMemPoolTrimTo(void *, size_t) { return kSuccess; }
EXPORT int hipHostMalloc(void **out, size_t bytes, unsigned) { return *out = calloc(1, bytes), kSuccess; }
EXPORT int hipHostFree(void *data) { return free(data), kSuccess; }
EXPORT int hipMemGetInfo(size_t *free, size_t *total) {
  *total = size_t(fake.bytesAvailable), *free = *total - size_t(fake.bytesInUse);
  return kSuccess;
}
static int copy(void *to, const void *from, size_t bytes) { return sticky ? sticky : (memmove(to, from, bytes), int(kSuccess)); }
static bool areOnDevice(u64 at, size_t bytes) {
  std::lock_guard lock(mutex);
  return isDeviceMemory(at, bytes);
}
EXPORT int hipMemsetD8Async(u64 at, unsigned char value, size_t bytes, void *) {
  if (!areOnDevice(at, bytes)) return kInvalidValue;
  return memset(reinterpret_cast<void *>(at), value, bytes), kSuccess;
}
EXPORT int hipMemsetD32Async(u64 at, int value, size_t count, void *) {
  if (!areOnDevice(at, 4 * count)) return kInvalidValue;
  return std::fill_n(reinterpret_cast<int *>(at), count, value), kSuccess;
}
EXPORT int hipMemcpyHtoDAsync(u64 to, const void *from, size_t bytes, void *) {
  return areOnDevice(to, bytes) ? copy(reinterpret_cast<void *>(to), from, bytes) : kInvalidValue;
}
EXPORT int hipMemcpyDtoHAsync(void *to, u64 from, size_t bytes, void *) {
  return areOnDevice(from, bytes) ? copy(to, reinterpret_cast<void *>(from), bytes) : kInvalidValue;
}
EXPORT int hipMemcpyDtoDAsync(u64 to, u64 from, size_t bytes, void *) {
  return areOnDevice(to, bytes) && areOnDevice(from, bytes) ? copy(reinterpret_cast<void *>(to), reinterpret_cast<void *>(from), bytes)
                                                            : kInvalidValue;
}

//--- Code ---

/// Calls gcn_decode.py, which calls the functions below.
static bool decode(Code *code) {
  auto ensure = reinterpret_cast<int (*)()>(dlsym(RTLD_DEFAULT, "PyGILState_Ensure"));
  auto release = reinterpret_cast<void (*)(int)>(dlsym(RTLD_DEFAULT, "PyGILState_Release"));
  auto run = reinterpret_cast<int (*)(const char *, void *)>(dlsym(RTLD_DEFAULT, "PyRun_SimpleStringFlags"));
  Dl_info own;
  if (!ensure || !run || !dladdr(reinterpret_cast<void *>(&decode), &own)) return false;
  const char *moved = getenv("GCN_SOURCES"); // a packed emulator (gcn_pack.py) is not where it was built
  std::string here = moved ? moved : HERE;
  std::string text = "import sys\nif '" + here + "' not in sys.path: sys.path.append('" + here +
                     "')\nimport gcn_decode\ngcn_decode.load('" + std::string(own.dli_fname) + "', " +
                     std::to_string(reinterpret_cast<u64>(code)) + ", '" + findTarget() + "')\n";
  int state = ensure(), failed = run(text.c_str(), nullptr);
  release(state);
  return !failed;
}
extern "C" int op_acquire(Wave *, const Op *);
EXPORT u64 gcn_memory(Code *code, u64 *size) { return *size = code->size, code->base(); }
EXPORT void gcn_set_ops(Code *code, const Op *ops, size_t count, const char *texts) {
  code->ops.assign(ops, ops + count);
  code->places.assign(code->size / 4 + 1, -1);
  for (size_t i = 0; i < count; ++i) {
    code->places[ops[i].at / 4] = int(i);
    code->acquires |= ops[i].run == op_acquire;
    code->texts.emplace_back(texts);
    texts += code->texts.back().size() + 1;
  }
}
EXPORT void gcn_add_kernel(Code *code, const char *name, u64 descriptor, size_t explicitBytes) {
  auto take = [&](size_t offset, auto value) { return memcpy(&value, code->memory + descriptor + offset, sizeof value), value; };
  Kernel kernel{name};
  kernel.ldsBytes = take(0, u32()), kernel.scratchBytes = std::max(take(4, u32()), 64u), kernel.argumentBytes = take(8, u32());
  kernel.entry = descriptor + u64(take(16, i64()));
  kernel.rsrc2 = take(52, u32()), kernel.properties = take(56, u16());
  if (kernel.properties & 1 << 11) kernel.scratchBytes = std::max(kernel.scratchBytes, 16384u); // the stack's size is not known
  kernel.explicitBytes = explicitBytes;
  code->kernels.push_back(kernel);
}
EXPORT size_t gcn_op_size(void) { return sizeof(Op); }
EXPORT size_t gcn_wave_size(void) { return sizeof(Wave); }
/// Runs one instruction; for tests.
EXPORT int gcn_step(Wave *wave, const Op *op) { return step(wave, op); }

EXPORT int hipModuleLoadData(Code **out, const void *image) {
  std::lock_guard lock(mutex);
  auto *header = static_cast<const Elf64_Ehdr *>(image);
  auto *bytes = static_cast<const char *>(image);
  if (memcmp(header->e_ident, ELFMAG, 4) || header->e_machine != 224) return kInvalidValue;
  auto *segments = reinterpret_cast<const Elf64_Phdr *>(bytes + header->e_phoff);
  size_t size = 0;
  for (int i = 0; i < header->e_phnum; ++i)
    if (segments[i].p_type == PT_LOAD) size = std::max<size_t>(size, segments[i].p_vaddr + segments[i].p_memsz);
  auto *code = new Code;
  code->size = (size + 4095) & ~size_t(4095);
  code->memory = static_cast<char *>(mmap(nullptr, code->size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0));
  code->isGfx12 = findTarget().starts_with("gfx12");
  code->writesBack = findTarget().starts_with("gfx94") || findTarget().starts_with("gfx95");
  for (int i = 0; i < header->e_phnum; ++i)
    if (segments[i].p_type == PT_LOAD) memcpy(code->memory + segments[i].p_vaddr, bytes + segments[i].p_offset, segments[i].p_filesz);
  auto *sections = reinterpret_cast<const Elf64_Shdr *>(bytes + header->e_shoff);
  for (int i = 0; i < header->e_shnum; ++i) {
    if (sections[i].sh_type != SHT_RELA) continue;
    auto *symbols = reinterpret_cast<const Elf64_Sym *>(bytes + sections[sections[i].sh_link].sh_offset);
    auto *relocations = reinterpret_cast<const Elf64_Rela *>(bytes + sections[i].sh_offset);
    for (size_t k = 0; k < sections[i].sh_size / sizeof(Elf64_Rela); ++k) {
      u64 symbol = ELF64_R_SYM(relocations[k].r_info), kind = ELF64_R_TYPE(relocations[k].r_info);
      if (kind != 3 && kind != 13) return delete code, kInvalidValue; // R_AMDGPU_ABS64, R_AMDGPU_RELATIVE64
      u64 value = code->base() + u64(relocations[k].r_addend) + (symbol ? symbols[symbol].st_value : 0);
      memcpy(code->memory + relocations[k].r_offset, &value, 8);
    }
  }
  if (!decode(code)) return delete code, kInvalidValue;
  blocks[code->base()] = code->size;
  ++fake.modules;
  *out = code;
  return kSuccess;
}
EXPORT int hipModuleUnload(Code *code) {
  std::lock_guard lock(mutex);
  blocks.erase(code->base());
  munmap(code->memory, code->size);
  delete code;
  return --fake.modules, kSuccess;
}
struct Function {
  Code *code;
  size_t kernel;
};
EXPORT int hipModuleGetFunction(Function **out, Code *code, const char *name) {
  for (size_t i = 0; i < code->kernels.size(); ++i)
    if (code->kernels[i].name == name) return *out = new Function{code, i}, kSuccess;
  return kNotFound;
}
EXPORT int hipModuleOccupancyMaxActiveBlocksPerMultiprocessor(int *out, Function *, int, size_t) { return *out = 4, kSuccess; }
static int run(Function *function, const void *arguments, unsigned grid, unsigned block, unsigned shared, bool together) {
  std::lock_guard lock(mutex);
  if (sticky) return sticky;
  const Kernel &kernel = function->code->kernels[function->kernel];
  ++fake.launches;
  fake.together += together;
  sticky = launchGrid(*function->code, kernel, arguments, kernel.explicitBytes, grid, block, shared, together);
  return kSuccess; // faults show at the next wait
}
EXPORT int hipModuleLaunchKernel(Function *function, unsigned gx, unsigned, unsigned, unsigned bx, unsigned, unsigned, unsigned shared,
                                 void *, void **parameters, void **) {
  return run(function, parameters[0], gx, bx, shared, false);
}
#ifndef OLD
EXPORT int hipModuleLaunchCooperativeKernel(Function *function, unsigned gx, unsigned, unsigned, unsigned bx, unsigned, unsigned,
                                            unsigned shared, void *, void **parameters) {
  return run(function, parameters[0], gx, bx, shared, true);
}
#endif

//--- Streams and events ---

EXPORT int hipStreamCreateWithFlags(void **out, unsigned flags) { return *out = malloc(1), flags == 1 ? kSuccess : kInvalidValue; }
EXPORT int hipStreamDestroy(void *stream) { return free(stream), kSuccess; }
EXPORT int hipStreamSynchronize(void *) { return sticky; }
EXPORT int hipStreamQuery(void *) { return sticky; }
EXPORT int hipStreamWaitEvent(void *, void *, unsigned) { return ++fake.streamWaits, kSuccess; }
EXPORT int hipEventCreateWithFlags(void **out, unsigned) { return *out = calloc(1, sizeof(timespec)), kSuccess; }
EXPORT int hipEventDestroy(void *event) { return free(event), kSuccess; }
EXPORT int hipEventRecord(timespec *event, void *) { return clock_gettime(CLOCK_MONOTONIC, event), kSuccess; }
EXPORT int hipEventSynchronize(void *) { return sticky; }
EXPORT int hipEventQuery(void *) { return kSuccess; }
EXPORT int hipEventElapsedTime(float *out, timespec *begin, timespec *end) {
  return *out = 1e3 * (end->tv_sec - begin->tv_sec) + 1e-6 * (end->tv_nsec - begin->tv_nsec), kSuccess;
}

//--- Graphs: a list of kernels ---

struct Parameters {
  unsigned block[3];
  void **extra;
  Function *function;
  unsigned grid[3];
  void **parameters;
  unsigned shared;
};
static_assert(sizeof(Parameters) == 64);
struct Node {
  Parameters what;
  std::vector<char> arguments;
};
using Graph = std::vector<Node *>;
static void set(Node *node, const Parameters *what) {
  auto *arguments = static_cast<char *>(what->parameters[0]);
  node->what = *what;
  node->arguments.assign(arguments, arguments + what->function->code->kernels[what->function->kernel].explicitBytes);
}
EXPORT int hipGraphCreate(Graph **out, unsigned) { return *out = new Graph, kSuccess; }
EXPORT int hipGraphAddKernelNode(Node **out, Graph *graph, Node *const *, size_t, const Parameters *what) {
  graph->push_back(*out = new Node);
  return set(*out, what), kSuccess;
}
EXPORT int hipGraphInstantiateWithFlags(Graph **out, Graph *graph, u64) { return *out = graph, kSuccess; }
EXPORT int hipGraphExecKernelNodeSetParams(Graph *, Node *node, const Parameters *what) { return set(node, what), kSuccess; }
EXPORT int hipGraphLaunch(Graph *graph, void *) {
  ++fake.graphLaunches;
  for (Node *node : *graph)
    run(node->what.function, node->arguments.data(), node->what.grid[0], node->what.block[0], node->what.shared, false);
  return kSuccess;
}
EXPORT int hipGraphExecDestroy(Graph *) { return kSuccess; }
EXPORT int hipGraphDestroy(Graph *graph) {
  for (Node *node : *graph) delete node;
  return delete graph, kSuccess;
}
