// guards_parts.h: what the steps of a guards look at; shared by the files that build guards and run them, and by nobody else.
#pragma once

#include "launch/fingerprint.h"
#include "launch/guards.h"
#include "launch/numpy.h"

#include <unordered_map>

namespace qd::launch {

struct LaunchGuards::TensorInput {
  const artifact::Input *input;
  uint64_t key = 0; ///< type key of the containers that fit
  Ref type{};       ///< of the container seen last, so that the common case is one compare
  uint32_t offset = 0;
  int rank = 0;
  bool isWritten = false;
  bool hasStrides = false;       ///< strides go into the block
  bool isStatic = false;         ///< no extent goes into the block
  bool isExclusive = false;      ///< overlaps no other input
  bool hasKnownExtents = false;  ///< an array whose annotation says some extents
  bool seesGradients = false;    ///< torch has asked for the gradient of such an argument
  bool hasExtentLimits = false;  ///< the code is made for many or few elements along some axes
  const void *address = nullptr; ///< at the last launch
  const void *end = nullptr;     ///< of an array of another library, at the last launch
};

struct LaunchGuards::ValueInput {
  const artifact::Input *input;
  uint32_t offset;
  /// Of an integer member that is read at each launch though its class says no type (`template_primitives=False`): where its object is
  /// found, and the objects that were read. A member that was an integer stays one.
  bool isMember = false;
  uint16_t ownerSlot = 0;
  PyObject *lastOwner = nullptr; ///< compared only
  bool isOfKnown = false;        ///< the object that did not fit was read before
  std::unordered_map<PyObject *, Ref> owners{};
};

struct LaunchGuards::Guard {
  const artifact::Dependency *dependency;
  const artifact::Artifact *artifact;
  artifact::Dependency::Kind kind = artifact::Dependency::Kind::Value;
  Ref held{}; ///< the object seen, when the same object is enough
  Ref weak{}; ///< Identity: weak reference to the object
  support::Digest digest{};
  bool hasDigest = false;
};

inline Placement getPlacement(const artifact::Artifact &artifact) {
  return artifact.sites.empty() && artifact.libraryFolder.empty() ? Placement::Ignored : Placement::Included;
}

} // namespace qd::launch
