// register_tiles.h: statements and expressions about register tiles
#pragma once

#include "frontend/function_part.h"

namespace qd::frontend {

class RegisterTiles : FunctionPart {
public:
  using FunctionPart::FunctionPart;

  bool isRegisterTile(const Value &value);
  /// Calls a func of the tile's type.
  Value callRegisterTile(const Value &tile, const char *name, std::vector<Value> given);
  /// The operand of one lane in a statement about a tile: a slice along one axis becomes the element of the lane's row.
  Value laneValue(const Value &tile, const Value &value);
  /// `tile[:] = value`.
  void loadTile(const Value &tile, nb::handle index, const Value &value);
  /// `tile += qd.outer(a, b)` and the like.
  void augmentTile(const Value &tile, nb::handle statement);
};

} // namespace qd::frontend
