// large_stack.h: run something that recurses deeply
#pragma once

#include <functional>

namespace qd::support {

/// Runs `work` on a thread with a stack of 512 MiB (address space; memory is used as it is touched) and waits for it. Where no such thread
/// can be made, on this one. `work` throws nothing.
void runOnLargeStack(const std::function<void()> &work);

} // namespace qd::support
