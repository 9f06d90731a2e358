"""Cases that papers on differentiable simulation show, small: a rigid pendulum, an MPM throw, the rendering of a sphere by rays.

The springs and the orbit of the same list are examples (`examples/spring_robot.py`, `examples/orbit_fit.py`).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from autodiff_support import differences, numbers, scalar_loss

import quadrants as qd

vec2 = qd.types.vector(2, qd.f64)
mat2 = qd.types.matrix(2, 2, qd.f64)


@pytest.fixture(autouse=True)
def compiled() -> Any:
    qd.init(arch=qd.cpu, default_fp=qd.f64, offline_cache=False, log_level="error")
    yield
    qd.reset()


def descend(program: Callable[[], None], loss: Any, parameter: Any, rate: float, rounds: int) -> list[float]:
    """Gradient descent; the losses."""
    losses = []
    for _ in range(rounds):
        with qd.ad.Tape(loss):
            program()
        losses.append(float(loss[None]))
        parameter.from_numpy(parameter.to_numpy() - rate * parameter.grad.to_numpy())
    return losses


def agrees(program: Callable[[], None], loss: Any, parameter: Any) -> None:
    """The gradient is that of central differences."""
    expected = differences(program, loss, parameter)
    with qd.ad.Tape(loss):
        program()
    np.testing.assert_allclose(parameter.grad.to_numpy(), expected, rtol=1e-5, atol=1e-7)


def test_push_that_brings_a_rigid_pendulum_to_an_angle():
    """The state has one place and is overwritten at every step: the tape keeps it."""
    push, angle, speed, loss = numbers(0.3), numbers(0.0), numbers(0.0), scalar_loss()

    @qd.kernel
    def begin():
        angle[None] = 0.2
        speed[None] = push[None]

    @qd.kernel
    def step():
        speed[None] = speed[None] - 0.02 * (9.81 * qd.sin(angle[None]) + 0.1 * speed[None] * abs(speed[None]))
        angle[None] = angle[None] + 0.02 * speed[None]

    @qd.kernel
    def miss():
        loss[None] += (angle[None] - 0.7) ** 2

    def program() -> None:
        begin()
        for _ in range(20):
            step()
        miss()

    agrees(program, loss, push)
    losses = descend(program, loss, push, rate=8.0, rounds=40)
    assert losses[-1] < 1e-6 < losses[0]


def test_velocity_that_throws_a_lump_to_a_place():
    """Material points on a grid that is cleared and filled again at every step."""
    count, cells, steps, dt = 9, 12, 12, 4e-3
    velocity = numbers([2.0, 1.0])
    x, v = numbers(np.zeros((count, 2)), vec2), numbers(np.zeros((count, 2)), vec2)
    affine, strain = numbers(np.zeros((count, 2, 2)), mat2), numbers(np.zeros((count, 2, 2)), mat2)
    mass, momentum = numbers(np.zeros((cells, cells))), numbers(np.zeros((cells, cells, 2)), vec2)
    loss = scalar_loss()
    volume = (0.5 / cells) ** 2

    @qd.kernel
    def begin():
        for p in x:
            x[p] = qd.Vector([0.3 + 0.04 * (p % 3), 0.4 + 0.04 * (p // 3)])
            v[p] = qd.Vector([velocity[0], velocity[1]])
            affine[p] = qd.Matrix.zero(qd.f64, 2, 2)
            strain[p] = qd.Matrix.identity(qd.f64, 2)

    @qd.kernel
    def clear():
        for i, j in mass:
            mass[i, j] = 0.0
            momentum[i, j] = qd.Vector([0.0, 0.0])

    @qd.func
    def weights(offset):
        return 0.5 * (1.5 - offset) ** 2, 0.75 - (offset - 1.0) ** 2, 0.5 * (offset - 0.5) ** 2

    @qd.kernel
    def to_grid():
        for p in x:
            base = int(x[p] * cells - 0.5)
            offset = x[p] * cells - base
            w0, w1, w2 = weights(offset)
            now = (qd.Matrix.identity(qd.f64, 2) + dt * affine[p]) @ strain[p]
            strain[p] = now
            stress = -dt * volume * 4 * cells * cells * 40.0 * (now @ now.transpose() - qd.Matrix.identity(qd.f64, 2))
            moved = stress + volume * affine[p]
            for i, j in qd.static(qd.ndrange(3, 3)):
                weight = (w0, w1, w2)[i][0] * (w0, w1, w2)[j][1]
                distance = (qd.Vector([i, j]) - offset) / cells
                momentum[base[0] + i, base[1] + j] += weight * (volume * v[p] + moved @ distance)
                mass[base[0] + i, base[1] + j] += weight * volume

    @qd.kernel
    def on_grid():
        for i, j in mass:
            if mass[i, j] > 1e-12:
                momentum[i, j] = momentum[i, j] / mass[i, j] - dt * qd.Vector([0.0, 9.81])

    @qd.kernel
    def to_points():
        for p in x:
            base = int(x[p] * cells - 0.5)
            offset = x[p] * cells - base
            w0, w1, w2 = weights(offset)
            speed = qd.Vector([0.0, 0.0])
            change = qd.Matrix.zero(qd.f64, 2, 2)
            for i, j in qd.static(qd.ndrange(3, 3)):
                weight = (w0, w1, w2)[i][0] * (w0, w1, w2)[j][1]
                found = momentum[base[0] + i, base[1] + j]
                speed += weight * found
                change += 4 * cells * weight * found.outer_product(qd.Vector([i, j]) - offset)
            v[p] = speed
            affine[p] = change
            x[p] += dt * speed

    @qd.kernel
    def miss():
        for p in x:
            loss[None] += (x[p] - qd.Vector([0.46 + 0.04 * (p % 3), 0.41 + 0.04 * (p // 3)])).norm_sqr() / count

    def program() -> None:
        begin()
        for _ in range(steps):
            clear()
            to_grid()
            on_grid()
            to_points()
        miss()

    agrees(program, loss, velocity)
    losses = descend(program, loss, velocity, rate=200.0, rounds=12)
    assert losses[-1] < 0.2 * losses[0]


def test_sphere_whose_picture_is_given():
    """Rays that march toward a sphere until they are there: a loop of unknown length that ends with a break."""
    size = 12
    sphere, target, picture, loss = (
        numbers([0.2, -0.1, 0.5]),
        numbers(np.zeros((size, size))),
        numbers(np.zeros((size, size))),
        scalar_loss(),
    )

    @qd.kernel
    def draw(result: qd.template()):
        for i, j in result:
            place = qd.Vector([(i + 0.5) / size * 2 - 1, (j + 0.5) / size * 2 - 1, -2.0])
            center = qd.Vector([sphere[0], sphere[1], 0.0])
            depth, nearest = 0.0, 10.0
            for _ in range(40):
                distance = (place + qd.Vector([0.0, 0.0, depth]) - center).norm() - sphere[2]
                nearest = qd.min(nearest, distance)
                if distance < 1e-4 or depth > 4.0:
                    break
                depth += distance
            normal = (place + qd.Vector([0.0, 0.0, depth]) - center).normalized()
            light = qd.max(normal.dot(qd.Vector([0.5, 0.5, -0.7])), 0.0)
            result[i, j] = light / (1.0 + qd.exp(40.0 * (nearest - 0.05)))

    @qd.kernel
    def compare():
        for i, j in picture:
            loss[None] += (picture[i, j] - target[i, j]) ** 2 / (size * size)

    def program() -> None:
        draw(picture)
        compare()

    draw(target)
    sphere.from_numpy(np.array([0.12, -0.02, 0.45]))
    agrees(program, loss, sphere)
    losses = descend(program, loss, sphere, rate=0.15, rounds=60)
    assert losses[-1] < 0.1 * losses[0]
