// test_passes.h: passes of qd-opt for tests: results of analyses as attributes, and transformations that are only parts of other passes
#pragma once

namespace qd::tools {

void registerTestPasses();

} // namespace qd::tools
