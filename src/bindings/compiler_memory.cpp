// compiler_memory.cpp: where the compiler's module gets its memory (`--wrap`, CMakeLists.txt)
//
// In: calls of the C library's allocation from our code, LLVM, MLIR, lld and the C++ library, which are all linked into the module.
// Out: the system's memory, or, where it refuses, the emergency pool's, so that no stage stops halfway.
#include "support/emergency_pool.h"

#include <cstddef>
#include <cstdlib>
#include <cstring>
#include <malloc.h>

namespace pool = qd::support::emergency_pool;

extern "C" {

void *__real_malloc(size_t bytes);
void *__real_calloc(size_t count, size_t bytes);
void *__real_realloc(void *block, size_t bytes);
void __real_free(void *block);
void *__real_aligned_alloc(size_t alignment, size_t bytes);

void *__wrap_malloc(size_t bytes) {
  void *block = __real_malloc(bytes);
  return block ? block : pool::allocate(bytes, alignof(std::max_align_t));
}

void __wrap_free(void *block) { pool::owns(block) ? pool::release(block) : __real_free(block); }

void *__wrap_calloc(size_t count, size_t bytes) {
  if (void *block = __real_calloc(count, bytes)) return block;
  size_t total;
  if (__builtin_mul_overflow(count, bytes, &total)) return nullptr;
  void *block = pool::allocate(total, alignof(std::max_align_t));
  return block ? memset(block, 0, total) : nullptr;
}

void *__wrap_realloc(void *block, size_t bytes) {
  bool isOurs = pool::owns(block);
  if (!isOurs)
    if (void *grown = __real_realloc(block, bytes); grown || !bytes) return grown;
  size_t before = isOurs ? pool::getSize(block) : block ? malloc_usable_size(block) : 0;
  void *moved = __wrap_malloc(bytes);
  if (!moved) return nullptr;
  if (block) memcpy(moved, block, before < bytes ? before : bytes);
  __wrap_free(block);
  return moved;
}

void *__wrap_aligned_alloc(size_t alignment, size_t bytes) {
  void *block = __real_aligned_alloc(alignment, bytes);
  return block ? block : pool::allocate(bytes, alignment);
}

} // extern "C"
