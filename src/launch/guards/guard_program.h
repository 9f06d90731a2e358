// guard_program.h: the steps that find the objects of a launch and check them
//
// Steps that start at arguments run at every launch. Names of modules (globals that the kernel or its functions refer to) are looked up
// again only when a dictionary on their path has changed. CPython numbers every change of a dictionary, so this check costs one compare
// for each dictionary.
#pragma once

#include "launch/fingerprint.h"
#include "launch/guards/argument_writer.h"
#include "launch/path.h"
#include "support/hash.h"

#include <optional>
#include <string>
#include <vector>

namespace qd::launch {

/// A guard: the object in a slot must be what the code was specialized for.
struct Guard {
  const artifact::Dependency *dependency;
  artifact::Dependency::Kind kind = artifact::Dependency::Kind::Value;
  Ref held{}; ///< the object seen at specialization, when identity is sufficient
  Ref weak{}; ///< Identity: weak reference to the object
  support::Digest digest{};
  bool hasDigest = false;
};

struct GuardStep {
  enum class Kind : uint8_t { Argument, Captured, Attribute, Item, Global, Cell, Tensor, Value, Guard };
  Kind kind;
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

class GuardProgram {
public:
  using Steps = std::vector<GuardStep>;

  GuardProgram(Placement placement, ArgumentWriter &writer) : placement(placement), writer(writer) {}
  int traverse(visitproc visit, void *arg) const;

  /// Runs all steps; user code may run.
  GuardResult run(PyObject *const *arguments, GuardFrame &frame);
  /// Runs some steps on a frame whose other slots are filled.
  GuardResult walk(Steps &list, PyObject *const *arguments, GuardFrame &frame);
  size_t getSlotCount() const { return slotCount; }
  /// Forgets the dictionaries that a frame has used.
  void clearDicts(GuardFrame &frame) const;
  /// The objects in all slots of a frame after `run`, captured ones included.
  std::vector<Ref> listObjects(const GuardFrame &frame) const;

  /// Records the name of an input or the path of a dependency that does not fit, for messages.
  void fail(std::string_view name, const artifact::Path *path = nullptr) { failure = {name, path}; }
  std::string getFailure() const { return failure.second ? describe(*failure.second) : std::string(failure.first); }

private:
  friend class GuardBuilder;
  friend class LaunchGuards; // bound_guards.cpp compares the steps of two programs
  class PythonCode;
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

  Ref fetch(GuardStep &step, GuardFrame &frame);
  Ref fetchAttribute(GuardStep &step, PyObject *object);
  bool fillValue(ValueInput &input, PyObject *object, GuardFrame &frame);
  bool holds(Guard &guard, PyObject *object, GuardFrame &frame);
  bool refreshCaptures();
  bool areDictsUnchanged() const;
  void trackDict(PyObject *dict);

  const Placement placement;
  ArgumentWriter &writer;
  Steps steps, captureSteps;
  std::vector<Guard> guards;
  std::vector<Origin> origins; ///< indexed by slot
  std::vector<DictVersion> dictVersions;
  std::vector<PyObject *> captured; ///< per slot: found by captureSteps; borrowed, valid while no dictionary of dictVersions has changed
  size_t slotCount = 0;
  bool usesDicts = false;
  std::pair<std::string_view, const artifact::Path *> failure; ///< a name or a path; converted to text on request
};

} // namespace qd::launch
