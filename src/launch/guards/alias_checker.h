// alias_checker.h: whether containers that the code assumes to be unaliased share memory with others of the launch
#pragma once

#include "artifact/artifact.h"
#include "launch/python.h"

#include <cstdint>
#include <vector>

namespace qd::launch {

class AliasChecker {
public:
  /// Adds a container or array, which a launch finds in `slot`.
  void add(const artifact::Input &input, uint16_t slot);
  /// Whether some input may not overlap others. Otherwise no launch needs a check.
  bool isNeeded() const { return hasExclusive; }
  /// The first input that the code assumes to be unaliased and that shares memory with another one of this launch: a field with any input,
  /// an updated array with another updated one. Null for none.
  const artifact::Input *findOverlap(PyObject *const *slots) const;

private:
  struct Entry {
    const artifact::Input *input;
    uint16_t slot;
    bool isExclusive; ///< overlaps no other input
  };
  static bool excludes(const Entry &one, const Entry &other);

  std::vector<Entry> entries;
  bool hasExclusive = false;
  int updatedArrays = 0; ///< number of updated arrays that may not overlap each other
};

} // namespace qd::launch
