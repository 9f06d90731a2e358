"""A cloth of masses and springs falls on a ball; seen from the side."""

import numpy as np

import quadrants as qd

qd.init(arch=qd.gpu)
n, dt, stiffness, damping = 48, 4e-4, 3e4, 1.0
quad = 1.0 / n
ball, radius = qd.Vector([0.0, 0.0, 0.0]), 0.3
x = qd.Vector.field(3, float, (n, n))
v = qd.Vector.field(3, float, (n, n))
forces = qd.Vector.field(3, float, (n, n))
offsets = [(i, j) for i in range(-2, 3) for j in range(-2, 3) if (i, j) != (0, 0) and abs(i) + abs(j) <= 2]


@qd.kernel
def start():
    for i, j in x:
        x[i, j] = [i * quad - 0.5 + 0.05 * qd.random() * quad, 0.5, j * quad - 0.5]
        v[i, j] = [0, 0, 0]


@qd.kernel
def step():
    for i, j in x:
        force = qd.Vector([0.0, -9.8, 0.0])
        for k in qd.static(range(len(offsets))):
            other = qd.Vector([i + offsets[k][0], j + offsets[k][1]])
            if 0 <= other.x < n and 0 <= other.y < n:
                away = x[i, j] - x[other]
                rest = quad * float((offsets[k][0] ** 2 + offsets[k][1] ** 2) ** 0.5)
                along = away.normalized()
                force -= stiffness * (away.norm() / rest - 1) * quad * along
                force -= damping * (v[i, j] - v[other]).dot(along) * along
        forces[i, j] = force
    for i, j in x:
        v[i, j] += forces[i, j] * dt
        away = x[i, j] - ball
        if away.norm() < radius:
            normal = away.normalized()
            v[i, j] -= min(v[i, j].dot(normal), 0) * normal
            v[i, j] *= 0.99
        x[i, j] += dt * v[i, j]


def project(points):
    """Places on the screen of points of shape (..., 3), seen from the side and from above."""
    return points[..., :2] * 0.7 + points[..., 2:] * np.array([0.25, 0.15]) + 0.5


start()
gui = qd.GUI("Cloth", res=512, background_color=0xFFFFFF)
while gui.running:
    for _ in range(40):
        step()
    places = project(x.to_numpy())
    gui.circle((0.5, 0.5), radius=0.7 * radius * 512, color=0xE0B080)
    for begins, ends in ((places[1:], places[:-1]), (places[:, 1:], places[:, :-1])):
        gui.lines(begins.reshape(-1, 2), ends.reshape(-1, 2), radius=1, color=0x445588)
    gui.show()
