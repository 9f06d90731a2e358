"""Quantized fields: containers whose elements are parts of words. The words are a field of their own, which fields of one pack share."""

from __future__ import annotations

import functools
import itertools
import math
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import numpy as np

import quadrants as qd

from .._base.dtypes import to_memory_dtype, u8, u16, u32, u64
from .._base.errors import QuadrantsRuntimeError, QuadrantsSyntaxError
from .._containers.container import MAKERS, ContainerSpec, WrittenBack, attach, leaves_of
from .._values.matrix import view_of
from .._values.quantized import QuantType
from .._values.types import MatrixType
from .codec import decode, encode
from .parts import Part, make_part

_WORDS: dict[int, Any] = {8: u8, 16: u16, 32: u32, 64: u64}
_serials = itertools.count()


def _declare(element: Any, name: str, order: Any = None) -> Any:
    """Makes a field without memory."""
    return MAKERS["declared field"](element, name, ContainerSpec(order))


class QuantizedMethods(qd.Field if TYPE_CHECKING else object):
    """What fields of quantized types do differently: their elements are converted from and to words."""

    _quant: QuantType
    _parts: tuple[Part, ...] = ()
    """A part of a word for each component."""
    _packing: Any = None
    """The parts, and for each axis: whether the words have it, the number of neighbors along it in one word, the bits between them."""
    _words: Any = None
    """The field of the words; of vectors, if the components are in words of their own."""

    @property
    def nbytes(self) -> int:
        """Size in bytes of the words, which other fields may share."""
        return math.prod(self._words.shape) * math.prod(self._words.element_shape) * self._words.dtype.size

    def _pack(self, node: qd.SNode, origin: Any) -> qd.SNode:
        """Returns the node in which the field is placed: a new pack of this field, unless it is in one."""
        if node._kind == "bit_struct":
            return node
        if self._parts:
            raise QuadrantsRuntimeError(f"This variable has been placed. (field {self._name!r} is in a BitpackedFields, which is placed)")
        if node._kind == "quant_array":
            return _place_in_array(self, node, origin)
        count = math.prod(self.element_shape)
        bits = self._quant.bits * count
        pack = BitpackedFields(next((size for size in _WORDS if size >= bits), 64))
        if bits <= 64:
            pack.place(self)
        else:
            pack._place_apart(self)
        return pack._make_node(node, origin)

    def _place_packed(self, shape: tuple[int, ...], offset: Any) -> None:
        """Places the field at its words. Its own memory has no elements, which its layout tells."""
        self._place(shape, (0,) * len(shape), 0, None, 0, offset, ())

    def _shadow(self, which: str) -> Any:
        if not self.dtype.is_real:
            return None
        kind = self._element_type
        element = MatrixType(kind.n, kind.m, self.dtype, kind.ndim) if isinstance(kind, MatrixType) else self.dtype
        made = _declare(element, f"{self._name}.{which}", self._order)
        attach(self, which, made)
        return made

    @property
    def vars(self) -> Any:
        """The fields of the components, on the same words."""
        if self._packing is None:
            raise QuadrantsRuntimeError(f"the components of the quantized field {self._name!r} are placed together: place the field")
        if not self.element_shape:
            return (self,)
        made = self.__dict__.get("_made_vars")
        if made is None:
            made = self._made_vars = tuple(self._make_part_field(number) for number in range(len(self._parts)))
        return made

    def _make_part_field(self, number: int) -> QuantizedField:
        made = _declare(self._quant, f"{self._name}[{number}]")
        words = self._words.vars[number] if self._words.element_shape else self._words
        words.serial = getattr(words, "serial", None) or next(_serials)
        made._parts, made._words, made._leaf, made._order = (self._parts[number],), words, self._leaf, self._order
        made._packing = (made._parts, self._packing[1])
        made._place_packed(self.shape, self._offset)
        return made

    # -- elements as arrays

    def _positions(self, index: Any) -> Iterator[tuple[tuple[Any, ...], int]]:
        """Yields for each position of an element in its word: the elements at it, and the offset of their bits. With an index, for the
        position of that element only.
        """
        axes = [(neighbors, bits) for _, neighbors, bits in self._packing[1]]
        whole = index is None
        ranges = [range(neighbors) if whole else (index[axis] % neighbors,) for axis, (neighbors, _) in enumerate(axes)]
        for position in itertools.product(*ranges):
            chosen = [slice(p, None, neighbors) for p, (neighbors, _) in zip(position, axes, strict=True)] if whole else []
            yield (*chosen, ...), sum(p * bits for p, (_, bits) in zip(position, axes, strict=True))

    def _find_word(self, index: Any) -> Any:
        """Returns the index of the word of an element; None for those of all elements."""
        if index is None:
            return None
        return tuple(place // neighbors for place, (is_kept, neighbors, _) in zip(index, self._packing[1], strict=True) if is_kept)

    def _components(self, elements: np.ndarray, index: Any) -> Iterator[tuple[np.ndarray, Any, Part, int]]:
        """Yields the parts of elements that are at the same bits of words: a view of them, the place of their words, the bits."""
        is_apart = bool(self._words.element_shape)
        for number, part in enumerate(self._parts):
            place = np.unravel_index(number, self.element_shape) if self.element_shape else ()
            for chosen, offset in self._positions(index):
                yield elements[(..., *place)][chosen], (..., *place) if is_apart else ..., part, offset

    def _fetch(self, index: Any = None, overwrites: bool = False) -> np.ndarray:
        """Returns a copy of the elements, or of one; `_flush` writes it back."""
        words = self._words._fetch(self._find_word(index), False)
        shape = self._live_shape if index is None else ()
        elements = np.empty((*shape, *self.element_shape), to_memory_dtype(self.dtype))
        if not overwrites:
            for target, word, part, offset in self._components(elements, index):
                target[...] = decode(words[word], part, offset).reshape(target.shape)
        return elements

    def _flush(self, array: np.ndarray, index: Any = None) -> None:
        where = self._find_word(index)
        words = self._words._fetch(where, False)
        for values, word, part, offset in self._components(array, index):
            words[word] = encode(words[word], values.reshape(words[word].shape), part, offset)
        self._words._flush(words, where)

    def _element(self, index: tuple[int, ...]) -> Any:
        part = self._fetch(index)
        if not self.element_shape:
            return part.item()
        shown = part.view(WrittenBack)
        shown._flush = functools.partial(self._write_back, part, part, index)
        return view_of(shown, self.dtype, True)

    def __dlpack__(self, **_: Any) -> Any:
        """Raise `BufferError`: the elements are parts of words. Export `to_numpy()`."""
        raise BufferError("Only dense fields are supported for dlpack conversion: the elements are parts of words; export to_numpy()")


class QuantizedField(QuantizedMethods, qd.ScalarField):
    """A field of quantized scalars."""


class QuantizedMatrixField(QuantizedMethods, qd.MatrixField):
    """A field of vectors or matrices of quantized numbers."""


def kind_for(element: Any) -> type:
    """Returns the class of fields of a quantized element type."""
    return QuantizedMatrixField if isinstance(element, MatrixType) else QuantizedField


class BitpackedFields:
    """Quantized fields that share words: each cell of the node in which they are placed has one word with the elements of all fields."""

    def __init__(self, max_num_bits: int):
        """`max_num_bits` is the size of the word: 8, 16, 32 or 64. Raises `QuadrantsRuntimeError` for another size."""
        if max_num_bits not in _WORDS:
            raise QuadrantsRuntimeError(f"No primitive int type has {max_num_bits} bits: a pack has 8, 16, 32 or 64")
        self._size, self._used, self._is_apart = max_num_bits, 0, False
        self._fields: list[Any] = []
        self._node: qd.SNode | None = None

    def place(self, *args: Any, shared_exponent: bool = False) -> None:
        """Add quantized fields, also of vectors, matrices and structs, to the word, from its lowest bit on.

        Args:
            *args: the fields, or lists of them.
            shared_exponent: whether the numbers, of `quant.float` with the same `exp`, have one exponent, that of the largest.
        Raises:
            QuadrantsRuntimeError: a field that has a place or is not quantized, or more bits than the word has.
            QuadrantsSyntaxError: a shared exponent of one number.
        """
        fields = list(leaves_of(args))
        if self._node is not None:
            raise QuadrantsRuntimeError("this BitpackedFields has been placed and takes no more fields")
        for field in fields:
            if field._quant is None:
                raise QuadrantsRuntimeError(
                    f"Only a QuantType can be a member of a BitStructType. (field {field._name!r} of {field.dtype})"
                )
            if field._parts or field._leaf is not None:
                raise QuadrantsRuntimeError(f"This variable has been placed. (field {field._name!r})")
        counts = [math.prod(field.element_shape) for field in fields]
        types = [field._quant for field, count in zip(fields, counts, strict=True) for _ in range(count)]
        if shared_exponent and len(types) < 2:
            raise QuadrantsSyntaxError("At least 2 fields need to be placed when shared_exponent=True")
        if shared_exponent and (len({quant.exponent for quant in types}) > 1 or types[0].kind != "float"):
            raise QuadrantsRuntimeError("an exponent is shared by numbers of quant.float with the same exp")
        used = self._used + sum(quant.digits if shared_exponent else quant.bits for quant in types)
        used += types[0].exponent if shared_exponent else 0
        if used > self._size:
            raise QuadrantsRuntimeError(f"BitStructType overflows: {used} bits used out of {self._size}.")
        parts = self._make_parts(types, shared_exponent, is_alone=not self._used and len(types) == 1 and not self._fields)
        for earlier in self._fields:
            earlier._parts = tuple(part._replace(is_alone=False) for part in earlier._parts)
        for field, count in zip(fields, counts, strict=True):
            field._parts, parts = tuple(parts[:count]), parts[count:]
        self._used = used
        self._fields += fields

    def _make_parts(self, types: list[QuantType], is_shared: bool, is_alone: bool) -> list[Part]:
        shift, parts, group = self._used, [], []
        exponent_shift = shift
        shift += types[0].exponent if is_shared else 0
        for quant in types:
            if is_shared:
                group.append((shift, quant.digits, quant.signed))
                shift += quant.digits
            else:
                parts.append(make_part(quant, shift, shift + quant.digits, is_alone))
                shift += quant.bits
        return parts or [make_part(quant, group[k][0], exponent_shift, False, group, k) for k, quant in enumerate(types)]

    def _place_apart(self, field: Any) -> None:
        """Takes a field of vectors or matrices with more bits than a word: each component gets a word."""
        self._size = next(size for size in _WORDS if size >= field._quant.bits)
        self._is_apart = True
        field._parts = (make_part(field._quant, 0, field._quant.digits, True),) * math.prod(field.element_shape)
        self._fields.append(field)

    def _make_node(self, above: qd.SNode, origin: Any) -> qd.SNode:
        """Adds the node of the pack with its words; the fields are placed in it afterwards."""
        if self._node is not None:
            raise QuadrantsRuntimeError("This BitpackedFields has been placed.")
        word = _WORDS[self._size]
        if self._is_apart:
            kind = self._fields[0]._element_type
            word = MatrixType(kind.n, kind.m, word, kind.ndim)
        self._node = qd.SNode("bit_struct", above)
        cells = ((1, 1, 0),) * len(above.shape)
        words = make_words(word, ", ".join(field._name for field in self._fields))
        self._node.put([words], origin)
        for field in self._fields:
            field._words, field._packing = words, (field._parts, cells)
        return self._node

    def _place_in(self, above: qd.SNode, origin: Any) -> None:
        """Places the fields in the cells of a node."""
        self._make_node(above, origin).put(self._fields, origin)


def make_words(element: Any, name: str) -> Any:
    """Declares the field of the words of a pack."""
    words = _declare(element, name)
    words.serial = next(_serials)  # the same in each process that makes the same fields
    return words


def _place_in_array(field: Any, node: qd.SNode, origin: Any) -> qd.SNode:
    """Packs a field into the words of a `quant_array`."""
    if node._children:
        raise QuadrantsRuntimeError("a quant_array holds one field")
    if any(above._kind not in ("root", "dense", "quant_array") for above in node._path_from_root()):
        raise QuadrantsRuntimeError("a quant_array is in dense nodes; a BitpackedFields may be in sparse ones")
    count, extents = math.prod(field.element_shape), node._dimensions
    bits, elements = field._quant.bits * count, math.prod(extents)
    if bits * elements > node._max_num_bits:
        raise QuadrantsRuntimeError(f"QuantArrayType overflows: {bits * elements} bits used out of {node._max_num_bits}.")
    above: Any = node._above
    is_whole = elements == 1 or (bits in _WORDS and bits * elements == node._max_num_bits)  # a word for each element: the same memory
    words = make_words(_WORDS[node._max_num_bits // elements if is_whole else node._max_num_bits], field._name)
    node.put([words], origin) if is_whole else above.put([words], None)
    field._parts = tuple(
        make_part(field._quant, k * field._quant.bits, k * field._quant.bits + field._quant.digits, is_whole and count == 1)
        for k in range(count)
    )
    field._words, field._packing = words, (field._parts, ((1, 1, 0),) * len(node._extents))
    if is_whole:
        return node
    inner = {
        axis: (extent, bits * math.prod(extents[k + 1 :])) for k, (axis, extent) in enumerate(zip(node._own_axes, extents, strict=True))
    }
    field._packing = (field._parts, tuple((int(axis in above._extents), *inner.get(axis, (1, 0))) for axis in node._extents))
    return node
