"""Loops over sparse fields: whichever way their indices are written, the compiled loop is the same."""

import re

import numpy as np
import pytest

import quadrants as qd


@pytest.fixture(autouse=True)
def _reset():
    yield
    qd.reset()


def list_loops(folder, kernel):
    """The loops of a kernel as the frontend builds it, without the names of values."""
    text = (folder / kernel / "1_frontend.mlir").read_text()
    return [re.sub(r"%\w+", "%", line) for line in text.splitlines() if "qd.for" in line]


def test_grouped_indices_that_nothing_uses_do_not_split_blocks_into_rows(tmp_path):
    qd.init(arch=qd.cpu, offline_cache=False, dump=str(tmp_path))
    x = qd.field(qd.f32)
    qd.root.pointer(qd.ijk, 8).dense(qd.ijk, 8).place(x)

    @qd.kernel
    def grouped():
        for I in qd.grouped(x):  # noqa: E741
            x[I] = x[I] * 2

    @qd.kernel
    def plain():
        for i, j, k in x:
            x[i, j, k] = x[i, j, k] * 2

    @qd.kernel
    def with_unused_vector():
        for i, j, k in x:
            unused = qd.Vector([i, i, k])  # noqa: F841
            x[i, j, k] = x[i, j, k] * 2

    x[1, 2, 3] = 1.0
    x[7, 0, 5] = 3.0
    for kernel in (grouped, plain, with_unused_vector):
        kernel()
    assert x[1, 2, 3] == 8.0 and x[7, 0, 5] == 24.0 and np.count_nonzero(x.to_numpy()) == 2
    loops = list_loops(tmp_path, "plain")
    assert loops and list_loops(tmp_path, "grouped") == list_loops(tmp_path, "with_unused_vector") == loops
