"""Kernels whose machine code is written by hand, so that these tests look at launches and at nothing else."""

from __future__ import annotations

import ctypes
import signal
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import hand_made
import pytest

import quadrants as qd


class Compiler:
    """Stands in for the compiler: gives out what was attached to a kernel, and counts."""

    def __init__(self, folder: Path):
        self.folder = folder
        self.calls = 0

    def attach(self, kernel: Any, made: hand_made.HandMade | Callable[[tuple[Any, ...]], hand_made.HandMade]) -> Any:
        """Gives a kernel its code; a function is asked at each compilation, with the arguments."""
        kernel.made = made
        return kernel

    def compile_kernel(self, kernel: Any, arguments: tuple[Any, ...]) -> tuple[bytes, list[Any]]:
        self.calls += 1
        made = kernel.made if isinstance(kernel.made, hand_made.HandMade) else kernel.made(arguments)
        binary = hand_made.build_library(made.code, self.folder)
        if made.tasks:  # the stand-in for the driver takes the path of a library for PTX
            path = str(hand_made.write_library(binary, self.folder))
            binary = made.ptx.replace("{library}", path).encode() if made.ptx else path.encode()
        return hand_made.serialize(made, binary), []


@pytest.fixture(scope="session")
def driver_library(tmp_path_factory: pytest.TempPathFactory) -> str:
    return hand_made.build_driver(tmp_path_factory.mktemp("driver"))


@pytest.fixture
def driver(driver_library: str, monkeypatch: pytest.MonkeyPatch) -> Iterator[hand_made.FakeDriver]:
    """The runtime on a GPU that is none, where arrays take the way through the host, because it runs no PTX."""
    monkeypatch.setenv("QD_CUDA_DRIVER", driver_library)
    monkeypatch.setattr("quadrants._library.device_copies._is_plain", lambda _: False)
    qd.init(arch=qd.cuda, enable_fallback=False, offline_cache=False, log_level="error")
    fake = hand_made.FakeDriver.in_dll(ctypes.CDLL(driver_library), "fake")
    fake.bytes_available, fake.link_failure = 1 << 30, 0
    yield fake
    qd.reset()


@pytest.fixture(autouse=True)
def heard_interrupts() -> Iterator[None]:
    """Ctrl-C reaches Python also where a shell has started the tests in the background, which makes processes ignore it."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, before)


@pytest.fixture(scope="session")
def library_folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("libraries")


@pytest.fixture
def compiler(monkeypatch: pytest.MonkeyPatch, library_folder: Path) -> Iterator[Compiler]:
    stand_in = Compiler(library_folder)
    monkeypatch.setattr("quadrants._session.prepare.compile_kernel", stand_in.compile_kernel)
    qd.init(offline_cache=False, log_level="error")
    yield stand_in
    qd.reset()
