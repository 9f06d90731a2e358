"""What a sparse tree should hold: masks of active cells, lengths of lists and values as NumPy arrays of the whole shapes.

`make_tree` draws a tree of nodes, builds it in a container of the package and beside it its model. The model knows only the rules of the
guide: a write activates the cells around it, what is inactive is zero.
"""

from __future__ import annotations

import math
import random
from dataclasses import dataclass, field
from typing import Any

import numpy as np

import quadrants as qd

Mask = np.ndarray  # of bool, of the shape of a node or field
Box = dict[int, int]  # extent by axis

_MOST_CELLS = 2500
_NUMPY = {
    qd.f32: np.float32,
    qd.f64: np.float64,
    qd.u8: np.uint8,
    qd.i16: np.int16,
    qd.i32: np.int32,
    qd.u32: np.uint32,
    qd.i64: np.int64,
}


def spread(values: np.ndarray, inner: Box, outer: Box) -> np.ndarray:
    """Repeats an array over the cells of a box in the array over the cells of a finer box, which may have more axes."""
    shape = tuple(inner.get(axis, 1) for axis in outer)
    values = values.reshape(shape)
    for position, (extent, wanted) in enumerate(zip(shape, outer.values(), strict=True)):
        values = np.repeat(values, wanted // extent, position)
    return values


@dataclass(eq=False)
class NodeModel:
    """A node. `active` has a bool for each cell of `pointer` and `bitmasked`; `lengths` one number for each list of `dynamic`."""

    kind: str
    box: Box
    above: NodeModel | None = None
    axis: int = -1  # of a list
    capacity: int = 0
    nodes: list[NodeModel] = field(default_factory=list)
    leaves: list[LeafModel] = field(default_factory=list)
    node: Any = None
    active: Mask = None  # type: ignore[assignment]
    lengths: np.ndarray = None  # type: ignore[assignment]

    def __post_init__(self) -> None:
        if self.above is not None:
            self.above.nodes.append(self)
        if self.kind == "dynamic":
            self.lengths = np.zeros(self.above.shape, np.int64)  # type: ignore[union-attr]
        elif self.kind not in ("dense", "root"):
            self.active = np.zeros(self.shape, bool)

    @property
    def shape(self) -> tuple[int, ...]:
        return tuple(self.box.values())

    @property
    def index_shape(self) -> tuple[int, ...]:
        """Extents of the indices that `qd.is_active` and others take."""
        return self.above.shape if self.kind == "dynamic" else self.shape  # type: ignore[union-attr]

    @property
    def is_sparse(self) -> bool:
        return self.kind not in ("dense", "root")

    def sparse_above(self) -> NodeModel | None:
        """The next sparse node, this one included."""
        return self if self.is_sparse or self.above is None else self.above.sparse_above()

    def positions(self) -> np.ndarray:
        """The position of each cell of a list in it."""
        shape = [1] * len(self.box)
        at = list(self.box).index(self.axis)
        shape[at] = self.shape[at]
        return np.broadcast_to((np.arange(self.shape[at]) % self.capacity).reshape(shape), self.shape)

    def present(self) -> Mask:
        """The cells that loops visit."""
        if self.kind == "dynamic":
            return self.positions() < spread(self.lengths, self.above.box, self.box)  # type: ignore[union-attr]
        if self.active is not None:
            return self.active
        return np.ones((), bool) if self.above is None else spread(self.above.present(), self.above.box, self.box)

    def cell(self, index: tuple[int, ...], box: Box) -> tuple[int, ...]:
        """The cell that has an element of a finer box."""
        at = dict(zip(box, index, strict=True))
        return tuple(at[axis] * extent // box[axis] for axis, extent in self.box.items())

    def touch(self, index: tuple[int, ...], box: Box) -> None:
        """Activates the cell of an element and those above."""
        if self.above is None:
            return
        cell = self.cell(index, box)
        if self.kind == "dynamic":
            around = self.above.cell(index, box)
            self.lengths[around] = max(self.lengths[around], cell[list(self.box).index(self.axis)] % self.capacity + 1)
        elif self.is_sparse:
            self.active[cell] = True
        self.above.touch(index, box)

    def clear(self, gone: Mask) -> None:
        """Deactivates what is in the cells that a mask of this node has."""
        if self.active is not None:
            self.active &= ~gone
        for leaf in self.leaves:
            leaf.values[spread(gone, self.box, leaf.box)] = 0
        for node in self.nodes:
            if node.kind == "dynamic":
                node.lengths[gone] = 0
            node.clear(spread(gone, self.box, node.box))

    def empty_list(self, index: tuple[int, ...]) -> None:
        """Removes the elements of a list."""
        self.lengths[index] = 0
        gone = np.zeros(self.above.shape, bool)  # type: ignore[union-attr]
        gone[index] = True
        self.clear(spread(gone, self.above.box, self.box))  # type: ignore[union-attr]

    def below(self) -> list[NodeModel]:
        """This node and those below."""
        return [self, *(one for node in self.nodes for one in node.below())]

    def list_leaves(self) -> list[LeafModel]:
        """The fields in this node and below."""
        return [leaf for node in self.below() for leaf in node.leaves]


@dataclass(eq=False)
class LeafModel:
    """A field of scalars, vectors or matrices. `low` and `high` are the limits of a quantized number: integers wrap, fixed saturate."""

    field: Any
    node: NodeModel
    element: tuple[int, ...]
    dtype: np.dtype
    offset: tuple[int, ...] | None = None
    quant: str = ""
    bits: int = 0
    signed: bool = True
    values: np.ndarray = None  # type: ignore[assignment]

    def __post_init__(self) -> None:
        self.values = np.zeros(self.shape + self.element, self.dtype)
        self.node.leaves.append(self)

    @property
    def box(self) -> Box:
        return self.node.box

    @property
    def shape(self) -> tuple[int, ...]:
        return self.node.shape

    def convert(self, numbers: Any) -> np.ndarray:
        """The numbers after a store."""
        numbers = np.asarray(numbers)
        if not self.quant:
            return numbers.astype(self.dtype)
        if self.quant == "fixed":
            low = -(1 << self.bits - 1) if self.signed else 0
            return np.clip(numbers, low, low + (1 << self.bits) - 1).astype(self.dtype)
        numbers = numbers.astype(np.int64) % (1 << self.bits)
        return np.where(numbers >> (self.bits - 1) & self.signed, numbers - (1 << self.bits), numbers).astype(self.dtype)

    def visited(self) -> Mask:
        """The elements that loops visit."""
        return self.node.present()

    def element_of(self, number: int) -> np.ndarray:
        """What kernels write as an element: the number plus the position of the component."""
        return number + np.arange(math.prod(self.element)).reshape(self.element)


@dataclass(eq=False)
class TreeModel:
    """A tree: its root, and the structs that are placed in it, as lists of their members."""

    root: NodeModel
    text: list[str] = field(default_factory=list)
    structs: list[tuple[Any, LeafModel, LeafModel]] = field(default_factory=list)
    tree: Any = None  # that of a builder
    is_destroyed: bool = False


def _choose_axes(chosen: random.Random, above: NodeModel, most: int) -> list[int]:
    known = list(above.box)
    fresh = [axis for axis in range(3) if axis not in known]
    axes = chosen.sample(known, chosen.randint(0, min(len(known), 2))) + chosen.sample(fresh, chosen.randint(0, min(len(fresh), most)))
    return sorted(axes or [chosen.choice(known or [0])])


class TreeMaker:
    """Draws one tree."""

    def __init__(self, chosen: random.Random, container: Any):
        self.random, self.container = chosen, container
        self.made = TreeModel(NodeModel("root", {}))
        self.made.root.node = container

    def make(self) -> TreeModel:
        """Draws the nodes and fields."""
        self.add_nodes(self.made.root, self.random.randint(1, 4), False)
        if not any(node.is_sparse for node in self.made.root.below()):
            self.add_node(self.made.root, "pointer", [0], [self.random.randint(1, 50)])
            self.add_leaves(self.made.root.nodes[-1])
        return self.made

    def add_nodes(self, above: NodeModel, levels: int, in_list: bool) -> None:
        for _ in range(self.random.choice([1, 1, 1, 2]) if above.above is not None else 1):
            is_list = self.random.random() < 0.25 and not in_list
            kind = "dynamic" if is_list else self.random.choice(["dense", "pointer", "bitmasked", "pointer", "bitmasked", "hash"])
            room = _MOST_CELLS // max(1, math.prod(above.shape))
            if kind == "dynamic":
                fresh = [axis for axis in range(4) if axis not in above.box]
                axes = [self.random.choice([*fresh, *list(above.box)[:1]])]
                extents = [self.random.randint(1, max(1, min(room, 12)))]
            else:
                axes = _choose_axes(self.random, above, 2)
                limit = max(1, int(room ** (1 / len(axes)) / (levels**0.5)))
                extents = [self.random.randint(1, min(limit, 40)) for _ in axes]
            node = self.add_node(above, kind, axes, extents)
            if levels > 1:
                self.add_nodes(node, levels - 1, in_list or is_list)
            if levels == 1 or self.random.random() < 0.2:
                self.add_leaves(node)

    def add_node(self, above: NodeModel, kind: str, axes: list[int], extents: list[int]) -> NodeModel:
        box = dict(above.box)
        for axis, extent in zip(axes, extents, strict=True):
            box[axis] = box.get(axis, 1) * extent
        node = NodeModel(kind, dict(sorted(box.items())), above)
        if kind == "dynamic":
            node.axis, node.capacity, chunk = axes[0], extents[0], self.random.randint(1, 6)
            node.node = above.node.dynamic(qd.axes(axes[0])[0], extents[0], chunk_size=chunk)
            self.made.text.append(f"{kind}({axes}, {extents}, chunk_size={chunk})")
        else:
            node.node = getattr(above.node, kind)(qd.axes(*axes), extents)
            self.made.text.append(f"{kind}({axes}, {extents})")
        return node

    def add_leaves(self, node: NodeModel) -> None:
        offset = tuple(self.random.randint(-5, 5) for _ in node.shape) if self.random.random() < 0.25 else None
        roll = self.random.random()
        if roll < 0.15:
            self.add_struct(node, offset)
        elif roll < 0.3:
            self.add_packed(node, offset)
        else:
            count = 1 if node.kind == "dynamic" else self.random.choice([1, 1, 2])
            leaves = [self.make_leaf(node, offset) for _ in range(count)]
            if self.random.random() < 0.5:
                node.node.place(*(leaf.field for leaf in leaves), offset=offset)
            else:
                for leaf in leaves:
                    node.node.place(leaf.field, offset=offset)
        self.made.text.append(f"place(offset={offset})")

    def make_leaf(self, node: NodeModel, offset: Any) -> LeafModel:
        dtype = self.random.choice(list(_NUMPY))
        element = self.random.choice([(), (), (2,), (3,), (2, 2)])
        if len(element) == 1:
            made = qd.Vector.field(*element, dtype)
        else:
            made = qd.Matrix.field(*element, dtype) if element else qd.field(dtype)
        self.made.text.append(f"{dtype}{list(element)}")
        return LeafModel(made, node, element, np.dtype(_NUMPY[dtype]), offset)

    def add_struct(self, node: NodeModel, offset: Any) -> None:
        made = qd.types.struct(a=qd.i32, v=qd.types.vector(2, qd.f32)).field()
        node.node.place(made, offset=offset)
        parts = [LeafModel(made.a, node, (), np.dtype(np.int32), offset), LeafModel(made.v, node, (2,), np.dtype(np.float32), offset)]
        self.made.structs.append((made, *parts))
        self.made.text.append("struct")

    def add_packed(self, node: NodeModel, offset: Any) -> None:
        packed, kinds = qd.BitpackedFields(32), [self.random.choice(["int", "fixed"]) for _ in range(2)]
        for quant in kinds:
            bits, signed = self.random.randint(3, 14), self.random.random() < 0.6
            if quant == "int":
                made, dtype = qd.field(qd.types.quant.int(bits, signed=signed)), np.int32 if signed else np.uint32
            else:
                made, dtype = qd.field(qd.types.quant.fixed(bits, signed=signed, scale=1.0)), np.float32
            packed.place(made)
            LeafModel(made, node, (), np.dtype(dtype), offset, quant, bits, signed)
            self.made.text.append(f"{quant}({bits}, {signed})")
        node.node.place(packed, offset=offset)


def make_tree(chosen: random.Random, container: Any) -> TreeModel:
    """Draws a tree and builds it in `container`, `qd.root` or a builder."""
    return TreeMaker(chosen, container).make()
