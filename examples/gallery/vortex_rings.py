"""Two pairs of point vortices that leap through each other, with tracers; Runge-Kutta steps of second order."""

import numpy as np

import quadrants as qd

qd.init(arch=qd.gpu)
n_tracers, n_vortices, dt, core = 8000, 4, 0.02, 1e-3
x = qd.Vector.field(2, float, n_tracers)
vortex = qd.Vector.field(2, float, n_vortices)
middle = qd.Vector.field(2, float, n_vortices)
strength = qd.field(float, n_vortices)


@qd.func
def velocity_at(vortices: qd.template(), p):
    result = qd.Vector([0.0, 0.0])
    for k in range(n_vortices):
        away = p - vortices[k]
        result += strength[k] * qd.Vector([-away.y, away.x]) / (2 * np.pi * (away.norm_sqr() + core))
    return result


@qd.kernel
def move():
    for k in vortex:
        middle[k] = vortex[k] + 0.5 * dt * velocity_at(vortex, vortex[k])
    for i in x:
        x[i] += dt * velocity_at(middle, x[i] + 0.5 * dt * velocity_at(vortex, x[i]))
    for k in vortex:
        vortex[k] += dt * velocity_at(middle, middle[k])


@qd.kernel
def scatter():
    for i in x:
        x[i] = [qd.random() * 0.3 + 0.05, qd.random() * 0.8 + 0.1]


vortex.from_numpy(np.array([[0.1, 0.7], [0.1, 0.3], [0.2, 0.63], [0.2, 0.37]], np.float32))
strength.from_numpy(np.array([0.08, -0.08, 0.08, -0.08], np.float32))
scatter()
gui = qd.GUI("Vortex Rings", res=(1024, 512), background_color=0x101820)
while gui.running:
    for _ in range(4):
        move()
    gui.circles(x.to_numpy() * [0.5, 1.0], radius=1, color=0x7FDBFF)
    gui.circles(vortex.to_numpy() * [0.5, 1.0], radius=4, color=0xFF6B6B)
    gui.show()
