"""`qd.distributed.Decomposition`: a box of cells, cut into one part for each rank."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np

from .._containers.tensor import Backend, Tensor, tensor
from .world import World, get_world

Box = tuple[tuple[int, int], ...]
"""For each axis the first index and the one after the last."""


class Grid:
    """Ranks in rows: `parts` of them along each axis, numbered row by row."""

    def __init__(self, world: World, parts: tuple[int, ...], is_periodic: tuple[bool, ...]):
        self.world, self.parts, self.is_periodic = world, parts, is_periodic
        self.place = tuple(map(int, np.unravel_index(world.rank, parts)))

    def find_neighbor(self, axis: int, side: int) -> int | None:
        """Returns the rank on the lower (-1) or upper (1) side along an axis; None at the border of the box."""
        place = list(self.place)
        place[axis] += side
        if not (0 <= place[axis] < self.parts[axis] or self.is_periodic[axis]):
            return None
        place[axis] %= self.parts[axis]
        return int(np.ravel_multi_index(place, self.parts))


class Decomposition:
    """A box of cells, cut into one part for each rank, with room for the border of the neighbors around each part.

    All ranks make it with the same arguments.

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

    shape: tuple[int, ...]
    """Extents of the whole box."""
    width: tuple[int, ...]
    """Width of the border along each axis."""
    parts: tuple[int, ...]
    """Number of parts along each axis."""
    start: tuple[int, ...]
    """First cell of this part, as an index into the whole box."""
    extent: tuple[int, ...]
    """Number of cells of this part."""
    local_shape: tuple[int, ...]
    """Shape of containers for this part: its cells and the border around them."""
    offset: tuple[int, ...]
    """Index into the whole box of the first element of such a container."""

    def __init__(
        self, shape: Any, width: Any = 1, periodic: Any = False, axes: Sequence[int] | None = None, parts: Sequence[int] | None = None
    ):
        world = get_world()
        self.shape = (shape,) if isinstance(shape, int) else tuple(shape)
        rank = len(self.shape)
        self.axes = tuple(range(rank)) if axes is None else tuple(axes)
        widths, wraps = spread(width, rank), spread(periodic, rank)
        problem = (
            "" if sorted(set(self.axes)) == sorted(self.axes) and set(self.axes) <= set(range(rank)) else f"axes {self.axes} of {rank}"
        )
        problem = problem or ("" if len(widths) == rank == len(wraps) else f"width or periodic has not one entry for each of {rank} axes")
        problem = problem or ("" if all(w >= 0 for w in widths) and all(n > 0 for n in self.shape) else "negative extents or widths")
        given = None if parts is None else tuple(parts)
        world.agree("Decomposition", (self.shape, widths, wraps, self.axes, given), problem)
        self.width = tuple(w if axis in self.axes else 0 for axis, w in enumerate(widths))
        most = tuple(n // max(1, w) if axis in self.axes else 1 for axis, (n, w) in enumerate(zip(self.shape, self.width, strict=True)))
        self.parts = choose_parts(world.size, self.shape, most) if given is None else given
        fits = (
            len(self.parts) == rank
            and math.prod(self.parts) == world.size
            and all(0 < p <= m for p, m in zip(self.parts, most, strict=True))
        )
        if not fits:
            cut = "" if given is None else f", in the parts {given}"
            raise ValueError(
                f"a box of {self.shape} cannot be cut for {world.size} ranks along the axes {self.axes}{cut}: along each axis at most "
                f"{most} parts are as wide as their border of {self.width} cells"
            )
        self.grid = Grid(world, self.parts, wraps)
        ranges = self._find_ranges(world.rank)
        self.start = tuple(first for first, _ in ranges)
        self.extent = tuple(end - first for first, end in ranges)
        self.local_shape = tuple(n + 2 * w for n, w in zip(self.extent, self.width, strict=True))
        self.offset = tuple(first - w for first, w in zip(self.start, self.width, strict=True))

    def __repr__(self) -> str:
        return f"<cells {self.start} to {tuple(map(sum, zip(self.start, self.extent, strict=True)))} of {self.shape}, parts {self.parts}>"

    def _find_ranges(self, rank: int) -> list[tuple[int, int]]:
        places = np.unravel_index(rank, self.parts)
        cuts = zip(self.shape, self.parts, map(int, places), strict=True)
        return [(n * place // count, n * (place + 1) // count) for n, count, place in cuts]

    @property
    def own(self) -> Box:
        """The cells of this part as indices into a container of `local_shape`."""
        return tuple((w, w + n) for w, n in zip(self.width, self.extent, strict=True))

    @property
    def interior(self) -> Box:
        """The cells of this part that are not next to another part: kernels may update them while the border is on its way."""
        return tuple((first + self._is_next(axis, -1), end - self._is_next(axis, 1)) for axis, (first, end) in enumerate(self.own))

    def _is_next(self, axis: int, side: int) -> int:
        return self.width[axis] if axis in self.axes and self.grid.find_neighbor(axis, side) is not None else 0

    @property
    def rim(self) -> list[Box]:
        """The other cells of this part, in boxes that do not overlap."""
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

        Raises `ValueError` for another shape. The border is not changed.
        """
        if array.shape[: len(self.shape)] != self.shape:
            raise ValueError(f"an array over the box {self.shape} is expected, got one of shape {array.shape}")
        part = tuple(slice(first, first + n) for first, n in zip(self.start, self.extent, strict=True))
        cut(container, self.own).from_numpy(np.ascontiguousarray(array[part]))

    def gather(self, container: Any, root: int = 0) -> np.ndarray | None:
        """Return the array over the whole box on the rank `root`, made of the cells of `container` on all ranks; None elsewhere."""
        whole = None
        for rank, part in self.iterate_parts(container, root):
            whole = np.empty(self.shape + part.shape[len(self.shape) :], part.dtype) if whole is None else whole
            whole[tuple(slice(*ends) for ends in self._find_ranges(rank))] = part
        return whole

    def iterate_parts(self, container: Any, root: int) -> Iterator[tuple[int, np.ndarray]]:
        """Yield each rank with the cells of its `container`, on the rank `root`; nothing elsewhere. At most two parts are in memory."""
        world = self.grid.world
        own = cut(container, self.own).to_numpy()
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

    return min(_factor(size, most), key=count_cells, default=())


def _factor(size: int, most: tuple[int, ...]) -> Iterator[tuple[int, ...]]:
    if not most:
        if size == 1:
            yield ()
        return
    for count in range(1, min(size, most[0]) + 1):
        if size % count == 0:
            for rest in _factor(size // count, most[1:]):
                yield (count, *rest)
