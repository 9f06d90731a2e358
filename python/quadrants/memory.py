"""`qd.memory`: reports allocated memory, its containers, and the source line that allocated it."""

from __future__ import annotations

import math
from typing import NamedTuple

from . import _runtime

__all__ = ["Block", "blocks", "report"]


class Block(NamedTuple):
    """One block of memory and the containers in it."""

    names: tuple[str, ...]
    """Names of the containers; without a name, a description such as "ndarray f32 (100,)"."""
    nbytes: int
    """Size of the block in bytes."""
    place: str
    """"file:line" of the call that allocated it, or "?"."""


def blocks() -> list[Block]:
    """Return a list of the `Block`s of living containers, the largest first; blocks referenced only by views of NumPy or torch are
    excluded.
    """
    found: dict[int, tuple[int, list[str], str]] = {}
    for container, address, size, file, line in _runtime.list_containers():
        words = getattr(container, "_words", None)  # a quantized field counts to its words
        address = address if words is None else words._address
        _, names, place = found.setdefault(address, (size, [], f"{file}:{line}" if file else "?"))
        names.append(_describe(container))
        if file and place == "?":
            found[address] = (size, names, f"{file}:{line}")
    made = [Block(tuple(sorted(names)), size, place) for size, names, place in found.values()]
    return sorted(made, key=lambda block: (-block.nbytes, block.place, block.names))


def _describe(container: _runtime.FieldBase | _runtime.NdarrayBase) -> str:
    kind = "field" if isinstance(container, _runtime.FieldBase) else "ndarray"
    element = "x".join(map(str, container.element_shape))
    text = f"{kind} {container.dtype}{f' {element}' if element else ''} {container.shape}"
    name = getattr(container, "_name", "")
    if getattr(container, "_cells", None) is not None:
        text += f" in {' => '.join(str(node._kind) for node in container._leaf._path_from_root()[1:-1])}"  # type: ignore[union-attr]
    return f"{name}: {text}" if name else text


def report() -> str:
    """Return a table of the blocks in use as text: bytes, source location, containers; then the memory of views, and the sum.

    For the fields and records of sparse nodes, the bytes are those that the system has provided; on GPUs, those of all cells.
    """
    use, listed = _runtime.memory_use(), blocks()
    buffers = {address: (container, size) for container, address, size, _, _ in _runtime.list_containers()}
    total = use["bytes"] + sum(size for container, size in buffers.values() if container._buffer.is_reserved())
    rest = total - sum(block.nbytes for block in listed)
    rows = [(_size(block.nbytes), block.place, ", ".join(block.names)) for block in listed]
    if rest > 0:
        rows.append((_size(rest), "", "kept by views of NumPy or torch only"))
    width = max((len(place) for _, place, _ in rows), default=0)
    lines = [f"{size:>10}  {place:<{width}}  {names}".rstrip() for size, place, names in rows]
    return "\n".join([*lines, f"{_size(total):>10}  in {use['blocks']} blocks"])


def _size(nbytes: int) -> str:
    step = min(max(int(math.log2(nbytes) // 10), 0), 4) if nbytes else 0
    return f"{nbytes / 1024**step:.{1 if step else 0}f} {('B', 'KiB', 'MiB', 'GiB', 'TiB')[step]}"


__dir__ = __all__.copy
