"""Python functions that XLA calls on the CPU: the required part of the structures of its foreign-function interface
(xla/ffi/api/c_api.h).

XLA first calls a handler for the version of the interface, then at each stage of an execution. An error is returned as an object that
XLA makes.
"""

from __future__ import annotations

import ctypes
import traceback
from collections.abc import Callable
from ctypes import CFUNCTYPE, POINTER, c_char_p, c_int, c_int64, c_size_t, c_void_p
from typing import Any

import numpy as np

_METADATA, _EXECUTE, _INTERNAL = 1, 3, 13  # an extension, a stage, an error code
_TYPES = {1: "?", 2: "i1", 3: "i2", 4: "i4", 5: "i8", 6: "u1", 7: "u2", 8: "u4", 9: "u8", 10: "f2", 11: "f4", 12: "f8"}


_HEAD = {"struct_size": c_size_t, "extension": c_void_p}


def _structure(**fields: Any) -> Any:
    """Returns a structure of C with these fields in order."""
    return type("Structure", (ctypes.Structure,), {"_fields_": list(fields.items())})


_Version = _structure(**_HEAD, major=c_int, minor=c_int)
_Metadata = _structure(struct_size=c_size_t, version=_Version)
_Extension = _structure(struct_size=c_size_t, kind=c_int, next=c_void_p, metadata=POINTER(_Metadata))
_NewError = _structure(**_HEAD, message=c_char_p, code=c_int)
_Api = _structure(**_HEAD, version=_Version, internal=c_void_p, make_error=CFUNCTYPE(c_void_p, POINTER(_NewError)))
_Buffer = _structure(**_HEAD, dtype=c_int, data=c_void_p, rank=c_int64, extents=POINTER(c_int64))
_Values = _structure(**_HEAD, size=c_int64, kinds=c_void_p, items=POINTER(POINTER(_Buffer)))
_Frame = _structure(**_HEAD, api=POINTER(_Api), context=c_void_p, stage=c_int, arguments=_Values, results=_Values)
_HANDLER = CFUNCTYPE(c_void_p, POINTER(_Frame))
_kept: list[Any] = []  # XLA never releases a handler


def register(jax: Any, name: str, function: Callable[[list[np.ndarray], list[np.ndarray]], None]) -> None:
    """Registers `function(inputs, outputs)` with XLA under a name: the arguments are arrays on XLA's memory, and it has to fill the
    outputs.
    """

    def handle(frame: Any) -> Any:
        return _run(frame.contents, function)

    handler = _HANDLER(handle)
    make = ctypes.pythonapi.PyCapsule_New
    make.restype, make.argtypes = ctypes.py_object, [c_void_p, c_char_p, c_void_p]
    _kept.append(handler)
    jax.ffi.register_ffi_target(name, make(ctypes.cast(handler, c_void_p), None, None), platform="cpu")


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
