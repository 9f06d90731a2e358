// test_passes.h: passes of qd-opt that show what analyses find, and run transformations that no pass of the compiler runs alone
#pragma once

namespace qd::tools {

void registerTestPasses();

} // namespace qd::tools
