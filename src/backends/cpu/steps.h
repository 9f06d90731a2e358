// steps.h: LLVM IR as emitted → shared library, all in memory; with the steps that targets share (backends/steps.h)
#pragma once

#include "backends/cpu/processor.h"
#include "backends/steps.h"

#include "llvm/ADT/ArrayRef.h"
#include "llvm/ADT/SmallVector.h"
#include "llvm/ADT/StringMap.h"
#include "llvm/IR/Module.h"

#include <vector>

namespace qd::backends::cpu {

/// Tells every function what processor it is for. Without this LLVM neither inlines across the device library nor uses wide registers.
void setProcessor(llvm::Module &module, const Processor &processor, llvm::TargetMachine &machine);

/// The same for all targets, then what the code generators of processors need to stay fast.
void optimize(llvm::Module &module, llvm::TargetMachine &machine, int optLevel);

/// Which function is compiled in which partition.
struct Partitions {
  llvm::StringMap<unsigned> of; ///< by the function's name
  unsigned count = 0;           ///< fewer than 2: the module is compiled in one piece
  bool areKept = false;         ///< objects are looked up and published
  unsigned found = 0;           ///< objects that were there
};

/// One partition where one function is most of the module, or all of it is soon done; else as many as there are threads, or, where objects
/// are kept, partitions that stay the same when a function of another partition is edited.
Partitions choosePartitions(const llvm::Module &module, const TargetOptions &options);

/// Optimizes the module and selects instructions partition by partition, on several threads. One object for each partition, none of them of
/// any use once the compile is abandoned.
std::vector<Object> compilePartitions(llvm::Module &module, const Processor &processor, const TargetOptions &options,
                                      Partitions &partitions, CancelGate &gate);

/// One shared library of all objects, which exports `qd_kernel`. `strip`: without symbols and line tables.
std::vector<uint8_t> linkSharedLibrary(llvm::ArrayRef<Object> objects, bool strip);

} // namespace qd::backends::cpu
