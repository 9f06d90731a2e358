// block_threads.h: runs the threads of a block, which wait for each other, on one thread of the processor
//
// Each thread of the block has its own stack. A thread that waits switches to the next one, in a ring; the last one that arrives at a
// barrier continues at once. When all threads of a block wait and none can continue (they wait at different barriers), the launch fails.
#pragma once

#include "runtime/kernel_abi.h"

#include <cstddef>
#include <utility>

namespace qd::runtime {

/// Threads of a subgroup: a power of two, at most QD_SUBGROUP_SIZE.
void setSubgroupSize(int size);
int getSubgroupSize();

/// Runs `function` for the iterations [begin, end), in blocks of `blockSize` threads; `begin` is a multiple of it. The missing threads of
/// an incomplete last block count as absent at barriers. `together`: the threads of all blocks run in turn, instead of block after block.
void runBlocks(QdKernelContext *context, QdThreadFunction function, int64_t begin, int64_t end, int32_t blockSize, int64_t sharedBytes,
               int32_t together);

/// The stack of the thread of a block that the caller is running: its lowest address and its size. Null outside of blocks.
std::pair<void *, size_t> getBlockThreadStack();

/// Functions that threads call while they run (see QdRuntimeApi).
void synchronizeThreads(QdKernelContext *context, QdThread *thread, int32_t team, uint64_t threads);
uint64_t shuffle(QdKernelContext *context, QdThread *thread, uint64_t value, int32_t lane, uint64_t threads);
uint64_t ballot(QdKernelContext *context, QdThread *thread, int32_t vote, uint64_t threads);
uint64_t getActiveThreads(QdKernelContext *context, QdThread *thread, int32_t place);
/// KernelRun::mustStop, usable in blocks and elsewhere.
int32_t mustStop(QdKernelContext *context);

} // namespace qd::runtime
