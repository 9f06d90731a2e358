// specializations.h: the compiled versions of one kernel, and which of them a call means.
//
// What fits is found by trying: a version says no at the first thing that differs. Where there are many, the objects that told versions
// apart are hashed first, and what had the hash before is tried before the others. The hash is a hint: nothing depends on its being right.
#pragma once

#include "launch/specialization.h"

#include <memory>
#include <unordered_map>
#include <vector>

namespace qd::launch {

class Specializations {
public:
  size_t size() const { return list.size(); }
  bool empty() const { return list.empty(); }
  /// The one used last.
  const std::shared_ptr<Specialization> &latest() const { return list.front(); }
  /// Where there are very many versions, those that were launched least recently make room: a number that is a constant of the code may
  /// have any number of values.
  void add(std::shared_ptr<Specialization> made);
  void clear();
  /// Launches the one that fits; false when none does. Throws when one fits but for a read-only array.
  bool launch(KernelObject &kernel, PyObject *const *arguments, PyObject *&result);
  /// The same on what a call of another kernel of the same function was called with.
  bool launchBound(KernelObject &kernel, const Binding &binding, PyObject *&result);
  /// One that would launch; null for none.
  std::shared_ptr<Specialization> findBound(const Binding &binding) const;
  /// Throws if the last call fits no version for a reason that no other one would mend.
  void raiseRefusal() const;
  auto begin() const { return list.begin(); }
  auto end() const { return list.end(); }

private:
  std::vector<std::shared_ptr<Specialization>> takeOldest();
  bool tryOne(KernelObject &kernel, std::shared_ptr<Specialization> candidate, PyObject *const *arguments, PyObject *&result);
  bool accept(const std::shared_ptr<Specialization> &candidate, GuardResult fit);

  std::vector<std::shared_ptr<Specialization>> list; ///< the one used last comes first
  using Discriminators = std::vector<artifact::Path>;
  std::shared_ptr<const Discriminators> discriminators; ///< what is hashed; null while there are few
  std::unordered_map<uint64_t, Specialization *> known;
};

} // namespace qd::launch
