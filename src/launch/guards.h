// guards.h: the guards of a version, and how it reads its arguments at a launch.
//
// When a kernel is specialized, its inputs and dependencies become a list of small steps: fetch a member, check a guard, store an address.
// A launch runs the steps in order. The first step that finds something other than what the version was specialized for is a guard failure.
//
// Steps that start at arguments run at every launch. Names of modules (globals that the kernel or its functions refer to) are looked up
// again only when a dictionary on their path has changed. CPython numbers every change of a dictionary, so this check costs one compare
// for each dictionary.
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

/// The memory in which one launch evaluates the guards; it lies on the caller's stack.
struct GuardFrame {
  unsigned char *block = nullptr; ///< argument block
  PyObject **slots = nullptr;     ///< slotCount: objects that the steps found, borrowed
  PyObject **dicts = nullptr;     ///< slotCount: dictionaries of objects whose members are read
  PyObject **owned = nullptr;     ///< slotCount: references to release after the launch
  size_t ownedCount = 0;
  std::vector<HostArray> hostArrays; ///< arrays in memory that the device cannot read
  void *stream = nullptr;            ///< stream in which another library works on its arrays; null: ordered after everything
  FusedLaunch *fused = nullptr;      ///< records the gradients that the launch writes
  bool isTrial = false;              ///< no launch follows: lazily zeroed containers stay as they are
  bool ranPython = false;            ///< user code may have run during the walk: what was read before it is checked again
  const State *state = nullptr;      ///< the program before user code ran,
  uint64_t epoch = 0, launches = 0;  ///< its epoch and number of launches

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
  /// Resolves every path of the artifact. With `isFresh` the digests of the dependencies are filled in. Otherwise they are compared; when
  /// one differs, the result is empty and `guardFailure` names it. `artifact.cacheable` becomes false when a dependency has no digest.
  static std::unique_ptr<LaunchGuards> build(artifact::Artifact &artifact, const Roots &roots, bool isFresh, std::string &guardFailure);
  ~LaunchGuards();

  /// Visits the Python objects that the guards hold, for the garbage collector.
  int traverse(visitproc visit, void *arg) const;

  /// Checks the guards and fills the frame's argument block.
  GuardResult read(PyObject *const *arguments, GuardFrame &frame);
  size_t getSlotCount() const { return slotCount; }
  /// Slots of the containers and arrays, which must stay alive while the kernel runs.
  const std::vector<uint16_t> &getTensorSlots() const { return tensorSlots; }
  struct Access {
    PyObject *object; ///< a container or an array; borrowed
    const artifact::Input *input;
  };
  /// The containers and arrays of a frame after `read`.
  std::vector<Access> listAccesses(const GuardFrame &frame) const;

  /// The objects in all slots of a frame after `read`, captured ones included.
  std::vector<Ref> listObjects(const GuardFrame &frame) const;
  struct Link;
  /// Matches these guards with those of another version of the same function: which slots and numbers the other's recorded call supplies.
  std::unique_ptr<Link> link(const LaunchGuards &other) const;
  /// Fills the frame's block from the objects and the argument block that the other guards read, whatever the names are bound to now.
  GuardResult readBound(Link &link, const std::vector<Ref> &objects, const unsigned char *block, GuardFrame &frame);
  /// The input or dependency that failed at the last read, for messages.
  std::string getGuardFailure() const { return guardFailure.second ? describe(*guardFailure.second) : std::string(guardFailure.first); }

  /// Set when no other version can fit either: at the last read a number had no value in the integer type of its input.
  const std::optional<support::Error> &getRefusal() const { return refusal; }

private:
  enum class StepKind : uint8_t { Argument, Captured, Attribute, Item, Global, Cell, Tensor, Value, Guard };
  struct TensorInput;
  struct ValueInput;
  struct Guard;
  struct Step {
    StepKind kind;
    bool mayBeMissing = false;   ///< attribute: the guards expect that it is missing
    uint16_t slot;               ///< slot that the step fills or checks
    uint16_t source = 0;         ///< slot of the object that the step starts from
    uint32_t typeVersion = 0;    ///< attribute: types of this version store the member in the instance's dictionary,
    PyObject *inClass = nullptr; ///< and instances without an entry there have this one; a type of that version holds the reference
    uint64_t dictVersion = 0;    ///< version of the dictionary that was read last,
    PyObject *inDict = nullptr;  ///< and the object found there; a dictionary of that version holds the reference
    Py_ssize_t index = 0;        ///< number of the argument, closure variable, input or guard
    Ref name{};                  ///< attribute, item, global
    const artifact::PathStep *path = nullptr;
  };
  struct Node;
  /// The last step of the path to the object in a slot.
  struct Origin {
    int32_t parent = -1; ///< slot of the object that the step starts from; -1: an argument or the kernel's function
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
  /// Replaces `object` by its container when it is a wrapper.
  GuardResult readTensor(TensorInput &input, PyObject *&object, GuardFrame &frame);
  GuardResult readArray(TensorInput &input, PyObject *object, GuardFrame &frame);
  static QdTensorArgument &getArgument(const TensorInput &input, GuardFrame &frame);
  /// Stores address, extents and strides in the block.
  void store(TensorInput &input, QdTensorArgument &argument, void *data, const int64_t *extents, const int64_t *strides);
  bool readValue(ValueInput &input, PyObject *object, GuardFrame &frame);
  bool readMember(ValueInput &input, PyObject *object, GuardFrame &frame);
  void refuseNumber(const ValueInput &input, PyObject *object);
  bool holds(Guard &guard, PyObject *object, GuardFrame &frame);
  class PythonCode;
  bool isMemoryUnchanged(const GuardFrame &frame) const;
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
  std::vector<PyObject *> captured; ///< per slot: found by captureSteps; borrowed, valid while no dictionary of dictVersions has changed
  std::vector<uint16_t> tensorSlots;
  std::vector<Origin> origins; ///< indexed by slot
  size_t slotCount = 0;
  bool usesDicts = false;
  bool hasExclusive = false; ///< some input may not overlap others
  int updatedArrays = 0;     ///< number of updated arrays that may not overlap each other
  bool hasMoved = true;      ///< an address differs from the last launch: check for overlaps again
  std::optional<support::Error> refusal;
  std::pair<std::string_view, const artifact::Path *> guardFailure; ///< a name or a path; converted to text on request
};

/// guards_bound.cpp
struct LaunchGuards::Link {
  bool fits = true;                                 ///< both versions have the same constants in their code
  std::vector<std::pair<uint16_t, uint16_t>> slots; ///< own slot, and the slot of the other guards with the same path
  std::vector<const Step *> required;               ///< steps whose slot is one of these and may not be empty
  struct Copy {
    uint32_t to, from, bytes;
  };
  std::vector<Copy> copies; ///< numbers copied from the argument block of the other guards
  std::vector<Step> rest;   ///< steps that still have to run
};

} // namespace qd::launch
