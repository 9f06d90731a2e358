// parts.h: the functions of one kernel compiled side by side
#pragma once

#include "backends/cpu/object.h"
#include "backends/cpu/processor.h"

namespace qd::backends::cpu {

/// How many parts to compile the module in on up to `threads` threads: 1 where one function is most of it, or all of it is soon done.
unsigned choosePartCount(const llvm::Module &module, unsigned threads);

/// Optimises the module and selects instructions in `count` parts, each on a thread of its own. One object for each part.
llvm::Expected<std::vector<Object>> compileParts(llvm::Module &module, const Processor &processor, int optLevel, unsigned count);

} // namespace qd::backends::cpu
