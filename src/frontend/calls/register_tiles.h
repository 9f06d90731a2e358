// register_tiles.h: statements and expressions about register tiles
#pragma once

#include "frontend/function_part.h"

namespace qd::frontend {

class RegisterTiles : FunctionPart {
public:
  using FunctionPart::FunctionPart;

  bool isRegisterTile(const Operand &value);
  /// Calls a func of the tile's type.
  Operand callRegisterTile(const Operand &tile, const char *name, std::vector<Operand> given);
  /// The operand of one lane in a statement about a tile: a slice along one axis becomes the element of the lane's row.
  Operand laneValue(const Operand &tile, const Operand &value);
  /// `tile[:] = value`.
  void loadTile(const Operand &tile, nb::handle index, const Operand &value);
  /// `tile += qd.outer(a, b)` and the like.
  void augmentTile(const Operand &tile, nb::handle statement);
};

} // namespace qd::frontend
