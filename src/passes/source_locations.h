// source_locations.h: locations of the IR → places in the user's source
#pragma once

#include "artifact/artifact.h"

#include "mlir/IR/Location.h"

namespace qd::passes {

/// Appends the chain of places of a location, innermost last. A NameLoc names the function that its child stands in; a CallSiteLoc is a
/// call whose body was expanded in place.
void collectLocations(mlir::Location loc, std::vector<artifact::SourceLocation> &places);

} // namespace qd::passes
