/* fake_driver.c: a stand-in for NVIDIA's driver, on memory of the host, so that the run half of the backend is tested where there is no GPU.
 *
 * A "cubin" is a shared object. Its entries have the signature Entry below and run the whole grid. A "PTX" text is the path of one.
 * Memory that the fake gives out as device memory is protected except while a kernel or a copy runs: whoever touches it outside of that
 * ends with a signal, as nothing but the driver may.
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <elf.h>
#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#define EXPORT __attribute__((visibility("default")))
typedef void (*Entry)(const void *launch, unsigned blocks, unsigned threads, unsigned shared_bytes);
struct Function {
  Entry entry;
  size_t parameter_bytes; /* what the library says of all its entries */
};

enum { SUCCESS = 0, INVALID_VALUE = 1, OUT_OF_MEMORY = 2, NOT_READY = 600, ILLEGAL_ADDRESS = 700, MOST_BLOCKS = 4096, DEVICE = 3 };

/* What tests look at and set through ctypes. */
EXPORT struct {
  int64_t bytes_in_use, bytes_available, allocations, releases, copies_in, copies_out, launches, graph_launches, graph_updates, pins, trims,
      modules, links, edges, loops, rounds, busy; /* so often is the answer that a stream is not done yet */
  int64_t fault; /* the status that the next synchronization fails with */
  int64_t stream_waits, link_failure; /* the status that linking fails with */
} fake = {.bytes_available = (int64_t)1 << 30};

static struct Block {
  char *data;
  size_t bytes;
} blocks[MOST_BLOCKS];

/* One thread works on the device at a time; the blocks are open while one does. */
static pthread_mutex_t device_lock = PTHREAD_MUTEX_INITIALIZER;
static void protect(int how) {
  for (int i = 0; i < MOST_BLOCKS; ++i)
    if (blocks[i].data) mprotect(blocks[i].data, blocks[i].bytes, how);
}
static void enter(void) { pthread_mutex_lock(&device_lock), protect(PROT_READ | PROT_WRITE); }
static void leave(void) { protect(PROT_NONE), pthread_mutex_unlock(&device_lock); }

static int sticky;

EXPORT int cuGetErrorName(int status, const char **out) {
  *out = status == OUT_OF_MEMORY ? "CUDA_ERROR_OUT_OF_MEMORY" : status == ILLEGAL_ADDRESS ? "CUDA_ERROR_ILLEGAL_ADDRESS" : "CUDA_ERROR";
  return SUCCESS;
}
EXPORT int cuGetErrorString(int status, const char **out) {
  *out = status == OUT_OF_MEMORY ? "out of memory" : status == ILLEGAL_ADDRESS ? "an illegal memory access was encountered" : "a failure";
  return SUCCESS;
}
/* What is wrong with a driver is said when it is compiled: -DINIT=803 and the like. */
#ifndef INIT
#define INIT SUCCESS
#endif
#ifndef VERSION
#define VERSION 13000
#endif
#ifndef DEVICES
#define DEVICES 2
#endif
EXPORT int cuInit(unsigned flags) { return INIT; }
EXPORT int cuDriverGetVersion(int *out) { return *out = VERSION, SUCCESS; }
EXPORT int cuDeviceGetCount(int *out) { return *out = DEVICES, SUCCESS; }
EXPORT int cuDeviceGet(int *out, int number) { return *out = number, SUCCESS; }
EXPORT int cuDeviceGetName(char *out, int size, int device) { return snprintf(out, size, "fake"), SUCCESS; }
EXPORT int cuDeviceGetAttribute(int *out, int attribute, int device) {
  *out = attribute == 16 ? 2 : attribute == 75 ? 9 : attribute == 76 ? 0 : attribute == 115 ? 1 : 0;
  return SUCCESS;
}
EXPORT int cuDeviceGetDefaultMemPool(void **out, int device) { return *out = &fake, SUCCESS; }
EXPORT int cuMemPoolSetAttribute(void *pool, int attribute, void *value) { return SUCCESS; }
EXPORT int cuMemPoolTrimTo(void *pool, size_t bytes) { return ++fake.trims, SUCCESS; }

static _Thread_local void *current;
static int is_lost; /* where the current context is, every call fails that makes another */
EXPORT int cuDevicePrimaryCtxRetain(void **out, int device) {
  if (is_lost && current) return ILLEGAL_ADDRESS;
  return is_lost = 0, *out = (char *)&fake + device, SUCCESS;
}
EXPORT int cuDevicePrimaryCtxReset_v2(int device) {
  is_lost |= sticky != 0;
  return sticky = 0, SUCCESS;
}
EXPORT int cuCtxGetCurrent(void **out) { return *out = current, SUCCESS; }
EXPORT int cuCtxSetCurrent(void *context) { return current = context, SUCCESS; }
EXPORT int cuCtxSetLimit(int limit, size_t value) { return SUCCESS; }

EXPORT int cuMemGetInfo_v2(size_t *free, size_t *total) {
  *free = fake.bytes_available - fake.bytes_in_use;
  *total = fake.bytes_available;
  return SUCCESS;
}
static struct Block *find(const char *data) {
  for (int i = 0; i < MOST_BLOCKS; ++i)
    if (blocks[i].data == data) return &blocks[i];
  return NULL;
}
static int allocate(uint64_t *out, size_t bytes) {
  if (!current) return INVALID_VALUE;
  if (sticky) return sticky;
  if (bytes > (size_t)(fake.bytes_available - fake.bytes_in_use)) return OUT_OF_MEMORY;
  struct Block *free = find(NULL);
  if (!free) return OUT_OF_MEMORY;
  free->data = mmap(NULL, bytes, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  free->bytes = bytes;
  *out = (uint64_t)free->data;
  fake.bytes_in_use += (int64_t)bytes;
  return ++fake.allocations, SUCCESS;
}
static int release(uint64_t address) {
  struct Block *block = find((char *)address);
  if (!block) return INVALID_VALUE;
  munmap(block->data, block->bytes);
  fake.bytes_in_use -= (int64_t)block->bytes;
  block->data = NULL;
  return ++fake.releases, SUCCESS;
}
static int locked(int status) { return pthread_mutex_unlock(&device_lock), status; }
EXPORT int cuMemAlloc_v2(uint64_t *out, size_t bytes) { return pthread_mutex_lock(&device_lock), locked(allocate(out, bytes)); }
EXPORT int cuMemFree_v2(uint64_t address) { return pthread_mutex_lock(&device_lock), locked(release(address)); }
EXPORT int cuMemAllocAsync(uint64_t *out, size_t bytes, void *stream) { return pthread_mutex_lock(&device_lock), locked(allocate(out, bytes)); }
EXPORT int cuMemFreeAsync(uint64_t address, void *stream) { return pthread_mutex_lock(&device_lock), locked(release(address)); }
EXPORT int cuMemHostAlloc(void **out, size_t bytes, unsigned flags) { return *out = calloc(1, bytes), ++fake.pins, SUCCESS; }
EXPORT int cuMemFreeHost(void *data) { return free(data), SUCCESS; }
EXPORT int cuPointerGetAttribute(void *out, int attribute, uint64_t address) { return *(int *)out = 0, SUCCESS; }

static int copy(void *to, const void *from, size_t bytes) {
  if (sticky) return sticky;
  enter();
  memcpy(to, from, bytes);
  leave();
  return SUCCESS;
}
EXPORT int cuMemsetD8Async(uint64_t address, unsigned char value, size_t bytes, void *stream) {
  enter();
  memset((void *)address, value, bytes);
  leave();
  return SUCCESS;
}
EXPORT int cuMemsetD32Async(uint64_t address, unsigned value, size_t count, void *stream) {
  enter();
  for (size_t i = 0; i < count; ++i) ((unsigned *)address)[i] = value;
  leave();
  return SUCCESS;
}
EXPORT int cuMemcpyHtoDAsync_v2(uint64_t to, const void *from, size_t bytes, void *stream) {
  return ++fake.copies_in, copy((void *)to, from, bytes);
}
EXPORT int cuMemcpyDtoHAsync_v2(void *to, uint64_t from, size_t bytes, void *stream) {
  return ++fake.copies_out, copy(to, (void *)from, bytes);
}
EXPORT int cuMemcpyDtoDAsync_v2(uint64_t to, uint64_t from, size_t bytes, void *stream) { return copy((void *)to, (void *)from, bytes); }

/*--- Code ---*/

/* The code of a kernel in text is that which sets conditions: set_condition below. */
static char text_module;
static void set_condition(const void *update, unsigned blocks, unsigned threads, unsigned shared_bytes);
EXPORT int cuModuleLoadData(void **out, const void *image) {
  if (memcmp(image, "\177ELF", 4)) return *out = &text_module, strstr(image, "cudaGraphSetConditional") ? SUCCESS : INVALID_VALUE;
  const Elf64_Ehdr *header = image;
  size_t bytes = header->e_shoff + (size_t)header->e_shnum * header->e_shentsize;
  int file = memfd_create("kernel", 0);
  char path[64];
  struct stat status;
  snprintf(path, sizeof path, "/proc/self/fd/%d", file);
  if (write(file, image, bytes) != (ssize_t)bytes || fstat(file, &status)) return INVALID_VALUE;
  /* The loader takes equal names for one library, also those that another copy of this driver gave. */
  char unique[96];
  snprintf(unique, sizeof unique, "/tmp/fake_kernel_%d_%lu.so", getpid(), (unsigned long)status.st_ino);
  if (symlink(path, unique)) return INVALID_VALUE;
  *out = dlopen(unique, RTLD_NOW | RTLD_LOCAL);
  unlink(unique);
  close(file);
  return *out ? (++fake.modules, SUCCESS) : INVALID_VALUE;
}
EXPORT int cuModuleUnload(void *module) { return --fake.modules, dlclose(module), SUCCESS; }
EXPORT int cuModuleGetFunction(struct Function **out, void *module, const char *name) {
  if (module == &text_module) {
    *out = malloc(sizeof **out);
    **out = (struct Function){set_condition, 24};
    return strcmp(name, "set_condition") ? 500 : SUCCESS;
  }
  Entry entry = (Entry)dlsym(module, name);
  const size_t *bytes = dlsym(module, "parameter_bytes");
  if (!entry || !bytes) return 500;
  *out = malloc(sizeof **out);
  **out = (struct Function){entry, *bytes};
  return SUCCESS;
}
EXPORT int cuFuncSetAttribute(void *function, int attribute, int value) { return SUCCESS; }
EXPORT int cuOccupancyMaxActiveBlocksPerMultiprocessor(int *out, void *function, int threads, size_t shared) { return *out = 4, SUCCESS; }

static int run(struct Function *function, const void *launch, unsigned blocks, unsigned threads, unsigned shared) {
  if (sticky) return sticky;
  enter();
  function->entry(launch, blocks, threads, shared);
  leave();
  return SUCCESS;
}
EXPORT int cuLaunchKernel(struct Function *function, unsigned gx, unsigned gy, unsigned gz, unsigned bx, unsigned by, unsigned bz, unsigned shared,
                          void *stream, void **parameters, void **extra) {
  return ++fake.launches, run(function, parameters[0], gx, bx, shared);
}
EXPORT int cuLaunchCooperativeKernel(struct Function *function, unsigned gx, unsigned gy, unsigned gz, unsigned bx, unsigned by, unsigned bz,
                                     unsigned shared, void *stream, void **parameters) {
  return ++fake.launches, run(function, parameters[0], gx, bx, shared);
}

/* A text is a path, or has a comment with one. Texts are kept in the folder FAKE_TEXTS. */
struct Linking {
  char *code;
  size_t bytes;
};
EXPORT int cuLinkCreate_v2(unsigned count, int *options, void **values, void **out) {
  return *out = calloc(1, sizeof(struct Linking)), SUCCESS;
}
EXPORT int cuLinkAddData_v2(struct Linking *linking, int kind, char *text, size_t bytes, const char *name, unsigned count, int *options,
                            void **values) {
  char path[512] = "";
  const char *mark = strstr(text, "// library ");
  if (text[bytes - 1] || (mark && sscanf(mark, "// library %500s", path) != 1)) return INVALID_VALUE;
  if (getenv("FAKE_TEXTS")) {
    static int texts;
    char kept[600];
    snprintf(kept, sizeof kept, "%s/%d.ptx", getenv("FAKE_TEXTS"), __atomic_add_fetch(&texts, 1, __ATOMIC_SEQ_CST));
    FILE *out = fopen(kept, "wb");
    fwrite(text, 1, bytes - 1, out);
    fclose(out);
  }
  FILE *file = kind == 1 ? fopen(mark ? path : text, "rb") : NULL;
  if (!file) return 218;
  fseek(file, 0, SEEK_END);
  linking->bytes = (size_t)ftell(file);
  rewind(file);
  linking->code = malloc(linking->bytes);
  size_t got = fread(linking->code, 1, linking->bytes, file);
  fclose(file);
  return got == linking->bytes ? SUCCESS : INVALID_VALUE;
}
EXPORT int cuLinkComplete(struct Linking *linking, void **code, size_t *bytes) {
  if (fake.link_failure) return (int)fake.link_failure;
  *code = linking->code;
  *bytes = linking->bytes;
  return __atomic_add_fetch(&fake.links, 1, __ATOMIC_SEQ_CST), SUCCESS;
}
EXPORT int cuLinkDestroy(struct Linking *linking) { return free(linking->code), free(linking), SUCCESS; }

/*--- Streams and events: everything is done at once ---*/

EXPORT int cuStreamCreate(void **out, unsigned flags) { return *out = malloc(1), flags == 1 ? SUCCESS : INVALID_VALUE; }
EXPORT int cuStreamDestroy_v2(void *stream) { return free(stream), SUCCESS; }
EXPORT int cuStreamSynchronize(void *stream) {
  if (fake.fault) sticky = (int)fake.fault, fake.fault = 0;
  return sticky;
}
EXPORT int cuStreamQuery(void *stream) {
  if (fake.busy) return --fake.busy, NOT_READY;
  return cuStreamSynchronize(stream);
}
EXPORT int cuStreamWaitEvent(void *stream, void *event, unsigned flags) { return ++fake.stream_waits, SUCCESS; }
EXPORT int cuEventCreate(void **out, unsigned flags) { return *out = calloc(1, sizeof(struct timespec)), SUCCESS; }
EXPORT int cuEventDestroy_v2(void *event) { return free(event), SUCCESS; }
EXPORT int cuEventRecord(void *event, void *stream) { return clock_gettime(CLOCK_MONOTONIC, event), SUCCESS; }
EXPORT int cuEventSynchronize(void *event) { return cuStreamSynchronize(NULL); }
EXPORT int cuEventQuery(void *event) { return SUCCESS; }
EXPORT int cuEventElapsedTime(float *out, struct timespec *begin, struct timespec *end) {
  return *out = 1e3 * (end->tv_sec - begin->tv_sec) + 1e-6 * (end->tv_nsec - begin->tv_nsec), SUCCESS;
}

/*--- Graphs: a list of kernels and of loops, which have a graph of their own ---*/

struct Parameters {
  struct Function *function;
  unsigned grid[3], block[3], shared;
  void **parameters, **extra;
  void *kernel, *context;
};
struct Node {
  struct Parameters what;
  char launch[4096];
  struct Graph *body; /* of a loop */
  uint64_t condition;
};
struct Graph {
  int count;
  struct Node nodes[64];
};
static struct {
  unsigned value, at_launch;
  struct Graph *graph;
} conditions[64]; /* a handle is the place here, from 1 on */
static uint64_t condition_count;
static void set(struct Node *node, const struct Parameters *what) {
  node->what = *what;
  memcpy(node->launch, what->parameters[0], what->function->parameter_bytes);
}
static struct Node *append(struct Graph *graph, size_t edges) {
  if (graph->count == 64) return NULL;
  fake.edges += (int64_t)edges;
  return &graph->nodes[graph->count++];
}
EXPORT int cuGraphCreate(void **out, unsigned flags) { return *out = calloc(1, sizeof(struct Graph)), SUCCESS; }
EXPORT int cuGraphAddKernelNode_v2(void **out, struct Graph *graph, void *const *after, size_t count, const struct Parameters *what) {
  struct Node *node = append(graph, count);
  if (!node) return INVALID_VALUE;
  set(node, what);
  return *out = node, SUCCESS;
}
#if VERSION >= 12040
EXPORT int cuGraphConditionalHandleCreate(uint64_t *out, struct Graph *graph, void *context, unsigned value, unsigned flags) {
  if (condition_count == 63 || flags != 1 || context != current) return INVALID_VALUE;
  *out = ++condition_count;
  conditions[*out].at_launch = value;
  conditions[*out].graph = graph;
  return SUCCESS;
}
struct LoopNode {
  int type, reserved[3];
  uint64_t condition;
  int kind;
  unsigned size;
  struct Graph **bodies;
  void *context;
  char rest[208];
};
EXPORT int cuGraphAddNode_v2(void **out, struct Graph *graph, void *const *after, const void *edges, size_t count, struct LoopNode *what) {
  struct Node *node = append(graph, count);
  if (!node || what->type != 13 || what->kind != 1 || what->size != 1 || what->context != current) return INVALID_VALUE;
  for (size_t i = 0; i < sizeof what->rest; ++i)
    if (what->rest[i]) return INVALID_VALUE;
  node->body = calloc(1, sizeof(struct Graph));
  node->condition = what->condition;
  what->bodies = &node->body;
  return *out = node, ++fake.loops, SUCCESS;
}
#endif
static void set_condition(const void *update, unsigned blocks, unsigned threads, unsigned shared_bytes) {
  const struct {
    uint64_t condition;
    const unsigned char *flag;
    const uint32_t *failed;
  } *what = update;
  conditions[what->condition].value = !what->flag ? 1 : *what->failed ? 0 : *what->flag;
}
EXPORT int cuGraphAddMemsetNode(void **out, void *graph, void *const *after, size_t count, const void *what, void *context) { return 1; }
EXPORT int cuGraphInstantiateWithFlags(void **out, void *graph, uint64_t flags) { return *out = graph, SUCCESS; }
EXPORT int cuGraphExecKernelNodeSetParams_v2(void *graph, struct Node *node, const struct Parameters *what) {
  return ++fake.graph_updates, set(node, what), SUCCESS;
}
static int run_graph(struct Graph *graph) {
  for (int i = 0; i < graph->count; ++i) {
    struct Node *node = &graph->nodes[i];
    if (node->body) {
      for (; conditions[node->condition].value; ++fake.rounds)
        if (run_graph(node->body)) return sticky;
    } else if (run(node->what.function, node->launch, node->what.grid[0], node->what.block[0], node->what.shared)) {
      return sticky;
    }
  }
  return SUCCESS;
}
EXPORT int cuGraphLaunch(struct Graph *graph, void *stream) {
  ++fake.graph_launches;
  for (uint64_t i = 1; i <= condition_count; ++i)
    if (conditions[i].graph == graph) conditions[i].value = conditions[i].at_launch;
  return run_graph(graph);
}
EXPORT int cuGraphExecDestroy(void *graph) { return SUCCESS; }
EXPORT int cuGraphDestroy(struct Graph *graph) {
  for (int i = 0; i < graph->count; ++i)
    if (graph->nodes[i].body) cuGraphDestroy(graph->nodes[i].body);
  return free(graph), SUCCESS;
}
