// external_array.cpp: reads the memory, shape and type of arrays of other libraries
//
// In:   a Python object: a NumPy array, or a tensor of a library with DLPack's C functions.
// Out:  an ExternalArray; false for everything else, which Python then refuses or converts.
// Here: every launch with such arrays runs this code, so it makes no Python call in the common case.
#include "launch/containers/external_array.h"

#include "launch/numpy.h"
#include "launch/state.h"
#include "runtime/device.h"

#include <dlpack/dlpack.h>

#include <algorithm>
#include <bit>
#include <cstdlib>
#include <span>
#include <vector>

namespace qd::launch {

using support::ScalarType;

static std::optional<ScalarType> findScalarType(char kind, uint64_t bytes) {
  if (kind == 'b' && bytes == 1) return ScalarType::U1;
  if (kind == 'B' && bytes == 2) return ScalarType::BF16;
  if (!std::has_single_bit(bytes) || bytes > 8) return std::nullopt;
  int step = std::countr_zero(bytes); // the types of a kind are ordered by size
  if (kind == 'i') return ScalarType(int(ScalarType::I8) + step);
  if (kind == 'u') return ScalarType(int(ScalarType::U8) + step);
  if (kind == 'f' && bytes > 1) return ScalarType(int(ScalarType::F16) + step - 1);
  return std::nullopt;
}

/// DLPack's C functions of a type; null when it has none. Caches the answer for the last type.
static const DLPackExchangeAPI *findExchange(PyTypeObject *type) {
  static PyTypeObject *known;
  static const DLPackExchangeAPI *exchange;
  if (type == known) return exchange;
  Ref capsule = findAttribute(reinterpret_cast<PyObject *>(type), "__dlpack_c_exchange_api__");
  if (!capsule || !PyCapsule_IsValid(capsule.get(), "dlpack_exchange_api")) return nullptr;
  auto *found = static_cast<const DLPackExchangeAPI *>(PyCapsule_GetPointer(capsule.get(), "dlpack_exchange_api"));
  if (found->header.version.major != DLPACK_MAJOR_VERSION || !found->dltensor_from_py_object_no_sync) return nullptr;
  Py_INCREF(type);
  Py_XDECREF(reinterpret_cast<PyObject *>(std::exchange(known, type)));
  return exchange = found;
}

bool isTorchTensor(PyObject *object) { return !PyArray_Check(object) && findExchange(Py_TYPE(object)); }

/// An attribute of an object of another library; only compared with constants.
static PyObject *peek(PyObject *object, PyObject *name) {
  PyObject *answer = PyObject_GetAttr(object, name);
  PyErr_Clear(); // an error of the other library
  Py_XDECREF(answer);
  return answer;
}

bool requiresGradient(PyObject *object) {
  static PyObject *name = PyUnicode_InternFromString("requires_grad");
  return peek(object, name) == Py_True;
}

bool lacksGradient(PyObject *object) {
  static PyObject *leaf = PyUnicode_InternFromString("is_leaf"), *grad = PyUnicode_InternFromString("grad");
  if (peek(object, leaf) == Py_True) // torch warns when other tensors are asked for `grad`
    if (PyObject *found = peek(object, grad); found && found != Py_None) return false;
  return call("quadrants._containers.foreign", "lacks_gradient", "O", object).get() == Py_True;
}

static bool isPacked(const ExternalArray &array, int64_t bytes) {
  bool isPacked = true;
  for (int axis = array.rank - 1; axis >= 0; --axis) {
    if (array.extents[axis] == 0) return true;
    isPacked &= array.extents[axis] == 1 || array.strides[axis] == bytes;
    bytes *= array.extents[axis];
  }
  return isPacked;
}

/// The scalar type for a NumPy type; empty when kernels have no such type.
static std::optional<ScalarType> findNumpyType(const PyArray_Descr *descr) {
  using enum ScalarType;
  static constexpr ScalarType kTypes[] = {U1, I8, U8, I16, U16, I32, U32, I64, U64, I64, U64, F32, F64}; // NPY_BOOL to NPY_DOUBLE
  static_assert(NPY_DOUBLE == 12 && NPY_LONG == 7 && sizeof(long) == 8);
  if (descr->byteorder == NPY_OPPBYTE) return std::nullopt;
  if (descr->type_num == NPY_HALF) return F16;
  if (descr->type_num == NPY_VOID && PyDataType_ELSIZE(descr) == 2 && !PyDataType_HASFIELDS(descr)) return BF16; // made by makeNumpyType
  if (descr->type_num >= NPY_USERDEF && std::string_view(descr->typeobj->tp_name).ends_with("bfloat16")) return BF16; // from ml_dtypes
  return descr->type_num <= NPY_DOUBLE ? std::optional(kTypes[descr->type_num]) : std::nullopt;
}

std::pair<unsigned char *, unsigned char *> ExternalArray::getRange() const {
  if (std::find(extents, extents + rank, 0) != extents + rank) return {data, data}; // the address may be null
  unsigned char *begin = data, *end = data + (scalar ? getByteSize(*scalar) : sizeof(double));
  for (int axis = 0; axis < rank; ++axis) {
    int64_t reach = strides[axis] * (extents[axis] - 1);
    (reach < 0 ? begin : end) += reach;
  }
  return {begin, end};
}

bool ExternalArray::hasSharedElements() const {
  if (isPacked) return false;
  using Axis = std::pair<int64_t, int64_t>; // distance of neighbors, extent
  Axis axes[kMaxRank];
  int count = 0;
  int64_t elements = 1;
  for (int axis = 0; axis < rank; ++axis) {
    if (extents[axis] == 0) return false;
    elements *= extents[axis];
    if (extents[axis] > 1) axes[count++] = {std::abs(strides[axis]), extents[axis]};
  }
  std::sort(axes, axes + count);
  // Slices and permutations of an array: along each axis, neighbors are at least as far apart as the inner axes reach.
  int64_t bytes = scalar ? int64_t(getByteSize(*scalar)) : 1, reach = bytes;
  bool isNested = true;
  for (const auto &[distance, extent] : std::span(axes, size_t(count))) {
    isNested &= distance >= reach;
    reach += distance * (extent - 1);
  }
  // Other arrays are rare: a map of the bytes decides; when it would be very large, the elements count as overlapping.
  constexpr int64_t kLargestMap = int64_t(1) << 26;
  if (isNested) return false;
  if (reach > kLargestMap || elements > reach / bytes) return true;
  std::vector<bool> isTaken(size_t(reach), false);
  std::vector<int64_t> index(size_t(count), 0);
  for (int64_t offset = 0;;) {
    for (int64_t byte = offset; byte < offset + bytes; ++byte) {
      if (isTaken[size_t(byte)]) return true;
      isTaken[size_t(byte)] = true;
    }
    int axis = 0;
    for (; axis < count && ++index[size_t(axis)] == axes[axis].second; ++axis) {
      offset -= axes[axis].first * (axes[axis].second - 1);
      index[size_t(axis)] = 0;
    }
    if (axis == count) return false;
    offset += axes[axis].first;
  }
}

/// Whether a torch tensor represents the negative of its memory, as the imaginary part of a conjugate does. Such a tensor consists of every
/// second number of an array, so only tensors that are not packed or have one element are checked.
static bool isNegated(PyObject *object, const ExternalArray &array) {
  static PyObject *name = PyUnicode_InternFromString("is_neg");
  bool isMany = std::any_of(array.extents, array.extents + array.rank, [](int64_t extent) { return extent != 1; });
  if (array.isPacked && isMany) return false;
  PyObject *answer = PyObject_CallMethodNoArgs(object, name);
  PyErr_Clear(); // an error of the other library
  Py_XDECREF(answer);
  return answer == Py_True;
}

/// Whether the storage of a torch tensor was freed: its address is then its offset in the storage. Only addresses at which a process has no
/// memory, or seldom has, are checked.
static bool hasNoStorage(PyObject *object, const ExternalArray &array, int64_t bytes) {
  constexpr uintptr_t kNeverMapped = uintptr_t(1) << 16, kRarelyMapped = uintptr_t(1) << 40;
  auto address = reinterpret_cast<uintptr_t>(array.data);
  if (address >= kRarelyMapped || std::any_of(array.extents, array.extents + array.rank, [](int64_t extent) { return extent == 0; }))
    return false;
  if (address < kNeverMapped) return true;
  static PyObject *name = PyUnicode_InternFromString("storage_offset");
  PyObject *offset = PyObject_CallMethodNoArgs(object, name);
  long long first = offset ? PyLong_AsLongLong(offset) : -1;
  PyErr_Clear(); // an error of the other library
  Py_XDECREF(offset);
  return first >= 0 && uintptr_t(first * bytes) == address;
}

/// Whether arrays of the type have a mask, which kernels do not support. Caches the answer for the last type.
static bool isMasked(PyTypeObject *type) {
  static PyTypeObject *known;
  static bool answer;
  if (type == known) return answer;
  int found = PyObject_IsSubclass(reinterpret_cast<PyObject *>(type), importAttribute("numpy.ma", "MaskedArray").get());
  if (found < 0) throw PythonError{};
  Py_INCREF(type);
  Py_XDECREF(reinterpret_cast<PyObject *>(std::exchange(known, type)));
  return answer = found;
}

/// Whether memory of a DLPack type is on a device; nothing for memory that no backend accesses.
static std::optional<bool> isOnDevice(int type) {
  if (type == kDLCPU) return false;
  for (const runtime::Backend &backend : runtime::getBackends()) {
    if (type == backend.deviceMemory || type == backend.managedMemory) return true;
    if (type == backend.sharedMemory) return false;
  }
  return std::nullopt;
}

bool readExternal(PyObject *object, ExternalArray &out) {
  if (PyArray_Check(object)) {
    if (!PyArray_CheckExact(object) && isMasked(Py_TYPE(object))) return false;
    auto *array = reinterpret_cast<PyArrayObject *>(object);
    out.data = static_cast<unsigned char *>(PyArray_DATA(array));
    out.rank = PyArray_NDIM(array);
    out.scalar = findNumpyType(PyArray_DESCR(array));
    out.isWritable = PyArray_ISWRITEABLE(array);
    out.isAligned = PyArray_ISALIGNED(array);
    out.isPacked = PyArray_IS_C_CONTIGUOUS(array);
    out.extents = reinterpret_cast<const int64_t *>(PyArray_DIMS(array));
    out.strides = reinterpret_cast<const int64_t *>(PyArray_STRIDES(array));
    return true;
  }
  const DLPackExchangeAPI *exchange = findExchange(Py_TYPE(object));
  if (!exchange) return false;
  DLTensor tensor;
  if (exchange->dltensor_from_py_object_no_sync(object, &tensor) != 0) {
    PyErr_Clear();
    return false;
  }
  const auto [kind, device] = tensor.device;
  std::optional<bool> place = isOnDevice(kind);
  if (!place) return false;
  if (*place) {
    const std::shared_ptr<runtime::DeviceMemory> &memory = getState().memory;
    if (memory && memory->hasObjects()) return false; // they have addresses while Python holds them
    out.device = device;
    if (exchange->current_work_stream && exchange->current_work_stream(kind, device, &out.stream) != 0) PyErr_Clear();
  }
  if (tensor.dtype.lanes != 1 || tensor.ndim > ExternalArray::kMaxRank) return false;
  static constexpr char kKinds[] = {'i', 'u', 'f', 0, 'B', 0, 'b'};
  int64_t bytes = tensor.dtype.bits / 8;
  out.data = static_cast<unsigned char *>(tensor.data) + tensor.byte_offset;
  out.rank = tensor.ndim;
  if (tensor.dtype.code < sizeof kKinds && tensor.dtype.bits % 8 == 0)
    out.scalar = findScalarType(kKinds[tensor.dtype.code], uint64_t(bytes));
  out.extents = tensor.shape;
  out.strides = out.ownStrides;
  for (int64_t axis = tensor.ndim - 1, packed = bytes; axis >= 0; packed *= tensor.shape[axis--])
    out.ownStrides[axis] = tensor.strides ? tensor.strides[axis] * bytes : packed;
  out.isWritable = true;
  out.isAligned = bytes == 0 || reinterpret_cast<uintptr_t>(out.data) % uintptr_t(bytes) == 0;
  out.isPacked = isPacked(out, bytes);
  return !hasNoStorage(object, out, bytes) && !isNegated(object, out);
}

} // namespace qd::launch
