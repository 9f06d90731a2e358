"""A dam breaks: smoothed particles with a search in cells.

Müller et al., "Particle-Based Fluid Simulation for Interactive Applications", SCA 2003.
"""

import numpy as np

import quadrants as qd

qd.init(arch=qd.gpu)
n, h = 2400, 0.025
dt, rest, stiffness, viscosity = 4e-4, 1000.0, 100.0, 4.0
spacing = 0.5 * h
mass = rest * spacing**2
cells, most = int(1 / h) + 1, 64
x = qd.Vector.field(2, float, n)
v = qd.Vector.field(2, float, n)
force = qd.Vector.field(2, float, n)
density = qd.field(float, n)
count = qd.field(int, (cells, cells))
inside = qd.field(int, (cells, cells, most))
poly6 = 4 / (np.pi * h**8)
spiky = -30 / (np.pi * h**5)
laplace = 20 / (3 * np.pi * h**5)


@qd.kernel
def start():
    for i in x:
        x[i] = [0.06 + spacing * (i % 40), 0.06 + spacing * (i // 40)]


@qd.kernel
def sort():
    for i, j in count:
        count[i, j] = 0
    for i in x:
        cell = qd.floor(x[i] / h, int)
        slot = qd.atomic_add(count[cell], 1)
        if slot < most:
            inside[cell.x, cell.y, slot] = i


@qd.kernel
def step():
    for i in x:
        total, cell = 0.0, qd.floor(x[i] / h, int)
        for a, b in qd.ndrange((max(cell.x - 1, 0), min(cell.x + 2, cells)), (max(cell.y - 1, 0), min(cell.y + 2, cells))):
            for k in range(min(count[a, b], most)):
                q = h**2 - (x[inside[a, b, k]] - x[i]).norm_sqr()
                total += mass * poly6 * q**3 if q > 0 else 0.0
        density[i] = total
    for i in x:
        total, cell = qd.Vector([0.0, -9.8]), qd.floor(x[i] / h, int)
        for a, b in qd.ndrange((max(cell.x - 1, 0), min(cell.x + 2, cells)), (max(cell.y - 1, 0), min(cell.y + 2, cells))):
            for k in range(min(count[a, b], most)):
                j = inside[a, b, k]
                away = x[i] - x[j]
                r = away.norm()
                if j != i and r < h:
                    pressure = 0.5 * stiffness * (max(density[i] - rest, 0.0) + max(density[j] - rest, 0.0))
                    total -= mass * pressure * spiky * (h - r) ** 2 * away / (max(r, 1e-5) * density[i] * density[j])
                    total += mass * viscosity * laplace * (h - r) * (v[j] - v[i]) / (density[i] * density[j])
        force[i] = total
    for i in x:
        v[i] += dt * force[i]
        x[i] += dt * v[i]
        for k in qd.static(range(2)):
            if x[i][k] < 0.02 or x[i][k] > 0.98:
                x[i][k] = qd.math.clamp(x[i][k], 0.02, 0.98)
                v[i][k] *= -0.3


start()
gui = qd.GUI("Dam Break", res=512, background_color=0xF4F7FA)
while gui.running:
    for _ in range(25):
        sort()
        step()
    gui.circles(x.to_numpy(), radius=3, color=0x1E6FB8)
    gui.show()
