"""Smoke on a torus, with advection backward along the flow and a projection.

Stam, "Stable Fluids", SIGGRAPH 1999.
"""

import quadrants as qd

qd.init(arch=qd.gpu)
n, dt, sweeps = 256, 0.03, 40
velocity, velocity_next = qd.Vector.field(2, float, (n, n)), qd.Vector.field(2, float, (n, n))
smoke, smoke_next = qd.Vector.field(3, float, (n, n)), qd.Vector.field(3, float, (n, n))
divergence, pressure, pressure_next = qd.field(float, (n, n)), qd.field(float, (n, n)), qd.field(float, (n, n))


@qd.func
def sample(field, p):
    base = qd.floor(p, int)
    f = p - base
    i, j = base.x % n, base.y % n
    a, b = (i + 1) % n, (j + 1) % n
    low, high = qd.math.mix(field[i, j], field[a, j], f.x), qd.math.mix(field[i, b], field[a, b], f.x)
    return qd.math.mix(low, high, f.y)


@qd.kernel
def advect(old: qd.template(), new: qd.template(), fading: float):
    for i, j in new:
        new[i, j] = fading * sample(old, qd.Vector([i, j]) - dt * n * velocity[i, j])


@qd.kernel
def push(time: float):
    for i, j in velocity:
        for k in qd.static(range(2)):
            place = qd.Vector([0.5 + 0.35 * (2 * k - 1), 0.5 + 0.2 * qd.sin(time + 3 * k)]) * n
            share = qd.exp(-(qd.Vector([i, j]) - place).norm_sqr() / (0.03 * n) ** 2)
            velocity[i, j] += share * dt * qd.Vector([3.0 - 6.0 * k, qd.cos(2 * time)])
            smoke[i, j] += share * dt * 3 * qd.Vector([1.0 - k, 0.4, 0.2 + 0.8 * k])


@qd.kernel
def find_divergence():
    for i, j in divergence:
        right, left = velocity[(i + 1) % n, j].x, velocity[(i - 1) % n, j].x
        divergence[i, j] = 0.5 * (right - left + velocity[i, (j + 1) % n].y - velocity[i, (j - 1) % n].y)


@qd.kernel
def relax(old: qd.template(), new: qd.template()):
    for i, j in new:
        around = old[(i + 1) % n, j] + old[(i - 1) % n, j] + old[i, (j + 1) % n] + old[i, (j - 1) % n]
        new[i, j] = 0.25 * (around - divergence[i, j])


@qd.kernel
def project():
    for i, j in velocity:
        slope = qd.Vector([pressure[(i + 1) % n, j] - pressure[(i - 1) % n, j], pressure[i, (j + 1) % n] - pressure[i, (j - 1) % n]])
        velocity[i, j] -= 0.5 * slope


gui = qd.GUI("Stable Fluids", res=(n, n))
time = 0.0
while gui.running:
    push(time)
    advect(smoke, smoke_next, 0.995)
    advect(velocity, velocity_next, 1.0)
    smoke, smoke_next = smoke_next, smoke
    velocity, velocity_next = velocity_next, velocity
    find_divergence()
    for _ in range(sweeps // 2):
        relax(pressure, pressure_next)
        relax(pressure_next, pressure)
    project()
    gui.set_image(smoke)
    gui.show()
    time += dt
