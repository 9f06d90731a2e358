// source_locations.h: convert locations of the IR to locations in the user's source
#pragma once

#include "artifact/artifact.h"

#include "mlir/IR/Location.h"

namespace qd::passes {

/// Appends the call chain of a location, innermost last. A NameLoc names the function that contains its child; a CallSiteLoc is a call that
/// was inlined.
void collectLocations(mlir::Location loc, std::vector<artifact::SourceLocation> &places);

} // namespace qd::passes
