// fingerprint.h: Python objects as canonical bytes. Objects with equal bytes mean the same to the compiler; the checks in memory, the keys
// and manifests on disk, all compare these.
#pragma once

#include "artifact/artifact.h"
#include "launch/python.h"
#include "support/hash.h"

#include <optional>
#include <string>

namespace qd::launch {

/// What a description of a function says about where it stands: file and line matter to code that reports places.
enum class Placement { Ignored, Included };

/// Appends type and value; false (and nothing useful appended) when the object has no canonical form.
bool fingerprintValue(std::string &out, PyObject *object);
/// Appends code, defaults and, where there is source, the text of a function, func or kernel.
bool fingerprintFunction(std::string &out, PyObject *object, Placement placement);
/// Appends the class (of an instance) or the class itself.
void fingerprintType(std::string &out, PyObject *object);

/// Digest of what a dependency of this kind sees of the object (empty object: absent). No value: it cannot be described.
std::optional<support::Digest> fingerprintDependency(artifact::Dependency::Kind kind, PyObject *object, Placement placement);

/// Whether the object is one of the package that means something in kernels, such as qd.sqrt.
bool isBuiltin(PyObject *object);
/// Numbers, strings and the like, which cannot change and hold nothing else.
bool isAtom(PyTypeObject *type);
/// Whether the value of the object can never change, so that the same object means the same value.
bool isImmutable(PyObject *object);

} // namespace qd::launch
