// fault_note.h: one line on stderr when the code of a kernel ends the process by an access to memory that is not there
#pragma once

#include "artifact/artifact.h"

namespace qd::runtime {

/// Of this thread: the kernel whose code it runs. Read by the handler of a signal, so it must never be allocated late.
extern constinit thread_local const artifact::Artifact *runningKernel __attribute__((tls_model("initial-exec")));

/// Says while it lives which kernel this thread runs; null: none, as while Python handles signals.
class InKernel {
public:
  explicit InKernel(const artifact::Artifact &kernel) { runningKernel = &kernel; }
  ~InKernel() { runningKernel = before; }
  InKernel(const InKernel &) = delete;
  InKernel &operator=(const InKernel &) = delete;

private:
  const artifact::Artifact *before = runningKernel;
};

/// Installs the handlers of SIGSEGV and SIGBUS, once in a process. They hand over to those that were there before.
void noteFaults();

} // namespace qd::runtime
