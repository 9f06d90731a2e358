"""Blocks of threads run compiled only: the interpreter runs iterations one after the other."""

from collections.abc import Iterator

import pytest

import quadrants as qd


@pytest.fixture(autouse=True)
def runtime() -> Iterator[None]:
    qd.init(arch=qd.cpu, offline_cache=False, log_level="error")
    yield
    qd.reset()
