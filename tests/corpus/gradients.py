"""Kernels and what becomes of them in reverse and forward mode, under tapes, and together with their gradients."""

from typing import Any

import quadrants as qd
from quadrants._language.kernel import derive

from .recording import Launches

TANGENTS, ADJOINTS, ADJOINTS_ON_TAPE, FUSED = 2, 3, 5, 6


def _derive_all(kernel: Any, *arguments: Any, without: tuple[int, ...] = ()) -> Launches:
    for mode in (TANGENTS, ADJOINTS, ADJOINTS_ON_TAPE, FUSED):
        if mode not in without:
            yield derive(kernel, mode), *arguments


def _make_field(shape: Any = 16, dtype: Any = qd.f64) -> Any:
    return qd.field(dtype, shape=shape, needs_grad=True, needs_dual=True)


def sums() -> Launches:
    x, loss = _make_field(), _make_field(())

    @qd.kernel
    def add() -> None:
        for i in x:
            loss[None] += qd.sin(x[i]) * x[i]

    yield from _derive_all(add)


def plain_stores() -> Launches:
    x, y = _make_field(), _make_field()

    @qd.kernel
    def triple() -> None:
        for i in x:
            y[i] = 3.0 * x[i] * x[15 - i]

    yield from _derive_all(triple, without=(FUSED,))


def loops_with_carried_values() -> Launches:
    x, y = _make_field(), _make_field()

    @qd.kernel
    def iterate(steps: qd.i32) -> None:
        for i in x:
            value = x[i]
            for k in range(steps):
                if value > 1:
                    value = value * 0.5 + qd.sin(value)
                if value < -10:
                    break
            while value > 3:
                value = value - qd.sqrt(value)
            y[i] = value

    yield from _derive_all(iterate, 5, without=(FUSED,))


def functions_and_vectors() -> Launches:
    points = qd.Vector.field(3, qd.f64, shape=8, needs_grad=True, needs_dual=True)
    loss = _make_field(())

    @qd.func
    def bend(v, steps):
        for _ in range(steps):
            v = v * 0.9 + qd.sin(v) * 0.1
        return v.norm_sqr()

    @qd.real_func
    def cube(x: qd.f64) -> qd.f64:
        return x * x * x

    @qd.kernel
    def run(steps: qd.i32) -> None:
        for i in points:
            loss[None] += bend(points[i], steps) + cube(points[i].x)

    yield from _derive_all(run, 5)


def overwritten_values() -> Launches:
    x, y = _make_field(), _make_field()

    @qd.kernel
    def overwrite() -> None:
        for i in x:
            y[i] = x[i] * x[i]
            y[i] = qd.sin(y[i])
            y[i] += y[i] * x[i]

    yield from _derive_all(overwrite, without=(FUSED,))


def values_overwritten_in_place() -> Launches:
    x, y = _make_field(), _make_field()

    @qd.kernel
    def scale() -> None:
        for i in x:
            x[i] *= y[i]

    yield (derive(scale, TANGENTS),)
    yield (derive(scale, ADJOINTS_ON_TAPE),)


def arrays_as_arguments() -> Launches:
    @qd.kernel
    def wave(a: qd.types.ndarray(dtype=qd.f64, ndim=1), scale: float, out: qd.types.ndarray(dtype=qd.f64, ndim=1)) -> None:
        for i in a:
            out[i] = scale * qd.sin(a[i])

    a, out = (qd.ndarray(qd.f64, 8, needs_grad=True) for _ in range(2))
    yield from _derive_all(wave, a, 0.5, out, without=(TANGENTS, FUSED))


def extrema() -> Launches:
    x, most, least = _make_field(), _make_field(()), _make_field(())

    @qd.kernel
    def find() -> None:
        for i in x:
            qd.atomic_max(most[None], x[i])
            qd.atomic_min(least[None], max(x[i], 1.0))

    yield from _derive_all(find, without=(FUSED,))


def local_matrices() -> Launches:
    matrices, loss = qd.Matrix.field(2, 2, qd.f64, shape=4, needs_grad=True, needs_dual=True), _make_field(())

    @qd.kernel
    def run() -> None:
        for i in matrices:
            m = matrices[i] @ matrices[i].transpose()
            for k in range(2):
                m[k, 0] = m[k, 1] * m[0, k]
            loss[None] += m.determinant() + m.inverse()[0, 1]

    yield from _derive_all(run)


def constants_of_loops() -> Launches:
    x, loss = _make_field(), _make_field(())

    @qd.kernel
    def add_twice() -> None:
        for i in x:
            qd.stop_grad(x)
            loss[None] += x[i]
        for i in x:
            loss[None] += 2.0 * x[i]

    yield from _derive_all(add_twice)


def steps_in_time() -> Launches:
    position, velocity = _make_field(21), _make_field(21)

    @qd.kernel
    def advance(t: int) -> None:
        velocity[t + 1] = velocity[t] - 0.05 * qd.sin(position[t])
        position[t + 1] = position[t] + 0.05 * velocity[t + 1]

    yield from _derive_all(advance, 3, without=(FUSED,))
