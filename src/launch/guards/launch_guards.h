// launch_guards.h: the guards of a version, and how it reads its arguments at a launch.
//
// When a kernel is specialized, its inputs and dependencies become a list of small steps: fetch a member, check a guard, store an address.
// A launch runs the steps in order. The first step that finds something other than what the version was specialized for is a guard failure.
// `GuardProgram` has the steps, `ArgumentWriter` fills the argument block, and `AliasChecker` compares the memory of the arguments.
#pragma once

#include "launch/guards/alias_checker.h"
#include "launch/guards/guard_program.h"

#include <memory>

namespace qd::launch {

class LaunchGuards {
public:
  /// Resolves every path of the artifact. With `isFresh` the digests of the dependencies are filled in. Otherwise they are compared; when
  /// one differs, the result is empty and `guardFailure` names it. `artifact.cacheable` becomes false when a dependency has no digest.
  static std::unique_ptr<LaunchGuards> build(artifact::Artifact &artifact, const Roots &roots, bool isFresh, std::string &guardFailure);

  /// Visits the Python objects that the guards hold, for the garbage collector.
  int traverse(visitproc visit, void *arg) const;

  /// Checks the guards and fills the frame's argument block.
  GuardResult read(PyObject *const *arguments, GuardFrame &frame);
  size_t getSlotCount() const { return program.getSlotCount(); }
  /// Slots of the containers and arrays, which must stay alive while the kernel runs.
  const std::vector<uint16_t> &getTensorSlots() const { return writer.tensorSlots; }
  struct Access {
    PyObject *object; ///< a container or an array; borrowed
    const artifact::Input *input;
  };
  /// The containers of launches, each with the slot of its object.
  std::vector<std::pair<const artifact::Input *, size_t>> listTensors() const;
  /// The containers and arrays of a frame after `read`.
  std::vector<Access> listAccesses(const GuardFrame &frame) const;

  /// The objects in all slots of a frame after `read`, captured ones included.
  std::vector<Ref> listObjects(const GuardFrame &frame) const { return program.listObjects(frame); }
  struct Link;
  /// Matches these guards with those of another version of the same function: which slots and numbers the other's recorded call supplies.
  std::unique_ptr<Link> link(const LaunchGuards &other) const;
  /// Fills the frame's block from the objects and the argument block that the other guards read, whatever the names are bound to now.
  GuardResult readBound(Link &link, const std::vector<Ref> &objects, const unsigned char *block, GuardFrame &frame);
  /// The input or dependency that failed at the last read, for messages.
  std::string getGuardFailure() const { return program.getFailure(); }
  /// Set when no other version can fit either: at the last read a number had no value in the integer type of its input.
  const std::optional<support::Error> &getRefusal() const { return writer.refusal; }

private:
  friend class GuardBuilder;
  explicit LaunchGuards(Placement placement) : program(placement, writer) {}
  LaunchGuards(const LaunchGuards &) = delete;

  GuardResult checkAliases(const GuardFrame &frame);
  bool fits(PyObject *const *arguments, size_t argumentBytes);

  ArgumentWriter writer;
  AliasChecker aliases;
  GuardProgram program;
};

/// bound_guards.cpp
struct LaunchGuards::Link {
  bool fits = true;                                 ///< both versions have the same constants in their code
  std::vector<std::pair<uint16_t, uint16_t>> slots; ///< own slot, and the slot of the other guards with the same path
  std::vector<const GuardStep *> required;          ///< steps whose slot is one of these and may not be empty
  struct Copy {
    uint32_t to, from, bytes;
  };
  std::vector<Copy> copies; ///< numbers copied from the argument block of the other guards
  GuardProgram::Steps rest; ///< steps that still have to run
};

} // namespace qd::launch
