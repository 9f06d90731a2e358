"""Material points: a block of fluid falls into a box, in the 88 lines that the method became known for.

Hu et al., "A Moving Least Squares Material Point Method with Displacement Discontinuity and Two-Way Rigid Body Coupling", ACM Trans. Graph.
37(4), 2018.
"""

import quadrants as qd

qd.init(arch=qd.gpu)
n_particles, n_grid = 8192, 128
dx, dt = 1 / n_grid, 2e-4
rho, stiffness = 1.0, 400.0
volume = (dx * 0.5) ** 2
mass = volume * rho
x = qd.Vector.field(2, float, n_particles)
v = qd.Vector.field(2, float, n_particles)
C = qd.Matrix.field(2, 2, float, n_particles)
J = qd.field(float, n_particles)
grid_v = qd.Vector.field(2, float, (n_grid, n_grid))
grid_m = qd.field(float, (n_grid, n_grid))


@qd.kernel
def substep():
    for i, j in grid_m:
        grid_v[i, j] = [0, 0]
        grid_m[i, j] = 0
    for p in x:
        base = (x[p] / dx - 0.5).cast(int)
        fx = x[p] / dx - base
        w = [0.5 * (1.5 - fx) ** 2, 0.75 - (fx - 1) ** 2, 0.5 * (fx - 0.5) ** 2]
        pressure = -dt * 4 * stiffness * volume * (J[p] - 1) / dx**2
        affine = qd.Matrix([[pressure, 0], [0, pressure]]) + mass * C[p]
        for i, j in qd.static(qd.ndrange(3, 3)):
            offset = qd.Vector([i, j])
            dpos = (offset - fx) * dx
            weight = w[i].x * w[j].y
            grid_v[base + offset] += weight * (mass * v[p] + affine @ dpos)
            grid_m[base + offset] += weight * mass
    for i, j in grid_m:
        if grid_m[i, j] > 0:
            grid_v[i, j] /= grid_m[i, j]
        grid_v[i, j].y -= dt * 9.8
        if i < 3 and grid_v[i, j].x < 0:
            grid_v[i, j].x = 0
        if i > n_grid - 3 and grid_v[i, j].x > 0:
            grid_v[i, j].x = 0
        if j < 3 and grid_v[i, j].y < 0:
            grid_v[i, j].y = 0
        if j > n_grid - 3 and grid_v[i, j].y > 0:
            grid_v[i, j].y = 0
    for p in x:
        base = (x[p] / dx - 0.5).cast(int)
        fx = x[p] / dx - base
        w = [0.5 * (1.5 - fx) ** 2, 0.75 - (fx - 1) ** 2, 0.5 * (fx - 0.5) ** 2]
        new_v = qd.Vector.zero(float, 2)
        new_C = qd.Matrix.zero(float, 2, 2)
        for i, j in qd.static(qd.ndrange(3, 3)):
            offset = qd.Vector([i, j])
            dpos = (offset - fx) * dx
            weight = w[i].x * w[j].y
            g_v = grid_v[base + offset]
            new_v += weight * g_v
            new_C += 4 * weight * g_v.outer_product(dpos) / dx**2
        v[p] = new_v
        x[p] += dt * v[p]
        J[p] *= 1 + dt * new_C.trace()
        C[p] = new_C


@qd.kernel
def start():
    for i in x:
        x[i] = [qd.random() * 0.4 + 0.2, qd.random() * 0.4 + 0.2]
        v[i] = [0, -1]
        J[i] = 1


start()
gui = qd.GUI("MPM88", res=512, background_color=0x112F41)
while gui.running and not gui.get_event(gui.ESCAPE):
    for _ in range(50):
        substep()
    gui.circles(x.to_numpy(), radius=1.5, color=0x068587)
    gui.show()
