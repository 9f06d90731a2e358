// specializations.h: the versions of one kernel, and the choice among them at a call.
//
// A call tries the versions in turn until the guards of one hold. Where there are many, the values of the discriminators are hashed first,
// and the version that last ran for this hash is tried first. The hash is only a hint: correctness does not depend on it.
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
  /// The version used last.
  const std::shared_ptr<Specialization> &latest() const { return list.front(); }
  /// Adds a version. When there are very many, the least recently launched ones are evicted, because a number that is a constant of the
  /// code may take any number of values.
  void add(std::shared_ptr<Specialization> made);
  void clear();
  /// Launches the version that fits; false when none does. Throws when only a read-only array prevents a launch.
  bool launch(KernelObject &kernel, PyObject *const *arguments, PyObject *&result);
  /// Does the same on the binding of a recorded call of another kernel of the same function.
  bool launchBound(KernelObject &kernel, const Binding &binding, PyObject *&result);
  /// A version that fits the binding; null for none.
  std::shared_ptr<Specialization> findBound(const Binding &binding) const;
  /// Throws if the last call fits no version for a reason that no new version would remove.
  void raiseRefusal() const;
  auto begin() const { return list.begin(); }
  auto end() const { return list.end(); }

private:
  std::vector<std::shared_ptr<Specialization>> takeOldest();
  bool tryOne(KernelObject &kernel, std::shared_ptr<Specialization> candidate, PyObject *const *arguments, PyObject *&result);
  bool accept(const std::shared_ptr<Specialization> &candidate, GuardResult fit);

  std::vector<std::shared_ptr<Specialization>> list; ///< most recently used first
  using Discriminators = std::vector<artifact::Path>;
  std::shared_ptr<const Discriminators> discriminators; ///< values that are hashed; null while there are few versions
  std::unordered_map<uint64_t, Specialization *> known;
};

} // namespace qd::launch
