// guards.h: what one specialization does with the arguments of a launch.
//
// When a kernel is specialized its inputs and dependencies become a list of small steps: fetch a member, guard a value, store an address.
// A launch walks the list once; the first step that finds something else than at specialization says "not this one".
//
// Steps that start at arguments run at every launch. Names of modules (globals that the kernel or its functions refer to) are looked up
// only when a dictionary on their way has changed: CPython numbers every change of a dictionary, so nothing changed costs one compare each.
#pragma once

#include "artifact/artifact.h"
#include "launch/path.h"
#include "launch/python.h"
#include "launch/transfer.h"
#include "support/error.h"
#include "support/hash.h"

#include <memory>
#include <optional>
#include <string>
#include <vector>

namespace qd::launch {

class FusedLaunch;
struct State;

/// The memory that one launch walks the guards with, on its caller's stack.
struct GuardFrame {
  unsigned char *block = nullptr; ///< argument block
  PyObject **slots = nullptr;     ///< slotCount: what each step found, borrowed
  PyObject **dicts = nullptr;     ///< slotCount: dictionaries of objects whose members are read
  PyObject **owned = nullptr;     ///< slotCount: references to give back when the launch is over
  size_t ownedCount = 0;
  std::vector<HostArray> hostArrays; ///< what the device cannot read where it is
  void *stream = nullptr;            ///< in which another library works on its arrays; null: in order with everything
  FusedLaunch *fused = nullptr;      ///< where gradients that are written are noted
  bool isTrial = false;              ///< nothing is going to be launched: containers stay as they are
  bool ranPython = false;            ///< code of the user may have run in the course of the walk: what was read before is looked at again
  const State *state = nullptr;      ///< the program before it did, and
  uint64_t epoch = 0, launches = 0;  ///< how far it was

  ~GuardFrame() {
    while (ownedCount) Py_DECREF(owned[--ownedCount]);
  }
  void place(PyObject **memory, size_t slotCount) {
    slots = memory;
    dicts = memory + slotCount;
    owned = memory + 2 * slotCount;
  }
};

enum class GuardResult { Passed, Failed, ReadOnly, Shared };

class LaunchGuards {
public:
  /// Resolves every path of the artifact. With `isFresh` the digests of the dependencies are filled in, otherwise compared:
  /// empty when one differs, which `guardFailure` then names. `isCacheable` becomes false when a dependency has no digest.
  static std::unique_ptr<LaunchGuards> build(artifact::Artifact &artifact, const Roots &roots, bool isFresh, std::string &guardFailure);
  ~LaunchGuards();

  /// For the garbage collector: the Python objects that the guards keeps.
  int traverse(visitproc visit, void *arg) const;

  /// Fills the frame's block.
  GuardResult read(PyObject *const *arguments, GuardFrame &frame);
  size_t getSlotCount() const { return slotCount; }
  /// Slots that hold containers and arrays: what must stay alive while the kernel runs.
  const std::vector<uint16_t> &getTensorSlots() const { return tensorSlots; }
  struct Access {
    PyObject *object; ///< a container or an array; borrowed
    const artifact::Input *input;
  };
  /// What the arguments of a frame that was read are.
  std::vector<Access> listAccesses(const GuardFrame &frame) const;

  /// What the slots of a frame that was read hold, and the names of modules.
  std::vector<Ref> listObjects(const GuardFrame &frame) const;
  struct Link;
  /// What of this guards follows from a call that another guards of the same function has read.
  std::unique_ptr<Link> link(const LaunchGuards &other) const;
  /// Fills the frame's block from what the other guards found and read, however the objects are bound now.
  GuardResult readBound(Link &link, const std::vector<Ref> &objects, const unsigned char *block, GuardFrame &frame);
  /// The input that did not fit at the last read, for messages.
  std::string getGuardFailure() const { return guardFailure.second ? describe(*guardFailure.second) : std::string(guardFailure.first); }

  /// Why no other version would do either: at the last read a number was a float that has to be an integer.
  const std::optional<support::Error> &getRefusal() const { return refusal; }

private:
  enum class StepKind : uint8_t { Argument, Captured, Attribute, Item, Global, Cell, Tensor, Value, Guard };
  struct TensorInput;
  struct ValueInput;
  struct Guard;
  struct Step {
    StepKind kind;
    bool mayBeMissing = false;   ///< attribute: the guards expects that it is not there
    uint16_t slot;               ///< what the step finds or looks at
    uint16_t source = 0;         ///< slot that it starts from
    uint32_t typeVersion = 0;    ///< attribute: types of this version keep the member in the instance's dictionary,
    PyObject *inClass = nullptr; ///< and those without an entry there have this one; the type of that version holds it
    uint64_t dictVersion = 0;    ///< of the dictionary that was looked into last,
    PyObject *inDict = nullptr;  ///< and what was found there; the dictionary of that version holds it
    Py_ssize_t index = 0;        ///< number of the argument, closure variable, input or guard
    Ref name{};                  ///< attribute, item, global
    const artifact::PathStep *path = nullptr;
  };
  struct Node;
  /// The last step of the path to what a slot holds.
  struct Origin {
    int32_t parent = -1; ///< slot that the step starts from; -1: an argument, or the kernel's function
    std::string step{};
    bool isCaptured = false; ///< found by captureSteps
  };
  struct DictVersion {
    Ref dict;
    uint64_t version;
  };
  class Builder;

  GuardResult walk(std::vector<Step> &list, PyObject *const *arguments, GuardFrame &frame);
  Ref fetch(Step &step, GuardFrame &frame);
  Ref fetchAttribute(Step &step, PyObject *object);
  /// Leaves the container in `object` when that is a wrapper of it.
  GuardResult readTensor(TensorInput &input, PyObject *&object, GuardFrame &frame);
  GuardResult readArray(TensorInput &input, PyObject *object, GuardFrame &frame);
  static QdTensorArgument &getArgument(const TensorInput &input, GuardFrame &frame);
  /// Puts address, extents and strides into the block.
  void store(TensorInput &input, QdTensorArgument &argument, void *data, const int64_t *extents, const int64_t *strides);
  bool readValue(ValueInput &input, PyObject *object, GuardFrame &frame);
  bool readMember(ValueInput &input, PyObject *object, GuardFrame &frame);
  void refuseNumber(const ValueInput &input, PyObject *object);
  bool holds(Guard &guard, PyObject *object, GuardFrame &frame);
  class PythonCode;
  bool isAsRead(const GuardFrame &frame) const;
  bool fits(PyObject *const *arguments);
  bool refreshCaptures();
  bool areDictsUnchanged() const;
  void trackDict(PyObject *dict);
  bool findOverlap(PyObject *const *slots);

  artifact::Artifact *artifact = nullptr;
  std::vector<Step> steps, captureSteps;
  std::vector<TensorInput> tensors;
  std::vector<ValueInput> values;
  std::vector<Guard> guards;
  std::vector<DictVersion> dictVersions;
  std::vector<PyObject *> captured; ///< per slot: found by captureSteps; borrowed, valid while no trackDict has changed
  std::vector<uint16_t> tensorSlots;
  std::vector<Origin> origins; ///< by slot
  size_t slotCount = 0;
  bool usesDicts = false;
  bool hasExclusive = false; ///< some input may not overlap others
  int updatedArrays = 0;     ///< that may not overlap each other
  bool hasMoved = true;      ///< an address is not the one of the last launch: look for overlaps
  std::optional<support::Error> refusal;
  std::pair<std::string_view, const artifact::Path *> guardFailure; ///< a name or a path; made text when it is asked for
};

/// guards_bound.cpp
struct LaunchGuards::Link {
  bool fits = true;                                 ///< what was baked into the code of both is the same
  std::vector<std::pair<uint16_t, uint16_t>> slots; ///< own slot, and the slot of the other guards with the same path
  std::vector<const Step *> required;               ///< steps whose slot is one of these and holds something
  struct Copy {
    uint32_t to, from, bytes;
  };
  std::vector<Copy> copies; ///< numbers, from the block of the other guards
  std::vector<Step> rest;   ///< what is left to do
};

} // namespace qd::launch
