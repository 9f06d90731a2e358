#include "launch/dlpack.h"

#include "launch/data_type.h"
#include "launch/tensor_object.h"
#include "launch/transfer.h"

#include "support/error.h"

#include <memory>
#include <string>
#include <type_traits>
#include <vector>

namespace qd::launch {

using support::Error;
using support::ErrorKind;
using support::ScalarType;

namespace {

/// What a capsule holds, until version 1 and from then on.
struct Managed {
  static constexpr const char *kName = "dltensor", *kUsedName = "used_dltensor";
  DlTensor tensor;
  void *context;
  void (*release)(Managed *);
};
struct ManagedVersioned {
  static constexpr const char *kName = "dltensor_versioned", *kUsedName = "used_dltensor_versioned";
  uint32_t major, minor;
  void *context;
  void (*release)(ManagedVersioned *);
  uint64_t flags;
  DlTensor tensor;
};
enum Flags : uint64_t { kReadOnly = 1, kIsCopied = 2 };
enum TypeCode : uint8_t { kSigned = 0, kUnsigned = 1, kFloat = 2, kBfloat = 4, kBool = 6 };

TypeCode getTypeCode(ScalarType type) {
  if (type == ScalarType::U1) return kBool;
  if (type == ScalarType::BF16) return kBfloat;
  return support::isFloat(type) ? kFloat : support::isSigned(type) ? kSigned : kUnsigned;
}

/// A tensor that we gave out, with what it points to.
template <typename Kind> struct Given {
  Kind managed{};
  PyObject *owner = nullptr;
  std::vector<int64_t> extents, strides;
};

/// Called by whoever has the tensor, on any thread, perhaps when the interpreter has ended.
template <typename Kind> void releaseGiven(Kind *managed) {
  auto *given = static_cast<Given<Kind> *>(managed->context);
  if (Py_IsInitialized()) {
    PyGILState_STATE state = PyGILState_Ensure();
    Py_DECREF(given->owner);
    PyGILState_Release(state);
  }
  delete given;
}

/// Of a capsule that nobody has taken the tensor from.
template <typename Kind> void deleteCapsule(PyObject *capsule) {
  if (!PyCapsule_IsValid(capsule, Kind::kName)) return;
  auto *managed = static_cast<Kind *>(PyCapsule_GetPointer(capsule, Kind::kName));
  if (managed->release) managed->release(managed);
}

/// What `export_dlpack` is given.
struct Request {
  PyObject *owner, *dtype, *extents, *strides;
  unsigned long long address;
  int deviceType, deviceId, isVersioned, isReadOnly, isCopied;
};

template <typename Kind> PyObject *give(const Request &request) {
  ScalarType type = getScalarType(request.dtype);
  auto bytes = int64_t(getByteSize(type));
  auto given = std::make_unique<Given<Kind>>();
  given->extents = readIntegers(request.extents);
  given->strides = readIntegers(request.strides);
  for (int64_t &stride : given->strides) {
    if (stride % bytes)
      throw Error(ErrorKind::Value, "strides that are no multiples of an element's size cannot be told to other libraries");
    stride /= bytes;
  }
  given->managed.tensor = {.data = reinterpret_cast<void *>(request.address),
                           .deviceType = request.deviceType,
                           .deviceId = request.deviceId,
                           .rank = int32_t(given->extents.size()),
                           .typeCode = getTypeCode(type),
                           .typeBits = uint8_t(8 * bytes),
                           .typeLanes = 1,
                           .extents = given->extents.data(),
                           .strides = given->strides.data(),
                           .byteOffset = 0};
  given->managed.context = given.get();
  given->managed.release = releaseGiven<Kind>;
  if constexpr (std::is_same_v<Kind, ManagedVersioned>) {
    given->managed.major = 1;
    given->managed.flags = (request.isReadOnly ? kReadOnly : 0) | (request.isCopied ? kIsCopied : 0);
  }
  Ref capsule = Ref::adopt(PyCapsule_New(&given->managed, Kind::kName, deleteCapsule<Kind>));
  given.release()->owner = Py_NewRef(request.owner);
  return capsule.release();
}

/// export_dlpack(owner, address, (device type, number), dtype, shape, strides in bytes, versioned, read_only, is_copy)
PyObject *exportDlpack(PyObject *, PyObject *args) {
  return guard([&]() -> PyObject * {
    Request request{};
    if (!PyArg_ParseTuple(args, "OK(ii)OOOppp:export_dlpack", &request.owner, &request.address, &request.deviceType, &request.deviceId,
                          &request.dtype, &request.extents, &request.strides, &request.isVersioned, &request.isReadOnly, &request.isCopied))
      return nullptr;
    return request.isVersioned ? give<ManagedVersioned>(request) : give<Managed>(request);
  });
}

/// Of a capsule that stands for a tensor that was taken: the tensor goes back to its library with it.
template <typename Kind> void returnTaken(PyObject *capsule) {
  auto *managed = static_cast<Kind *>(PyCapsule_GetPointer(capsule, "taken_dltensor"));
  if (managed->release) managed->release(managed);
}

template <typename Kind> PyObject *take(PyObject *capsule) {
  auto *managed = static_cast<Kind *>(PyCapsule_GetPointer(capsule, Kind::kName));
  bool isWritable = true;
  if constexpr (std::is_same_v<Kind, ManagedVersioned>) {
    if (managed->major != 1)
      throw Error(ErrorKind::Value, "the array is of version " + std::to_string(managed->major) + " of DLPack, and 1 is known here");
    isWritable = !(managed->flags & kReadOnly);
  }
  const DlTensor &tensor = managed->tensor;
  const int64_t bytes = tensor.typeBits / 8, rank = tensor.rank;
  if (tensor.typeLanes != 1 || tensor.typeBits % 8) throw Error(ErrorKind::Value, "kernels have no elements of that size or with lanes");
  std::vector<int64_t> extents(tensor.extents, tensor.extents + rank), strides(extents.size());
  for (int64_t axis = rank - 1, packed = bytes; axis >= 0; packed *= extents[size_t(axis--)])
    strides[size_t(axis)] = tensor.strides ? tensor.strides[axis] * bytes : packed;
  Ref shape = Ref::adopt(makeTuple(extents)), steps = Ref::adopt(makeTuple(strides));
  PyCapsule_SetName(capsule, Kind::kUsedName);
  PyCapsule_SetDestructor(capsule, nullptr);
  Ref owner = Ref::adopt(PyCapsule_New(managed, "taken_dltensor", returnTaken<Kind>));
  return Py_BuildValue("(OK(ii)(ii)OOO)", owner.get(), reinterpret_cast<unsigned long long>(tensor.data) + tensor.byteOffset,
                       int(tensor.deviceType), int(tensor.deviceId), int(tensor.typeCode), int(tensor.typeBits), shape.get(), steps.get(),
                       isWritable ? Py_True : Py_False);
}

PyObject *importDlpack(PyObject *, PyObject *capsule) {
  return guard([&]() -> PyObject * {
    if (PyCapsule_IsValid(capsule, ManagedVersioned::kName)) return take<ManagedVersioned>(capsule);
    if (PyCapsule_IsValid(capsule, Managed::kName)) return take<Managed>(capsule);
    throwPython(PyExc_TypeError, "a capsule of DLPack that nobody has used is expected, got %R", capsule);
  });
}

/// copy_memory(container): (a copy on the device of the memory from the first to the last element, address of the first element in it)
PyObject *copyMemory(PyObject *, PyObject *container) {
  return guard([&]() -> PyObject * {
    requireAlive(container);
    const runtime::Tensor &tensor = getTensor(container);
    runtime::DeviceMemory *memory = tensor.buffer->getMemory();
    if (!memory) throw Error(ErrorKind::Value, "the container is not in the memory of a device");
    auto bytes = size_t(tensor.range.end - tensor.range.begin);
    runtime::BufferRef twin = allocateBuffer(bytes);
    memory->copy(twin->getData(), tensor.data + tensor.range.begin, bytes);
    return Py_BuildValue("(NL)", wrapBuffer(twin),
                         reinterpret_cast<long long>(twin->getData()) - static_cast<long long>(tensor.range.begin));
  });
}

} // namespace

void addDlpack(PyObject *module) {
  static PyMethodDef functions[] = {
      {"export_dlpack", exportDlpack, METH_VARARGS,
       "(owner, address, device, dtype, shape, strides, versioned, read_only, is_copy): a capsule that keeps the owner."},
      {"copy_memory", copyMemory, METH_O,
       "A copy on the device of the memory that a container's elements lie in: (buffer, address of the first element in it)."},
      {"import_dlpack", importDlpack, METH_O,
       "A capsule's (owner, address, device, (type code, bits), shape, strides, writable); the owner gives the tensor back when it goes."},
      {}};
  PyModule_AddFunctions(module, functions);
}

} // namespace qd::launch
