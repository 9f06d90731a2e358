// device_ptx.h: PTX of a kernel with many tasks as several texts, which can be assembled side by side
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace qd::cuda {

/// Divides a text into at most `most` texts of about the same size, of which each has some of the entries and all that they use. Returns
/// the whole text if it is short, has one entry, or has something else than directives, variables and functions.
std::vector<std::string> splitPtx(std::string_view text, size_t most);

} // namespace qd::cuda
