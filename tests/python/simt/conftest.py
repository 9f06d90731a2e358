"""Blocks of threads run compiled only: the interpreter runs iterations one after the other."""

from collections.abc import Iterator

import pytest

import quadrants as qd


@pytest.fixture(autouse=True)
def runtime(request: pytest.FixtureRequest) -> Iterator[None]:
    qd.init(arch=qd.cpu, offline_cache=False, log_level="error")
    needs, threads = list(request.node.iter_markers("needs")), qd.simt.subgroup.group_size()
    lanes = [mark.kwargs.get("lanes", 0) for mark in needs]
    if "tile" in request.fixturenames and request.getfixturevalue("tile").SIZE > 2 * threads:
        pytest.skip("lavapipe compiles code with so many barriers for minutes")
    if max(lanes, default=0) > threads or any(mark.kwargs.get("block", 0) % threads for mark in needs):
        pytest.skip(f"a subgroup of this device has {threads} threads")
    yield
    qd.reset()
