"""What this package needs from an engine, and how torch.distributed and mpi4py provide it.

Messages are flat bytes: no engine has to know the data types of kernels. Objects of Python (shapes, problems, small arrays) are gathered
through the engine's own pickling.
"""

from __future__ import annotations

import atexit
import datetime
import importlib
import os
import sys
from collections.abc import Sequence
from typing import Any

import numpy as np

from .._base.errors import QuadrantsRuntimeError
from .launchers import Launch

Message = tuple[int, int, Any]
"""Rank of the other side, tag, flat bytes."""


class Engine:
    """A process without others. The engines below override everything that needs them."""

    name = "none"
    rank, size = 0, 1
    sends_device_memory = False  # messages may be in the memory of a GPU

    def all_gather(self, value: Any) -> list[Any]:
        """Returns the objects of all ranks, in their order."""
        return [value]

    def reduce(self, array: Any, operation: str) -> None:
        """Combines arrays of all ranks in place; tensors on a GPU, too, with `sends_device_memory`."""

    def post(self, sends: Sequence[Message], receives: Sequence[Message], on_device: bool = False) -> list[Any]:
        """Begins to send and receive, and returns the requests. Messages of one pair of ranks are given in the same order by both."""
        assert not sends and not receives, "a single process has no one to talk to"
        return []

    def wait(self, requests: list[Any]) -> None:
        """Waits for what `post` began."""

    def view_bytes(self, array: np.ndarray) -> Any:
        """Returns the memory of a packed array as flat bytes, in the form that `post` takes."""
        return array.reshape(-1).view(np.uint8)


class TorchEngine(Engine):
    """torch.distributed, with Gloo for host memory and NCCL for the memory of GPUs."""

    name = "torch"

    def __init__(self, group: Any, is_own: bool):
        torch = sys.modules["torch"]
        self._torch, self._dist = torch, torch.distributed
        self.rank, self.size = self._dist.get_rank(group), self._dist.get_world_size(group)
        self._ranks = self._dist.get_process_group_ranks(group or self._dist.group.WORLD)
        backend = self._dist.get_backend_config(group)
        self.has_nccl = "nccl" in backend
        # Messages of the program itself must not meet ours, and objects travel through host memory: a group of our own for both.
        self._host = group if is_own else self._dist.new_group(self._ranks, backend="gloo")
        self._device = (group if is_own or not self.has_nccl else self._dist.new_group(self._ranks, backend="nccl")) or None

    def all_gather(self, value: Any) -> list[Any]:
        gathered: list[Any] = [None] * self.size
        self._call(self._dist.all_gather_object, gathered, value, group=self._host)
        return gathered

    def reduce(self, array: Any, operation: str) -> None:
        tensor = self._torch.from_numpy(array) if isinstance(array, np.ndarray) else array
        kind = getattr(self._dist.ReduceOp, operation.upper())
        self._call(self._dist.all_reduce, tensor, kind, group=self._host if tensor.device.type == "cpu" else self._device)

    def post(self, sends: Sequence[Message], receives: Sequence[Message], on_device: bool = False) -> list[Any]:
        dist, ranks = self._dist, self._ranks
        if on_device:
            listed = [(dist.isend, *each) for each in sends] + [(dist.irecv, *each) for each in receives]
            operations = [dist.P2POp(do, memory, ranks[peer], self._device, tag) for do, peer, tag, memory in listed]
            return self._call(dist.batch_isend_irecv, operations)
        requests = [self._call(dist.irecv, memory, ranks[peer], self._host, tag) for peer, tag, memory in receives]
        return requests + [self._call(dist.isend, memory, ranks[peer], self._host, tag) for peer, tag, memory in sends]

    def wait(self, requests: list[Any]) -> None:
        for request in requests:
            self._call(request.wait)

    def view_bytes(self, array: np.ndarray) -> Any:
        return self._torch.from_numpy(super().view_bytes(array))

    def _call(self, do: Any, *arguments: Any, **keywords: Any) -> Any:
        try:
            return do(*arguments, **keywords)
        except RuntimeError as problem:  # a rank that died or did not answer in time
            raise QuadrantsRuntimeError(f"rank {self.rank} of {self.size}: torch.distributed reports: {problem}") from problem


class MpiEngine(Engine):
    """MPI, through mpi4py."""

    name = "mpi"

    def __init__(self, communicator: Any):
        self._mpi = sys.modules["mpi4py.MPI"]
        self._communicator = communicator.Dup()  # messages of the program itself must not meet ours
        self.rank, self.size = self._communicator.Get_rank(), self._communicator.Get_size()
        _abort_after_exceptions(self._communicator)

    def all_gather(self, value: Any) -> list[Any]:
        return self._communicator.allgather(value)

    def reduce(self, array: Any, operation: str) -> None:
        self._communicator.Allreduce(self._mpi.IN_PLACE, array, getattr(self._mpi, operation.upper()))

    def post(self, sends: Sequence[Message], receives: Sequence[Message], on_device: bool = False) -> list[Any]:
        requests = [self._communicator.Irecv([memory, self._mpi.BYTE], peer, tag) for peer, tag, memory in receives]
        return requests + [self._communicator.Isend([memory, self._mpi.BYTE], peer, tag) for peer, tag, memory in sends]

    def wait(self, requests: list[Any]) -> None:
        self._mpi.Request.Waitall(requests)


def _abort_after_exceptions(communicator: Any) -> None:
    """Ends all ranks if this one ends with an exception: MPI lets the others wait for it without a limit."""
    before = sys.excepthook

    def report(*exception: Any) -> None:
        before(*exception)
        communicator.Abort(1)

    sys.excepthook = report


def connect(launch: Launch, wanted: str | None, group: Any, timeout: float | None, may_use_gpus: bool) -> Engine:
    """Returns the engine of this process: that of `group`, one that the program has initialized, or the launcher's."""
    torch, mpi = sys.modules.get("torch"), sys.modules.get("mpi4py.MPI")
    if wanted not in (None, "torch", "mpi", "none"):
        raise ValueError(f'engine is "torch", "mpi" or "none", got {wanted!r}')
    if group is not None:
        if mpi is not None and isinstance(group, mpi.Comm):
            return MpiEngine(group)
        if torch is None or not isinstance(group, torch.distributed.ProcessGroup):
            raise TypeError(f"group is a process group of torch.distributed or a communicator of mpi4py, got {type(group).__name__}")
        return TorchEngine(group, False)
    if wanted in (None, "torch") and torch is not None and torch.distributed.is_available() and torch.distributed.is_initialized():
        return TorchEngine(None, False)
    if wanted in (None, "mpi") and mpi is not None and mpi.Is_initialized() and mpi.COMM_WORLD.Get_size() > 1:
        return MpiEngine(mpi.COMM_WORLD)
    chosen = wanted or launch.engine
    if chosen == "none":
        return Engine()
    started = f"{launch.launcher} started this process as rank {launch.rank} of {launch.size}" if launch.launcher else f'engine="{chosen}"'
    module, other = ("mpi4py.MPI", "torchrun") if chosen == "mpi" else ("torch.distributed", "mpirun")
    try:
        loaded = importlib.import_module(module)
    except (ImportError, RuntimeError):  # mpi4py without a library of MPI raises the latter
        package = module.partition(".")[0]
        what = f"{package} is not installed: pip install {package}, or start the ranks with {other}"
        raise QuadrantsRuntimeError(f"{started}, but {what}") from None
    if chosen == "mpi":
        return MpiEngine(loaded.COMM_WORLD)
    if not launch.launcher or launch.engine != "torch":
        raise QuadrantsRuntimeError(
            f"{started}, but neither did the program call torch.distributed.init_process_group, nor did torchrun or srun start it"
        )
    # Messages are short, and kernels that fill the GPU run beside them: without priority they would come last.
    os.environ.setdefault("TORCH_NCCL_HIGH_PRIORITY", "1")
    limit = {} if timeout is None else {"timeout": datetime.timedelta(seconds=timeout)}
    loaded.init_process_group(
        "cpu:gloo,cuda:nccl" if may_use_gpus and sys.modules["torch"].cuda.is_available() else "gloo",
        init_method=launch.address, rank=launch.rank, world_size=launch.size, **limit,
    )  # fmt: skip
    atexit.register(lambda: loaded.is_initialized() and loaded.destroy_process_group())
    return TorchEngine(None, True)


__all__ = ["Engine", "MpiEngine", "TorchEngine", "connect"]
__dir__ = __all__.copy
