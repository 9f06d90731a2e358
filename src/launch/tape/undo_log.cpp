// undo_log.cpp: records what launches read and overwrite, for tapes
//
// In:   the accesses of every launch and every write from Python while a tape records.
// Out:  copies of overwritten memory, exchanged with the current contents when gradients run.
// Here: after the guards (it takes the accesses that they list) and before the launch itself, which overwrites the memory.
#include "launch/tape/undo_log.h"

#include "launch/containers/external_array.h"
#include "launch/containers/tensor_object.h"
#include "launch/containers/transfer.h"
#include "launch/numpy.h"
#include "launch/state.h"
#include "runtime/copy.h"
#include "support/error.h"

#include <algorithm>
#include <cstring>
#include <optional>

namespace qd::launch {

using artifact::LaunchExpr;
using runtime::BufferRef;
using support::Error;
using support::ErrorKind;

/// Largest number of boxes per object; more of them are merged into one.
static constexpr size_t kMaxBoxes = 64;
/// Bytes of a device that are compared at a time.
static constexpr size_t kComparedBytes = size_t(4) << 20;

namespace {

/// A contiguous range of bytes.
struct Bytes {
  unsigned char *begin = nullptr;
  size_t count = 0;
  BufferRef owner; ///< none for arrays of other libraries
  runtime::DeviceMemory *memory = nullptr;
};

/// All bytes of a container or an array, unless other data lies among them.
std::optional<Bytes> findBytes(PyObject *object) {
  if (isTensor(object)) {
    const runtime::Tensor &tensor = getTensor(object);
    // All memory of a sparse field is its own.
    if (!tensor.buffer || !(isPacked(tensor) || tensorObject(object).isSparse)) return std::nullopt;
    return Bytes{tensor.data + tensor.range.begin, size_t(tensor.range.end - tensor.range.begin), tensor.buffer,
                 tensor.buffer->getMemory()};
  }
  ExternalArray array;
  if (!readExternal(object, array) || !array.isPacked) return std::nullopt;
  auto [begin, end] = array.getRange();
  return Bytes{begin, size_t(end - begin), {}, array.device >= 0 ? getState().memory.get() : nullptr};
}

/// The bytes from the first element of a box to its last.
void narrow(Bytes &bytes, const runtime::Tensor &tensor, const std::vector<std::array<int64_t, 2>> &box) {
  const layout::TensorLayout &layout = tensor.layout;
  bool isUpward =
      layout.tilings.empty() && std::all_of(layout.strides.begin(), layout.strides.end(), [](int64_t stride) { return stride >= 0; });
  if (box.empty() || !isUpward || layout.componentStride < 0) return;
  int64_t first = 0, last = 0;
  for (size_t axis = 0; axis < box.size(); ++axis) {
    first += box[axis][0] * layout.strides[axis];
    last += (box[axis][1] - 1) * layout.strides[axis];
  }
  last += (layout.element.componentCount() - 1) * layout.componentStride + int64_t(getByteSize(layout.element.scalar));
  bytes.begin = tensor.data + first;
  bytes.count = size_t(last - first);
}

/// Parts of `count` bytes at `data` that may hold other bytes than zeros.
std::vector<std::pair<size_t, size_t>> listPresent(const BufferRef &owner, const unsigned char *data, size_t count) {
  if (!owner) return {{0, count}};
  auto offset = size_t(data - static_cast<unsigned char *>(owner->getData()));
  std::vector<std::pair<size_t, size_t>> parts = owner->listPresent(offset, offset + count);
  for (auto &[begin, end] : parts) begin -= offset, end -= offset;
  return parts;
}

BufferRef copyOf(const Bytes &bytes) {
  const bool isReserved = bytes.owner && bytes.owner->isReserved() && !bytes.memory;
  BufferRef copy =
      bytes.memory ? allocateBuffer(bytes.count) : (isReserved ? runtime::Buffer::reserve : runtime::Buffer::allocate)(bytes.count);
  auto *to = static_cast<unsigned char *>(copy->getData());
  if (bytes.memory)
    bytes.memory->copy(to, bytes.begin, bytes.count);
  else
    for (auto [begin, end] : listPresent(bytes.owner, bytes.begin, bytes.count))
      runtime::copyMemory(to + begin, bytes.begin + begin, end - begin);
  return copy;
}

/// Exchanges memory of the processor with a copy of it.
void swapMemory(const BufferRef &owner, unsigned char *data, const BufferRef &copy, size_t count) {
  auto *other = static_cast<unsigned char *>(copy->getData());
  std::vector<std::pair<size_t, size_t>> parts = listPresent(owner, data, count);
  for (auto part : copy->listPresent(0, count)) parts.push_back(part);
  std::sort(parts.begin(), parts.end());
  size_t done = 0; // parts overlap
  for (auto [begin, end] : parts) {
    begin = std::max(begin, done);
    if (begin >= end) continue;
    std::swap_ranges(data + begin, data + end, other + begin);
    done = end;
  }
}

/// Whether the object may change without a call of this class.
bool isOpen(PyObject *object) {
  return !isTensor(object) || (getTensor(object).buffer && getTensor(object).buffer->getWrites() == runtime::Buffer::kUncounted);
}

/// The version counter of a torch tensor.
std::optional<int64_t> readVersion(PyObject *object) {
  Ref version = findAttribute(object, "_version");
  return version ? std::optional<int64_t>(PyLong_AsLongLong(version.get())) : std::nullopt;
}

/// Compares memory of a device on the host: libraries that write to it there may keep no counter.
bool isEqual(const Bytes &bytes, const BufferRef &copy) {
  if (bytes.count != copy->getSize()) return false;
  if (!bytes.memory) return memcmp(bytes.begin, copy->getData(), bytes.count) == 0;
  std::vector<unsigned char> now(std::min(bytes.count, kComparedBytes)), before(now.size());
  for (size_t done = 0; done < bytes.count; done += now.size()) {
    size_t count = std::min(now.size(), bytes.count - done);
    bytes.memory->read(now.data(), bytes.begin + done, count);
    bytes.memory->read(before.data(), static_cast<const unsigned char *>(copy->getData()) + done, count);
    if (memcmp(now.data(), before.data(), count) != 0) return false;
  }
  return true;
}

} // namespace

bool isShadow(PyObject *object) { return isTensor(object) && tensorObject(object).shadow != 0; }

//--- Which elements ---

UndoLog::Box UndoLog::evaluate(const artifact::Region &region, PyObject *object, const unsigned char *block) {
  if (!isTensor(object)) return {};
  const layout::TensorLayout &layout = getTensor(object).layout;
  return layout.origin.empty() ? evaluate(region, layout.extents, block) : Box();
}

UndoLog::Box UndoLog::evaluate(const artifact::Region &region, std::span<const int64_t> extents, const unsigned char *block) {
  if (region.axes.size() != extents.size()) return {};
  Box box;
  for (size_t axis = 0; axis < region.axes.size(); ++axis) {
    const artifact::Region::Axis &known = region.axes[axis];
    std::array<int64_t, 2> range{0, extents[axis]};
    if (known.first.isKnown() && known.last.isKnown()) {
      int64_t first = known.first.evaluate(block), end = known.last.evaluate(block) + 1;
      // Other values are not valid indices of the code: the computation has wrapped.
      if (first >= 0 && first < end && end <= range[1]) range = {first, end};
    }
    box.push_back(range);
  }
  return box;
}

bool UndoLog::intersect(const Box &one, const Box &other) {
  if (one.size() != other.size()) return true;
  for (size_t axis = 0; axis < one.size(); ++axis)
    if (one[axis][0] >= other[axis][1] || other[axis][0] >= one[axis][1]) return false;
  return true;
}

bool UndoLog::contains(const Box &outer, const Box &inner) {
  if (outer.empty()) return true;
  if (outer.size() != inner.size()) return false;
  for (size_t axis = 0; axis < outer.size(); ++axis)
    if (inner[axis][0] < outer[axis][0] || inner[axis][1] > outer[axis][1]) return false;
  return true;
}

std::vector<UndoLog::Read> &UndoLog::getReads(PyObject *object) {
  return reads[isTensor(object) ? static_cast<const void *>(getTensor(object).buffer.get()) : nullptr];
}

bool UndoLog::isNeeded(PyObject *object, const Box &box) {
  if (recordsAll) return true;
  std::vector<Read> &list = getReads(object);
  return std::any_of(list.begin(), list.end(), [&](const Read &read) {
    return read.object.get() == object ? intersect(read.box, box) : mayOverlap(read.object.get(), object);
  });
}

bool UndoLog::meet(const LaunchGuards::Access &read, const LaunchGuards::Access &write, const unsigned char *block) {
  if (read.input->read.isEmpty || isShadow(read.object)) return false;
  if (read.object != write.object) return mayOverlap(read.object, write.object);
  if (ExternalArray array; !isTensor(read.object) && readExternal(read.object, array)) {
    std::span<const int64_t> extents(array.extents, size_t(array.rank));
    return intersect(evaluate(read.input->read, extents, block), evaluate(write.input->written, extents, block));
  }
  return intersect(evaluate(read.input->read, read.object, block), evaluate(write.input->written, write.object, block));
}

/// Elements that were recorded need not be recorded again before they are read again.
void UndoLog::forget(PyObject *object, const Box &box) {
  std::erase_if(getReads(object), [&](const Read &read) { return read.object.get() == object && contains(box, read.box); });
}

void UndoLog::addRead(PyObject *object, Box box) {
  std::vector<Read> &list = getReads(object);
  auto isOwn = [&](const Read &read) { return read.object.get() == object; };
  if (std::any_of(list.begin(), list.end(), [&](const Read &read) { return isOwn(read) && contains(read.box, box); })) return;
  forget(object, box);
  for (Read &read : list) {
    if (!isOwn(read) || read.box.size() != box.size()) continue;
    // Neighbors along one axis become one box.
    size_t different = 0, where = 0;
    for (size_t axis = 0; axis < box.size(); ++axis)
      if (read.box[axis] != box[axis]) ++different, where = axis;
    std::array<int64_t, 2> &known = read.box[where];
    if (different != 1 || box[where][0] > known[1] || box[where][1] < known[0]) continue;
    known = {std::min(known[0], box[where][0]), std::max(known[1], box[where][1])};
    return;
  }
  if (size_t(std::count_if(list.begin(), list.end(), isOwn)) >= kMaxBoxes) {
    std::erase_if(list, isOwn);
    box.clear();
  }
  list.push_back({Ref::borrow(object), std::move(box)});
}

//--- Recording ---

void UndoLog::record(PyObject *object, const Box &box) {
  Entry entry{.object = Ref::borrow(object)};
  if (std::optional<Bytes> bytes = findBytes(object)) {
    if (isTensor(object)) narrow(*bytes, getTensor(object), box);
    entry.data = bytes->begin;
    entry.bytes = bytes->count;
    entry.owner = bytes->owner;
    entry.copy = copyOf(*bytes);
  } else {
    entry.elements = call("quadrants._containers.snapshots", "keep", "O", object);
  }
  entries.push_back(std::move(entry));
}

void UndoLog::write(PyObject *object, const Box &box, const std::string &name, const std::string &writer, bool isOfLaunch, bool isOwn) {
  if (!isOwn && !isNeeded(object, box)) return;
  try {
    record(object, box);
    entries.back().isOfLaunch = isOfLaunch;
  } catch (const Error &error) {
    if (error.kind != ErrorKind::Memory) throw;
    throw Error(ErrorKind::Memory, "the tape has no memory to keep what " + writer + " overwrites in '" + name +
                                       "', which an earlier call has read: " + error.what());
  }
  forget(object, box);
}

void UndoLog::writeFromHost(PyObject *container, const Box &box, const std::string &writer) {
  // Watched memory is compared when it is used next.
  auto isOwn = [&](const Watched &entry) { return entry.object.get() == container; };
  if (!recordsAll && std::any_of(watched.begin(), watched.end(), isOwn)) return;
  compare(container, false);
  write(container, box, "a container", writer, false, false);
}

void UndoLog::noteBegin(const artifact::Artifact &artifact, const Accesses &accesses, const unsigned char *block, Reads policy) {
  for (const LaunchGuards::Access &access : accesses) {
    if (isShadow(access.object)) continue;
    compare(access.object, !access.input->written.isEmpty);
    if (!access.input->read.isEmpty) readForeign(access.object);
    if (access.input->written.isEmpty) continue;
    Box box = evaluate(access.input->written, access.object, block);
    // The gradient of a launch that reads elements that it writes may need both contents.
    bool isOwn = policy == Reads::Recorded &&
                 std::any_of(accesses.begin(), accesses.end(), [&](const LaunchGuards::Access &read) { return meet(read, access, block); });
    write(access.object, box, access.input->name, "kernel " + artifact.kernel, true, isOwn);
  }
}

void UndoLog::noteEnd(const Accesses &accesses, const unsigned char *block, Reads policy) {
  if (policy == Reads::Ignored) return;
  for (const LaunchGuards::Access &access : accesses) {
    if (isShadow(access.object)) continue;
    if (isOpen(access.object)) watch(access);
    if (access.input->read.isEmpty) continue;
    Box box = evaluate(access.input->read, access.object, block);
    if (policy == Reads::Deferred)
      deferredReads.push_back({Ref::borrow(access.object), std::move(box)});
    else
      addRead(access.object, std::move(box));
  }
}

void UndoLog::recordDeferredReads() {
  for (Read &read : deferredReads) addRead(read.object.get(), std::move(read.box));
  deferredReads.clear();
}

void UndoLog::refreshWatched() {
  for (Watched &entry : watched)
    if (std::exchange(entry.isOutdated, false)) copyNow(entry);
}

UndoLog::Box UndoLog::findBox(PyObject *container, PyObject *index) {
  const layout::TensorLayout &layout = getTensor(container).layout;
  if (index == Py_None || !layout.origin.empty()) return {};
  Box box;
  std::vector<int64_t> indices = PyLong_Check(index) ? std::vector<int64_t>{PyLong_AsLongLong(index)} : readIntegers(index);
  if (indices.size() != layout.extents.size()) return {};
  for (size_t axis = 0; axis < indices.size(); ++axis) {
    if (indices[axis] < 0 || indices[axis] >= layout.extents[axis]) return {};
    box.push_back({indices[axis], indices[axis] + 1});
  }
  return box;
}

//--- Other threads ---

void UndoLog::noteForeignBegin(const artifact::Artifact &artifact, const Accesses &accesses, const unsigned char *block) {
  for (const LaunchGuards::Access &access : accesses) {
    if (isShadow(access.object) || access.input->written.isEmpty) continue;
    compare(access.object, true);
    Box box = evaluate(access.input->written, access.object, block);
    write(access.object, box, access.input->name, "kernel " + artifact.kernel + " of another thread", false, false);
    noteForeign(access.object, "kernel " + artifact.kernel);
  }
}

void UndoLog::noteForeignWrite(PyObject *container, const Box &box) {
  writeFromHost(container, box, "another thread");
  if (getTensor(container).buffer->getLastLaunch() > firstLaunch) noteForeign(container, "Python");
}

/// Another thread writes to a container; the tape does not know how values that it reads from there depend on other values, so their
/// gradients would be wrong.
void UndoLog::noteForeign(PyObject *object, const std::string &writer) {
  if (call("quadrants._containers.snapshots", "has_gradient", "O", object).get() != Py_True) return;
  foreign.push_back({Ref::borrow(object), writer +
                                              " has written to it on another thread while the tape recorded. Call it on the tape's own "
                                              "thread, or outside of the tape's block"});
}

void UndoLog::readForeign(PyObject *object) {
  for (const Foreign &entry : foreign)
    if (refusal.empty() && (entry.object.get() == object || mayOverlap(entry.object.get(), object)))
      refusal = "a recorded call reads a container with a gradient that the tape does not know: " + entry.text;
}

//--- Memory that may change unnoticed ---

/// Called after a launch.
void UndoLog::watch(const LaunchGuards::Access &access) {
  bool isWritten = !access.input->written.isEmpty;
  bool isComputed = isWritten && !PyArray_Check(access.object) &&
                    call("quadrants._containers.snapshots", "has_gradient", "O", access.object).get() == Py_True;
  if (access.input->read.isEmpty && !isComputed) return;
  for (Watched &entry : watched)
    if (entry.object.get() == access.object && entry.isComputed >= isComputed) return; // up to date, or refreshed by `noteEnd`
  std::erase_if(watched, [&](const Watched &entry) { return entry.object.get() == access.object; });
  Watched entry{.object = Ref::borrow(access.object), .name = access.input->name, .isComputed = isComputed};
  copyNow(entry);
  watched.push_back(std::move(entry));
}

void UndoLog::noteView(PyObject *container) {
  std::vector<Ref> objects; // recorded objects that the view can change
  bool isComputed = getTensor(container).buffer->getLastLaunch() > firstLaunch &&
                    call("quadrants._containers.snapshots", "has_gradient", "O", container).get() == Py_True;
  if (isComputed || recordsAll) objects.push_back(Ref::borrow(container));
  for (const Read &read : getReads(container)) objects.push_back(read.object);
  for (const Ref &object : objects) {
    auto isSame = [&](const Watched &entry) { return entry.object.get() == object.get(); };
    if (std::any_of(watched.begin(), watched.end(), isSame)) continue;
    Watched entry{.object = object, .name = "a container", .isComputed = isComputed && object.get() == container};
    copyNow(entry);
    watched.push_back(std::move(entry));
  }
}

void UndoLog::copyNow(Watched &entry) {
  PyObject *object = entry.object.get();
  std::optional<Bytes> bytes = findBytes(object);
  entry.version = bytes && bytes->memory ? readVersion(object) : std::nullopt;
  if (entry.version) return;
  if (bytes && !entry.isComputed)
    entry.copy = copyOf(*bytes);
  else
    entry.elements = call("quadrants._containers.snapshots", "keep", "O", object);
}

bool UndoLog::hasChanged(const Watched &entry) {
  if (entry.elements) {
    Ref differs = call("quadrants._containers.snapshots", "differs", "OO", entry.object.get(), entry.elements.get());
    return differs.get() == Py_True;
  }
  if (entry.version) return readVersion(entry.object.get()) != entry.version;
  std::optional<Bytes> bytes = findBytes(entry.object.get());
  return !bytes || !isEqual(*bytes, entry.copy);
}

/// Called before a launch uses memory that is watched, through this object or another one. A change since the last look is recorded at a
/// position before the launch.
void UndoLog::compare(PyObject *object, bool isWritten) {
  for (size_t i = 0; i < watched.size();) {
    if (watched[i].object.get() != object && !mayOverlap(watched[i].object.get(), object)) {
      ++i;
    } else if (hasChanged(watched[i])) {
      Watched entry = std::move(watched[i]);
      watched.erase(watched.begin() + ptrdiff_t(i));
      if (entry.isComputed) { // every further change is recorded, too
        watched.push_back({.object = entry.object, .name = entry.name, .isComputed = true});
        copyNow(watched.back());
      }
      recordChange(std::move(entry));
    } else {
      watched[i++].isOutdated |= isWritten;
    }
  }
}

/// Records the contents from before memory changed unnoticed.
void UndoLog::recordChange(Watched &&entry) {
  Entry before{.object = entry.object, .elements = entry.elements, .copy = entry.copy};
  if (entry.isComputed && entry.elements)
    before.changed = call("quadrants._containers.snapshots", "find_changed", "OO", entry.object.get(), entry.elements.get());
  std::optional<Bytes> bytes = findBytes(entry.object.get());
  if (entry.copy && bytes && bytes->count == entry.copy->getSize()) {
    before.data = bytes->begin;
    before.bytes = bytes->count;
    before.owner = bytes->owner;
  } else if (!entry.elements) {
    before.unknownReason = "'" + entry.name +
                           "' was changed by another library after a recorded call had read it, and its gradient needs what was "
                           "there: hand a copy to the kernel";
  }
  entries.push_back(std::move(before));
}

void UndoLog::compareAll() {
  while (!watched.empty()) {
    Watched entry = std::move(watched.back());
    watched.pop_back();
    if (hasChanged(entry)) recordChange(std::move(entry));
  }
}

//--- Undo and redo ---

void UndoLog::swap(Entry &entry) {
  if (!entry.unknownReason.empty()) throw Error(ErrorKind::Runtime, entry.unknownReason);
  if (entry.elements) {
    entry.elements = call("quadrants._containers.snapshots", "exchange", "OO", entry.object.get(), entry.elements.get());
    return;
  }
  if (!entry.owner) {
    // Another library may have given new memory to the object.
    std::optional<Bytes> bytes = findBytes(entry.object.get());
    if (!bytes || bytes->begin > entry.data || bytes->begin + bytes->count < entry.data + entry.bytes)
      throw Error(ErrorKind::Runtime, "an array that a recorded call has read was given other memory since (`x.data = `, `set_`, "
                                      "`resize_`), and its gradient needs what was there: hand a copy to the kernel");
  }
  if (runtime::DeviceMemory *memory = entry.copy->getMemory()) {
    BufferRef now = allocateBuffer(entry.bytes);
    memory->copy(now->getData(), entry.data, entry.bytes);
    memory->copy(entry.data, entry.copy->getData(), entry.bytes);
    entry.copy = now;
  } else {
    swapMemory(entry.owner, entry.data, entry.copy, entry.bytes);
  }
  if (entry.owner) entry.owner->noteWrite();
}

void UndoLog::undo(size_t position) {
  if (undone == SIZE_MAX) {
    if (!refusal.empty()) throw Error(ErrorKind::Runtime, refusal);
    compareAll();
    undone = entries.size();
  }
  while (undone > position) {
    Entry &entry = entries[undone - 1];
    swap(entry);
    --undone;
    if (entry.changed) call("quadrants._containers.snapshots", "cut_gradient", "OO", entry.object.get(), entry.changed.get());
  }
}

void UndoLog::exchange(size_t begin, size_t end, const std::vector<PyObject *> &objects, bool isBack) {
  auto isWanted = [&](const Entry &entry) {
    PyObject *recorded = entry.object.get();
    return std::any_of(objects.begin(), objects.end(),
                       [&](PyObject *object) { return object == recorded || mayOverlap(object, recorded); });
  };
  for (size_t i = begin; i < end; ++i) {
    Entry &entry = entries[isBack ? i : begin + end - 1 - i];
    if (entry.isOfLaunch && isWanted(entry)) swap(entry);
  }
}

void UndoLog::redo() {
  for (; undone < entries.size(); ++undone) swap(entries[undone]);
  entries.clear();
  undone = SIZE_MAX;
}

} // namespace qd::launch
