"""`qd.distributed.init`: binds this process to its engine, its device, its threads and its random numbers."""

from __future__ import annotations

import ctypes
import os
import socket
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from .._base import options as _options
from .._base.arch import GPU_NAMES, Arch
from .._base.errors import QuadrantsRuntimeError
from .._session import init as _init
from .engines import Engine, connect
from .launchers import find_launch


class World:
    """The processes of a program, its ranks; `qd.distributed.init` returns it. Methods are called by all ranks, in the same order.

    `rank` is the number of this process, from 0, `size` the number of processes; `local_rank` and `local_size` count those of its host.
    `engine` is what connects them: "torch", "mpi", or "none" for a single process.
    """

    def __init__(self, engine: Engine):
        self._engine, self.engine = engine, engine.name
        self.rank, self.size = engine.rank, engine.size
        # Containers may share the name of a host; the number that Linux draws at its start tells machines apart.
        boot = Path("/proc/sys/kernel/random/boot_id")
        hosts = engine.all_gather(f"{socket.gethostname()}/{boot.read_text().strip() if boot.exists() else ''}")
        self.local_rank, self.local_size = hosts[: self.rank].count(hosts[self.rank]), hosts.count(hosts[self.rank])
        self._host, self._tags = hosts[self.rank], 1

    def __repr__(self) -> str:
        return f"<rank {self.rank} of {self.size}, engine {self.engine}>"

    def barrier(self) -> None:
        """Wait until every rank has come here, and all work of this process before it is done."""
        _init.sync()
        self.all_gather(None)

    def all_gather(self, value: Any) -> list[Any]:
        """Return the objects that the ranks passed as `value`, in the order of the ranks. They are pickled: use it for small ones."""
        return self._engine.all_gather(value)

    def all_reduce(self, value: Any, operation: str = "sum") -> Any:
        """Combine the values of all ranks element by element, and return the result on every rank.

        Args:
            value: a number, a NumPy array, or a container, which receives the result.
            operation: "sum", "min" or "max".
        Returns:
            A number, a new array, or the container. The order of a float sum is the engine's.
        Raises:
            ValueError: another operation.
            QuadrantsRuntimeError, KeyError: a data type that torch or MPI does not combine, such as u16.
        """
        if operation not in ("sum", "min", "max"):
            raise ValueError(f"the operation is sum, min or max, got {operation!r}")
        container = value if hasattr(value, "from_numpy") else None
        if container is not None and self._engine.sends_device_memory:
            self._engine.reduce(container.to_torch(copy=False), operation)
            return container
        array = np.array(value) if container is None else container.to_numpy()
        self._engine.reduce(array, operation)
        if container is None:
            return array if isinstance(value, np.ndarray) else array[()]
        container.from_numpy(array)
        return container

    def all_to_all(self, parts: Sequence[Any]) -> list[np.ndarray]:
        """Send an array to each rank, and return what each rank sent to this one, in the order of the ranks.

        Args:
            parts: for each rank a NumPy array, or None for nothing. Shapes and types may differ.
        Returns:
            A NumPy array from each rank; one without elements where it sent nothing.
        Raises:
            ValueError: another number of parts than of ranks.
        """
        problem = "" if len(parts) == self.size else f"{len(parts)} parts for {self.size} ranks"
        packed = [np.ascontiguousarray(np.empty(0) if part is None else part) for part in parts]
        heads = self.agree("all_to_all", None, problem, [(part.shape, part.dtype) for part in packed])
        received = [np.empty(*heads[peer][self.rank]) for peer in range(self.size)]
        received[self.rank] = packed[self.rank].copy()
        others = [peer for peer in range(self.size) if peer != self.rank]
        self.send_and_receive([(peer, packed[peer]) for peer in others], [(peer, received[peer]) for peer in others])
        return received

    def send_and_receive(self, sends: list[tuple[int, np.ndarray]], receives: list[tuple[int, np.ndarray]]) -> None:
        """Send packed arrays of NumPy to ranks, and receive into others of the size that their sender sends.

        `sends` and `receives` list (rank, array). Raises what the engine raises.
        """
        # Messages with one tag arrive in the order in which they were sent.
        host = [[(peer, 0, self._engine.view_bytes(array)) for peer, array in part if array.nbytes] for part in (sends, receives)]
        self._engine.wait(self._engine.post(host[0], host[1]))

    def take_tags(self, count: int) -> int:
        """Return the first of `count` tags of messages that this program does not use at this time."""
        first = self._tags if self._tags + count < 2**15 else 1  # the smallest limit that MPI allows
        self._tags = first + count
        return first

    def agree(self, what: str, value: Any, problem: str = "", more: Any = None) -> list[Any]:
        """Return `more` of each rank, after a check that all ranks do `what` with the same `value` and without a `problem`.

        Raises `ValueError` on every rank otherwise, with the ranks and what they said.
        """
        told = self._engine.all_gather((what, value, problem, more))
        if problems := [f"rank {rank}: {text}" for rank, (_, _, text, _) in enumerate(told) if text]:
            raise ValueError(f"{what}: {'; '.join(problems)}")
        for part, noun in ((0, "what to do"), (1, f"the arguments of {what}")):
            differing = next((rank for rank in range(self.size) if told[rank][part] != told[0][part]), 0)
            if differing:
                raise ValueError(
                    f"the ranks disagree about {noun}: rank 0 has {told[0][part]}, rank {differing} has {told[differing][part]}"
                )
        return [each[3] for each in told]


_world: World | None = None


def get_world() -> World:
    """Return the world that `init` made; raises `QuadrantsRuntimeError` before."""
    if _world is None:
        raise QuadrantsRuntimeError("the ranks are not connected: call qd.distributed.init() instead of qd.init()")
    return _world


def init(
    arch: Any = None,
    *,
    engine: str | None = None,
    group: Any = None,
    timeout: float | None = None,
    ranks_per_device: int = 1,
    **options: Any,
) -> World:
    """Connect this process with the others of its program, and start the runtime on its device, as `qd.init` does.

    The ranks of a host take its GPUs in turn, and share its processors unless they are bound to different ones. Random numbers differ by
    rank: rank 0 has those of `random_seed`. All ranks use one disk cache: a kernel is compiled by one of them.

    Args:
        arch: as for `qd.init`.
        engine: "torch", "mpi" or "none". Default: the one that the program has initialized, else the launcher's: torch.distributed for
            torchrun and srun, MPI for mpirun, none for a process that was started alone.
        group: the ranks to connect, a process group of torch.distributed or a communicator of mpi4py. Default: all.
        timeout: seconds after which torch.distributed gives up waiting for a rank. Default: that of torch, half an hour. MPI has none.
        ranks_per_device: number of ranks that may share a GPU; from 2 on, messages go through host memory.
        options: as for `qd.init`; `device_id` overrides the choice of a GPU, `cpu_max_num_threads` that of threads.
    Returns:
        The world: rank, size, and operations between ranks.
    Raises:
        QuadrantsRuntimeError: the engine is not installed or not initialized, the runtime does not start on a rank, or a GPU is shared by
            too many ranks.
    """
    global _world
    if _world is None or engine is not None or group is not None:
        _world = World(connect(find_launch(os.environ), engine, group, timeout, arch not in (Arch.x64, Arch.arm64)))
    world, problem, chosen = _world, "", dict(options)
    own = (world._host, sorted(os.sched_getaffinity(0)))
    threads = max(1, len(own[1]) // world.all_gather(own).count(own))  # ranks share the processors that they are bound to
    try:
        values, _ = _options.collect(dict(options))
        if not values["cpu_max_num_threads"]:
            chosen["cpu_max_num_threads"] = threads
        if world.rank:
            chosen["random_seed"] = int(np.random.SeedSequence((values["random_seed"] % 2**64, world.rank)).generate_state(1)[0] >> 1)
        found = _init._choose_arch(arch, values["enable_fallback"], values)
        if found.name in GPU_NAMES and not {"device_id", "device_index"} & options.keys():
            chosen["device_id"] = world.local_rank % _count_devices(found.name, values)
        _init.init(found, **chosen)
    except Exception as error:
        problem = f"{type(error).__name__}: {error}"
    place = "" if problem or _options.get("arch") not in GPU_NAMES else f"{world._host} {_identify_device()}"
    told = world._engine.all_gather((problem, place))
    if problems := [f"rank {rank}: {text}" for rank, (text, _) in enumerate(told) if text]:
        raise QuadrantsRuntimeError(f"the runtime did not start: {'; '.join(problems)}")
    places = [place for _, place in told]
    _check_devices(places, ranks_per_device)
    if place and "torch" in sys.modules and sys.modules["torch"].cuda.is_available():
        sys.modules["torch"].cuda.set_device(_options.get("device_id"))
    # NCCL needs a GPU for each rank.
    world._engine.sends_device_memory = all(places) and len(set(places)) == world.size and getattr(world._engine, "has_nccl", False)
    return world


def _load_driver(arch: str, values: Any) -> tuple[Any, str]:
    """Returns the driver's library and the first letters of its functions."""
    library, prefix = ("libamdhip64.so", "hip") if arch == "amdgpu" else ("libcuda.so.1", "cu")
    driver = ctypes.CDLL(values[f"{arch}_driver"] or library)
    getattr(driver, f"{prefix}Init")(0)
    return driver, prefix


def _count_devices(arch: str, values: dict[str, Any]) -> int:
    """Returns the number of GPUs that the driver shows to this process."""
    driver, prefix = _load_driver(arch, values)
    count = ctypes.c_int(1)
    getattr(driver, "hipGetDeviceCount" if prefix == "hip" else "cuDeviceGetCount")(ctypes.byref(count))
    return max(1, count.value)


def _identify_device() -> str:
    """Returns what tells the GPU of this process from others of its host, whichever of them the process sees: its number on the bus."""
    driver, prefix = _load_driver(str(_options.get("arch")), _options.current)
    text = ctypes.create_string_buffer(64)
    getattr(driver, f"{prefix}DeviceGetPCIBusId")(text, len(text), _options.get("device_id"))
    return text.value.decode()


def _check_devices(places: list[str], ranks_per_device: int) -> None:
    for place in dict.fromkeys(filter(None, places)):
        ranks = [rank for rank, each in enumerate(places) if each == place]
        if len(ranks) > ranks_per_device:
            raise QuadrantsRuntimeError(
                f"ranks {', '.join(map(str, ranks))} share the GPU {place.rpartition(' ')[2]} of {place.partition('/')[0]}, and at most "
                f"{ranks_per_device} may: start fewer ranks there, or allow it with ranks_per_device={len(ranks)}"
            )


__all__ = ["World", "get_world", "init"]
__dir__ = __all__.copy
