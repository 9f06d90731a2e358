// binding.h: the objects and numbers of a recorded call. Its gradient runs on the same ones, whatever names, members and items are bound to
// by then.
#pragma once

#include "launch/specialization.h"

#include <memory>
#include <vector>

namespace qd::launch {

struct Binding {
  std::shared_ptr<Specialization> version; ///< the version that ran
  uint64_t epoch = 0;                      ///< epoch of the program in which it ran
  std::vector<Ref> objects;                ///< indexed by the slots of its guards
  std::vector<unsigned char> block;        ///< its argument block, with the numbers
};

/// A Python object that holds the binding.
Ref makeBinding(Binding binding);
void addBindingType(PyObject *module);

/// Launches another kernel of the recorded function on the binding, with the further arguments that `call` adds. Throws Error (Runtime)
/// when no version fits because a dependency has changed since.
Ref launchBound(PyObject *kernel, PyObject *binding, PyObject *arguments, PyObject *keywords);
/// Whether the values that a gradient reads are those of the call that it belongs to.
enum class PrimalReads : int {
  Known,   ///< they are
  Checked, ///< the gradient checks that they were not overwritten
  Assumed  ///< indices do not tell elements apart, and the gradient takes them to be different
};
/// Compiles a version that fits the binding, unless there is one.
PrimalReads specializeBound(PyObject *kernel, PyObject *binding, PyObject *arguments, PyObject *keywords);
/// Warns of what the version that fits the binding assumes.
void warnOfAssumptions(PyObject *kernel, PyObject *binding);

} // namespace qd::launch
