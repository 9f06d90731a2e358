"""A GPU for the ranks of a test: kernels run on the emulated one, and stand-ins copy between its memory and that of the processor in place
of torch, which has no GPU here."""

from __future__ import annotations

import contextlib
import sys
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

import quadrants as qd

sys.path.append(str(Path(__file__).resolve().parents[1] / "compile"))


class Bytes:
    """A tensor of bytes of torch: pinned memory, or with a container the memory of a GPU."""

    def __init__(self, count: int, container: Any = None):
        self.shape, self.container, self.array = (count,), container, np.zeros(count, np.uint8)

    def numpy(self) -> np.ndarray:
        return self.array

    def reshape(self, extent: int) -> Bytes:
        return self

    def view(self, dtype: Any) -> Bytes:
        return self

    def copy_(self, of: Bytes, non_blocking: bool) -> None:
        if self.container is None:
            self.array[:] = np.frombuffer(of.container.to_numpy().tobytes(), np.uint8)
        else:
            before = self.container.to_numpy()
            self.container.from_numpy(of.array.view(before.dtype).reshape(before.shape))


def start(folder: Path) -> Any:
    """Starts the ranks on emulated GPUs; returns the world, and the streams that torch was told to use."""
    import emulating

    from quadrants.distributed import halo, world

    monkeypatch = pytest.MonkeyPatch()  # until the process ends
    folder.mkdir()
    emulating.start(monkeypatch, folder)
    monkeypatch.setattr(world, "_identify_device", lambda: "emulated")
    streams, default = list[Any](), SimpleNamespace(cuda_stream=0)
    current = [default]

    @contextlib.contextmanager
    def use(stream: Any) -> Iterator[None]:
        streams.append(stream.cuda_stream)
        current.append(stream)
        yield
        current.pop()

    def make_stream(priority: int) -> Any:
        own = qd.create_stream()
        return SimpleNamespace(own=own, cuda_stream=own.handle)

    torch = SimpleNamespace(
        uint8=np.uint8,
        empty=lambda shape, dtype, pin_memory: Bytes(*shape),
        from_dlpack=lambda container: Bytes(container.to_numpy().nbytes, container),
        cuda=SimpleNamespace(Stream=make_stream, stream=use, default_stream=lambda: default, current_stream=lambda: current[-1]),
    )
    monkeypatch.setattr(halo, "importlib", SimpleNamespace(import_module=lambda name: torch))
    return qd.distributed.init(arch=qd.cuda, offline_cache=False, log_level="error", timeout=30, ranks_per_device=8), streams
