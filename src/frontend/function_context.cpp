// function_context.cpp: source locations of the function that is being compiled
//
// In:   the source of a function, and the context of its caller.
// Out:  locations of ops, and the call stacks of messages.
#include "frontend/function_context.h"

using namespace mlir;

namespace qd::frontend {

FunctionContext::FunctionContext(Session &session, nb::object object, PythonObject function, FunctionContext *caller)
    : session(session), caller(caller), builder(&session.ctx) {
  const auto &names = session.python.names;
  source.object = object;
  source.tree = getAttribute(object, names.tree);
  source.file = toText(getAttribute(object, names.file)).str();
  source.name = toText(getAttribute(source.tree, names.name)).str();
  source.function = std::move(function);
  node = source.tree;
}

artifact::SourceLocation FunctionContext::locationOf(nb::handle at) const {
  const auto &names = session.python.names;
  artifact::SourceLocation place;
  place.file = source.file;
  place.function = source.name;
  if (!at || !nb::hasattr(at, names.lineno)) return place;
  place.line = uint32_t(readInteger(at, names.lineno));
  place.column = uint32_t(readInteger(at, names.col_offset));
  place.endLine = uint32_t(readInteger(at, names.end_lineno));
  place.endColumn = uint32_t(readInteger(at, names.end_col_offset));
  return place;
}

void FunctionContext::appendFrames(std::vector<artifact::SourceLocation> &frames) const {
  if (caller) caller->appendFrames(frames);
  frames.push_back(locationOf(node));
}

Location FunctionContext::loc() {
  if (cachedLoc) return cachedLoc;
  artifact::SourceLocation place = locationOf(node);
  Location range =
      FileLineColRange::get(StringAttr::get(&session.ctx, place.file), place.line, place.column, place.endLine, place.endColumn);
  Location named = NameLoc::get(StringAttr::get(&session.ctx, place.function), range);
  cachedLoc = role.isInlined ? Location(CallSiteLoc::get(named, caller->loc())) : named;
  return Location(cachedLoc);
}

bool FunctionContext::isOuterVariable(const Place &place) const {
  // `rebuild` sets isElement for outer variables of callers.
  return place.isKernelVariable && (nesting.isInsideParallel || place.isElement);
}

} // namespace qd::frontend
