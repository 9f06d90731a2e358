// targets.cpp: finds a target by name
#include "backends/cpu/processor.h"
#include "backends/target.h"

namespace qd::backends {

std::unique_ptr<Target> findTarget(llvm::StringRef name, llvm::StringRef cpu) {
  if (name.contains(':')) std::tie(name, cpu) = name.split(':');
  if (name == "cpu") return cpu::makeTarget(cpu::getHost());
  if (name == "x64" || name == "arm64") return cpu::makeTarget(cpu::describeProcessor(name, cpu));
  if (name == "cuda") return cuda::makeTarget(cpu.empty() ? "sm_90" : cpu);
  if (name == "null") return null::makeTarget();
  return nullptr;
}

} // namespace qd::backends
