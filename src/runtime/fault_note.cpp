// fault_note.cpp: handlers of SIGSEGV and SIGBUS
//
// In:   a fault, and the kernel that the faulting thread runs.
// Out:  one line with the kernel's name; then the previous handlers decide.
#include "runtime/fault_note.h"

#include <atomic>
#include <csignal>
#include <cstdint>
#include <cstring>
#include <iterator>
#include <sys/auxv.h>
#include <sys/mman.h>
#include <sys/uio.h>
#include <unistd.h>

namespace qd::runtime {

constinit thread_local const artifact::Artifact *runningKernel = nullptr;

namespace {

constexpr int kSignals[] = {SIGSEGV, SIGBUS};
struct sigaction before[std::size(kSignals)];

/// Writes with one system call, so that lines of several threads do not mix. Must not allocate or lock.
void writeNote(int number) {
  const std::string &name = runningKernel->kernel;
  const char *what = number == SIGBUS ? "quadrants: bus error in the kernel " : "quadrants: segmentation fault in the kernel ";
  const char *advice = ": most likely an index outside of an array. Run with qd.init(debug=True), which checks every index\n";
  iovec parts[] = {{const_cast<char *>(what), strlen(what)},
                   {const_cast<char *>(name.data()), name.size()},
                   {const_cast<char *>(advice), strlen(advice)}};
  (void)!writev(STDERR_FILENO, parts, int(std::size(parts)));
}

void handle(int number, siginfo_t *info, void *machine) {
  // Written once: a previous handler may raise the signal again, which calls this handler again if that one was installed later.
  static std::atomic<bool> isNoted{false};
  if (runningKernel && !isNoted.exchange(true)) writeNote(number);
  const struct sigaction &other = before[number == kSignals[0] ? 0 : 1];
  if (other.sa_flags & SA_SIGINFO) return other.sa_sigaction(number, info, machine);
  if (other.sa_handler != SIG_DFL && other.sa_handler != SIG_IGN) return other.sa_handler(number);
  // The instruction faults again, now without a handler; a signal that another process or call raised is raised again.
  signal(number, SIG_DFL);
  if (info->si_code <= 0) raise(number);
}

/// Gives the calling thread an alternate signal stack, unless it has one, so that handlers can run after a stack overflow.
void provideStack() {
  stack_t present;
  if (sigaltstack(nullptr, &present) != 0 || !(present.ss_flags & SS_DISABLE)) return;
  size_t bytes = (getauxval(AT_MINSIGSTKSZ) + (64 << 10)) & ~size_t(4095);
  void *memory = mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_STACK, -1, 0);
  if (memory == MAP_FAILED) return;
  stack_t stack = {.ss_sp = memory, .ss_flags = 0, .ss_size = bytes};
  sigaltstack(&stack, nullptr);
}

} // namespace

void noteFaults() {
  static const bool isInstalled = [] {
    provideStack();
    for (size_t k = 0; k < std::size(kSignals); ++k) {
      struct sigaction action = {};
      action.sa_sigaction = handle;
      action.sa_flags = SA_SIGINFO | SA_ONSTACK | SA_NODEFER;
      sigaction(kSignals[k], &action, &before[k]);
    }
    return true;
  }();
  (void)isInstalled;
}

} // namespace qd::runtime
