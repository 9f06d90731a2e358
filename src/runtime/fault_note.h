// fault_note.h: writes one line to stderr when the code of a kernel ends the process by an invalid memory access
#pragma once

#include "artifact/artifact.h"

namespace qd::runtime {

/// The kernel whose code this thread runs. A signal handler reads it, so it must not be allocated lazily.
extern constinit thread_local const artifact::Artifact *runningKernel __attribute__((tls_model("initial-exec")));

/// Marks, while it lives, the kernel that this thread runs; null: none, as while Python handles signals.
class InKernel {
public:
  explicit InKernel(const artifact::Artifact &kernel) { runningKernel = &kernel; }
  ~InKernel() { runningKernel = before; }
  InKernel(const InKernel &) = delete;
  InKernel &operator=(const InKernel &) = delete;

private:
  const artifact::Artifact *before = runningKernel;
};

/// Installs the handlers of SIGSEGV and SIGBUS, once per process. They call the previous handlers.
void noteFaults();

} // namespace qd::runtime
