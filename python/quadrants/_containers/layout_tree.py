"""Nodes of trees, and the addresses that they give to the elements of fields.

A node is an array of cells. A cell holds the elements of the fields that are placed in it and the arrays of its child nodes, packed like
the members of a C struct. Each array below a root has its own memory. `unfinished_trees.py` finalizes trees.
"""

from __future__ import annotations

import itertools
import math
import weakref
from collections.abc import Iterator
from typing import Any

from .. import _runtime
from .._base import options as _options
from .._base.compat import also_named
from .._base.dtypes import to_shape
from .._base.errors import QuadrantsRuntimeError
from .._base.imports import load
from .._base.namespaces import forwarded
from .axes import check_extents, row_major_strides, to_origin
from .container import leaves_of

__path__: list[str] = []  # `lang._paths` creates the modules below it


class Trees:
    """The trees of a program."""

    def __init__(self) -> None:
        # `qd.sync` looks into these two; a WeakSet runs Python code to tell whether it is empty.
        self.declared: dict[int, weakref.ref[Any]] = {}  # by identity: fields made without a shape and not placed yet
        self.open_builders: set[weakref.ref[Any]] = set()
        self.roots: weakref.WeakSet[SNode] = weakref.WeakSet()  # of finalized trees


trees = Trees()  # those of the current program


class NodeMethods:
    """Methods of `qd.root`, nodes and builders: they add arrays of cells and fields."""

    def _node(self) -> SNode:
        raise NotImplementedError

    @staticmethod
    def _read_axes(kind: str, axes: Any, dimensions: Any) -> tuple[tuple[int, ...], tuple[int, ...]]:
        numbers = tuple(int(axis) for axis in (axes if isinstance(axes, (tuple, list)) else [axes]))
        extents = to_shape(dimensions)
        extents = extents * len(numbers) if len(extents) == 1 else extents
        if len(extents) != len(numbers) or len(set(numbers)) != len(numbers):
            raise ValueError(f"{kind} needs one extent for each of different axes, got axes {numbers} and extents {extents}")
        check_extents(extents)
        if kind != "dense" and 0 in extents:
            raise QuadrantsRuntimeError(f"Every dimension of a {kind} node should be positive, got {extents}")
        return numbers, extents

    def _add(self, kind: str, axes: Any, dimensions: Any) -> SNode:
        if self._node()._kind in ("bit_struct", "quant_array"):
            raise QuadrantsRuntimeError(f"nothing but quantized fields is in a {self._node()._kind}")
        return SNode(kind, self._node(), *self._read_axes(kind, axes, dimensions))

    @also_named(indices="axes")
    def dense(self, axes: Any, dimensions: Any) -> SNode:
        """Add an array of cells along `axes` (`qd.i`, `qd.ij`, ...) to each cell of this node and return its node.

        `dimensions` has an extent for each axis, or one integer for all axes. Raises `ValueError` for an axis that occurs twice or has no
        extent.
        """
        return self._add("dense", axes, dimensions)

    @also_named(indices="axes")
    def pointer(self, axes: Any, dimensions: Any) -> SNode:
        """Add an array of cells like `dense`, which are inactive, and take no memory, until an element in them is written; return its node.

        `axes` and `dimensions` are those of `dense`. Raises its exceptions.
        """
        return self._add("pointer", axes, dimensions)

    @also_named(indices="axes")
    def bitmasked(self, axes: Any, dimensions: Any) -> SNode:
        """Add an array of cells like `pointer` and return its node; loops expect that most neighbors of an active cell are active.

        `axes` and `dimensions` are those of `dense`. Raises its exceptions.
        """
        return self._add("bitmasked", axes, dimensions)

    @also_named(indices="axes")
    def hash(self, axes: Any, dimensions: Any) -> SNode:
        """Add an array of cells like `pointer`, for a large space of indices of which a small part is active: nested `pointer` nodes of at
        most 4,096 cells. Return the innermost.

        `axes` and `dimensions` are those of `dense`. Raises its exceptions.
        """
        numbers, extents = self._read_axes("hash", axes, dimensions)
        parts: list[tuple[int, ...]] = []
        while math.prod(extents) > 4096:
            parts.append(tuple(next((k for k in range(16, 1, -1) if extent % k == 0), extent) for extent in extents))
            extents = tuple(extent // k for extent, k in zip(extents, parts[-1], strict=True))
        made: Any = self
        for part in [extents, *reversed(parts)]:
            made = SNode("pointer", made._node(), numbers, part)
        return made

    _hash = hash

    @also_named(index="axis")
    def dynamic(self, axis: Any, dimension: Any, chunk_size: Any = None) -> SNode:
        """Add to each cell of this node a list of up to `dimension` elements along `axis`, and return its node.

        Memory is provided for `chunk_size` elements at a time, by default for all; it is rounded to a divisor of the capacity. Raises
        `AssertionError` for more than one axis.
        """
        assert isinstance(axis, int) or len(axis) == 1, "a dynamic node has exactly one axis"
        chunk = int(dimension if chunk_size is None else chunk_size)
        if not 0 < int(dimension) < 2**31 or not 0 < chunk < 2**31:
            raise QuadrantsRuntimeError(
                f"a dynamic node has 1 to 2**31 - 1 elements and a positive chunk size, got {dimension} and {chunk}"
            )
        node = self._add("dynamic", axis, dimension)
        node._chunk = chunk
        return node

    @also_named(indices="axes")
    def quant_array(self, axes: Any, dimensions: Any, max_num_bits: int) -> Any:
        """Add an array of elements of one quantized field to each cell of this node, which are in one word, and return its node.

        `axes` and `dimensions` are those of `dense`; `max_num_bits` is the size of the word: 8, 16, 32 or 64. Raises
        `QuadrantsRuntimeError` for another size.
        """
        if max_num_bits not in (8, 16, 32, 64):
            raise QuadrantsRuntimeError(f"No primitive int type has {max_num_bits} bits: a word has 8, 16, 32 or 64")
        node = self._add("quant_array", axes, dimensions)
        node._max_num_bits = int(max_num_bits)
        return node

    def deactivate_all(self) -> None:
        """Deactivate all cells below this node that can be deactivated; cells of dense nodes are always active."""
        node = self._node()
        if node._tree._is_final:
            load("quadrants._sparse").deactivate_all(node)

    def place(self, *fields: Any, offset: Any = None) -> Any:
        """Place `fields`, also of structs, or lists of them, in the cells and return this node. `offset` is the lowest index of each axis.

        Raises `QuadrantsRuntimeError` for a field that has a place.
        """
        node = self._node()
        origin = to_origin(offset, node.shape)
        packs = [field for field in fields if hasattr(field, "_place_in")]
        for pack in packs:
            pack._place_in(node, origin)
        if node._kind == "dynamic":
            node._placed += fields
            shadows = [vars(field).get(which) for field in node._placed if hasattr(field, "grad") for which in ("grad", "dual")]
            own = [field for field in node._placed if not any(field is shadow for shadow in shadows)]
            node._payload = own[0] if len(own) == 1 and not isinstance(own[0], (list, tuple)) and own[0] not in packs else None
        fields = tuple(field for field in fields if field not in packs)
        leaves = list(leaves_of(fields))
        for field in leaves:
            if node._kind == "quant_array" and field._quant is None:
                raise QuadrantsRuntimeError(
                    f"Only a QuantType can be an element of a QuantArrayType. (field {field._name!r} of {field.dtype})"
                )
            if field._is_placed():
                raise QuadrantsRuntimeError(f"This variable has been placed. (field {field._name!r})")
        node.put(leaves, origin)
        return self

    def lazy_grad(self) -> None:
        """Give every field of real numbers below this node a gradient with the same layout."""
        mirror(self._node(), self._node(), "grad")

    def lazy_dual(self) -> None:
        """Give every field of real numbers below this node a tangent with the same layout."""
        mirror(self._node(), self._node(), "dual")


class NodeFacts:
    """Facts of a node that programs for other packages ask for as `x.snode.ptr`."""

    type: str = forwarded("_node._kind", "The kind of the node.")
    id: int = forwarded("_node._id", "A number that no other node has.")

    def __init__(self, node: SNode):
        self._node = node

    @property
    def offset(self) -> list[int]:
        """The lowest index of each axis; empty if no offset was given."""
        return list(self._node._offset or ())

    def get_num_ch(self) -> int:
        """Return the number of nodes in each cell."""
        return len(self._node._children)

    def get_ch(self, i: int) -> NodeFacts:
        """Return the `i`-th node in each cell, an int from 0."""
        return NodeFacts(self._node._children[i])


class SNode(NodeMethods):
    """A node of a tree: the root, an array of cells ("dense", "pointer", "bitmasked", "dynamic"), the words of quantized fields
    ("bit_struct", "quant_array"), or the place of a field in each cell ("place").
    """

    _chunk = 0  # elements that a dynamic node allocates together
    _max_num_bits = 0  # of a word of a quant_array
    _placed: tuple[Any, ...] = ()  # in the cells of a dynamic node
    _payload: Any = None  # of these, the field or struct that is no gradient or tangent, if it is one
    # Set by `sparse_trees.build`: the cells of a sparse node; how loops visit them, and how they are numbered.
    _cells: Any = None
    _loop: Any = None
    _digits: Any = ()
    _encode: Any = ()
    _own_digits: Any = ()
    _own_first: tuple[int, ...] = ()  # lowest indices of lists, for a field with an offset

    def __init__(
        self,
        kind: str,
        above: SNode | None,
        axes: tuple[int, ...] = (),
        dimensions: tuple[int, ...] = (),
        field: Any = None,
        offset: tuple[int, ...] | None = None,
    ):
        self._kind, self._above, self._children, self._offset = kind, above, [], offset
        self._tree: SNodeTree = above._tree if above is not None else SNodeTree(self)
        self._levels = [*above._levels, *zip(axes, dimensions, strict=True)] if above is not None else []
        self._dimensions, self._own_axes = dimensions, axes
        self._cell_bytes = self._offset_bytes_in_parent_cell = 0
        self._extents: dict[int, int] = {}
        for axis, extent in sorted(self._levels):
            self._extents[axis] = self._extents.get(axis, 1) * extent
        if above is not None:
            if above._tree._is_final:
                raise QuadrantsRuntimeError("FieldsBuilder finalized" if above._kind == "root" else "this tree of nodes is finalized")
            above._children.append(self)
        self._field = weakref.ref(field) if field is not None else lambda: None  # a field owns its memory, the tree does not
        if field is not None:
            field._leaf = self
            if (whole := field._whole) is not None:
                whole._leaf = whole._leaf or self
                field = whole if all(part._leaf is not None for part in whole.vars) else field
            trees.declared.pop(id(field), None)

    def put(self, containers: list[Any], origin: tuple[int, ...] | None) -> None:
        """Add places for `containers` that have none; `origin` is the lowest index of each axis."""
        for container in containers:
            SNode("place", self if container._quant is None else container._pack(self, origin), field=container, offset=origin)

    def _node(self) -> SNode:
        if self._kind == "place":
            raise QuadrantsRuntimeError("nodes and fields are added to arrays of cells, not to the place of a field")
        return self

    @property
    def shape(self) -> tuple[int, ...]:
        """Number of cells along each axis, counted from the root."""
        return tuple(self._extents.values())

    @property
    def _box(self) -> tuple[tuple[int, int], ...]:
        """First index and end of each axis; the fields in the cells may have an offset."""
        placed = (child._offset for child in self._children if child._offset is not None)
        origin = self._offset or next(placed, (0,) * len(self.shape))
        return tuple((first, first + extent) for first, extent in zip(origin, self.shape, strict=True))

    @property
    def _face(self) -> Any:
        return self if self._above is not None else self._tree.face

    def parent(self, n: int = 1) -> Any:
        """Return the n-th node above; None above the root."""
        node: SNode | None = self
        for _ in range(n):
            node = node._above if node is not None else None
        return node and node._face

    @property
    def _cell_size_bytes(self) -> int:
        """Bytes from one cell to the next, for the fields placed so far."""
        if not self._tree._is_final:
            self._tree.root._measure()
        return self._cell_bytes

    @property
    def _own_shape(self) -> tuple[int, ...]:
        """Extents of the indices of `qd.is_active` and others: a dynamic node has a list in each cell above."""
        return self._above.shape if self._kind == "dynamic" and self._above is not None else self.shape

    @property
    def _num_dynamically_allocated(self) -> int:
        """The largest number of cells, or chunks of lists, that were active when this or `deactivate_all` was called."""
        if self._cells is None:
            return 0
        self._cells.observe()
        return self._cells.peak

    _snode = property(lambda self: self)
    _id = property(id)
    _snode_tree_id: int = forwarded("_tree.id")

    @property
    def _name(self) -> str:
        field = self._field()
        return field._name if field is not None else self._kind

    @property
    def _dtype(self) -> Any:
        field = self._field()
        return field.dtype if field is not None else None

    @property
    def ptr(self) -> NodeFacts:
        """The facts of the node, by the names that other packages have for them."""
        return NodeFacts(self)

    def _physical_index_position(self) -> dict[int, int]:
        return {axis: axis for axis in self._extents}

    def _get_children(self) -> list[SNode]:
        return self._children

    def _path_from_root(self) -> list[SNode]:
        return [*([] if self._above is None else self._above._path_from_root()), self]

    def __repr__(self) -> str:
        return f"<qd.SNode of type {self._kind}>"

    def __str__(self) -> str:
        nodes = self._path_from_root()
        names = [repr(nodes[0]._face) if nodes[0]._face is not nodes[0] else "root []"]
        return " => ".join(names + [f"{node._kind} {list(node.shape)}" for node in nodes[1:]])

    # -- layout

    def _is_block(self) -> bool:
        """Whether the field has memory of its own: components in blocks, no elements, or a blocked layout that the interpreter does not
        use.
        """
        field = self._field()
        return 0 in self.shape or self._is_untiled() or (field is not None and (field._is_soa or field._whole is not None))

    def _is_untiled(self) -> bool:
        """Whether an axis that several nodes divide still has a single stride, which the interpreter needs for NumPy arrays."""
        return len(self._levels) != len(self._extents) and (_options.current or {}).get("arch") == "python"

    def _measure(self) -> tuple[int, int]:
        """Computes size and alignment, the sizes of cells and the offsets in them."""
        if self._kind == "place":
            field = self._field()
            if field is None or self._is_block() or field._quant is not None:
                return 0, 1
            return field.dtype.size * math.prod(field.element_shape), field.dtype.size
        end, widest = 0, 1
        for child in self._children:
            size, alignment = child._measure()
            child._offset_bytes_in_parent_cell = -(-end // alignment) * alignment
            end, widest = child._offset_bytes_in_parent_cell + size, max(widest, alignment)
        self._cell_bytes = -(-end // widest) * widest
        return self._cell_bytes * math.prod(self._dimensions), widest

    def _lay_out(self, buffer: _runtime.Buffer | None, start: int, steps: tuple[int, ...]) -> None:
        """Assigns addresses to the fields below; `steps` are the byte strides of the levels above."""
        start += self._offset_bytes_in_parent_cell
        field = self._field()
        if self._kind in ("dense", "bit_struct", "quant_array"):
            for child in self._children:
                child._lay_out(buffer, start, steps + row_major_strides(self._dimensions, self._cell_bytes))
        elif field is not None and field._quant is not None:
            field._place_packed(self.shape, self._offset)
        elif field is not None and field._whole is None:
            item = field.dtype.size
            cell = item if field._is_soa else item * math.prod(field.element_shape)
            component = item * math.prod(self.shape) if field._is_soa else item
            if self._is_block():
                buffer, start, steps = None, 0, row_major_strides(tuple(extent for _, extent in self._levels), cell)
            strides, tilings = (row_major_strides(self.shape, cell), ()) if self._is_untiled() else self._find_strides(steps)
            field._place(self.shape, strides, component, buffer, start, self._offset, tilings)
            field._place_declared_parts()

    def _find_strides(self, steps: tuple[int, ...], nested: Any = None) -> tuple[tuple[int, ...], tuple[int, ...]]:
        """Returns the stride of each axis within the innermost node that divides it; then axis, length and jump that
        nodes above add to it. `nested` are (axis, extent) of the levels to which the `steps` belong.
        """
        lengths, reached, strides = dict.fromkeys(self._extents, 1), dict[int, int](), dict[int, int]()
        tilings: list[int] = []
        levels = list(zip(nested or self._levels, steps, strict=True))[::-1]
        for (axis, extent), step in levels:
            if extent == 1:
                continue
            if step != reached.get(axis, step):
                tilings += (list(self._extents).index(axis), lengths[axis], step - reached[axis])
            strides.setdefault(axis, step)
            lengths[axis] *= extent
            reached[axis] = step * extent
        for (axis, _), step in levels:
            strides.setdefault(axis, step)
        return tuple(strides[axis] for axis in self._extents), tuple(tilings)


class SNodeTree:
    """A finalized tree: its memory can be freed before its fields are freed."""

    _numbers = itertools.count()

    def __init__(self, root: SNode):
        self.root, self._is_final, self._is_destroyed = root, False, False
        self.face: Any = root  # the public object of the root: `qd.root`
        self._id = next(self._numbers)
        self._epoch = _options.current

    @property
    def id(self) -> int:
        """Number of the tree."""
        self._check()
        return self._id

    def destroy(self) -> None:
        """Free the memory: later uses of a field of the tree raise. Has no effect after `qd.reset()`."""
        if self._epoch is not _options.current:
            return
        self._check()
        self._is_destroyed = True
        trees.roots.discard(self.root)
        for field in fields_below(self.root):
            field._release()
            if field._whole is not None:
                field._whole._release()
        for node in nodes_below(self.root):
            if node._cells is not None:
                node._cells.release()

    def __str__(self) -> str:
        self._check()
        return load("quadrants._sparse").describe(self.root)

    def _check(self) -> None:
        if self._is_destroyed:
            raise QuadrantsRuntimeError("SNode tree has been destroyed")


def nodes_below(node: SNode) -> Iterator[SNode]:
    yield node
    for child in node._children:
        yield from nodes_below(child)


def fields_below(node: SNode) -> Iterator[Any]:
    return (field for each in nodes_below(node) if (field := each._field()) is not None)


def has_place(field: Any, which: str) -> bool:
    """Whether the gradient or tangent of a field is placed; that of a component may be placed with the others."""
    shadow = vars(field if field._whole is None else field._whole).get(which)
    if field._whole is None or shadow is None or shadow._leaf is None or shadow._leaf._field() is shadow:
        return shadow is not None and shadow._is_placed()
    return any(part is field and other._is_placed() for part, other in zip(field._whole.vars, shadow.vars, strict=True))


def is_sparse(node: SNode) -> bool:
    return node._kind in ("pointer", "bitmasked", "dynamic") or any(map(is_sparse, node._children))


def lacks(node: SNode, which: str) -> bool:
    """Whether a field below the node can have a gradient or tangent and has no place for it."""
    return any(not has_place(field, which) and getattr(field, which, None) is not None for field in fields_below(node))


def mirror(node: SNode, target: SNode, which: str) -> None:
    for child in [child for child in node._children if lacks(child, which)]:
        if child._kind == "place":
            target.place(getattr(child._field(), which), offset=child._offset)
        elif child._kind == "bit_struct":
            mirror(child, target, which)
            continue
        elif child._kind == "quant_array":
            mirror(child, SNode("dense", target, child._own_axes, child._dimensions), which)
            continue
        elif target is node or is_sparse(child):  # the shadow has the cells of its field
            if not node._tree._is_final and (is_sparse(child) or node._kind != "root"):
                mirror(child, child, which)
                continue
        if child._kind == "dense" and not is_sparse(child):
            twin = SNode("dense", target, tuple(axis for axis, _ in child._levels[len(node._levels) :]), child._dimensions)
            mirror(child, twin, which)
