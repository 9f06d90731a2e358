// watchers.h: notices that a dictionary or a class has changed since a guard read it
//
// Python 3.10 and 3.11 number all changes, and a guard compares numbers. From 3.12 on, Python calls a watcher before a dictionary and
// around the change of a class; the watcher numbers the changes of what some guard watches. An object that cannot be watched is never
// current, so that its guards read it again at every launch.
#pragma once

#include "launch/python.h"

#include <cstdint>

namespace qd::launch {

#if PY_VERSION_HEX < 0x030c0000

class DictWatch {
public:
  /// Whether this dictionary is the one that is watched, and has not changed since `begin`.
  bool isCurrent(PyObject *dict) const { return getVersion(dict) == version; }
  /// Watches the entry of a name; with `isMore`, besides those for which this dictionary is watched already.
  void begin(PyObject *dict, PyObject *, bool isMore) {
    if (!isMore) version = getVersion(dict);
  }
  /// False: it could not be watched.
  bool isActive() const { return true; }
  /// Watches all entries of an object's dictionary, as soon as that pays.
  void consider(PyObject *dict) { version = getVersion(dict); }

private:
  static uint64_t getVersion(PyObject *dict) { return reinterpret_cast<PyDictObject *>(dict)->ma_version_tag; }
  uint64_t version = 0;
};

class TypeWatch {
public:
  /// Whether this class is the one that is watched, and neither it nor a base class has changed since `begin`.
  bool isCurrent(PyTypeObject *type) const { return version && type->tp_version_tag == version; }
  void begin(PyTypeObject *type);
  int traverse(visitproc, void *) const { return 0; }

private:
  unsigned version = 0;
};

#else

/// A reference to the record of a watched object.
class Watch {
public:
  Watch() = default;
  Watch(Watch &&other) noexcept : record(std::exchange(other.record, &none)), version(other.version) {}
  Watch &operator=(Watch other) noexcept {
    std::swap(record, other.record);
    std::swap(version, other.version);
    return *this;
  }
  ~Watch() { end(); }
  bool isCurrent(void *object) const { return record->object == object && record->version == version; }
  /// Watches a class, or the entries of a dictionary whose names' bits are set. With `isMore`, changes since the last `begin` still count.
  void begin(PyObject *object, uint64_t names, bool isMore = false);
  /// Lets other guards join until the dictionary changes.
  void share() {
    if (isActive()) findShared(record->object) = record;
  }
  /// Watches a dictionary that another guard shares, if nothing is watched; false if none does.
  bool join(PyObject *dict) {
    Record *known = findShared(dict);
    if (!known || known->object != dict) return false;
    follow(*known);
    return true;
  }
  bool isActive() const { return record != &none; }
  /// Whether the object that was watched no longer exists.
  bool isOver() const { return isActive() && !record->isWatched; }
  void end() {
    if (isActive()) release();
  }

private:
  friend struct Watchers;
  /// What all guards know of the object at one address.
  struct Record {
    void *object;         ///< borrowed
    uint64_t version = 0; ///< number of changes, which include the end of the object
    uint64_t names = 0;   ///< a bit for the hash of each name whose entry is watched
    size_t users = 0;
    bool isWatched = false; ///< false: the object no longer exists, or could not be watched
    void unshare() {
      if (Record *&place = findShared(object); place == this) place = nullptr;
    }
  };
  /// Where a shared record is found without a search; it may be that of another address.
  static Record *&findShared(void *object) { return shared[uintptr_t(object) * 0x9e3779b97f4a7c15 >> 56]; }
  void follow(Record &next) {
    ++next.users;
    record = &next;
    version = next.version;
  }
  void release();

  static inline Record *shared[256] = {};
  static Record none; ///< of no object
  Record *record = &none;
  uint64_t version = 0;
};

class DictWatch {
public:
  bool isCurrent(PyObject *dict) const { return watch.isCurrent(dict); }
  bool isActive() const { return watch.isActive(); }
  void begin(PyObject *dict, PyObject *name, bool isMore);
  void consider(PyObject *dict) {
    if (watch.isOver()) patience /= 4; // objects come and go: the next one will stay as it is, too
    watch.end();
    if (!watch.join(dict) && ++sightings >= patience) start(dict);
  }

private:
  void start(PyObject *dict);
  Watch watch;
  int sightings = 0, patience = 1;
};

class TypeWatch {
public:
  bool isCurrent(PyTypeObject *type) const { return watch.isCurrent(type); }
  void begin(PyTypeObject *type);
  int traverse(visitproc visit, void *arg) const {
    Py_VISIT(type.get());
    return 0;
  }

private:
  Ref type; ///< nothing reports the end of a class; declared first, because the watch needs it until its own end
  Watch watch;
};

#endif

/// What a class and its bases have under a name; borrowed, null for nothing.
PyObject *findInClass(PyTypeObject *type, PyObject *name);

} // namespace qd::launch
