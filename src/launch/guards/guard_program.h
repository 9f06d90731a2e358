// guard_program.h: the steps that find the objects of a launch and check them
//
// Steps that start at arguments run at every launch. Names of modules (globals that the kernel or its functions refer to) are looked up
// again only when a dictionary on their path has changed, members of objects when the object's class or dictionary has. watchers.h notices
// these changes, so the check costs a compare or two for each dictionary.
#pragma once

#include "launch/fingerprint.h"
#include "launch/guards/argument_writer.h"
#include "launch/guards/watchers.h"
#include "launch/path.h"
#include "support/hash.h"

#include <deque>
#include <optional>
#include <string>
#include <vector>

namespace qd::launch {

/// A guard: the object in a slot must be what the code was specialized for.
struct Guard {
  const artifact::Dependency *dependency;
  artifact::Dependency::Kind kind = artifact::Dependency::Kind::Value;
  Ref held{};                              ///< the object seen at specialization, when identity is sufficient
  Ref weak{};                              ///< Identity: weak reference to the object
  Ref code{}, defaults{}, namedDefaults{}; ///< of a Python function `held`, which can replace them
  support::Digest digest{};
  support::Digest digestOfText{}; ///< of a function: without where it stands, which not all code that calls it depends on
  bool hasDigest = false;

  void hold(PyObject *object);
  /// Whether the function has the code and the defaults that it had at `hold`.
  bool isUnchanged() const {
    auto *function = reinterpret_cast<PyFunctionObject *>(held.get());
    return !code || (function->func_code == code.get() && function->func_defaults == defaults.get() &&
                     function->func_kwdefaults == namedDefaults.get());
  }
};

/// An object whose members are read, as the last launch found it. Times are counts of GuardProgram::time.
struct MemberSource {
  TypeWatch typeWatch{};
  DictWatch dictWatch{};
  uint64_t checkedAt = 0;                    ///< the members below are of this time
  uint64_t typeChangedAt = 0, changedAt = 0; ///< when another class, or another class or dictionary or other entries, were seen
  PyObject *dict = nullptr;                  ///< of the object; null: it has none
};

struct GuardStep {
  enum class Kind : uint8_t { Argument, Captured, Attribute, ModuleMember, Item, Global, Cell, Entry, Tensor, Value, Guard };
  Kind kind;
  bool mayBeMissing = false;   ///< attribute: the guards expect that it is missing
  uint16_t slot;               ///< slot that the step fills or checks
  uint16_t source = 0;         ///< slot of the object that the step starts from
  uint64_t classReadAt = 0;    ///< attribute: when the class was seen to leave the member to the object's dictionary,
  PyObject *inClass = nullptr; ///< and to have this one for objects without an entry there; the unchanged class holds the reference
  uint64_t readAt = 0;         ///< when the member was found,
  PyObject *found = nullptr;   ///< and what it was; the unchanged class or dictionary holds the reference
  Py_ssize_t index = 0;        ///< number of the argument, closure variable, input or guard
  Ref name{};                  ///< attribute, item, global; of an entry, the key
  MemberSource *members = nullptr;
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
  /// Begins a time: objects may have changed since the previous one.
  void beginTime(GuardFrame &frame) { frame.time = ++time; }
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
  struct CapturedDict {
    Ref dict;
    DictWatch watch{};
    bool isUsed = false; ///< read by the last refresh
  };

  Ref fetch(GuardStep &step, GuardFrame &frame);
  PyObject *fetchMember(GuardStep &step, GuardFrame &frame);
  PyObject *fetchAttribute(GuardStep &step, PyObject *object, GuardFrame &frame);
  bool place(const GuardStep &step, PyObject *found, GuardFrame &frame);
  void check(MemberSource &source, PyObject *object);
  bool fillValue(ValueInput &input, PyObject *object, GuardFrame &frame);
  bool holds(Guard &guard, PyObject *object, GuardFrame &frame);
  bool refreshCaptures();
  bool areDictsUnchanged() const;
  void trackDict(PyObject *dict, PyObject *name, GuardFrame &frame);
  void trackDefaults(PyObject *object, GuardFrame &frame);

  const Placement placement;
  ArgumentWriter &writer;
  Steps steps, captureSteps;
  std::vector<Guard> guards;
  std::vector<Origin> origins; ///< indexed by slot
  std::deque<MemberSource> sources;
  std::vector<CapturedDict> capturedDicts; ///< dictionaries on the paths of captureSteps
  std::vector<size_t> capturedFunctions;   ///< numbers of guards of Python functions among captureSteps
  bool hasCaptures = false;                ///< captureSteps passed, and all dictionaries that they read are watched
  std::vector<PyObject *> captured;        ///< per slot: found by captureSteps; borrowed, valid while no dictionary of these has changed
  std::vector<Ref> kept;                   ///< the same objects, where changes are not noticed
  size_t slotCount = 0;
  uint64_t time = 0;                                           ///< number of the stretches of walks without user code
  std::pair<std::string_view, const artifact::Path *> failure; ///< a name or a path; converted to text on request
};

} // namespace qd::launch
