"""`qd.memory`: what is in use, and where it comes from."""

import inspect

import pytest

import quadrants as qd


def test_blocks_are_named_with_size_and_place():
    qd.init(log_level="error")
    field = qd.field(qd.f32, shape=(1000,), name="density")
    line = inspect.currentframe().f_lineno - 1
    vectors = qd.Vector.ndarray(3, qd.f64, 10)
    points = qd.Struct.field({"a": qd.f32, "b": qd.f32}, shape=8)
    first, second, third = qd.memory.blocks()
    assert first == (("density: field f32 (1000,)",), 4000, f"{__file__}:{line}")
    assert second.names == ("ndarray f64 3 (10,)",) and second.nbytes == 240 and second.place == f"{__file__}:{line + 2}"
    assert third.nbytes == 64 and len(third.names) == 2
    text = qd.memory.report()
    assert "3.9 KiB" in text and f"{__file__}:{line}" in text
    del vectors, points
    assert [block.nbytes for block in qd.memory.blocks()] == [4000]


@pytest.mark.host_memory
def test_views_without_containers_are_counted():
    qd.init(log_level="error")
    before = qd.memory.report()  # views that other tests of the process keep
    view = qd.field(qd.f32, shape=(1000,)).to_numpy(copy=False)
    assert "field f32 (1000,)" not in qd.memory.report() and "kept by views of NumPy or torch only" in qd.memory.report()
    del view
    assert qd.memory.report() == before
