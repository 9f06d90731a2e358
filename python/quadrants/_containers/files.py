"""`qd.save` and `qd.load`: a set of containers in one file, in the format of safetensors (https://github.com/huggingface/safetensors): the
length of a header, the header as JSON, and the elements of all arrays.
"""

from __future__ import annotations

import contextlib
import json
import math
import mmap
import os
import tempfile
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from .._base.dtypes import find_dtype, to_memory_dtype
from .._values.types import make_element
from .ndarray import ndarray
from .struct_field import StructField

_METADATA = "quadrants.element_axes"  # a JSON object with the number of axes of elements, for each array that has any


class Entry(NamedTuple):
    """An array in a file."""

    dtype: Any
    shape: tuple[int, ...]  # with the axes of elements
    element_axes: int = 0


def list_leaves(containers: Mapping[str, Any]) -> dict[str, Any]:
    """Returns the fields and ndarrays by name, members of structs as name.member. Raises `TypeError` for anything else."""
    found: dict[str, Any] = {}
    for name, container in containers.items():
        container = getattr(container, "_impl", container)
        if isinstance(container, StructField):
            found |= list_leaves({f"{name}.{key}": member for key, member in container.field_dict.items()})
        elif not hasattr(container, "_element_type") or container._cells is not None:
            raise TypeError(f"{name} is a {type(container).__name__}: a field, ndarray or tensor that is not sparse is expected")
        else:
            found[name] = container
    return found


def describe(container: Any, shape: tuple[int, ...] | None = None) -> Entry:
    """Returns the entry of a container, or of one with another shape."""
    extents = container._live_shape if shape is None else shape
    return Entry(container.dtype, extents + container.element_shape, len(container.element_shape))


@contextlib.contextmanager
def create(path: Any, entries: Mapping[str, Entry]) -> Iterator[dict[str, np.ndarray]]:
    """Yields arrays to fill, and gives the file its name afterwards: under this name there is the earlier file or all of the new one."""
    path, head, position = Path(path), dict[str, Any](), 0
    for name, (dtype, shape, _) in entries.items():
        ends = [position, position := position + to_memory_dtype(dtype).itemsize * math.prod(shape)]
        head[name] = {"dtype": "BOOL" if dtype.name == "u1" else dtype.name.upper(), "shape": shape, "data_offsets": ends}
    head["__metadata__"] = {_METADATA: json.dumps({name: entry.element_axes for name, entry in entries.items() if entry.element_axes})}
    text = json.dumps(head).encode()
    text += b" " * (-len(text) % 64 + 56)  # the elements begin at a multiple of 64
    with tempfile.NamedTemporaryFile(dir=path.parent, prefix=f".{path.name}.", suffix=".new", delete=False) as file:
        try:
            size = 8 + len(text) + position
            os.posix_fallocate(file.fileno(), 0, size)  # a full disk is an exception here, and would end the process later
            memory = mmap.mmap(file.fileno(), size)
            memory[: 8 + len(text)] = len(text).to_bytes(8, "little") + text
            yield {name: _view(memory, 8 + len(text) + head[name]["data_offsets"][0], entry) for name, entry in entries.items()}
            memory.flush()
            os.fsync(file.fileno())
            os.replace(file.name, path)
        except BaseException:
            os.unlink(file.name)
            raise
    folder = os.open(path.parent, os.O_RDONLY)
    os.fsync(folder)  # so that the new name is on the disk, too
    os.close(folder)


def _view(memory: mmap.mmap, position: int, entry: Entry) -> np.ndarray:
    return np.frombuffer(memory, to_memory_dtype(entry.dtype), math.prod(entry.shape), position).reshape(entry.shape)


def open_arrays(path: Any) -> dict[str, tuple[Entry, np.ndarray]]:
    """Returns the arrays of a file, whose memory is that of the file. Raises `ValueError` if it is damaged or no such file."""
    try:
        with open(path, "rb") as file:
            memory = mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ)
        begin = 8 + int.from_bytes(memory[:8], "little")
        head = json.loads(memory[8:begin])
        axes = json.loads(head.pop("__metadata__", {}).get(_METADATA, "{}"))
        found = {}
        for name, item in head.items():
            dtype = find_dtype("u1" if item["dtype"] == "BOOL" else item["dtype"].lower())
            first, end = item["data_offsets"]
            entry = Entry(dtype, tuple(item["shape"]), axes.get(name, 0))
            found[name] = entry, _view(memory, begin + first, entry)
            if found[name][1].nbytes != end - first:
                raise ValueError(f"the array {name} has not {end - first} bytes")
    except (ValueError, KeyError, TypeError, AttributeError) as problem:
        raise ValueError(f"{path} is no complete file of qd.save or safetensors: {problem}") from None
    return found


def find_arrays(path: Any, entries: Mapping[str, Entry]) -> dict[str, np.ndarray]:
    """Returns the arrays of a file with these names; raises `KeyError` for a missing one, `ValueError` for another type or shape."""
    found = open_arrays(path)
    if missing := [name for name in entries if name not in found]:
        raise KeyError(f"{path} has no array {missing[0]!r}; it has {', '.join(found)}")
    for name, wanted in entries.items():
        if (have := found[name][0])[:2] != wanted[:2]:
            raise ValueError(f"{name} has {wanted.dtype} and shape {wanted.shape}, and in {path} {have.dtype} and shape {have.shape}")
    return {name: found[name][1] for name in entries}


def save(path: Any, containers: Mapping[str, Any]) -> None:
    """Write the elements of `containers`, a dict of containers by name, into the file `path`, in the format of safetensors.

    The file takes the place of an earlier one when it is complete: after a kill, or if the disk is full, the earlier one is left.
    Members of structs are arrays with names like body.mass. Raises `TypeError` for anything but fields, ndarrays, tensors and structs of
    them, or sparse ones, `OSError` if the file cannot be written.
    """
    leaves = list_leaves(containers)
    with create(path, {name: describe(leaf) for name, leaf in leaves.items()}) as arrays:
        for name, leaf in leaves.items():
            np.copyto(arrays[name], leaf._fetch())


def load(path: Any, containers: Mapping[str, Any] | None = None) -> dict[str, Any]:
    """Return the containers of a file that `qd.save` or another program wrote in the format of safetensors.

    Args:
        path: its name.
        containers: a dict of containers by name, which receive the elements; the file may have more. Default: new ndarrays for all.
    Returns:
        The containers by name.
    Raises:
        KeyError: the file has no array of this name.
        ValueError: it has one of another data type or shape, or it is damaged. No container is changed then.
    """
    if containers is None:
        made = {}
        for name, (entry, array) in open_arrays(path).items():
            rank = len(entry.shape) - entry.element_axes
            made[name] = ndarray(make_element(entry.shape[rank:], entry.dtype), entry.shape[:rank])
            made[name]._overwrite(array)
        return made
    leaves = list_leaves(containers)
    for name, array in find_arrays(path, {name: describe(leaf) for name, leaf in leaves.items()}).items():
        leaves[name]._overwrite(array)
    return dict(containers)
