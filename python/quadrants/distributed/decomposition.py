"""`qd.distributed.Decomposition`: a box of cells, cut into one part for each rank."""

from __future__ import annotations

import contextlib
import itertools
import math
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np

from .._base.dtypes import to_numbers
from .._containers.files import create, describe, find_arrays, list_leaves
from .._containers.tensor import Backend, Tensor, tensor
from .world import get_world

Box = tuple[tuple[int, int], ...]
"""For each axis the first index and the one after the last."""


class Decomposition:
    """A box of cells, cut into one part for each rank, with room for the border of the neighbors around each part.

    All ranks make it with the same arguments. `shape`, `width`, `axes`, `periodic` and `parts` are these. The cells of this rank begin at
    `start` and are `extent` many; containers for them and their border have the shape `local_shape`, and their first element is the cell
    `offset` of the box. As indices into such a container, `own` are the cells of this part, `interior` those that are not next to another
    part, so that kernels may update them while the border is on its way.

    Args:
        shape: extents of the whole box.
        width: cells of the neighbors' border that each part has room for, a number or one for each axis.
        periodic: whether the box continues on its other side, a truth value or one for each axis.
        axes: the axes that may be cut and have a border. Default: all.
        parts: number of parts along each axis. Default: the numbers with the smallest borders.
    Raises:
        ValueError: on every rank, if the ranks disagree, there are more ranks than parts of this width, or `parts` is no cut for them.
        QuadrantsRuntimeError: before `qd.distributed.init`.
    """

    def __init__(
        self, shape: Any, width: Any = 1, periodic: Any = False, axes: Sequence[int] | None = None, parts: Sequence[int] | None = None
    ):
        self.world = world = get_world()
        self.shape = (shape,) if isinstance(shape, int) else tuple(shape)
        rank = len(self.shape)
        self.axes = tuple(range(rank)) if axes is None else tuple(axes)
        widths, self.periodic = spread(width, rank), spread(periodic, rank)
        given = None if parts is None else tuple(parts)
        is_sound = set(self.axes) <= set(range(rank)) and len(widths) == rank == len(self.periodic) and min(widths, default=0) >= 0
        problem = "" if is_sound else f"axes {self.axes}, widths {widths} and periodic {self.periodic} do not suit {rank} axes"
        world.agree("Decomposition", (self.shape, widths, self.periodic, self.axes, given), problem)
        self.width = tuple(w if axis in self.axes else 0 for axis, w in enumerate(widths))
        most = tuple(n // max(1, w) if axis in self.axes else 1 for axis, (n, w) in enumerate(zip(self.shape, self.width, strict=True)))
        self.parts = choose_parts(world.size, self.shape, most) if given is None else given
        if [p for p, m in zip(self.parts, most, strict=False) if 0 < p <= m] != [*self.parts] or math.prod(self.parts) != world.size:
            raise ValueError(
                f"a box of {self.shape} cannot be cut for {world.size} ranks along the axes {self.axes} into {given or 'parts'}: at most "
                f"{most} parts along each are as wide as their border of {self.width} cells"
            )
        ranges = self._find_ranges(world.rank)
        self.start = tuple(first for first, _ in ranges)
        self.extent = tuple(end - first for first, end in ranges)
        self.local_shape = tuple(n + 2 * w for n, w in zip(self.extent, self.width, strict=True))
        self.offset = tuple(first - w for first, w in zip(self.start, self.width, strict=True))
        self.own: Box = tuple((w, w + n) for w, n in zip(self.width, self.extent, strict=True))
        near = [[w * (self.find_neighbor(axis, side) is not None) for side in (-1, 1)] for axis, w in enumerate(self.width)]
        self.interior: Box = tuple((first + low, end - high) for (first, end), (low, high) in zip(self.own, near, strict=True))

    def __repr__(self) -> str:
        return f"<cells {self.start} to {tuple(map(sum, zip(self.start, self.extent, strict=True)))} of {self.shape}, parts {self.parts}>"

    def find_neighbor(self, axis: int, side: int) -> int | None:
        """Return the rank on the lower (`side` -1) or upper (1) side along an `axis`; None at the border of a box that is not periodic."""
        place = list(np.unravel_index(self.world.rank, self.parts))
        place[axis] += side
        if not (0 <= place[axis] < self.parts[axis] or self.periodic[axis]):
            return None
        return int(np.ravel_multi_index(place, self.parts, mode="wrap"))

    def _find_ranges(self, rank: int) -> list[tuple[int, int]]:
        places = np.unravel_index(rank, self.parts)
        cuts = zip(self.shape, self.parts, map(int, places), strict=True)
        return [(n * place // count, n * (place + 1) // count) for n, count, place in cuts]

    @property
    def rim(self) -> list[Box]:
        """The cells of this part beside its interior, in boxes that do not overlap."""
        boxes, rest = [], list(self.own)
        for axis, (first, end) in enumerate(self.interior):
            for side in ((rest[axis][0], min(first, rest[axis][1])), (max(end, first), rest[axis][1])):
                if side[0] < side[1]:
                    boxes.append((*rest[:axis], side, *rest[axis + 1 :]))
            rest[axis] = (first, end)
        return boxes

    def tensor(self, dtype: Any, *, backend: Any = Backend.NDARRAY, global_indices: bool = False, **options: Any) -> Tensor:
        """Return a zero-filled tensor for this part and its border.

        Args:
            dtype: type of the elements, as for `qd.tensor`.
            backend: `qd.Backend.NDARRAY` or `qd.Backend.FIELD`.
            global_indices: whether kernels access it by indices into the whole box (`offset=`). Every rank then compiles its own code;
                with indices from 0 and `start` as an argument, all ranks share it.
            options: as for `qd.tensor`.
        """
        return tensor(dtype, self.local_shape, backend=backend, offset=self.offset if global_indices else None, **options)

    def scatter(self, array: Any, container: Any) -> None:
        """Copy the part of this rank from `array`, an array over the whole box that every rank has, to the cells of `container`.

        The border is not changed. Raises `ValueError` for another shape.
        """
        cut(container, self.own).from_numpy(array[self._get_slices(self.world.rank)])

    def gather(self, container: Any, root: int = 0) -> np.ndarray | None:
        """Return the array over the whole box on the rank `root`, made of the cells of `container` on all ranks; None elsewhere."""
        whole = None
        for rank, part in self._iterate_parts(container, root):
            whole = np.empty(self.shape + part.shape[len(self.shape) :], part.dtype) if whole is None else whole
            whole[self._get_slices(rank)] = part
        return None if whole is None else to_numbers(whole)

    def save(self, path: Any, containers: Mapping[str, Any]) -> None:
        """Write the cells of containers of all ranks into one file, as `qd.save` writes arrays over the whole box.

        `path` names a file that the rank 0 writes, `containers` the containers. Raises `ValueError` on every rank if it cannot.
        """
        world, problem, arrays = self.world, "", dict[str, np.ndarray]()
        leaves = list_leaves(containers)
        entries = {name: describe(leaf, self.shape) for name, leaf in leaves.items()}
        with contextlib.ExitStack() as stack:
            try:
                arrays = stack.enter_context(create(path, entries)) if world.rank == 0 else arrays
            except OSError as error:
                problem = str(error)
            world.agree("save", entries, problem)
            for name, leaf in leaves.items():
                for rank, part in self._iterate_parts(leaf, 0):
                    arrays[name][self._get_slices(rank)] = part
        world.barrier()

    def load(self, path: Any, containers: Mapping[str, Any]) -> None:
        """Read the cells of containers from a file of arrays over the whole box, which any number of ranks may have written.

        Every rank reads its part of the file `path`; the borders of `containers` are not changed. Raises `ValueError` on every rank if the
        file is missing, damaged or has other arrays.
        """
        problem, leaves, arrays = "", list_leaves(containers), dict[str, np.ndarray]()
        try:
            arrays = find_arrays(path, {name: describe(leaf, self.shape) for name, leaf in leaves.items()})
        except (OSError, ValueError, KeyError) as error:
            problem = str(error)
        self.world.agree("load", list(leaves), problem)
        for name, array in arrays.items():
            cut(leaves[name], self.own)._overwrite(array[self._get_slices(self.world.rank)])

    def _get_slices(self, rank: int) -> tuple[slice, ...]:
        return tuple(slice(*ends) for ends in self._find_ranges(rank))

    def _iterate_parts(self, container: Any, root: int) -> Iterator[tuple[int, np.ndarray]]:
        """Yields each rank with the cells of its container on the rank `root`, nothing elsewhere. At most two parts are in memory."""
        world, own = self.world, np.ascontiguousarray(cut(container, self.own)._fetch())
        if world.rank != root:
            world.send_and_receive([(root, own)], [])
            return
        for rank in range(world.size):
            part = own
            if rank != root:
                extent = tuple(end - first for first, end in self._find_ranges(rank))
                part = np.empty(extent + own.shape[len(extent) :], own.dtype)
                world.send_and_receive([], [(rank, part)])
            yield rank, part


def spread(value: Any, rank: int) -> tuple[Any, ...]:
    """Returns an argument for each axis."""
    return tuple(value) if isinstance(value, (tuple, list)) else (value,) * rank


def cut(container: Any, box: Box) -> Any:
    """Returns the part of a container with these places, which count from 0 whatever its offset."""
    container = getattr(container, "_impl", container)
    offset = container._offset or (0,) * len(box)
    return container[tuple(slice(first + o, end + o) for (first, end), o in zip(box, offset, strict=True))]


def choose_parts(size: int, shape: tuple[int, ...], most: tuple[int, ...]) -> tuple[int, ...]:
    """Returns the parts along each axis with the smallest faces: of equals, the ones with fewer cut axes, then along earlier axes.

    Without any, returns () .
    """

    def count_cells(parts: tuple[int, ...]) -> tuple[Any, ...]:
        faces = sum(math.prod(shape) / shape[axis] * count for axis, count in enumerate(parts) if count > 1)
        return faces, sum(count > 1 for count in parts), tuple(-count for count in parts)

    divisors = [count for count in range(1, size + 1) if size % count == 0]
    found = itertools.product(*([count for count in divisors if count <= limit] for limit in most))
    return min((parts for parts in found if math.prod(parts) == size), key=count_cells, default=())


__all__ = ["Decomposition", "choose_parts", "cut", "spread"]
__dir__ = __all__.copy
