// source_locations.cpp: convert locations of the IR to locations in the user's source
//
// In:   a location of MLIR: files with ranges, function names, inlined calls.
// Out:  the chain of source locations, outermost call first.
// Here: checks and sites of the artifact report the user's lines.
#include "passes/source_locations.h"

using namespace mlir;

namespace qd::passes {

static void collect(Location loc, StringRef function, std::vector<artifact::SourceLocation> &places) {
  if (auto call = dyn_cast<CallSiteLoc>(loc)) {
    collect(call.getCaller(), {}, places);
    collect(call.getCallee(), {}, places);
  } else if (auto name = dyn_cast<NameLoc>(loc)) {
    collect(name.getChildLoc(), name.getName(), places);
  } else if (auto fused = dyn_cast<FusedLoc>(loc)) {
    if (!fused.getLocations().empty()) collect(fused.getLocations().front(), function, places);
  } else if (auto range = dyn_cast<FileLineColRange>(loc)) {
    places.push_back({range.getFilename().str(), function.str(), range.getStartLine(), range.getStartColumn(), range.getEndLine(),
                      range.getEndColumn()});
  }
}

void collectLocations(Location loc, std::vector<artifact::SourceLocation> &places) { collect(loc, {}, places); }

} // namespace qd::passes
