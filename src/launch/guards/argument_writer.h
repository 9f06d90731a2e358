// argument_writer.h: reads the containers, arrays and numbers of a launch and stores them in its argument block
#pragma once

#include "artifact/artifact.h"
#include "launch/guards/guard_frame.h"
#include "runtime/kernel_abi.h"
#include "support/error.h"

#include <optional>
#include <unordered_map>
#include <vector>

namespace qd::launch {

/// A container or array that the code reads or writes.
struct TensorInput {
  const artifact::Input *input;
  uint64_t key = 0; ///< type key of the containers that fit
  Ref type{};       ///< type of the container of the last launch, so that the common case is one compare
  uint32_t offset = 0;
  int rank = 0;
  bool isWritten = false;
  bool hasStrides = false;       ///< strides are stored in the block
  bool isStatic = false;         ///< no extent is stored in the block
  bool hasKnownExtents = false;  ///< an array whose annotation fixes some extents
  bool seesGradients = false;    ///< a torch tensor at an earlier launch required a gradient
  bool hasExtentLimits = false;  ///< the code is specialized for many or few elements along some axes
  const void *address = nullptr; ///< data address at the last launch
  const void *object = nullptr;  ///< array of another library at the last launch; only compared
  const void *end = nullptr;     ///< end of an array of another library at the last launch
};

/// A number, vector or matrix that the code reads.
struct ValueInput {
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

class ArgumentWriter {
public:
  size_t addTensor(const artifact::Input &input, uint16_t slot);
  size_t addValue(const artifact::Input &input);
  /// Makes the last value a member of the object in a slot.
  void markMember(uint16_t ownerSlot);
  /// Records ends of arrays, which overlap checks need.
  void trackEnds() { tracksEnds = true; }
  int traverse(visitproc visit, void *arg) const;

  /// Stores a container or array in the frame's block. Replaces `object` by its container when it is a wrapper.
  GuardResult writeTensor(TensorInput &input, PyObject *&object, GuardFrame &frame);
  /// Reads all containers and arrays again after user code ran, which may have given them other memory.
  GuardResult rewriteTensors(GuardFrame &frame);
  /// Whether `writeValue` runs no user code.
  static bool isPlain(const ValueInput &input, PyObject *object);
  /// Stores a number, vector or matrix in the frame's block; false when it does not fit.
  bool writeValue(const ValueInput &input, PyObject *object, GuardFrame &frame);
  /// Records the object whose member was read. Costs a compare while it is the same object.
  void noteMember(ValueInput &input, PyObject *owner, bool fits);
  /// Sets the refusal for an object that does not fit, if it would fit no other version either.
  void refuseNumber(const ValueInput &input, PyObject *object);

  /// An address has changed since the last call: overlaps must be checked again.
  bool hasMoved = true;
  /// At the last launch a number had no value in the integer type of its input.
  std::optional<support::Error> refusal;
  std::vector<TensorInput> tensors;
  std::vector<ValueInput> values;
  std::vector<uint16_t> tensorSlots; ///< slots of the containers and arrays, which must stay alive while the kernel runs

private:
  GuardResult writeArray(TensorInput &input, PyObject *object, GuardFrame &frame);
  /// Stores address, extents and strides in the block.
  void store(TensorInput &input, QdTensorArgument &argument, void *data, const int64_t *extents, const int64_t *strides);

  bool tracksEnds = false;
};

} // namespace qd::launch
