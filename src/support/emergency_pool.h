// emergency_pool.h: memory for code that cannot stop when an allocation fails
#pragma once

#include <cstddef>
#include <cstdint>

/// LLVM and MLIR are built without exceptions: a failed allocation inside them ends the process, and an exception thrown through their
/// frames leaves inconsistent tables behind. In the compiler's module (`bindings/compiler_memory.cpp`) an allocation that the system
/// refuses is served from this pool. Our own code can stop cleanly and checks between its steps whether that happened.
///
/// The pool is a zero-initialized array: it needs no constructor, so it also serves the static constructors of LLVM, and it takes no memory
/// until it is used.
namespace qd::support::emergency_pool {

/// Null when the pool is exhausted. `alignment` is a power of two.
void *allocate(size_t bytes, size_t alignment) noexcept;
bool owns(const void *block) noexcept;
/// For blocks that the pool owns.
void release(void *block) noexcept;
size_t getSize(const void *block) noexcept;

/// Number of allocations that the system has refused so far.
uint64_t countRefusals() noexcept;
/// Number of those that the pool could not serve either.
uint64_t countFailures() noexcept;

} // namespace qd::support::emergency_pool

namespace qd::support {

/// Reports whether memory ran out on any thread since its construction.
class MemoryWatch {
public:
  bool ranOut() const { return emergency_pool::countRefusals() != refusals; }
  /// Whether the pool was exhausted as well, so that an allocation failed.
  bool isLost() const { return emergency_pool::countFailures() != failures; }
  /// Throws std::bad_alloc if memory ran out.
  void check() const;

private:
  uint64_t refusals = emergency_pool::countRefusals(), failures = emergency_pool::countFailures();
};

} // namespace qd::support
