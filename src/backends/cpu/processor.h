// processor.h: the processor to compile for
#pragma once

#include "backends/steps.h"
#include "backends/target.h"

#include "llvm/ADT/StringRef.h"

#include <memory>
#include <string>

namespace qd::backends::cpu {

struct Processor {
  llvm::Triple triple;
  std::string name;     ///< "skylake-avx512"
  std::string features; ///< "+avx2,-avx512f"
  passes::TargetTraits traits;
};

/// The processor that this process runs on.
const Processor &getHost();
/// A processor by architecture ("x64", "arm64") and name. An empty name selects the oldest one that the package supports.
Processor describeProcessor(llvm::StringRef architecture, llvm::StringRef name);

/// Compiles lowered IR to a shared library for the processor.
std::unique_ptr<Target> makeTarget(Processor processor);

CodeGenerator makeCodeGenerator(const Processor &processor, int optLevel);

} // namespace qd::backends::cpu
