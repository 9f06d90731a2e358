// bitcode.h: the device library as LLVM bitcode, embedded in the compiler
#pragma once

#include <string_view>

namespace qd::devlib {

/// Bitcode with the routines of exports.def (for one lane also those of sites.h) for `lanes` in {1, 2, 4, 8, 16}; empty for any other
/// number. Each source of this folder is compiled once per number of lanes, with QD_DEVLIB_LANES set to it (cmake/devlib.cmake). The module
/// is built for no particular CPU: the code that links it sets triple and data layout to the kernel's, replaces the attributes "target-cpu"
/// and "target-features" of each function, and gives the linked functions internal linkage. The routines depend on exact rounding: no
/// fast-math flag may be added to them, and TargetOptions::AllowFPOpFusion must not be Fast.
std::string_view getBitcode(int lanes);

} // namespace qd::devlib
