"""`qd.distributed.Halo`: the borders of containers, exchanged with the neighbors.

A face that is packed in memory is sent and received where it is, other faces through a message that a kernel fills and unpacks. On a GPU
all of it runs in a stream beside the default one, so kernels that need no border run at the same time.

Axes follow one another, and faces include the borders of the axes before: so corners arrive, too, in two or three steps.
"""

from __future__ import annotations

import contextlib
import itertools
import sys
from typing import Any

import numpy as np

from .._base.errors import QuadrantsRuntimeError
from .._containers.container import ContainerMethods
from .._containers.ndarray import ndarray
from .._containers.struct_field import StructField
from .._session.streams import Stream, create_event, create_stream
from ._kernels import add_box, copy_box
from .decomposition import Box, Decomposition, Grid, choose_parts, cut, spread
from .engines import Message, is_packed
from .world import World, get_world


class _Face:
    """A box of a container at one of its sides, the rank that it goes to or comes from, and the memory of the message."""

    def __init__(self, world: World, container: Any, box: Box, peer: int, tag: int, is_packed_here: bool):
        self.peer, self.tag, self.part = peer, tag, cut(container, box)
        self.is_in_place = is_packed_here and is_packed(self.part)
        self.message = self.part if self.is_in_place else ndarray(container._element_type, self.part.shape)
        self.host: Any = None  # bytes in the memory of the processor
        self.device: Any = None  # bytes in the memory of a GPU, as a tensor
        engine = world._engine
        if self.part._device is None:
            self.host = engine.view_bytes(self.message.view())
        elif engine.name == "torch":
            torch = sys.modules["torch"]
            self.device = torch.from_dlpack(self.message).reshape(-1).view(torch.uint8)
            if not engine.sends_device_memory:
                self.host = torch.empty(self.device.shape, dtype=torch.uint8, pin_memory=True)
        else:
            self.host = np.empty(self.message.nbytes, np.uint8)

    def pack(self, stream: Stream | None) -> None:
        if not self.is_in_place:
            copy_box(self.message, self.part, qd_stream=stream)

    def fetch(self) -> None:
        """Copies the message from the GPU."""
        if self.device is not None:
            self.host.copy_(self.device, non_blocking=True)
        else:
            self.host[:] = self.message._fetch().reshape(-1).view(np.uint8)

    def store(self) -> None:
        """Copies the message to the GPU."""
        if self.device is not None:
            self.device.copy_(self.host, non_blocking=True)
        else:
            elements = self.message._fetch(None, True)
            elements.reshape(-1).view(np.uint8)[:] = self.host
            self.message._flush(elements)

    def unpack(self, stream: Stream | None, adds: bool) -> None:
        if adds:
            add_box(self.part, self.message, qd_stream=stream)
        elif not self.is_in_place:
            copy_box(self.part, self.message, qd_stream=stream)


class _Step:
    """The faces that are exchanged at the same time."""

    def __init__(self) -> None:
        self.sent: list[_Face] = []
        self.received: list[_Face] = []
        self.local: list[tuple[Any, Any]] = []  # (to, of), where a part is its own neighbor


class Halo:
    """Exchanges the borders of containers with the neighbors: `exchange`, or `start` and `finish` around work that needs no border.

    All ranks make it with equal arguments, for containers whose shapes fit.

    Args:
        containers: a field, ndarray or tensor, of any data type and element shape, or of structs; or a list of them.
        axes: the axes along which the ranks are arranged. Default: all.
        width: cells of the border, a number or one for each axis.
        periodic: whether the last rank along an axis is the neighbor of the first, a truth value or one for each axis.
        decomposition: a `Decomposition`, in place of the three arguments above.
        corners: whether corners of the border are exchanged, which stencils with diagonals need. Without them all axes are exchanged at
            the same time.
    Raises:
        ValueError: on every rank, if shapes do not fit or differ between ranks, a part is smaller than its border, or a
            container has no strides, in tiles or sparse nodes.
        QuadrantsRuntimeError: before `qd.distributed.init`.
    """

    def __init__(
        self, containers: Any, axes: Any = None, width: Any = 1, periodic: Any = False, *, decomposition: Any = None, corners: bool = True
    ):
        world = self._world = get_world()
        listed = containers if isinstance(containers, (list, tuple)) else [containers]
        leaves = [leaf for each in listed for leaf in _list_leaves(each)]
        shape: tuple[int, ...] = leaves[0].shape if leaves else ()
        if decomposition is not None:
            axes, width, periodic = decomposition.axes, decomposition.width, decomposition.grid.is_periodic
        self._axes = tuple(range(len(shape))) if axes is None else tuple(axes)
        self._width, periodic = spread(width, len(shape)), spread(periodic, len(shape))
        wrong = [type(each).__name__ for each in listed if not _list_leaves(each)]
        problem = f"a field, ndarray or tensor is expected, got {wrong[0]}" if wrong else self._find_problem(leaves, shape, decomposition)
        kinds = [(str(leaf.dtype), leaf.element_shape) for leaf in leaves]
        shapes = world.agree("Halo", (kinds, len(shape), self._axes, self._width, periodic, corners), problem, shape)
        if decomposition is None:
            most = tuple(world.size if axis in self._axes else 1 for axis in range(len(shape)))
            parts = choose_parts(world.size, shapes[0], most)
            if not parts:
                raise ValueError(f"Halo: {world.size} ranks need an axis to be arranged along")
            self._grid = Grid(world, parts, periodic)
            world.agree("Halo", None, self._find_other_face(shape, shapes))
        else:
            self._grid = decomposition.grid
        self._leaves, self._corners, self._on_gpu = leaves, corners, leaves[0]._device is not None
        self._stream = create_stream() if self._on_gpu else None
        self._events = [create_event() for _ in range(2)] if self._on_gpu else []
        self._tag = world.take_tags(4 * len(leaves) * len(shape))
        self._steps = self._make_steps(shape, adds=False)
        self._adding: list[_Step] | None = None
        self._requests: Any = None

    def _find_problem(self, leaves: list[Any], shape: tuple[int, ...], decomposition: Decomposition | None) -> str:
        """Returns why these containers have no border to exchange here; "" if they have one."""
        if not leaves:
            return "there is no container"
        for leaf in leaves:
            if leaf._cells is not None or leaf._qd_layout.tilings:
                return f"{leaf!r} is in a sparse node or in tiles, which have no strides"
            if leaf.shape != shape:
                return f"containers of the shapes {shape} and {leaf.shape}"
        if decomposition is not None and shape != decomposition.local_shape:
            return f"a container of shape {shape}, and parts of shape {decomposition.local_shape}"
        if not set(self._axes) <= set(range(len(shape))) or len(self._width) != len(shape):
            return f"axes {self._axes} and widths {self._width} for the shape {shape}"
        for axis in self._axes:
            if self._width[axis] < 0 or shape[axis] < 3 * self._width[axis]:
                return f"the border of {self._width[axis]} cells is wider than what it surrounds: {shape[axis]} cells along axis {axis}"
        return ""

    def _find_other_face(self, shape: tuple[int, ...], shapes: list[tuple[int, ...]]) -> str:
        """Returns that a face of this part has another shape than that of a neighbor; "" if all fit."""
        for axis, side in itertools.product(self._axes, (-1, 1)):
            peer = self._grid.find_neighbor(axis, side)
            if peer is not None and shapes[peer] != shape[:axis] + shapes[peer][axis : axis + 1] + shape[axis + 1 :]:
                return f"the part of shape {shape} is next to one of shape {shapes[peer]} along axis {axis}"
        return ""

    def _make_steps(self, shape: tuple[int, ...], adds: bool) -> list[_Step]:
        world, width = self._world, self._width
        steps, done = [_Step()], list[int]()
        for axis in self._axes:
            w, n = width[axis], shape[axis]
            if self._corners and done:
                steps.append(_Step())
            step = steps[-1]
            for side in (-1, 1) if w else ():
                # The cells next to the border on this side, and the border on the other side: messages in this direction fill the latter.
                near, far = ((w, 2 * w), (n - w, n)) if side < 0 else ((n - 2 * w, n - w), (0, w))
                to, of = self._grid.find_neighbor(axis, side), self._grid.find_neighbor(axis, -side)
                if adds:  # the way back
                    near, far, to, of = far, near, of, to
                for number, leaf in enumerate(self._leaves):
                    tag = self._tag + (number * len(shape) + axis) * 4 + (side > 0) + 2 * adds
                    boxes = [self._make_box(shape, axis, ends, done) for ends in (near, far)]
                    if to == of == world.rank:
                        step.local.append((cut(leaf, boxes[1]), cut(leaf, boxes[0])))
                        continue
                    if to is not None:
                        step.sent.append(_Face(world, leaf, boxes[0], to, tag, True))
                    if of is not None:
                        step.received.append(_Face(world, leaf, boxes[1], of, tag, not adds))
            done.append(axis)
        return steps[::-1] if adds else steps

    def _make_box(self, shape: tuple[int, ...], axis: int, ends: tuple[int, int], done: list[int]) -> Box:
        # Without corners all axes share a step, so the faces of the later ones leave out what the earlier ones write.
        inner = [] if self._corners else done
        return tuple(ends if a == axis else (self._width[a], n - self._width[a]) if a in inner else (0, n) for a, n in enumerate(shape))

    def exchange(self) -> None:
        """Fill the borders with the neighbors' cells. Borders at the end of a box that is not periodic keep their values.

        Raises what the engine reports, if a neighbor died or does not answer in time.
        """
        self.start()
        self.finish()

    def start(self) -> None:
        """Begin an exchange. Until `finish`, kernels may read all cells but the border, and write those that are not next to it.

        Raises `QuadrantsRuntimeError` if an exchange has begun already.
        """
        if self._requests is not None:
            raise QuadrantsRuntimeError("this exchange has begun already: call finish() first")
        if self._on_gpu:
            self._events[0].record()
            self._events[0].wait(self._stream)
        self._requests = self._send(self._steps[0], False)

    def finish(self) -> None:
        """Wait for the exchange that `start` began. On a GPU, kernels that are launched afterwards wait, this function need not.

        Raises `QuadrantsRuntimeError` if none has begun, or what the engine reports.
        """
        if self._requests is None:
            raise QuadrantsRuntimeError("no exchange has begun: call start() first")
        requests, self._requests = self._requests, None
        self._receive(self._steps[0], requests, False)
        for step in self._steps[1:]:
            self._receive(step, self._send(step, False), False)
        self._join()

    def add(self) -> None:
        """Add the borders to the cells of the neighbors that they stand for: the reverse of `exchange`, for kernels that update them.

        Raises what the engine reports.
        """
        if self._adding is None:
            self._adding = self._make_steps(self._leaves[0].shape, adds=True)
        if self._on_gpu:
            self._events[0].record()
            self._events[0].wait(self._stream)
        for step in self._adding:
            self._receive(step, self._send(step, True), True)
        self._join()

    def _join(self) -> None:
        """Lets later launches wait for the exchange."""
        if self._on_gpu:
            self._events[1].record(self._stream)
            self._events[1].wait()

    def _in_stream(self) -> Any:
        torch = sys.modules.get("torch")
        if self._stream is None or torch is None:
            return contextlib.nullcontext()
        return torch.cuda.stream(torch.cuda.ExternalStream(self._stream.handle))

    def _send(self, step: _Step, adds: bool) -> Any:
        """Packs the faces and begins to send them. Through the memory of the processor it only begins to copy them there."""
        engine, uses_device = self._world._engine, self._on_gpu and self._world._engine.sends_device_memory
        for to, of in step.local:
            (add_box if adds else copy_box)(to, of, qd_stream=self._stream)
        for face in step.sent:
            face.pack(self._stream)
        if self._on_gpu and not uses_device:
            with self._in_stream():
                for face in step.sent:
                    face.fetch()
            return []
        sends, receives = self._list_messages(step, "device" if uses_device else "host")
        with self._in_stream():
            return engine.post(sends, receives, uses_device) if sends or receives else []

    @staticmethod
    def _list_messages(step: _Step, kind: str) -> tuple[list[Message], list[Message]]:
        sent, received = ([(face.peer, face.tag, getattr(face, kind)) for face in part] for part in (step.sent, step.received))
        return sent, received

    def _receive(self, step: _Step, requests: list[Any], adds: bool) -> None:
        engine, uses_device = self._world._engine, self._on_gpu and self._world._engine.sends_device_memory
        with self._in_stream():
            if self._on_gpu and not uses_device and (step.sent or step.received):
                self._stream.synchronize()  # type: ignore[union-attr]
                requests = engine.post(*self._list_messages(step, "host"))
            engine.wait(requests)
            for face in step.received if self._on_gpu and not uses_device else ():
                face.store()
        for face in step.received:
            face.unpack(self._stream, adds)


def _list_leaves(container: Any) -> list[Any]:
    found = getattr(container, "_impl", container)
    return list(found._leaves()) if isinstance(found, (ContainerMethods, StructField)) else []
