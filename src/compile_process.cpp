// compile_process.cpp: what a compilation changes in its process
//
// In:   fatal errors of LLVM, and forks of the process, at any time and on any thread.
// Out:  exceptions, and children in which the compiler works.
#include "compile_process.h"

#include "llvm/Support/ErrorHandling.h"

#include <atomic>
#include <chrono>
#include <new>
#include <pthread.h>
#include <stdexcept>
#include <thread>

namespace qd {

void throwFatalErrors() {
  [[maybe_unused]] static const bool once = [] {
    llvm::install_fatal_error_handler([](void *, const char *reason, bool) { throw std::runtime_error(reason); });
    llvm::install_bad_alloc_error_handler([](void *, const char *, bool) { throw std::bad_alloc(); });
    return true;
  }();
}

static std::atomic<int> running{0};

/// Compiles need no GIL, which the forking thread holds: each of them ends, and no other one begins.
static void waitForCompiles() {
  constexpr int kMilliseconds = 5000;
  for (int waited = 0; waited < kMilliseconds && running > 0; ++waited) std::this_thread::sleep_for(std::chrono::milliseconds(1));
}

RunningCompile::RunningCompile() {
  [[maybe_unused]] static const int registered = pthread_atfork(waitForCompiles, nullptr, [] { running = 0; });
  ++running;
}

RunningCompile::~RunningCompile() {
  if (running > 0) --running;
}

} // namespace qd
