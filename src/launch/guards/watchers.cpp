// watchers.cpp: the watchers of dictionaries and classes, and the records of what they watch
//
// In:   objects that guards have read; from 3.12 on, Python's calls before a watched dictionary changes and when a watched class does.
// Out:  the number of changes of each of these objects.
// Here: the only place that knows how a version of Python reports changes. Every change of a watched dictionary runs this code.
#include "launch/guards/watchers.h"

#include <algorithm>
#include <unordered_map>

namespace qd::launch {

PyObject *findInClass(PyTypeObject *type, PyObject *name) {
  PyObject *bases = type->tp_mro;
  for (Py_ssize_t i = 0; bases && i < PyTuple_GET_SIZE(bases); ++i) {
    auto *base = reinterpret_cast<PyTypeObject *>(PyTuple_GET_ITEM(bases, i));
#if PY_VERSION_HEX < 0x030c0000
    PyObject *found = PyDict_GetItemWithError(base->tp_dict, name);
#else
    Ref dict = Ref::adopt(PyType_GetDict(base));
    PyObject *found = PyDict_GetItemWithError(dict.get(), name);
#endif
    if (found) return found;
  }
  return nullptr;
}

#if PY_VERSION_HEX < 0x030c0000

void TypeWatch::begin(PyTypeObject *type) {
  static PyObject *any = PyUnicode_InternFromString("__class__");
  _PyType_Lookup(type, any); // gives the class a number if it has none
  version = type->tp_version_tag;
}

#else

// Beginning to watch a dictionary costs as much as a few look-ups, and is in vain if it changes before the next launch. A guard therefore
// begins less and less often, down to one in this many of the launches that find a dictionary unwatched.
static constexpr int kMostPatience = 32;

Watch::Record Watch::none{nullptr};

/// The records of all watched objects. Never destroyed: Python may report changes while the process ends.
struct Watchers {
  std::unordered_map<void *, Watch::Record> records; ///< by address
  // Python has eight watchers of each kind for all modules of an interpreter. Negative: none was left.
  PyInterpreterState *interpreter = PyInterpreterState_Get();
  int dicts = PyDict_AddWatcher(noteDict), types = PyType_AddWatcher(noteType);

  Watchers() { PyErr_Clear(); }
  static Watchers &get() {
    static auto *watchers = new Watchers;
    return *watchers;
  }
  static uint64_t getBit(PyObject *name) { return uint64_t(1) << (size_t(PyObject_Hash(name)) & 63); }

  static int noteDict(PyDict_WatchEvent event, PyObject *dict, PyObject *key, PyObject *) {
    auto &records = get().records;
    auto found = records.find(dict);
    if (found == records.end()) return 0;
    Watch::Record &record = found->second;
    bool isEntry = event == PyDict_EVENT_ADDED || event == PyDict_EVENT_MODIFIED || event == PyDict_EVENT_DELETED;
    if (isEntry && PyUnicode_CheckExact(key) && !(record.names & getBit(key))) return 0;
    ++record.version;
    record.unshare();
    if (event == PyDict_EVENT_DEALLOCATED) record.isWatched = false;
    // Python 3.12 restores what is cancelled here; further changes find no record.
    if (!record.users) get().remove(found);
    return 0;
  }

  static int noteType(PyTypeObject *type) {
    auto &records = get().records;
    if (auto found = records.find(type); found != records.end()) ++found->second.version;
    return 0;
  }

  /// Requests calls for the next change; Python reports only one change of a class for each request.
  bool request(PyObject *object) const {
    bool isType = PyType_Check(object);
    if (PyInterpreterState_Get() != interpreter || (isType ? types : dicts) < 0) return false;
    if ((isType ? PyType_Watch(types, object) : PyDict_Watch(dicts, object)) == 0)
      // Python numbers a class anew after each change, up to some limit, and reports changes of numbered classes only.
      return !isType || PyUnstable_Type_AssignVersionTag(reinterpret_cast<PyTypeObject *>(object));
    PyErr_Clear();
    return false;
  }

  void remove(std::unordered_map<void *, Watch::Record>::iterator found) {
    auto *object = static_cast<PyObject *>(found->second.isWatched ? found->first : nullptr);
    if (object && (PyType_Check(object) ? PyType_Unwatch(types, object) : PyDict_Unwatch(dicts, object)) != 0) PyErr_Clear();
    records.erase(found);
  }
};

void Watch::begin(PyObject *object, uint64_t names, bool isMore) {
  Watchers &watchers = Watchers::get();
  if (record->object != object) {
    end();
    follow(watchers.records.try_emplace(object, Record{object}).first->second);
  }
  record->names |= names;
  if (!isMore) version = record->version;
  if (!record->isWatched || PyType_Check(object)) record->isWatched = watchers.request(object);
  if (!record->isWatched) end();
}

void Watch::release() {
  Record *left = std::exchange(record, &none);
  // Other objects come in between: a guard will join again. A change of the dictionary or its end removes the record.
  if (--left->users || findShared(left->object) == left) return;
  Watchers &watchers = Watchers::get();
  watchers.remove(watchers.records.find(left->object));
}

void DictWatch::begin(PyObject *dict, PyObject *name, bool isMore) { watch.begin(dict, Watchers::getBit(name), isMore); }

/// From 3.13 on, an object may store its attributes itself even though it has a dictionary, and Python does not report that such an
/// attribute is set. When an item is taken out, the dictionary becomes one that stores its items. The put-back item is the last one again.
static bool makeReportable(PyObject *dict) {
#if PY_VERSION_HEX >= 0x030d0000
  if (!reinterpret_cast<PyDictObject *>(dict)->ma_values) return true;
  if (!PyDict_CheckExact(dict) || !PyDict_GET_SIZE(dict)) return false;
  static PyObject *name = PyUnicode_InternFromString("popitem");
  Ref item = Ref::adopt(PyObject_CallMethodNoArgs(dict, name));
  if (PyDict_SetItem(dict, PyTuple_GET_ITEM(item.get(), 0), PyTuple_GET_ITEM(item.get(), 1)) < 0) throw PythonError{};
  return !reinterpret_cast<PyDictObject *>(dict)->ma_values;
#else
  return dict;
#endif
}

void DictWatch::start(PyObject *dict) {
  if (makeReportable(dict)) {
    watch.begin(dict, UINT64_MAX);
    watch.share();
  }
  patience = std::clamp(2 * patience, 2, kMostPatience);
  sightings = 0;
}

void TypeWatch::begin(PyTypeObject *next) {
  static PyObject *mro = PyUnicode_InternFromString("mro");
  watch.end();
  type = Ref::borrow(reinterpret_cast<PyObject *>(next));
  // Python does not report new bases of a class whose metaclass orders them itself.
  if (findInClass(Py_TYPE(next), mro) == findInClass(&PyType_Type, mro)) watch.begin(type.get(), 0);
}

#endif

} // namespace qd::launch
