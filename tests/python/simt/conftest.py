"""Blocks of threads run compiled only: the interpreter runs iterations one after the other."""

from collections.abc import Iterator

import pytest

import quadrants as qd


@pytest.fixture(autouse=True)
def runtime(request: pytest.FixtureRequest) -> Iterator[None]:
    qd.init(arch=qd.cpu, offline_cache=False, log_level="error")
    lanes = [mark.kwargs.get("lanes", 0) for mark in request.node.iter_markers("needs")]
    if "tile" in request.fixturenames:
        lanes.append(request.getfixturevalue("tile").SIZE)
    if max(lanes, default=0) > qd.simt.subgroup.group_size():
        pytest.skip(f"a subgroup of this device has {qd.simt.subgroup.group_size()} threads")
    yield
    qd.reset()
