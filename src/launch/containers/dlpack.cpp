// dlpack.cpp: DLPack capsules
//
// In:   memory of a container with its type and shape, or a capsule of another library.
// Out:  a capsule that keeps the memory alive, or a Buffer that returns the memory to its library at the end.
#include "launch/containers/dlpack.h"

#include "launch/containers/data_type.h"
#include "launch/containers/tensor_object.h"
#include "launch/containers/transfer.h"
#include "launch/state.h"

#include "support/error.h"

#include <dlpack/dlpack.h>

#include <memory>
#include <string>
#include <type_traits>
#include <vector>

namespace qd::launch {

using support::Error;
using support::ErrorKind;
using support::ScalarType;

namespace {

/// Whether capsules have the names that DLPack uses from version 1 on.
template <typename Managed> constexpr bool kIsVersioned = std::is_same_v<Managed, DLManagedTensorVersioned>;
template <typename Managed> constexpr const char *kName = kIsVersioned<Managed> ? "dltensor_versioned" : "dltensor";
template <typename Managed> constexpr const char *kUsedName = kIsVersioned<Managed> ? "used_dltensor_versioned" : "used_dltensor";

DLDataTypeCode getTypeCode(ScalarType type) {
  if (type == ScalarType::U1) return kDLBool;
  if (type == ScalarType::BF16) return kDLBfloat;
  return support::isFloat(type) ? kDLFloat : support::isSigned(type) ? kDLInt : kDLUInt;
}

/// An exported tensor, with the data that it points to.
template <typename Managed> struct Exported {
  Managed managed{};
  PyObject *owner = nullptr;
  std::vector<int64_t> extents, strides;
};

/// Called by the consumer of the tensor, on any thread, possibly after the interpreter has ended.
template <typename Managed> void releaseExported(Managed *managed) {
  auto *exported = static_cast<Exported<Managed> *>(managed->manager_ctx);
  if (Py_IsInitialized()) {
    PyGILState_STATE state = PyGILState_Ensure();
    Py_DECREF(exported->owner);
    PyGILState_Release(state);
  }
  delete exported;
}

/// Destructor of a capsule whose tensor was not consumed.
template <typename Managed> void deleteCapsule(PyObject *capsule) {
  if (!PyCapsule_IsValid(capsule, kName<Managed>)) return;
  auto *managed = static_cast<Managed *>(PyCapsule_GetPointer(capsule, kName<Managed>));
  if (managed->deleter) managed->deleter(managed);
}

/// The arguments of `export_dlpack`.
struct Request {
  PyObject *owner, *dtype, *extents, *strides;
  unsigned long long address;
  int deviceType, deviceId, isVersioned, isReadOnly, isCopied;
};

std::pair<void *, size_t> locate(const Request &request) {
  auto *data = reinterpret_cast<void *>(request.address);
  std::shared_ptr<runtime::DeviceMemory> memory = request.deviceType == kDLCPU ? nullptr : getState().memory;
  return memory ? memory->locate(data) : std::pair<void *, size_t>(data, 0);
}

template <typename Managed> PyObject *give(const Request &request) {
  ScalarType type = getScalarType(request.dtype);
  auto bytes = int64_t(getByteSize(type));
  auto exported = std::make_unique<Exported<Managed>>();
  exported->extents = readIntegers(request.extents);
  exported->strides = readIntegers(request.strides);
  for (int64_t &stride : exported->strides) {
    if (stride % bytes)
      throw Error(ErrorKind::Value, "other libraries cannot represent strides that are no multiples of an element's size");
    stride /= bytes;
  }
  auto [data, offset] = locate(request);
  exported->managed.dl_tensor = {.data = data,
                                 .device = {DLDeviceType(request.deviceType), request.deviceId},
                                 .ndim = int32_t(exported->extents.size()),
                                 .dtype = {uint8_t(getTypeCode(type)), uint8_t(8 * bytes), /*lanes=*/1},
                                 .shape = exported->extents.data(),
                                 .strides = exported->strides.data(),
                                 .byte_offset = offset};
  exported->managed.manager_ctx = exported.get();
  exported->managed.deleter = releaseExported<Managed>;
  if constexpr (kIsVersioned<Managed>) {
    exported->managed.version = {DLPACK_MAJOR_VERSION, 0}; // exports use no type or flag that 1.0 does not have
    exported->managed.flags =
        (request.isReadOnly ? DLPACK_FLAG_BITMASK_READ_ONLY : 0) | (request.isCopied ? DLPACK_FLAG_BITMASK_IS_COPIED : 0);
  }
  Ref capsule = Ref::adopt(PyCapsule_New(&exported->managed, kName<Managed>, deleteCapsule<Managed>));
  exported.release()->owner = Py_NewRef(request.owner);
  return capsule.release();
}

/// export_dlpack(owner, address, (device type, number), dtype, shape, strides in bytes, versioned, read_only, is_copy)
PyObject *exportDlpack(PyObject *, PyObject *args) {
  return guard([&]() -> PyObject * {
    Request request{};
    if (!PyArg_ParseTuple(args, "OK(ii)OOOppp:export_dlpack", &request.owner, &request.address, &request.deviceType, &request.deviceId,
                          &request.dtype, &request.extents, &request.strides, &request.isVersioned, &request.isReadOnly, &request.isCopied))
      return nullptr;
    return request.isVersioned ? give<DLManagedTensorVersioned>(request) : give<DLManagedTensor>(request);
  });
}

/// An object of another library that contains memory, which kernels use while its tensor is here.
struct Adopted {
  Adopted(std::shared_ptr<runtime::DeviceMemory> owner, void *foreign) : memory(std::move(owner)), address(memory->adopt(foreign)) {}
  ~Adopted() { memory->drop(address); }
  Adopted(const Adopted &) = delete;
  Adopted &operator=(const Adopted &) = delete;
  std::shared_ptr<runtime::DeviceMemory> memory;
  void *address;
};

/// Destructor of the capsule that owns an imported tensor: returns the tensor to its library.
template <typename Managed> void returnImported(PyObject *capsule) {
  delete static_cast<Adopted *>(PyCapsule_GetContext(capsule)); // before: it waits for kernels
  auto *managed = static_cast<Managed *>(PyCapsule_GetPointer(capsule, "taken_dltensor"));
  if (managed->deleter) managed->deleter(managed);
}

template <typename Managed> PyObject *take(PyObject *capsule) {
  auto *managed = static_cast<Managed *>(PyCapsule_GetPointer(capsule, kName<Managed>));
  bool isWritable = true;
  if constexpr (kIsVersioned<Managed>) {
    if (uint32_t major = managed->version.major; major != DLPACK_MAJOR_VERSION)
      throw Error(ErrorKind::Value, "the array is of version " + std::to_string(major) + " of DLPack, and 1 is known here");
    isWritable = !(managed->flags & DLPACK_FLAG_BITMASK_READ_ONLY);
  }
  const DLTensor &tensor = managed->dl_tensor;
  const int64_t bytes = tensor.dtype.bits / 8, rank = tensor.ndim;
  if (tensor.dtype.lanes != 1 || tensor.dtype.bits % 8)
    throw Error(ErrorKind::Value, "kernels have no elements of that size or with lanes");
  std::vector<int64_t> extents(tensor.shape, tensor.shape + rank), strides(extents.size());
  for (int64_t axis = rank - 1, packed = bytes; axis >= 0; packed *= extents[size_t(axis--)])
    strides[size_t(axis)] = tensor.strides ? tensor.strides[axis] * bytes : packed;
  Ref shape = Ref::adopt(makeTuple(extents)), steps = Ref::adopt(makeTuple(strides));
  std::shared_ptr<runtime::DeviceMemory> memory = getState().memory;
  bool isObject = memory && memory->hasObjects() && tensor.device.device_type != kDLCPU;
  auto adopted = isObject ? std::make_unique<Adopted>(memory, tensor.data) : nullptr;
  auto address = reinterpret_cast<unsigned long long>(adopted ? adopted->address : tensor.data) + tensor.byte_offset;
  PyCapsule_SetName(capsule, kUsedName<Managed>);
  PyCapsule_SetDestructor(capsule, nullptr);
  Ref owner = Ref::adopt(PyCapsule_New(managed, "taken_dltensor", returnImported<Managed>));
  PyCapsule_SetContext(owner.get(), adopted.release());
  return Py_BuildValue("(OK(ii)(ii)OOO)", owner.get(), address, int(tensor.device.device_type), int(tensor.device.device_id),
                       int(tensor.dtype.code), int(tensor.dtype.bits), shape.get(), steps.get(), isWritable ? Py_True : Py_False);
}

PyObject *importDlpack(PyObject *, PyObject *capsule) {
  return guard([&]() -> PyObject * {
    if (PyCapsule_IsValid(capsule, kName<DLManagedTensorVersioned>)) return take<DLManagedTensorVersioned>(capsule);
    if (PyCapsule_IsValid(capsule, kName<DLManagedTensor>)) return take<DLManagedTensor>(capsule);
    throwPython(PyExc_TypeError, "an unused DLPack capsule is expected, got %R", capsule);
  });
}

/// copy_memory(container): returns (a copy on the device of the memory from the first to the last element, address of the first element in
/// it).
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
       "(owner, address, device, dtype, shape, strides, versioned, read_only, is_copy): a capsule that keeps the owner alive."},
      {"copy_memory", copyMemory, METH_O,
       "A copy on the device of the memory of a container's elements: (buffer, address of the first element in it)."},
      {"import_dlpack", importDlpack, METH_O,
       "A capsule's (owner, address, device, (type code, bits), shape, strides, writable); the owner returns the tensor when it is "
       "destroyed."},
      {}};
  PyModule_AddFunctions(module, functions);
}

} // namespace qd::launch
