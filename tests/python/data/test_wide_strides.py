"""Arrays whose rows are further apart than 32 bits reach. GPUs multiply indices by strides of 32 bits, unless an array needs more."""

import os

import numpy as np
import pytest

import quadrants as qd

pytestmark = pytest.mark.skipif(os.environ.get("QD_ARCH", "cuda") != "cuda", reason="emulated devices have less than 4 GiB of memory")


@pytest.fixture(autouse=True)
def runtime():
    qd.init(arch=qd.cpu, log_level="error")
    yield
    qd.reset()


@qd.kernel
def mark_ends(x: qd.types.NDArray[qd.i16, 2]):
    for i, j in qd.ndrange(x.shape[0], 2):
        x[i, j * (x.shape[1] - 1)] = qd.cast(i * 2 + j + 1, qd.i16)


def test_packed_arrays():
    near, far = qd.ndarray(qd.i16, (3, 5)), qd.ndarray(qd.i16, (2, 2**30 + 8))
    for array in (near, far, near):
        mark_ends(array)
    assert near.to_numpy()[:, [0, 4]].tolist() == [[1, 2], [3, 4], [5, 6]]
    assert [far[0, 0], far[0, 2**30 + 7], far[1, 0], far[1, 2**30 + 7]] == [1, 2, 3, 4]
    assert far[0, 8] == far[1, 8] == 0


def test_views_of_numpy_arrays():
    near, far = np.zeros((4, 6), np.int16), np.zeros((2, 2**30 + 8), np.int16)[:, -6::2]
    for array in (near[:2, ::2], far, near[2:, ::2]):
        mark_ends(array)
    assert near[:, [0, 4]].tolist() == [[1, 2], [3, 4]] * 2
    assert far[:, [0, 2]].tolist() == [[1, 2], [3, 4]]


def test_a_version_says_that_strides_are_wide():
    mark_ends(np.zeros((2, 2**30 + 8), np.int16))
    assert "with strides of more than 32 bits" in str(qd.compile_report()[-1].reads)
