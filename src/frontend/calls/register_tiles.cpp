// register_tiles.cpp: statements about register tiles of qd.simt, with slices of arrays and with qd.outer
//
// In:   a tile, and the syntax node or value of the other operand.
// Out:  a call of a func of the tile's type.
// Here: only this syntax is special; the funcs are written in the language (python/quadrants/simt/_tiles.py).
#include "frontend/builder.h"

namespace qd::frontend {

bool RegisterTiles::isRegisterTile(const Operand &value) {
  auto *structure = value.find<Struct>();
  return structure && structure->type && findAttribute(structure->type, names().is_tile);
}

Operand RegisterTiles::callRegisterTile(const Operand &tile, const char *name, std::vector<Operand> given) {
  Arguments arguments{std::move(given), {}};
  Operand method = attributes().structAttribute(tile, nb::str(name));
  return functions().callFunc({method.get<Method>().callee}, &tile, arguments);
}

Operand RegisterTiles::laneValue(const Operand &tile, const Operand &value) {
  auto *view = value.find<View>();
  return view && Views::listRanges(*view).size() == 1 ? callRegisterTile(tile, "_read", {views().clippedView(*view)}) : value;
}

void RegisterTiles::loadTile(const Operand &tile, nb::handle index, const Operand &value) {
  for (const nb::object &bound : {names().lower, names().upper, names().step})
    if (!getAttribute(index, bound).is_none()) fail(error::kType, "a tile is loaded as a whole: tile[:] = ...");
  if (isRegisterTile(value)) return variables().store(tile, value);
  auto *view = value.find<View>();
  if (!view || Views::listRanges(*view).size() != 2)
    fail(error::kType,
         "tile[:] takes a slice along two axes, such as x[r0:r1, c0:c1], or another tile; got " + conversions.describe(value));
  callRegisterTile(tile, "_load", {views().clippedView(*view)});
}

void RegisterTiles::augmentTile(const Operand &tile, nb::handle statement) {
  nb::object expression = getAttribute(statement, names().value);
  NodeKind op = kindOf(getAttribute(statement, names().op));
  if (op == NodeKind::MatMult) {
    Operand value = expressions().visit(expression);
    if (!isRegisterTile(value)) fail(error::kType, "the right side of `tile @= ` is a tile, got " + conversions.describe(value));
    callRegisterTile(tile, "matmul_", {tile, value});
    return;
  }
  nb::object function =
      kindOf(expression) == NodeKind::Call ? syntax().resolveCallee(getAttribute(expression, names().func)) : nb::object();
  if (syntax().builtinName(function) != "outer") {
    expressions().visit(expression); // reports a mistake in the expression first
    fail(error::kType, "unsupported augmented assignment to a tile: `tile += qd.outer(a, b)`, `tile -= qd.outer(a, b)` or `tile @= other`");
  }
  if (op != NodeKind::Add && op != NodeKind::Sub)
    fail(error::kType, "unsupported augmented assignment op: qd.outer(a, b) is added to a tile or subtracted from it");
  Arguments arguments = calls().visitArguments(expression, nullptr);
  std::vector<Operand> given = calls().bind("qd.outer", arguments, calls().getParameters(function));
  callRegisterTile(tile, op == NodeKind::Add ? "_add_outer" : "_subtract_outer", {laneValue(tile, given[0]), laneValue(tile, given[1])});
}

} // namespace qd::frontend
