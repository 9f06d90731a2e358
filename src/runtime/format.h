// format.h: the text of a print site or of a failed check.
#pragma once

#include "artifact/artifact.h"

#include <cstdint>
#include <string>

namespace qd::runtime {

/// The pieces of the site joined; operands are read from `values`, 64 bits per component (floats as double).
std::string formatSite(const artifact::Site &site, const uint64_t *values);
/// How many 64-bit values the operands of a site take.
size_t countValues(const artifact::Site &site);

} // namespace qd::runtime
