// guards_parts.h: inputs and guards that the steps of LaunchGuards refer to. Private to the files that build and evaluate guards.
#pragma once

#include "launch/fingerprint.h"
#include "launch/guards.h"
#include "launch/numpy.h"

#include <unordered_map>

namespace qd::launch {

struct LaunchGuards::TensorInput {
  const artifact::Input *input;
  uint64_t key = 0; ///< type key of the containers that fit
  Ref type{};       ///< type of the container of the last launch, so that the common case is one compare
  uint32_t offset = 0;
  int rank = 0;
  bool isWritten = false;
  bool hasStrides = false;       ///< strides are stored in the block
  bool isStatic = false;         ///< no extent is stored in the block
  bool isExclusive = false;      ///< overlaps no other input
  bool hasKnownExtents = false;  ///< an array whose annotation fixes some extents
  bool seesGradients = false;    ///< an argument of this kind is a torch tensor that requires a gradient
  bool hasExtentLimits = false;  ///< the code is specialized for many or few elements along some axes
  const void *address = nullptr; ///< data address at the last launch
  const void *end = nullptr;     ///< end of an array of another library at the last launch
};

struct LaunchGuards::ValueInput {
  const artifact::Input *input;
  uint32_t offset;
  /// An integer member that is read at each launch although its class declares no type (`template_primitives=False`). `owners` records the
  /// objects whose member was read: a member that was an integer must stay one.
  bool isMember = false;
  uint16_t ownerSlot = 0;        ///< slot of the object with the member
  PyObject *lastOwner = nullptr; ///< object of the last launch; only compared
  bool wasReadBefore = false;    ///< the object that failed the guard was read before
  std::unordered_map<PyObject *, Ref> owners{};
};

struct LaunchGuards::Guard {
  const artifact::Dependency *dependency;
  const artifact::Artifact *artifact;
  artifact::Dependency::Kind kind = artifact::Dependency::Kind::Value;
  Ref held{}; ///< the object seen at specialization, when identity is sufficient
  Ref weak{}; ///< Identity: weak reference to the object
  support::Digest digest{};
  bool hasDigest = false;
};

inline Placement getPlacement(const artifact::Artifact &artifact) {
  return artifact.sites.empty() && artifact.libraryFolder.empty() ? Placement::Ignored : Placement::Included;
}

} // namespace qd::launch
