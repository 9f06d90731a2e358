// fingerprint.h: Python objects as canonical bytes. Objects with equal bytes mean the same to the compiler. Guards in memory and the keys
// and manifests on disk compare these bytes or their digests.
#pragma once

#include "artifact/artifact.h"
#include "launch/python.h"
#include "support/hash.h"

#include <optional>
#include <string>

namespace qd::launch {

/// Whether the fingerprint of a function includes its source location: file and line matter to code that reports source locations.
enum class Placement { Ignored, Included };

/// Appends type and value; false when the object has no canonical form (`out` is then unusable).
bool fingerprintValue(std::string &out, PyObject *object);
/// Appends code, defaults and, where there is source, the text of a function, func or kernel.
bool fingerprintFunction(std::string &out, PyObject *object, Placement placement);
/// Appends the class (of an instance) or the class itself.
void fingerprintType(std::string &out, PyObject *object);

/// Digest of the properties of the object that a dependency of this kind covers (null object: absent). Empty when the object has no
/// fingerprint.
std::optional<support::Digest> fingerprintDependency(artifact::Dependency::Kind kind, PyObject *object, Placement placement);

/// Whether the object is a builtin of the package with a meaning in kernels, such as qd.sqrt.
bool isBuiltin(PyObject *object);
/// Whether the type is a number, string or similar: immutable, without references to other objects.
bool isAtom(PyTypeObject *type);
/// Whether the value of the object can never change, so that the same object means the same value.
bool isImmutable(PyObject *object);

} // namespace qd::launch
