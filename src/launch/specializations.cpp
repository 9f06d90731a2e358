// specializations.cpp: chooses the version for a call
//
// In:   the arguments of a call, or the binding of a recorded one.
// Out:  a launch of the version whose guards hold; false when there is none, and the caller makes one (specialize.cpp).
#include "launch/specializations.h"

#include "launch/containers/external_array.h"
#include "launch/containers/tensor_object.h"
#include "launch/fingerprint.h"
#include "launch/kernel.h"
#include "support/error.h"

#include <algorithm>
#include <utility>

namespace qd::launch {

// From this number of versions on, a hash costs less than trying them in turn.
static constexpr size_t kMany = 8;
// A version takes about 30 KB. At this number a quarter is evicted at once, so that the list is seldom sorted.
static constexpr size_t kMax = 2048;

void Specializations::clear() {
  known.clear();
  discriminators.reset();
  // Dropping code drops references, which may run any Python code, a call of this kernel included.
  std::vector<std::shared_ptr<Specialization>> dropped = std::exchange(list, {});
}

std::vector<std::shared_ptr<Specialization>> Specializations::takeOldest() {
  auto isLater = [](const auto &one, const auto &other) { return one->lastLaunch > other->lastLaunch; };
  std::vector<std::shared_ptr<Specialization>> sorted = list, taken;
  std::sort(sorted.begin(), sorted.end(), isLater);
  taken.assign(sorted.begin() + kMax * 3 / 4, sorted.end());
  sorted.resize(kMax * 3 / 4);
  for (size_t i = 0; i < sorted.size(); ++i) sorted[i]->position = i;
  list = std::move(sorted);
  known.clear();
  return taken;
}

void Specializations::add(std::shared_ptr<Specialization> made) {
  // Dropping code drops references, which may run any Python code: it comes last.
  std::vector<std::shared_ptr<Specialization>> dropped;
  if (list.size() >= kMax) dropped = takeOldest();
  made->position = list.size();
  list.push_back(std::move(made));
  if (list.size() != kMany) return;
  using Kind = artifact::Dependency::Kind;
  auto found = std::make_shared<Discriminators>();
  for (const artifact::Dependency &dependency : list.back()->artifact.dependencies)
    if (dependency.path.root == artifact::Path::Root::Argument && dependency.kind != Kind::Function && dependency.kind != Kind::Absent)
      found->push_back(dependency.path);
  for (const artifact::Input &input : list.back()->artifact.inputs)
    if (input.path.root == artifact::Path::Root::Argument && input.kind == artifact::Input::Kind::Tensor) found->push_back(input.path);
  if (!found->empty()) discriminators = std::move(found);
}

/// Hash of those properties of an object in which two versions of a kernel may differ, as far as they are cheap to read.
static uint64_t hashObject(PyObject *object) {
  object = unwrap(object);
  uint64_t type = uint64_t(uintptr_t(Py_TYPE(object)));
  if (isAtom(Py_TYPE(object))) return support::mixHash(type, uint64_t(PyObject_Hash(object)));
  if (isTensor(object)) return getTensor(object).typeKey;
  if (ExternalArray array; readExternal(object, array))
    return support::mixHash(array.scalar ? uint64_t(*array.scalar) : UINT64_MAX, uint64_t(array.rank * 2 + array.isPacked));
  uint64_t hash = type;
  if (PyTuple_Check(object))
    for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(object); ++i) hash = support::mixHash(hash, hashObject(PyTuple_GET_ITEM(object, i)));
  return hash;
}

static uint64_t computeHash(const std::vector<artifact::Path> &discriminators, PyObject *const *arguments) {
  uint64_t hash = 1;
  for (const artifact::Path &path : discriminators) {
    Ref object = takeSteps(arguments[path.argument], path.steps);
    hash = support::mixHash(hash, object ? hashObject(object.get()) : 0);
  }
  return hash;
}

bool Specializations::tryOne(KernelObject &kernel, std::shared_ptr<Specialization> candidate, PyObject *const *arguments,
                             PyObject *&result) {
  return accept(candidate, candidate->launch(kernel, arguments, result));
}

/// Evaluates the result of a launch; a version that fits moves to the front.
bool Specializations::accept(const std::shared_ptr<Specialization> &candidate, GuardResult fit) {
  if (fit == GuardResult::ReadOnly)
    throw support::Error(support::ErrorKind::Value, "kernel " + candidate->artifact.kernel + " writes its argument '" +
                                                        candidate->getGuardFailure() + "', and the array that was passed is read-only");
  if (fit == GuardResult::Shared)
    throw support::Error(support::ErrorKind::Value,
                         "kernel " + candidate->artifact.kernel + " writes its argument '" + candidate->getGuardFailure() +
                             "' in parallel, and elements of the array that was passed share memory (an axis of stride 0, or subviews that "
                             "overlap): pass a copy");
  if (fit == GuardResult::Failed) return false;
  // The launch may have run Python code that changed the list.
  size_t position = candidate->position;
  if (position < list.size() && list[position] == candidate) {
    std::swap(list[position], list.front());
    std::swap(list[position]->position, candidate->position);
  }
  return true;
}

void Specializations::raiseRefusal() const {
  for (const std::shared_ptr<Specialization> &version : list)
    if (version->getRefusal()) throw support::Error(*version->getRefusal());
}

bool Specializations::launchBound(KernelObject &kernel, const Binding &binding, PyObject *&result) {
  for (size_t i = 0; i < list.size(); ++i) {
    std::shared_ptr<Specialization> candidate = list[i];
    if (accept(candidate, candidate->launchBound(kernel, binding, result))) return true;
  }
  return false;
}

std::shared_ptr<Specialization> Specializations::findBound(const Binding &binding) const {
  std::vector<std::shared_ptr<Specialization>> versions = list; // evaluating guards may run Python code
  auto found = std::find_if(versions.begin(), versions.end(), [&](const auto &version) { return version->fitsBound(binding); });
  return found == versions.end() ? nullptr : *found;
}

bool Specializations::launch(KernelObject &kernel, PyObject *const *arguments, PyObject *&result) {
  uint64_t hash = 0;
  // A copy of the reference: reading a member may run Python code that resets the runtime.
  if (std::shared_ptr<const Discriminators> paths = discriminators) {
    hash = computeHash(*paths, arguments);
    auto found = known.find(hash);
    if (found != known.end() && tryOne(kernel, found->second->shared_from_this(), arguments, result)) return true;
  }
  // Newest first; Python code that a launch runs may shorten the list.
  for (size_t i = list.size(); i-- > 0;) {
    if (i >= list.size()) continue;
    std::shared_ptr<Specialization> candidate = list[i];
    if (!tryOne(kernel, candidate, arguments, result)) continue;
    if (discriminators && candidate->position < list.size() && list[candidate->position] == candidate) {
      if (known.size() > 2 * list.size()) known.clear(); // most of these hashes are of values that do not matter
      known[hash] = candidate.get();
    }
    return true;
  }
  return false;
}

} // namespace qd::launch
