"""Gradients of everything that has storage for them."""

from __future__ import annotations

import copy
import dataclasses
import pickle
from typing import Any

import numpy as np
import pytest
from autodiff_support import numbers, scalar_loss

import quadrants as qd

pytestmark = pytest.mark.usefixtures("on_every_backend")
vec2 = qd.types.vector(2, qd.f64)


@qd.kernel
def squares(x: qd.types.ndarray(), loss: qd.types.ndarray()):
    for i in x:
        loss[0] += x[i] * x[i]


def _ndarray_loss() -> Any:
    return qd.ndarray(qd.f64, 1, needs_grad=True)


@pytest.mark.parametrize("backend", list(qd.Backend))
def test_tensors(backend: Any):
    x = qd.tensor(qd.f64, 3, backend=backend, needs_grad=True)
    loss = qd.tensor(qd.f64, (), backend=backend, needs_grad=True)
    x.from_numpy(np.array([1.0, 2.0, 3.0]))

    @qd.kernel
    def run(a: qd.Tensor, total: qd.Tensor):
        for i in range(3):
            total[None] += a[i] * a[i]

    with qd.ad.Tape(loss):
        run(x, loss)
    assert x.grad.to_numpy().tolist() == [2.0, 4.0, 6.0]


def test_ndarrays_of_vectors_and_matrices():
    x, loss = qd.ndarray(qd.types.matrix(2, 2, qd.f64), 1, needs_grad=True), _ndarray_loss()
    x.from_numpy(np.array([[[1.0, 2.0], [3.0, 4.0]]]))

    @qd.kernel
    def run(a: qd.types.ndarray(), total: qd.types.ndarray()):
        total[0] += (a[0] @ a[0]).trace()

    with qd.ad.Tape(loss):
        run(x, loss)
    np.testing.assert_allclose(x.grad.to_numpy()[0], 2 * np.array([[1.0, 3.0], [2.0, 4.0]]))


@pytest.mark.parametrize("layout", [qd.Layout.AOS, qd.Layout.SOA])
def test_members_of_struct_fields(layout: Any):
    particle = qd.types.struct(position=vec2, mass=qd.f64)
    p, loss = particle.field(shape=2, needs_grad=True, layout=layout), scalar_loss()
    p.position.from_numpy(np.array([[1.0, 2.0], [3.0, 4.0]]))
    p.mass.from_numpy(np.array([2.0, 3.0]))

    @qd.kernel
    def run():
        for i in p:
            loss[None] += p[i].mass * p[i].position.norm_sqr()

    with qd.ad.Tape(loss):
        run()
    assert p.position.grad.to_numpy().tolist() == [[4.0, 8.0], [18.0, 24.0]]
    assert p.mass.grad.to_numpy().tolist() == [5.0, 25.0]


def test_views_add_to_their_window_of_the_gradient():
    x, loss = qd.ndarray(qd.f64, 5, needs_grad=True), _ndarray_loss()
    x.from_numpy(np.arange(5.0))
    with qd.ad.Tape(loss):
        squares(qd.BufferView(x, 1, 2), loss)
        squares(x[3:], loss)
    assert x.grad.to_numpy().tolist() == [0.0, 2.0, 4.0, 6.0, 8.0]


def test_members_of_dataclass_arguments():
    @dataclasses.dataclass(frozen=True)
    class Model:
        x: qd.types.ndarray()
        factor: float

    x, loss = qd.ndarray(qd.f64, 2, needs_grad=True), _ndarray_loss()
    x.from_numpy(np.array([1.0, 2.0]))

    @qd.kernel
    def run(model: Model, total: qd.types.ndarray()):
        for i in model.x:
            total[0] += model.factor * model.x[i] ** 2

    with qd.ad.Tape(loss):
        run(Model(x, 3.0), loss)
    assert x.grad.to_numpy().tolist() == [6.0, 12.0]


def test_kernels_of_classes():
    @qd.data_oriented
    class Model:
        def __init__(self) -> None:
            self.x, self.loss = numbers([1.0, 2.0]), scalar_loss()

        @qd.kernel
        def run(self, factor: float):
            for i in self.x:
                self.loss[None] += factor * self.x[i] ** 2

    model = Model()
    with qd.ad.Tape(model.loss):
        model.run(3.0)
    assert model.x.grad.to_numpy().tolist() == [6.0, 12.0]
    model.run.grad(1.0)
    assert model.x.grad.to_numpy().tolist() == [8.0, 16.0]


def test_torch_tensors():
    torch = pytest.importorskip("torch")
    x = torch.tensor([1.0, 2.0], dtype=torch.float64, requires_grad=True)
    loss = torch.zeros(1, dtype=torch.float64, requires_grad=True)
    with qd.ad.Tape(loss):
        squares(x, loss)
    assert x.grad.tolist() == [2.0, 4.0] and loss.item() == 5.0


def test_numpy_arrays_have_no_gradient():
    x, loss = np.array([1.0, 2.0]), _ndarray_loss()
    with qd.ad.Tape(loss):
        squares(x, loss)
    assert loss[0] == 5.0


def test_annotation_may_ignore_the_gradient():
    x, loss = qd.ndarray(qd.f64, 2, needs_grad=True), _ndarray_loss()

    @qd.kernel
    def run(a: qd.types.ndarray(needs_grad=False), total: qd.types.ndarray()):
        for i in a:
            total[0] += a[i]

    with qd.ad.Tape(loss):
        run(x, loss)
    assert x.grad.to_numpy().tolist() == [0.0, 0.0]


def test_storage_placed_by_hand_or_for_a_whole_tree():
    x, y, loss = qd.field(qd.f64), qd.field(qd.f64), scalar_loss()
    qd.root.dense(qd.i, 2).place(x, x.grad)
    qd.root.dense(qd.i, 2).place(y)
    qd.root.lazy_grad()
    x.fill(3.0)
    y.fill(4.0)

    @qd.kernel
    def run():
        for i in x:
            loss[None] += x[i] * y[i]

    with qd.ad.Tape(loss):
        run()
    assert (x.grad[0], y.grad[1]) == (4.0, 3.0)


def test_storage_for_all_fields_that_were_made_with_a_shape():
    x, y = qd.field(qd.f64, shape=()), qd.field(qd.f64, shape=())
    v = qd.Vector.field(3, qd.f64, shape=4, offset=2)
    m = qd.Matrix.field(2, 2, qd.f64, shape=(2, 3), layout=qd.Layout.SOA, order="ji")
    s = qd.Struct.field({"a": qd.f64, "n": qd.i32, "p": qd.math.vec2}, shape=3)
    qd.root.lazy_grad()
    later = qd.field(qd.f64, shape=3)

    @qd.kernel
    def triple():
        y[None] = 3.0 * x[None]

    @qd.kernel
    def add():
        for i in v:
            y[None] += v[i].norm_sqr() + m[1, 2][0, 1] ** 2 + s[1].a * s[1].p[1]

    triple()
    y.grad[None] = 1.0
    triple.grad()
    assert x.grad[None] == 3.0
    v.fill(1.0)
    m.fill(2.0)
    s.a.fill(3.0)
    s.p.fill(4.0)
    with qd.ad.Tape(y):
        add()
    assert v.grad.to_numpy().tolist() == [[2.0] * 3] * 4 and v.grad[2][0] == 2.0
    assert m.grad.to_numpy()[1, 2].tolist() == [[0.0, 16.0], [0.0, 0.0]]
    assert s.a.grad.to_numpy().tolist() == [0.0, 16.0, 0.0] and s.p.grad.to_numpy()[1].tolist() == [0.0, 12.0]
    assert not later.has_grad() and not s.n.has_grad()
    qd.root.lazy_grad()
    assert later.has_grad()


def test_tangents_for_all_fields_that_were_made_with_a_shape():
    x, y = qd.field(qd.f64, shape=()), qd.field(qd.f64, shape=())
    qd.root.lazy_dual()

    @qd.kernel
    def cube():
        y[None] = x[None] ** 3

    x[None] = 2.0
    with qd.ad.FwdMode(y, x):
        cube()
    assert y.dual[None] == 12.0


def test_lazy_dual():
    x, loss = qd.field(qd.f64), scalar_loss()
    qd.root.place(x)
    qd.root.lazy_dual()
    x[None] = 3.0

    @qd.kernel
    def run():
        loss[None] = x[None] ** 3

    with qd.ad.FwdMode(loss, x):
        run()
    assert loss.dual[None] == 27.0


def test_without_storage_nothing_flows():
    x, loss = qd.field(qd.f64, shape=2), scalar_loss()

    @qd.kernel
    def run():
        for i in x:
            loss[None] += x[i] * x[i]

    with qd.ad.Tape(loss):
        run()
    with pytest.raises(RuntimeError, match="needs_grad"):
        x.grad[0]  # noqa: B018 (raises)


def test_gradients_are_read_and_written_by_kernels():
    x = numbers([1.0, 2.0])

    @qd.kernel
    def scale():
        for i in x:
            x.grad[i] = 3.0 * x[i]

    scale()
    assert x.grad.to_numpy().tolist() == [3.0, 6.0]
    with pytest.raises(RuntimeError, match="Cannot automatically differentiate through a grad tensor"):
        scale.grad()


def test_accumulation_leaves_the_gradient_of_the_sum():
    x, y = numbers([2.0]), numbers([0.0])

    @qd.kernel
    def add():
        y[0] += 3.0 * x[0]

    y.grad[0] = 1.0
    add.grad()
    assert (x.grad[0], y.grad[0]) == (3.0, 1.0)


def test_later_store_to_an_element_has_the_gradient():
    x, y = numbers([2.0]), numbers([0.0])

    @qd.kernel
    def store():
        y[0] = 3.0 * x[0]
        y[0] = 5.0 * x[0]

    y.grad[0] = 1.0
    store.grad()
    assert (x.grad[0], y.grad[0]) == (5.0, 0.0)


def test_copies_have_storage_of_their_own():
    x = qd.ndarray(qd.f64, 2, needs_grad=True)
    x.grad.fill(5.0)
    for twin in (copy.deepcopy(x), pickle.loads(pickle.dumps(x))):
        assert twin.has_grad() and twin.grad.to_numpy().tolist() == [0.0, 0.0]


def test_overwriting_what_the_gradient_needs_is_refused():
    x = numbers([0.5, 2.0])

    @qd.kernel
    def run():
        for i in x:
            x[i] = qd.sin(x[i])

    run()
    with pytest.raises((qd.QuadrantsRuntimeError, qd.QuadrantsCompilationError), match="overwritten"):
        run.grad()


def test_linear_updates_in_place():
    x, loss = numbers([0.5, 2.0]), scalar_loss()

    @qd.kernel
    def run():
        for i in x:
            x[i] = 3.0 * x[i] + 1.0

    @qd.kernel
    def add():
        for i in x:
            loss[None] += x[i]

    with qd.ad.Tape(loss):
        run()
        add()
    assert x.grad.to_numpy().tolist() == [3.0, 3.0]


def test_a_declared_tangent_has_to_be_placed():
    x = qd.field(qd.f64, needs_dual=True)
    qd.root.place(x)

    @qd.kernel
    def run():
        x[None] = 1.0

    with pytest.raises(RuntimeError, match="needs_dual=True, but its tangent is not placed"):
        run()


def test_a_gradient_without_storage_in_a_kernel():
    speed = qd.field(qd.f64, shape=3)

    @qd.kernel
    def run():
        for i in speed:
            speed.grad[i] = 1.0

    with pytest.raises(qd.QuadrantsCompilationError, match="Gradient speed.grad has not been placed, check whether `needs_grad=True`"):
        run()
    with pytest.raises(qd.QuadrantsRuntimeError, match="Gradient width.grad has not been placed"):
        qd.field(qd.f64, shape=3, name="width").grad[0]


def test_random_numbers_where_a_gradient_is_wanted():
    x, loss = qd.field(qd.f64, shape=3, needs_grad=True), scalar_loss()

    @qd.kernel
    def run():
        for i in x:
            loss[None] += x[i] * qd.random()

    with pytest.raises(RuntimeError, match="random numbers cannot be drawn again"), qd.ad.Tape(loss):
        run()


@pytest.mark.parametrize("arch", ["cpu", "python"])
def test_a_gradient_of_a_kernel_whose_containers_have_none(arch):
    qd.init(arch=arch, offline_cache=False)
    x, y, count = qd.field(qd.f64, shape=3), qd.field(qd.f64, shape=3), qd.field(qd.i32, shape=())

    @qd.kernel
    def double(a: qd.template(), b: qd.template()):
        for i in a:
            b[i] = 2 * a[i]

    @qd.kernel
    def increase():
        count[None] += 1

    y.fill(1)
    with pytest.warns(UserWarning, match="double has no gradients to compute: .* declare them with needs_grad=True") as found:
        double.grad(x, y)
    assert found[0].filename == __file__ and y.to_numpy().tolist() == [1, 1, 1]
    increase.grad()  # no container of floats
    z, loss = qd.field(qd.f64, shape=3, needs_grad=True), qd.field(qd.f64, shape=(), needs_grad=True)

    @qd.kernel
    def add():
        for i in z:
            loss[None] += z[i]

    with qd.ad.Tape(loss):  # kernels without gradients may be recorded
        double(x, y)
        add()
    assert z.grad.to_numpy().tolist() == [1, 1, 1]
    y.fill(0)
    with pytest.warns(UserWarning, match="no gradients to compute"):
        double.grad(x, y)
    double(z, y)
    double.grad(z, y)  # one of the two has a gradient
