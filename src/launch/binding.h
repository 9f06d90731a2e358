// binding.h: what a recorded call was called with, so that its gradient runs on the same objects and numbers, however names, members and
// items are bound by then
#pragma once

#include "launch/specialization.h"

#include <memory>
#include <vector>

namespace qd::launch {

struct Binding {
  std::shared_ptr<Specialization> version; ///< that ran
  uint64_t epoch = 0;                      ///< of the program in which it ran
  std::vector<Ref> objects;                ///< by slot of its guards
  std::vector<unsigned char> block;        ///< its arguments, numbers among them
};

/// A Python object that holds it.
Ref makeBinding(Binding binding);
void addBindingType(PyObject *module);

/// Launches a kernel of the function that was called, as `call` says, on what that call was called with. Throws Error (Runtime) where
/// no version fits: something that its code depends on has changed since.
Ref launchBound(PyObject *kernel, PyObject *binding, PyObject *arguments, PyObject *keywords);
/// Makes a version that fits, if there is none. Whether it checks that what it reads was not overwritten.
bool specializeBound(PyObject *kernel, PyObject *binding, PyObject *arguments, PyObject *keywords);

} // namespace qd::launch
