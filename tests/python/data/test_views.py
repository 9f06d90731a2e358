"""Views of ndarrays: `array[a:b]` on the host (spec 2 S21.1, S21.2) and as arguments of kernels (S21.3, S21.5)."""

import dataclasses

import numpy as np
import pytest

import quadrants as qd


@pytest.fixture(params=["cpu", "python"], autouse=True)
def runtime(request):
    qd.init(arch=getattr(qd, request.param), offline_cache=False, log_level="error")
    yield
    qd.reset()


def counted(size=10, dtype=qd.i32):
    array = qd.ndarray(dtype, shape=size)
    array.from_numpy(np.arange(size).astype(np.int32 if dtype is qd.i32 else np.float32))
    return array


def test_slices_follow_the_rules_of_python():
    array = counted()
    view = array[2:7]
    assert (view.offset, view.size, view.shape, len(view)) == (2, 5, (5,), 5)
    assert view.arr is array and view.get_ndarray() is array
    assert [(v.offset, v.size) for v in (array[-3:], array[:100], array[7:3], array[:])] == [(7, 3), (0, 10), (7, 0), (0, 10)]
    assert [(v.offset, v.size) for v in (view[1:], view[:-1], view.subview(2, 2)[1:])] == [(3, 4), (2, 4), (5, 1)]
    assert repr(view) == "BufferView(dtype=i32, offset=2, size=5)"
    assert view == qd.BufferView(array, offset=2, size=5) and hash(view) == hash(array[2:7]) and view != array[2:6]


def test_elements_are_read_and_written_on_the_host():
    array = counted()
    view = array[2:7]
    view[0], view[-1] = 20, 60
    view[1:3] = [30, 40]
    assert list(view) == [20, 30, 40, 5, 60] and array.to_numpy().tolist() == [0, 1, 20, 30, 40, 5, 60, 7, 8, 9]
    assert np.asarray(view).tolist() == view.to_numpy().tolist() == [20, 30, 40, 5, 60]
    view.fill(1)
    array[:3].copy_from(array[7:])
    assert array.to_numpy().tolist() == [7, 8, 9, 1, 1, 1, 1, 7, 8, 9]
    with pytest.raises(IndexError, match="out of range of a view of 5"):
        view[5]


def test_wrong_views_are_refused():
    array = counted()
    for make, kind, text in [
        (lambda: array[::2], ValueError, "requires step=1"),
        (lambda: array[2:7][::-1], ValueError, "requires step=1"),
        (lambda: qd.BufferView(qd.ndarray(qd.i32, (2, 2)), 0, 1), TypeError, "1D"),
        (lambda: qd.BufferView(array, 8, 3), ValueError, "BufferView out of range: offset=8, size=3, ndarray length=10"),
        (lambda: array[2:7].subview(3, 3), ValueError, "subview out of range: offset=3, size=3, parent size=5"),
        (lambda: qd.BufferView(array[2:7], 0, 1), TypeError, "Cannot nest BufferView"),
        (lambda: qd.BufferView([1, 2], 0, 1), TypeError, "list"),
        (lambda: array[2:7]["a"], TypeError, "slice"),
        (lambda: qd.BufferView[qd.f32, "sideways"], ValueError, "Invalid boundary argument"),
    ]:
        with pytest.raises(kind, match=text):
            make()


def test_kernels_take_views_and_see_where_each_begins():
    @qd.kernel
    def double(v: qd.BufferView) -> qd.i32:
        for i in v:
            v[i] *= 2
        return v.offset * 1000 + v.size

    array = counted()
    assert double(array[2:5]) == 2003 and double(array[5:6]) == 5001 and double(array[4:4]) == 4000
    assert array.to_numpy().tolist() == [0, 1, 4, 6, 8, 10, 6, 7, 8, 9]


def test_several_views_of_one_array_may_overlap():
    @qd.func
    def shift(target: qd.BufferView, source):
        for i in range(target.size):
            target[i] = source[i] + 100

    @qd.kernel
    def run(a: qd.BufferView[qd.f32], b: qd.types.BufferViewType(qd.f32)):
        for _ in range(1):
            shift(a, b[1:])

    array = counted(6, qd.f32)
    run(array[:3], array[2:])
    assert array.to_numpy().tolist() == [103, 104, 105, 3, 4, 5]


def test_views_are_members_of_dataclasses_and_objects():
    @dataclasses.dataclass(frozen=True)
    class Pair:
        first: qd.BufferView
        second: qd.BufferView[qd.i32]

    @qd.data_oriented
    class Owner:
        def __init__(self, part):
            self.part = part

        @qd.kernel
        def total(self) -> qd.i32:
            s = 0
            for i in range(self.part.size):
                s += self.part[i]
            return s

    @qd.kernel
    def run(p: Pair) -> qd.i32:
        return p.first[0] * 100 + p.second[p.second.size - 1]

    array = counted()
    assert run(Pair(array[3:], array[:6])) == 305
    assert run(Pair(array[4:], array[:7])) == 406
    owner = Owner(array[:4])
    assert owner.total() == 6
    owner.part = array[7:]
    assert owner.total() == 24


def test_views_may_be_of_vectors():
    @qd.kernel
    def run(v: qd.BufferView[qd.types.vector(2, qd.f32)]):
        for i in v:
            v[i] = qd.Vector([i, 1.0])
            v[i].y += 1.0

    array = qd.Vector.ndarray(2, qd.f32, shape=4)
    run(array[1:3])
    assert array.to_numpy().tolist() == [[0, 0], [0, 2], [1, 2], [0, 0]]


def test_wrong_arguments_are_refused():
    @qd.kernel
    def run(v: qd.BufferView[qd.i32]):
        v[0] = 1

    with pytest.raises(qd.QuadrantsRuntimeTypeError, match="Argument v expects a BufferView, got ScalarNdarray"):
        run(counted())
    with pytest.raises(TypeError, match="Expect element type i32 for argument v, but get f32"):
        run(counted(4, qd.f32)[1:])


def test_views_are_made_in_kernels():
    @qd.kernel
    def run(a: qd.types.ndarray(dtype=qd.i32, ndim=1), n: qd.i32) -> qd.i32:
        v = qd.BufferView(a, n, 3)
        return v[0] * 100 + v.size

    assert run(counted(), 4) == 403
