"""Vortices behind a cylinder, by the lattice Boltzmann method with nine directions.

Chen and Doolen, "Lattice Boltzmann Method for Fluid Flows", Annu. Rev. Fluid Mech. 30, 1998.
"""

import numpy as np

import quadrants as qd

qd.init(arch=qd.gpu)
nx, ny, inflow = 400, 120, 0.08
radius, reynolds = ny / 9, 150
omega = 1 / (3 * (inflow * 2 * radius / reynolds) + 0.5)
directions = ((0, 0), (1, 0), (0, 1), (-1, 0), (0, -1), (1, 1), (-1, 1), (-1, -1), (1, -1))
weights = (4 / 9, *[1 / 9] * 4, *[1 / 36] * 4)
opposite = (0, 3, 4, 1, 2, 7, 8, 5, 6)
f = qd.Vector.field(9, float, (nx, ny))
f_next = qd.Vector.field(9, float, (nx, ny))
is_solid = qd.field(qd.u1, (nx, ny))
curl = qd.field(float, (nx, ny))
flow = qd.Vector.field(2, float, (nx, ny))


@qd.func
def equilibrium(density, u):
    result = qd.Vector.zero(float, 9)
    for k in qd.static(range(9)):
        along = directions[k][0] * u.x + directions[k][1] * u.y
        result[k] = weights[k] * density * (1 + 3 * along + 4.5 * along**2 - 1.5 * u.dot(u))
    return result


@qd.kernel
def start():
    for i, j in f:
        f[i, j] = equilibrium(1.0, qd.Vector([inflow, 0.0]))
        is_solid[i, j] = (i - nx / 5) ** 2 + (j - ny / 2 + 1.5) ** 2 < radius**2


@qd.kernel
def step(old: qd.template(), new: qd.template()):
    for i, j in new:
        here = qd.Vector.zero(float, 9)
        for k in qd.static(range(9)):
            a, b = i - directions[k][0], (j - directions[k][1] + ny) % ny
            here[k] = old[a, b][k] if 0 <= a < nx else old[i, j][k]
            if 0 <= a < nx and is_solid[a, b]:
                here[k] = old[i, j][opposite[k]]
        density, u = here.sum(), qd.Vector([0.0, 0.0])
        for k in qd.static(range(9)):
            u += here[k] * qd.Vector([directions[k][0], directions[k][1]]) / density
        if i == 0:
            density, u = 1.0, qd.Vector([inflow, 0.0])
            here = equilibrium(density, u)
        flow[i, j] = u
        new[i, j] = here + omega * (equilibrium(density, u) - here)


@qd.kernel
def find_curl():
    for i, j in curl:
        a, b, c, d = flow[min(i + 1, nx - 1), j], flow[max(i - 1, 0), j], flow[i, (j + 1) % ny], flow[i, (j - 1) % ny]
        curl[i, j] = 0.0 if is_solid[i, j] else a.y - b.y - c.x + d.x


start()
gui = qd.GUI("Vortex Street", res=(nx, ny))
while gui.running:
    for _ in range(20):
        step(f, f_next)
        step(f_next, f)
    find_curl()
    turn = curl.to_numpy() / (0.4 * inflow)
    gui.set_image(np.stack([0.1 + turn, 0.1 + 0.3 * abs(turn), 0.1 - turn], axis=-1))
    gui.show()
