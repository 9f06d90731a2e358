// processors.h: how many processors this process may use
#pragma once

namespace qd::support {

/// At least 1. Those that the system may schedule this process on, and no more than its control groups pay for.
int countProcessors();

} // namespace qd::support
