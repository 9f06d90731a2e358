// alias_checker.cpp: searches the containers of a launch for memory that they share
//
// In:   the objects that the steps of the guards found.
// Out:  an input whose memory overlaps that of another one although the code assumes that it does not.
// Here: a launch comes here only when an address differs from those of the launch before.
#include "launch/guards/alias_checker.h"

#include "launch/containers/tensor_object.h"

#include <algorithm>

namespace qd::launch {

void AliasChecker::add(const artifact::Input &input, uint16_t slot) {
  bool isExclusive = !input.mayAlias && (input.isField || input.isUpdated || input.isUnaliased);
  hasExclusive |= isExclusive && (input.isField || input.isUnaliased || ++updatedArrays > 1);
  entries.push_back({&input, slot, isExclusive});
}

bool AliasChecker::excludes(const Entry &one, const Entry &other) {
  return one.isExclusive && (one.input->isField || one.input->isUnaliased || other.input->isUpdated);
}

const artifact::Input *AliasChecker::findOverlap(PyObject *const *slots) const {
  // Nearly always each input has memory of its own. Sorted ranges show that without comparing pairs (30 arrays: saves 6 µs per launch).
  std::vector<MemoryRange> ranges;
  ranges.reserve(entries.size());
  for (const Entry &entry : entries) ranges.push_back(getMemoryRange(slots[entry.slot]));
  std::sort(ranges.begin(), ranges.end());
  const unsigned char *end = nullptr;
  bool areApart = true;
  for (auto [first, last] : ranges) {
    areApart &= first >= end;
    end = std::max(end, last);
  }
  if (areApart) return nullptr;
  for (size_t i = 0; i < entries.size(); ++i)
    for (size_t k = i + 1; k < entries.size(); ++k) {
      bool matters = excludes(entries[i], entries[k]) || excludes(entries[k], entries[i]);
      if (matters && mayOverlap(slots[entries[i].slot], slots[entries[k].slot])) return entries[i].input;
    }
  return nullptr;
}

} // namespace qd::launch
