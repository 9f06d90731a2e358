"""N bodies that attract each other, from a rotating disc; leapfrog steps."""

import numpy as np

import quadrants as qd

qd.init(arch=qd.gpu)
n, dt, softening = 1024, 2e-3, 2e-2
x = qd.Vector.field(2, qd.f32, shape=n)
v = qd.Vector.field(2, qd.f32, shape=n)


@qd.kernel
def start():
    for i in x:
        angle, radius = 2 * np.pi * qd.random(), 0.05 + 0.3 * qd.sqrt(qd.random())
        outward = qd.Vector([qd.cos(angle), qd.sin(angle)])
        x[i] = 0.5 + radius * outward
        v[i] = 1.6 * qd.sqrt(radius) * qd.Vector([-outward.y, outward.x])


@qd.kernel
def kick():
    for i in x:
        pull = qd.Vector([0.0, 0.0])
        for j in range(n):
            away = x[j] - x[i]
            pull += away / (away.norm_sqr() + softening**2) ** 1.5
        v[i] += dt * pull / n


@qd.kernel
def drift():
    for i in x:
        x[i] += dt * v[i]


start()
gui = qd.GUI("N Bodies", res=512, background_color=0x0B1020)
while gui.running:
    for _ in range(5):
        kick()
        drift()
    gui.circles(x.to_numpy(), radius=1.5, color=0xFFE8A0)
    gui.show()
