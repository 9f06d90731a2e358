"""Trees that still accept fields, `qd.root` and `qd.FieldsBuilder`, and how they are finalized.

`qd.root` is finalized at the first launch or access from Python, a `FieldsBuilder` by a call of its method. Fields made with a shape have
a tree of their own.
"""

from __future__ import annotations

import sys
import warnings
import weakref
from collections.abc import Callable
from typing import Any, ClassVar

from .. import _runtime
from .._base import options as _options
from .._base.errors import QuadrantsMemoryError, QuadrantsRuntimeError, user_frame
from .._base.imports import load
from .._base.namespaces import forwarded
from .layout_tree import NodeMethods, SNode, SNodeTree, Trees, fields_below, has_place, is_sparse, lacks, mirror, trees


def finalize(root: SNode) -> None:
    """Allocates the memory of the fields of a tree."""
    for field in fields_below(root):
        for which, needed, storage in (("grad", field._needs_grad, "gradient"), ("dual", field._needs_dual, "tangent")):
            if needed and not has_place(field, which):
                text = f"the field {field._name!r} has needs_{which}=True, but its {storage} is not placed: place x.{which} too"
                raise QuadrantsRuntimeError(text)
    sizes = [container._measure()[0] for container in root._children]
    are_sparse = [is_sparse(container) for container in root._children]
    if max((size for size, with_cells in zip(sizes, are_sparse, strict=True) if not with_cells), default=0) > sys.maxsize:
        raise QuadrantsMemoryError("a container of this shape does not fit into memory")
    root._tree._is_final = True
    trees.roots.add(root)
    for container, size, with_cells in zip(root._children, sizes, are_sparse, strict=True):
        if with_cells:
            load("quadrants._sparse").build(container)
        else:
            container._lay_out(_runtime.Buffer(max(1, size)), 0, ())
    for whole in {id(field._whole): field._whole for field in fields_below(root) if field._whole is not None}.values():
        whole._place_parts()


def count_items(node: SNode) -> int:
    """The number of elements of the list of a `dynamic` node of the root."""
    return load("quadrants._sparse").length(node, ())


class FieldsBuilder(NodeMethods):
    """A tree that accepts fields until `finalize`."""

    def __init__(self) -> None:
        _options.check_runtime()
        self.root = SNode("root", None)
        self._tree = self.root._tree
        trees.open_builders.add(weakref.ref(self, trees.open_builders.discard))

    finalized: bool = forwarded("_tree._is_final", "Return whether the tree accepts no more nodes.")
    ptr: SNode = forwarded("root", "The root.")

    @property
    def empty(self) -> bool:
        """Whether no node or field was added."""
        return not self.root._children

    def _node(self) -> SNode:
        if self.finalized:
            raise QuadrantsRuntimeError("FieldsBuilder finalized")
        return self.root

    def finalize(self, raise_warning: bool = True) -> SNodeTree:
        """Allocate the memory of the fields; returns the tree, which can be destroyed. An empty tree gives a warning if `raise_warning`."""
        root = self._node()
        if self.empty and raise_warning:
            warnings.warn("Finalizing an empty FieldsBuilder!", stacklevel=2)
        finalize(root)
        trees.open_builders.discard(weakref.ref(self))
        return root._tree

    @classmethod
    def _finalized_roots(cls) -> list[SNode]:
        return sorted(trees.roots, key=lambda root: root._tree._id)


class _Root(NodeMethods):
    """`qd.root`: represents the tree that is being built."""

    _pending: SNode | None = None

    def _node(self) -> SNode:
        _options.check_runtime()
        if self._pending is None:
            self._pending = SNode("root", None)
            self._pending._tree.face = self
        return self._pending

    @property
    def shape(self) -> tuple[int, ...]:
        """The root has one cell."""
        return ()

    def parent(self, n: int = 1) -> None:
        """Nothing is above the root."""

    def deactivate_all(self) -> None:
        """Deactivate all cells of all finalized trees, as `qd.deactivate_all_snodes` does, with a warning."""
        warnings.warn("qd.root.deactivate_all() deactivates the cells of all finalized trees", stacklevel=2)
        load("quadrants._sparse.host").deactivate_all_snodes()

    def lazy_grad(self) -> None:
        """Give every field of real numbers a gradient with the same layout: the fields of this tree, and fields made with a shape."""
        self._lazy("grad")

    def lazy_dual(self) -> None:
        """Give every field of real numbers a tangent with the same layout: the fields of this tree, and fields made with a shape."""
        self._lazy("dual")

    def _lazy(self, which: str) -> None:
        mirror(self._node(), self._node(), which)
        for made in FieldsBuilder._finalized_roots():
            if made._face is self and lacks(made, which):
                twin = SNode("root", None)
                twin._tree.face = self
                mirror(made, twin, which)
                finalize(twin)

    def _finalize(self) -> None:
        pending, self._pending = self._pending, None
        if pending is not None:
            finalize(pending)

    def __repr__(self) -> str:
        return "qd.root"


root = _Root()


def declare(field: Any) -> None:
    """Records a field that has to be placed before the next launch, and its source location."""
    frame = user_frame()
    field._declared_at = f'File "{frame.f_code.co_filename}", line {frame.f_lineno}'
    declared, key = trees.declared, id(field)
    declared[key] = weakref.ref(field, lambda _: declared.pop(key, None))


class Runtime:
    """The steps of a runtime that programs extend: `lang.impl.PyQuadrants` has them under the name of the reference."""

    reset_hooks: ClassVar[list[Callable[[], object]]] = []

    def materialize(self) -> None:
        """Finalize the nodes and fields added to `qd.root` before a first launch or access; raises if a builder is not finalized."""
        if root._pending is not None:
            root._finalize()
        if trees.open_builders:
            raise QuadrantsRuntimeError(
                "a FieldsBuilder is not finalized. Please call finalize() before launching kernels or accessing fields"
            )

    def clear(self) -> None:
        """End the runtime: containers lose their memory, kernels lose their code, and unfinished trees are dropped."""
        _runtime.reset()
        _options.current = None
        root._pending = None
        for unfinished in (trees.declared, trees.open_builders, trees.roots):
            unfinished.clear()
        for hook in self.reset_hooks:
            hook()


program = Runtime()


def exchange_trees(following: tuple[Any, ...] | None) -> tuple[Any, ...]:
    """Switches to the trees and unfinished builders of another program; returns those of the previous one."""
    before = (root._pending, dict(vars(trees)))
    root._pending, others = following or (None, vars(Trees()))
    vars(trees).update(others)
    return before


def check_all_placed() -> None:
    """Finalizes trees and raises if a declared field has no place; launches call it."""
    program.materialize()
    if trees.declared:
        fields = [field for ref in [*trees.declared.values()] if (field := ref()) is not None]
        places = "\n".join(sorted(f"  {field._declared_at} ({field._name})" for field in fields))
        raise QuadrantsRuntimeError(
            f"These field(s) are not placed:\n{places}\nPlease consider specifying a shape for them, e.g. x = qd.field(float, shape=(2, 3))"
        )


def require_memory(container: Any) -> None:
    """Called for a container without memory: finalizes its tree, or raises with the reason why it has none."""
    if container._state == "unplaced":
        program.materialize()
        if container._state == "unplaced":
            raise QuadrantsRuntimeError(f"Field has no allocation: {container._why_unplaced()}")
    elif container._state == "dead":
        tree = container._leaf and container._leaf._tree
        why = "is part of a destroyed tree" if tree and tree._is_destroyed else "was created before qd.reset() or qd.init()"
        raise QuadrantsRuntimeError(f"this {container._noun} {why}; its memory is gone ({container._name or container._noun})")
