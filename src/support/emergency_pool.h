// emergency_pool.h: memory for code that cannot stop where an allocation fails
#pragma once

#include <cstddef>
#include <cstdint>

/// LLVM and MLIR are built without exceptions: a failed allocation inside them ends the process, and an exception thrown through their
/// frames leaves half-changed tables behind. In the compiler's module (`bindings/compiler_memory.cpp`) an allocation that the system
/// refuses is served from this pool, and our own code, which can stop in an orderly way, asks between its steps whether that happened.
///
/// The pool is a zero-initialized array: it needs no constructor, so that it serves the static constructors of LLVM too, and takes no
/// memory until it is used.
namespace qd::support::emergency_pool {

/// Null when the pool is exhausted. `alignment` is a power of two.
void *allocate(size_t bytes, size_t alignment) noexcept;
bool owns(const void *block) noexcept;
/// Both for blocks that the pool owns.
void release(void *block) noexcept;
size_t getSize(const void *block) noexcept;

/// How many allocations the system has refused so far.
uint64_t countRefusals() noexcept;
/// How many of them the pool could not serve either.
uint64_t countFailures() noexcept;

} // namespace qd::support::emergency_pool

namespace qd::support {

/// Tells whether memory ran out since this was made, on any thread.
class MemoryWatch {
public:
  bool ranOut() const { return emergency_pool::countRefusals() != refusals; }
  /// Whether the pool was exhausted as well, so that somewhere an allocation failed.
  bool isLost() const { return emergency_pool::countFailures() != failures; }
  /// Throws std::bad_alloc if it did.
  void check() const;

private:
  uint64_t refusals = emergency_pool::countRefusals(), failures = emergency_pool::countFailures();
};

} // namespace qd::support
