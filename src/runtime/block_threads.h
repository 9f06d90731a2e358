// block_threads.h: the threads of a block, which wait for each other, on one thread of the processor
//
// Each has a stack of its own. One that waits hands over to the next, in a ring; the last one that arrives at a barrier goes on at once. A
// block of which every thread waits and none can go on (they stand at different barriers) is given up as a failure of the launch.
#pragma once

#include "runtime/kernel_abi.h"

#include <cstddef>
#include <utility>

namespace qd::runtime {

/// Runs `function` for the iterations [begin, end), in blocks of `blockSize` threads; `begin` is a multiple of it. Threads of a last block
/// that is not full are not there, and nobody waits for them. `together`: the threads of all blocks run in turn, not block after block.
void runBlocks(QdKernelContext *context, QdThreadFunction function, int64_t begin, int64_t end, int32_t blockSize, int64_t sharedBytes,
               int32_t together);

/// The stack of the thread of a block that the caller runs: its lowest address and its size. Null outside of blocks.
std::pair<void *, size_t> getBlockThreadStack();

/// What threads call while they run (see QdRuntimeApi).
void synchronizeThreads(QdKernelContext *context, QdThread *thread, int32_t team);
uint64_t shuffle(QdKernelContext *context, QdThread *thread, uint64_t value, int32_t lane);
uint64_t ballot(QdKernelContext *context, QdThread *thread, int32_t vote);
/// KernelRun::mustStop for code in blocks and elsewhere.
int32_t mustStop(QdKernelContext *context);

} // namespace qd::runtime
