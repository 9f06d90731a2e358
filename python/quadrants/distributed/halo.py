"""`qd.distributed.Halo`: the borders of containers, exchanged with the neighbors.

A face that is packed in memory is sent and received where it is, other faces through a message that a kernel fills and unpacks. On a GPU
what comes between `start` and `finish` runs in a stream beside the default one, so kernels that need no border run at the same time. An
exchange that nothing overlaps runs in the default stream: there it needs no events, which cost 200 us on a GPU of two processes.

Axes follow one another, and faces include the borders of the axes before: so corners arrive, too, in two or three steps.
"""

from __future__ import annotations

import contextlib
import importlib
import operator
from collections.abc import Iterator
from typing import Any, NamedTuple

import numpy as np

from .._base.errors import QuadrantsRuntimeError
from .._containers.container import ContainerMethods
from .._containers.device_arrays import describe_container
from .._containers.ndarray import ndarray
from .._containers.struct_field import StructField
from .._session.streams import Stream, create_event, create_stream, use_stream
from ._kernels import add_box, copy_box
from .decomposition import Box, Decomposition, choose_parts, cut, spread
from .engines import Message
from .world import World, get_world


class _Face:
    """A box of a container at one of its sides, the rank that it goes to or comes from, and the memory of the message."""

    def __init__(self, world: World, container: Any, box: Box, axis: int, peer: int, tag: int, may_be_in_place: bool):
        part = cut(container, box)
        is_in_place = may_be_in_place and _is_packed(part)
        self.message = (
            part if is_in_place else ndarray(container._element_type, (part.shape[axis], *part.shape[:axis], *part.shape[axis + 1 :]))
        )
        # What a kernel copies: (in the message, in the container).
        self.copies = [] if is_in_place else list(zip(_list_planes(self.message, 0), _list_planes(part, axis), strict=True))
        engine = world._engine
        if part._device is None:
            memory = engine.view_bytes(self.message.view())
        else:
            torch = importlib.import_module("torch")
            self.device = memory = torch.from_dlpack(self.message).reshape(-1).view(torch.uint8)
            if not engine.sends_device_memory:
                # Messages come into one while the device may still read the other, from the exchange before.
                self.pinned, self._next = (torch.empty(memory.shape, dtype=torch.uint8, pin_memory=True) for _ in range(2))
                memory = engine.view_bytes(self.pinned.numpy())
                self._next_entry: Message = (peer, tag, engine.view_bytes(self._next.numpy()))
        self.entry: Message = (peer, tag, memory)

    def swap(self) -> Message:
        """Takes the other memory of the processor, and returns its entry."""
        self.pinned, self._next, self.entry, self._next_entry = self._next, self.pinned, self._next_entry, self.entry
        return self.entry


class _Step(NamedTuple):
    """The faces that are exchanged at the same time."""

    sent: list[_Face]
    received: list[_Face]
    local: list[tuple[Any, Any]]  # (to, of), where a part is its own neighbor


class _Lane(NamedTuple):
    """The stream of an exchange: ours, and the same one of torch. None: there is no GPU or no torch."""

    stream: Stream | None
    torch_stream: Any


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
        ValueError: on every rank, if shapes do not fit or differ between ranks, a part is smaller than its border, or a container is in
            tiles or sparse nodes, which have no strides.
        ImportError: on a GPU without torch, which provides its buffers.
        QuadrantsRuntimeError: before `qd.distributed.init`.
    """

    def __init__(
        self, containers: Any, axes: Any = None, width: Any = 1, periodic: Any = False, *, decomposition: Any = None, corners: bool = True
    ):
        world = self._world = get_world()
        listed = containers if isinstance(containers, (list, tuple)) else [containers]
        leaves = self._leaves = [leaf for each in listed for leaf in _list_leaves(each)]
        shape: tuple[int, ...] = leaves[0].shape if leaves else ()
        problem = _find_problem(listed, leaves, decomposition.local_shape if decomposition else shape)
        kinds = [(str(leaf.dtype), leaf.element_shape) for leaf in leaves]
        world.agree("Halo", (kinds, None if decomposition else shape, axes, width, periodic, corners), problem)
        if decomposition is None:  # equal parts, side by side
            axes = range(len(shape)) if axes is None else axes
            widths = spread(width, len(shape))
            own = [n - 2 * w * (axis in axes) for axis, (n, w) in enumerate(zip(shape, widths, strict=True))]
            parts = choose_parts(world.size, shape, tuple(world.size if axis in axes else 1 for axis in range(len(shape))))
            whole = tuple(map(operator.mul, own, parts)) if parts else own
            decomposition = Decomposition(whole, widths, periodic, axes, parts or None)
        self._part: Decomposition = decomposition
        self._corners, self._on_gpu = corners, leaves[0]._device is not None
        # A stream of torch, where messages need torch: it frees pinned memory in streams that it has used, so these must never end. NCCL's
        # kernels run in it, and need a place beside a kernel that fills the GPU.
        self._torch: Any = importlib.import_module("torch") if self._on_gpu and world.size > 1 else None
        own = self._torch.cuda.Stream(priority=-1) if self._torch else None
        self._beside = _Lane(Stream(own.cuda_stream) if own else create_stream() if self._on_gpu else None, own)
        self._default = _Lane(Stream() if self._on_gpu else None, self._torch.cuda.default_stream() if self._torch else None)
        self._lane, self._event = self._beside, create_event()
        self._is_staged = self._on_gpu and not world._engine.sends_device_memory  # through the memory of the processor
        self._tag = world.take_tags(4 * len(leaves) * len(shape))
        self._steps = self._make_steps(shape, adds=False)
        self._adding: list[_Step] | None = None
        self._requests: Any = None

    def _make_steps(self, shape: tuple[int, ...], adds: bool) -> list[_Step]:
        world, width, find = self._world, self._part.width, self._part.find_neighbor
        steps, done = [_Step([], [], [])], list[int]()
        for axis in self._part.axes:
            w, n = width[axis], shape[axis]
            if self._corners and done:
                steps.append(_Step([], [], []))
            step = steps[-1]
            for side in (-1, 1) if w else ():
                # The cells next to the border on this side, and the border on the other side: messages in this direction fill the latter.
                near, far = ((w, 2 * w), (n - w, n)) if side < 0 else ((n - 2 * w, n - w), (0, w))
                to, of = find(axis, side), find(axis, -side)
                if adds:  # the way back
                    near, far, to, of = far, near, of, to
                for number, leaf in enumerate(self._leaves):
                    tag = self._tag + (number * len(shape) + axis) * 4 + (side > 0) + 2 * adds
                    boxes = [self._make_box(shape, axis, ends, done) for ends in (near, far)]
                    if to == of == world.rank:
                        step.local.extend(zip(*(_list_planes(cut(leaf, box), axis) for box in boxes[::-1]), strict=True))
                        continue
                    if to is not None:
                        step.sent.append(_Face(world, leaf, boxes[0], axis, to, tag, True))
                    if of is not None:
                        step.received.append(_Face(world, leaf, boxes[1], axis, of, tag, not adds))
            done.append(axis)
        return steps[::-1] if adds else steps

    def _make_box(self, shape: tuple[int, ...], axis: int, ends: tuple[int, int], done: list[int]) -> Box:
        # Without corners all axes share a step, so the faces of the later ones leave out what the earlier ones write.
        inner = [] if self._corners else done
        return tuple(ends if a == axis else self._part.own[a] if a in inner else (0, n) for a, n in enumerate(shape))

    def exchange(self) -> None:
        """Fill the borders with the neighbors' cells. Borders at the end of a box that is not periodic keep their values.

        Raises what the engine reports, if a neighbor died or does not answer in time.
        """
        self._expect_no_exchange()
        with self._in_lane(self._default):
            self._run(self._steps)

    def start(self) -> None:
        """Begin an exchange. Until `finish`, kernels may read all cells but the border, and write those that are not next to it.

        Raises `QuadrantsRuntimeError` if an exchange has begun already.
        """
        self._expect_no_exchange()
        self._order(None, self._beside.stream)
        with self._in_lane(self._beside):
            self._requests = self._send(self._steps[0], False)

    def finish(self) -> None:
        """Wait for the exchange that `start` began. On a GPU, kernels that are launched afterwards wait, this function need not.

        Raises `QuadrantsRuntimeError` if none has begun, or what the engine reports.
        """
        if self._requests is None:
            raise QuadrantsRuntimeError("no exchange has begun: call start() first")
        requests, self._requests = self._requests, None
        with self._in_lane(self._beside):
            self._receive(self._steps[0], requests, False)
            self._run(self._steps[1:])
        self._order(self._beside.stream, None)

    def add(self) -> None:
        """Add the borders to the cells of the neighbors that they stand for: the reverse of `exchange`, for kernels that update them.

        Raises what the engine reports.
        """
        if self._adding is None:
            self._adding = self._make_steps(self._leaves[0].shape, adds=True)
        with self._in_lane(self._default):
            self._run(self._adding, adds=True)

    def _expect_no_exchange(self) -> None:
        if self._requests is not None:
            raise QuadrantsRuntimeError("this exchange has begun already: call finish() first")

    @contextlib.contextmanager
    def _in_lane(self, lane: _Lane) -> Iterator[None]:
        """Lets launches, and torch, use the streams of a lane. Once for an exchange: torch takes 9 us on an H100's processor."""
        self._lane = lane
        with contextlib.ExitStack() as stack:
            if lane.stream:
                stack.enter_context(use_stream(lane.stream))
            if lane.torch_stream and self._torch.cuda.current_stream() != lane.torch_stream:
                stack.enter_context(self._torch.cuda.stream(lane.torch_stream))
            yield

    def _order(self, first: Stream | None, then: Stream | None) -> None:
        """On a GPU, lets what comes into one stream wait for what is in another one; None is the default stream."""
        if self._on_gpu:
            self._event.record(first)
            self._event.wait(then)

    def _run(self, steps: list[_Step], adds: bool = False) -> None:
        for step in steps:
            self._receive(step, self._send(step, adds), adds)

    def _send(self, step: _Step, adds: bool) -> Any:
        """Packs the faces and begins to send them. Through the memory of the processor it only begins to copy them there, but expects the
        messages of the neighbors, which then need not ask whether they may send."""
        expected = self._world._engine.post([], [face.swap() for face in step.received]) if self._is_staged and step.received else []
        for to, of in step.local:
            (add_box if adds else copy_box)(to, of)
        for message, part in (copy for face in step.sent for copy in face.copies):
            copy_box(message, part)
        if not self._is_staged:
            sent, received = ([face.entry for face in part] for part in (step.sent, step.received))
            return self._world._engine.post(sent, received, self._on_gpu) if sent or received else []
        for face in step.sent:
            face.pinned.copy_(face.device, non_blocking=True)
        return expected

    def _receive(self, step: _Step, requests: list[Any], adds: bool) -> None:
        if self._is_staged and (step.sent or step.received):
            self._lane.stream.synchronize()  # type: ignore[union-attr]
            requests = [*requests, *self._world._engine.post([face.entry for face in step.sent], [])]
        self._world._engine.wait(requests)
        for face in step.received if self._is_staged else ():
            face.device.copy_(face.pinned, non_blocking=True)
        for message, part in (copy for face in step.received for copy in face.copies):
            (add_box if adds else copy_box)(part, message)


def _list_leaves(container: Any) -> list[Any]:
    found = getattr(container, "_impl", container)
    return list(found._leaves()) if isinstance(found, (ContainerMethods, StructField)) else []


def _list_planes(part: Any, axis: int) -> list[Any]:
    """Returns the planes across an axis: kernels run along long axes, and a border is short along this one."""
    before, after = [slice(None)] * axis, [slice(None)] * (len(part.shape) - axis - 1)
    return [part[(*before, k, *after)] for k in range(part.shape[axis])] if before or after else [part]


def _is_packed(container: Any) -> bool:
    """Whether the elements lie one after the other in memory, row by row."""
    shape, strides = describe_container(container)
    return np.lib.stride_tricks.as_strided(np.empty(1, f"V{container.dtype.size}"), shape, strides).flags.c_contiguous


def _find_problem(listed: Any, leaves: list[Any], shape: tuple[int, ...]) -> str:
    """Returns why these containers have no border to exchange; "" if they have one."""
    wrong = next((type(each).__name__ for each in listed if not _list_leaves(each)), None)
    if wrong or not leaves:
        return f"a field, ndarray or tensor is expected, got {wrong or 'none'}"
    for leaf in leaves:
        if leaf._cells is not None or leaf._qd_layout.tilings:
            return f"{leaf!r} is in a sparse node or in tiles, which have no strides"
        if leaf.shape != shape:
            return f"a container of shape {leaf.shape}, and parts of shape {shape}"
    return ""


__all__ = ["Halo"]
__dir__ = __all__.copy
