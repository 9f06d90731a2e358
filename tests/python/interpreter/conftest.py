"""The runtime that tests of the interpreter start."""

from collections.abc import Iterator

import pytest

import quadrants as qd


@pytest.fixture
def interpreter() -> Iterator[None]:
    """Starts the interpreter."""
    qd.init(arch=qd.python)
    yield
    qd.reset()
