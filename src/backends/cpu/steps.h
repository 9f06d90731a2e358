// steps.h: emitted LLVM IR → shared library, all in memory, with the steps that targets share (backends/steps.h)
#pragma once

#include "backends/cpu/processor.h"
#include "backends/steps.h"

#include "llvm/ADT/ArrayRef.h"
#include "llvm/ADT/SmallVector.h"
#include "llvm/ADT/StringMap.h"
#include "llvm/IR/Module.h"

#include <vector>

namespace qd::backends::cpu {

/// Sets the target processor of every function. Without it LLVM neither inlines across the device library nor uses wide registers.
void setProcessor(llvm::Module &module, const Processor &processor, llvm::TargetMachine &machine);

/// Runs the optimizations of all targets, then those that keep the code generators of processors fast.
void optimize(llvm::Module &module, llvm::TargetMachine &machine, int optLevel);

/// Assignment of functions to partitions.
struct Partitions {
  llvm::StringMap<unsigned> of; ///< key: name of the function
  unsigned count = 0;           ///< fewer than 2: the module is compiled as a whole
  bool areStored = false;       ///< objects are looked up and stored
  unsigned found = 0;           ///< number of objects found
};

/// Chooses one partition if one function is most of the module or all of it compiles quickly. Otherwise there are as many partitions as
/// threads or, if objects are stored, partitions that stay the same when a function of another partition is edited.
Partitions choosePartitions(const llvm::Module &module, const TargetOptions &options);

/// Optimizes the module and selects instructions partition by partition, on several threads. Returns one object per partition; after the
/// compile is abandoned these are unusable.
std::vector<Object> compilePartitions(llvm::Module &module, const Processor &processor, const TargetOptions &options,
                                      Partitions &partitions, CancelGate &gate);

} // namespace qd::backends::cpu
