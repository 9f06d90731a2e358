// targets.cpp: finds a target by name, in backends.def
//
// In:   a name: the backend, or the backend, a colon and the processor for which it compiles.
// Out:  the target, or null if there is none of this name.
#include "backends/cpu/processor.h"
#include "backends/target.h"

#define QD_TARGET(name)                                                                                                                    \
  namespace qd::backends::name {                                                                                                           \
  std::unique_ptr<Target> makeTarget(llvm::StringRef processor);                                                                           \
  }
#define QD_BACKEND(name, device, shared, managed) QD_TARGET(name)
#include "backends/backends.def"

namespace qd::backends {

std::unique_ptr<Target> findTarget(llvm::StringRef name, llvm::StringRef processor) {
  if (name.contains(':')) std::tie(name, processor) = name.split(':');
  if (name == "x64" || name == "arm64") return cpu::makeTarget(cpu::describeProcessor(name, processor));
#define QD_TARGET(backend)                                                                                                                 \
  if (name == #backend) return backend::makeTarget(processor);
#define QD_BACKEND(backend, device, shared, managed) QD_TARGET(backend)
#include "backends/backends.def"
  return nullptr;
}

} // namespace qd::backends
