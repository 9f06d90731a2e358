"""Python functions that XLA calls on the CPU: the required part of the structures of its foreign-function interface
(xla/ffi/api/c_api.h).

XLA first calls a handler for the version of the interface, then at each stage of an execution. An error is returned as an object that
XLA makes.
"""

from __future__ import annotations

import ctypes
import traceback
from collections.abc import Callable
from typing import Any

import numpy as np

_HEAD = [("struct_size", ctypes.c_size_t), ("extension", ctypes.c_void_p)]
_METADATA, _EXECUTE, _INTERNAL = 1, 3, 13  # an extension, a stage, an error code
_TYPES = {1: "?", 2: "i1", 3: "i2", 4: "i4", 5: "i8", 6: "u1", 7: "u2", 8: "u4", 9: "u8", 10: "f2", 11: "f4", 12: "f8"}


class _Version(ctypes.Structure):
    _fields_ = [*_HEAD, ("major", ctypes.c_int), ("minor", ctypes.c_int)]


class _Metadata(ctypes.Structure):
    _fields_ = [("struct_size", ctypes.c_size_t), ("version", _Version)]


class _Extension(ctypes.Structure):
    _fields_ = [
        ("struct_size", ctypes.c_size_t),
        ("kind", ctypes.c_int),
        ("next", ctypes.c_void_p),
        ("metadata", ctypes.POINTER(_Metadata)),
    ]


class _NewError(ctypes.Structure):
    _fields_ = [*_HEAD, ("message", ctypes.c_char_p), ("code", ctypes.c_int)]


class _Api(ctypes.Structure):
    _fields_ = [
        *_HEAD,
        ("version", _Version),
        ("internal", ctypes.c_void_p),
        ("make_error", ctypes.CFUNCTYPE(ctypes.c_void_p, ctypes.POINTER(_NewError))),
    ]


class _Buffer(ctypes.Structure):
    _fields_ = [
        *_HEAD,
        ("dtype", ctypes.c_int),
        ("data", ctypes.c_void_p),
        ("rank", ctypes.c_int64),
        ("extents", ctypes.POINTER(ctypes.c_int64)),
    ]


class _Values(ctypes.Structure):
    _fields_ = [
        *_HEAD,
        ("size", ctypes.c_int64),
        ("kinds", ctypes.c_void_p),
        ("items", ctypes.POINTER(ctypes.POINTER(_Buffer))),
    ]


class _Frame(ctypes.Structure):
    _fields_ = [
        *_HEAD,
        ("api", ctypes.POINTER(_Api)),
        ("context", ctypes.c_void_p),
        ("stage", ctypes.c_int),
        ("arguments", _Values),
        ("results", _Values),
    ]


_HANDLER = ctypes.CFUNCTYPE(ctypes.c_void_p, ctypes.POINTER(_Frame))
_kept: list[Any] = []  # XLA never releases a handler


def register(jax: Any, name: str, function: Callable[[list[np.ndarray], list[np.ndarray]], None]) -> None:
    """Registers `function(inputs, outputs)` with XLA under a name: the arguments are arrays on XLA's memory, and it has to fill the
    outputs.
    """

    def handle(frame: Any) -> Any:
        return _run(frame.contents, function)

    handler = _HANDLER(handle)
    make = ctypes.pythonapi.PyCapsule_New
    make.restype, make.argtypes = ctypes.py_object, [ctypes.c_void_p, ctypes.c_char_p, ctypes.c_void_p]
    _kept.append(handler)
    jax.ffi.register_ffi_target(name, make(ctypes.cast(handler, ctypes.c_void_p), None, None), platform="cpu")


def _run(frame: Any, function: Callable[[list[np.ndarray], list[np.ndarray]], None]) -> Any:
    if frame.extension:
        extension = _Extension.from_address(frame.extension)
        if extension.kind == _METADATA:
            own = extension.metadata.contents.version
            own.major, own.minor = (frame.api.contents.version.major, frame.api.contents.version.minor) if frame.api else (0, 1)
            return None
    if frame.stage != _EXECUTE:
        return None
    try:
        function(_arrays(frame.arguments), _arrays(frame.results))
    except BaseException:  # no exception may propagate through XLA
        problem = _NewError(ctypes.sizeof(_NewError), None, traceback.format_exc().encode(), _INTERNAL)
        return frame.api.contents.make_error(ctypes.byref(problem))
    return None


def _arrays(values: Any) -> list[np.ndarray]:
    return [_array(values.items[position].contents) for position in range(values.size)]


def _array(buffer: Any) -> np.ndarray:
    dtype = np.dtype(_TYPES[buffer.dtype])
    shape = tuple(buffer.extents[axis] for axis in range(buffer.rank))
    count = int(np.prod(shape, dtype=np.int64))
    if count == 0:
        return np.zeros(shape, dtype)
    memory = (ctypes.c_char * (count * dtype.itemsize)).from_address(buffer.data)
    return np.frombuffer(memoryview(memory), dtype).reshape(shape)
